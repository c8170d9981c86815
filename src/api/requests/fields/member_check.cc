#include "api/requests/fields/member_check.h"

#include <boost/json/array.hpp>
#include <set>

#include "api/requests/fields/fields.h"
#include "api/requests/fields/member_table.h"

namespace saccade::api {
namespace {

constexpr std::size_t kMaxUnknown = 64;
constexpr std::size_t kShownBytes = 40;
constexpr std::string_view kElement = "[]";

// The value that asks for nothing, alone or among others.
bool is_harmless(const json::value& v, std::string_view harmless) {
  if (harmless.empty()) return false;
  if (v.is_string()) return v.get_string() == harmless;
  if (!v.is_array()) return false;
  return std::ranges::any_of(v.get_array(), [&](const json::value& one) {
    return one.is_string() && one.get_string() == harmless;
  });
}

// All objects of a request that are at one place.
class Visit {
 public:
  Visit(RequestKind kind, const Place& place, std::set<std::string>& unknown)
      : kind_(kind), place_(place), unknown_(unknown) {}

  // `rest`: of the place's path.
  Result<void> below(const json::object& from, std::string_view rest) {
    const std::string_view name = rest.substr(0, rest.find_first_of(".["));
    const json::value* v = json::find(from, name);
    return v == nullptr ? Result<void>() : at(*v, rest.substr(name.size()));
  }

 private:
  Result<void> at(const json::value& v, std::string_view rest) {
    if (rest.starts_with(kElement)) {
      if (!v.is_array()) return {};
      for (std::size_t i = 0; i < v.get_array().size(); ++i) {
        indices_.push_back(i);
        TRY_DO(at(v.get_array()[i], rest.substr(kElement.size())));
        indices_.pop_back();
      }
      return {};
    }
    if (!v.is_object()) return {};
    return rest.empty() ? check(v.get_object()) : below(v.get_object(), rest.substr(1));
  }

  Result<void> check(const json::object& object) {
    for (const auto& member : object) {
      const std::string_view name = member.key();
      const MemberRow* row = row_of(place_, name);
      if (row == nullptr) {
        TRY_DO(other(name, member.value()));
      } else if (row->fate == Fate::kRefused && asks_for_something(member.value()) &&
                 !is_harmless(member.value(), row->harmless)) {
        return refuse(*row);
      }
    }
    return {};
  }

  Result<void> other(std::string_view name, const json::value& v) {
    if (place_.others == Others::kRefused && !v.is_null()) {
      std::string known;
      for (const MemberRow& row : place_.rows) {
        if (row.fate == Fate::kUsed || row.fate == Fate::kTemplate)
          known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
      }
      return invalid(top(), "'{}.{}' is not known; {} are", where(), name.substr(0, kShownBytes),
                     known);
    }
    if (place_.others == Others::kLogged && unknown_.size() < kMaxUnknown)
      unknown_.insert(fmt::format("{}.{}", place_.path, name.substr(0, kShownBytes)));
    return {};
  }

  Result<void> refuse(const MemberRow& row) const {
    if (row.note.empty())
      return invalid(top(), "'{}.{}' is not supported by this server", where(), row.name);
    return invalid(top(), "'{}.{}' is not supported for {}: {}", where(), row.name, name_of(kind_),
                   row.note);
  }

  std::string_view top() const { return place_.path.substr(0, place_.path.find_first_of(".[")); }

  // The path with its numbers.
  std::string where() const {
    std::string text;
    std::string_view rest = place_.path;
    for (const std::size_t index : indices_) {
      const std::size_t element = rest.find(kElement);
      text += fmt::format("{}[{}]", rest.substr(0, element), index);
      rest.remove_prefix(element + kElement.size());
    }
    return text.append(rest);
  }

  RequestKind kind_;
  const Place& place_;
  std::set<std::string>& unknown_;
  std::vector<std::size_t> indices_;
};

}  // namespace

bool asks_for_something(const json::value& v) {
  switch (v.kind()) {
    case boost::json::kind::null:
      return false;
    case boost::json::kind::bool_:
      return v.get_bool();
    case boost::json::kind::int64:
      return v.get_int64() != 0;
    case boost::json::kind::uint64:
      return true;
    case boost::json::kind::double_:
      return v.get_double() != 0;
    case boost::json::kind::string:
      return !v.get_string().empty() && v.get_string() != "none";
    case boost::json::kind::array:
      return !v.get_array().empty();
    case boost::json::kind::object:
      return !v.get_object().empty();
  }
  return true;
}

Result<std::vector<std::string>> check_members(RequestKind kind, const json::object& request) {
  std::set<std::string> unknown;
  for (const Place& place : member_table()) {
    if ((place.kinds & static_cast<std::uint16_t>(kind)) == 0) continue;
    TRY_DO(Visit(kind, place, unknown).below(request, place.path));
  }
  return std::vector<std::string>(unknown.begin(), unknown.end());
}

}  // namespace saccade::api

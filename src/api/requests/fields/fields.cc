#include "api/requests/fields/fields.h"

#include <cmath>

#include "api/pages/limits.h"
#include "api/requests/fields/member_check.h"

namespace saccade::api {
namespace {

thread_local std::set<std::string, std::less<>>* accepted_names = nullptr;

}  // namespace

AcceptedMembers::AcceptedMembers() { accepted_names = &names_; }
AcceptedMembers::~AcceptedMembers() { accepted_names = nullptr; }

Result<json::value> parse_body(std::string_view body) {
  TRY(json::value tree, json::parse(body));
  if (!tree.is_object()) {
    return fail(ErrorCode::kInvalid, "the request body is {}, a JSON object is required",
                json::kind_name(tree));
  }
  TRY_DO(within(limits::kMembers, tree.get_object().size()));
  return tree;
}

const json::value* Fields::take(std::string_view name) {
  taken_.emplace(name);
  return json::find(from_, name);
}

Result<std::optional<double>> Fields::number(std::string_view name, double least, double most) {
  if (take(name) == nullptr) return std::optional<double>();
  TRY(const double x, json::get_double(from_, name));
  if (!std::isfinite(x)) return invalid(name, "'{}' is {}, it must be finite", name, x);
  if (!(x >= least && x <= most)) {
    return invalid(name, "'{}' is {}, it must be between {} and {}", name, x, least, most);
  }
  return std::optional<double>(x);
}

Result<std::optional<std::int64_t>> Fields::integer(std::string_view name, std::int64_t least,
                                                    std::int64_t most) {
  if (take(name) == nullptr) return std::optional<std::int64_t>();
  TRY(const std::int64_t x, json::get_int(from_, name));
  if (x < least || x > most) {
    if (most == std::numeric_limits<std::int64_t>::max()) {
      return invalid(name, "'{}' is {}, it must be at least {}", name, x, least);
    }
    return invalid(name, "'{}' is {}, it must be between {} and {}", name, x, least, most);
  }
  return std::optional<std::int64_t>(x);
}

Result<std::optional<bool>> Fields::boolean(std::string_view name) {
  if (take(name) == nullptr) return std::optional<bool>();
  TRY(const bool x, json::get_bool(from_, name));
  return std::optional<bool>(x);
}

Result<std::optional<std::string>> Fields::text(std::string_view name) {
  if (take(name) == nullptr) return std::optional<std::string>();
  TRY(std::string x, json::get_string(from_, name));
  return std::optional<std::string>(std::move(x));
}

Result<const json::object*> Fields::object(std::string_view name) {
  const json::value* v = take(name);
  if (v == nullptr) return nullptr;
  if (!v->is_object())
    return invalid(name, "'{}' is {}, an object is required", name, json::kind_name(*v));
  return &v->get_object();
}

Result<const json::array*> Fields::array(std::string_view name) {
  const json::value* v = take(name);
  if (v == nullptr) return nullptr;
  if (!v->is_array())
    return invalid(name, "'{}' is {}, an array is required", name, json::kind_name(*v));
  return &v->get_array();
}

Result<void> Fields::settle(RequestKind kind) {
  for (const FieldRow& row : field_table()) {
    if ((row.kinds & static_cast<std::uint16_t>(kind)) == 0) continue;
    if (row.fate == Fate::kIgnored) take(row.name);
    if (row.fate != Fate::kRefused) continue;
    const json::value* v = take(row.name);
    refused_.emplace(row.name);
    if (v == nullptr || !asks_for_something(*v)) continue;
    if (row.note.empty())
      return invalid(row.name, "'{}' is not supported by this server", row.name);
    return invalid(row.name, "'{}' is not supported for {}: {}", row.name, name_of(kind), row.note);
  }
  TRY(unknown_members_, check_members(kind, from_));
  return {};
}

std::vector<std::string> Fields::unknown() const {
  if (accepted_names != nullptr) {
    accepted_names->clear();
    for (const std::string& name : taken_) {
      if (!refused_.contains(name)) accepted_names->insert(name);
    }
  }
  std::vector<std::string> names = unknown_members_;
  for (const auto& member : from_) {
    const std::string_view name = member.key();
    if (!taken_.contains(name)) names.emplace_back(name);
  }
  return names;
}

}  // namespace saccade::api

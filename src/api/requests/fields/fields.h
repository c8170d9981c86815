// Reading the members of one request object: each is taken once, typed and bounded, and what nobody
// took is unknown.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/requests/fields/field_table.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

template <typename... Args>
[[nodiscard]] tl::unexpected<Error> invalid(std::string_view param,
                                            fmt::format_string<Args...> format, Args&&... args) {
  return fail(Error{ErrorCode::kInvalid, fmt::format(format, std::forward<Args>(args)...),
                    std::string(param)});
}

// JSON null counts as absent throughout, as it does for the official clients.
class Fields {
 public:
  explicit Fields(const json::object& from) : from_(from) {}

  // The member, or null when absent; marks it as known.
  const json::value* take(std::string_view name);

  Result<std::optional<double>> number(std::string_view name, double least, double most);
  Result<std::optional<std::int64_t>> integer(
      std::string_view name, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
      std::int64_t most = std::numeric_limits<std::int64_t>::max());
  Result<std::optional<bool>> boolean(std::string_view name);
  Result<std::optional<std::string>> text(std::string_view name);
  Result<const json::object*> object(std::string_view name);  // null when absent
  Result<const json::array*> array(std::string_view name);    // null when absent

  // What field_table() and member_table() say of a kind of request: takes what is ignored; kInvalid
  // naming the first that is refused and asks for something (member_check.h).
  Result<void> settle(RequestKind kind);

  // Once all are taken. With those that member_table() does not know, by their paths.
  std::vector<std::string> unknown() const;

 private:
  const json::object& from_;
  std::set<std::string, std::less<>> taken_;
  std::set<std::string, std::less<>> refused_;  // of these, those that are known and not done
  std::vector<std::string> unknown_members_;
};

// For the API's description: while one lives, which members this thread's last complete parse of a
// request takes, those that it refuses left out.
class AcceptedMembers {
 public:
  AcceptedMembers();
  ~AcceptedMembers();
  AcceptedMembers(const AcceptedMembers&) = delete;
  AcceptedMembers& operator=(const AcceptedMembers&) = delete;
  const std::set<std::string, std::less<>>& names() const { return names_; }

 private:
  std::set<std::string, std::less<>> names_;
};

// The body as an object: kInvalid for anything else.
Result<json::value> parse_body(std::string_view body);

}  // namespace saccade::api

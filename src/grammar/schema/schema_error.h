// What is wrong with a schema, and where in it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace saccade::grammar {

// A path as messages have it: the middle of a long one is left out.
inline std::string shown_path(const std::string& path) {
  constexpr std::size_t kMost = 240;
  if (path.size() <= kMost) return path;
  const auto whole = [&](std::size_t at) {  // between characters
    while (at < path.size() && (path[at] & 0xC0) == 0x80) ++at;
    return at;
  };
  return path.substr(0, whole(kMost / 2)) + "..." + path.substr(whole(path.size() - kMost / 2));
}

// "schema #/properties/a: 'multipleOf' is not supported"
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> refuse_schema(ErrorCode code, const std::string& path,
                                                  fmt::format_string<Args...> format,
                                                  Args&&... args) {
  return fail(code, "schema {}: {}", shown_path(path),
              fmt::format(format, std::forward<Args>(args)...));
}

// An error of a part, said of the schema at `path`.
[[nodiscard]] inline tl::unexpected<Error> refuse_schema_at(const std::string& path, Error error) {
  error.message = fmt::format("schema {}: {}", shown_path(path), error.message);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace saccade::grammar

// What is wrong with a schema, and where in it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace saccade::grammar {

// "schema #/properties/a: 'multipleOf' is not supported"
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> refuse_schema(ErrorCode code, const std::string& path,
                                                  fmt::format_string<Args...> format,
                                                  Args&&... args) {
  return fail(code, "schema {}: {}", path, fmt::format(format, std::forward<Args>(args)...));
}

// An error of a part, said of the schema at `path`.
[[nodiscard]] inline tl::unexpected<Error> refuse_schema_at(const std::string& path, Error error) {
  error.message = fmt::format("schema {}: {}", path, error.message);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace saccade::grammar

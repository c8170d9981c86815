// What a template has done wrong: the error that its rendering ends with.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "base/result.h"

namespace saccade::jinja {

template <typename... Args>
tl::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kInvalid, format, std::forward<Args>(args)...);
}

}  // namespace saccade::jinja

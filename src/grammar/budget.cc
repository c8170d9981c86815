#include "grammar/budget.h"

#include <string_view>

namespace saccade::grammar {

Result<void> Budget::check() const {
  constexpr std::array<std::string_view, kKinds> kNames = {"steps", "bytes", "expressions",
                                                           "states"};
  if (!spent()) return {};
  return fail(ErrorCode::kTooLarge, "compiling the grammar takes over {} {}, the limit",
              limits_[passed_], kNames[passed_]);
}

}  // namespace saccade::grammar

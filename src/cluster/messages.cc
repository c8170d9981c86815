#include "cluster/messages.h"

#include <array>

namespace saccade::cluster {

std::string_view name_of(Refusal refusal) {
  constexpr std::array<std::string_view, 8> kNames = {"overloaded", "incompatible", "too_large",
                                                      "bad_media",  "deadline",     "draining",
                                                      "corrupt",    "internal"};
  return kNames.at(static_cast<std::size_t>(refusal));
}

}  // namespace saccade::cluster

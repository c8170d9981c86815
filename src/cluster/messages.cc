#include "cluster/messages.h"

namespace saccade::cluster {

std::string_view name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kOverloaded:
      return "overloaded";
    case Refusal::kIncompatible:
      return "incompatible";
    case Refusal::kTooLarge:
      return "too_large";
    case Refusal::kBadMedia:
      return "bad_media";
    case Refusal::kDeadline:
      return "deadline";
    case Refusal::kDraining:
      return "draining";
    case Refusal::kCorrupt:
      return "corrupt";
    case Refusal::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace saccade::cluster

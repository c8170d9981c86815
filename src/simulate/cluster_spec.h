// Which machines there are, as people write it: "2E1PD" is two encoders and one that prefills and
// decodes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::simulate {

struct ClusterSpec {
  static constexpr int kMost = 256;  // machines of one role
  int encoders = 0;                  // beside the PDs, which encode too
  int pds = 1;

  std::string text() const;
};

// "[nE]mPD", a number left out is 1: "PD", "4PD", "1E1PD". kInvalid names what is wrong with it.
Result<ClusterSpec> parse_cluster_spec(std::string_view text);

}  // namespace saccade::simulate

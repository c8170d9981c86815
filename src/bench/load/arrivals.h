// When requests are due: the whole schedule exists before the run starts and is saved with it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::bench {

enum class RampUp { kNone, kLinear, kExponential };

struct ArrivalSettings {
  // Requests per second; infinite: all at once.
  double request_rate = std::numeric_limits<double>::infinity();
  // Gaps are gamma distributed with shape `burstiness` and mean 1 / rate: 1 is Poisson, smaller is
  // burstier, infinite is constant gaps.
  double burstiness = 1.0;
  RampUp ramp_up = RampUp::kNone;  // from start to end over the requests; request_rate is not used
  double ramp_up_start_rps = 0;
  double ramp_up_end_rps = 0;
  // Stretches the schedule so that the last request is due at exactly count / rate, as vLLM's
  // client does (without ramp-up). The count in a window is then no longer Poisson.
  bool rescale = false;
  // The first request is due at 0 instead of after its gap, as vLLM's client of 2024 does.
  bool first_at_zero = false;
  Nanos duration = 0;  // requests due later are left out; 0: no limit

  std::vector<std::string> problems() const;  // all of them
};

struct ArrivalPlan {
  std::string name;  // "inf", "poisson", "gamma", "constant", "ramp-up", "trace", "closed-loop"
  // Due instants since the run's origin, sorted. Closed loop: one per request, all 0; the
  // concurrency cap alone paces them.
  std::vector<Nanos> due;
  bool closed_loop = false;
};

// `count` requests; at most, when a duration is set. A pure function of its arguments. kInvalid
// lists every problem of the settings.
Result<ArrivalPlan> plan_arrivals(const ArrivalSettings& settings, std::size_t count,
                                  std::uint64_t seed);

ArrivalPlan closed_loop_arrivals(std::size_t count);

// Hex SHA-256 of the instants: equal schedules, equal hashes.
std::string arrival_hash(std::span<const Nanos> due);

// "0.2:4.0:0.2" is 0.2, 0.4, ... 4.0, both ends included. kInvalid for a step that does not lead
// from a to b, or more than 10,000 rates.
Result<std::vector<double>> parse_rate_sweep(std::string_view text);

}  // namespace saccade::bench

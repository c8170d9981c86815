// Costs from a run that was measured, and how far a replay with them is from it: observe, replay,
// compare. A simulator is calibrated by its error, not by having been fitted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/log/run_log.h"
#include "simulate/simulation.h"

namespace saccade::simulate {

// Most error of TTFT at P50 and P90 that is called calibrated.
constexpr double kCalibrated = 0.15;

// From stages that the server told (bench serve --server-timings), else from what the client saw:
// then what an image takes more than text counts as its encoding. Per power-of-2^(1/4) size bucket,
// the 25th percentile, to exclude queueing. kInvalid when no request has a first token.
Result<CostModel> fit_costs(const bench::RunLog& log, const Workload& workload);

struct ErrorRow {
  std::string metric;  // "TTFT", "TPOT", "E2E"
  double percent = 0;  // percentile
  double real = 0;     // seconds
  double simulated = 0;
  double error() const { return real > 0 ? simulated / real - 1 : 0; }
};

struct ReplayError {
  std::vector<ErrorRow> rows;
  std::optional<double> correlation;  // of TTFT, request by request; absent when all are alike
  std::size_t requests = 0;
  std::size_t refused = 0;  // by the simulated cluster, and not by the real one
  bool calibrated() const;
  // Sum of |log(simulated / real)|.
  double distance() const;
};

ReplayError replay_error(const bench::RunLog& real, const Workload& workload,
                         const bench::RunLog& simulated);

struct Calibration {
  CostModel costs;
  ReplayError fitted;                   // of the run that the costs come from
  std::optional<ReplayError> held_out;  // of another
  // By the held-out run, if there is one.
  bool calibrated() const { return (held_out ? *held_out : fitted).calibrated(); }
};

// Fits, then scales one group of costs after another as long as replays come nearer to the run.
// `settings` but for the costs; held_out is left to the caller.
Result<Calibration> calibrate(const SimulationSettings& settings, const ServedModel& model,
                              const bench::RunLog& run, const std::string& name);

// For people.
std::string describe(const CostModel& costs);
std::string describe(const ReplayError& error, const std::string& of);

}  // namespace saccade::simulate

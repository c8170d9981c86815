#include "engine/step_time_model.h"

#include <algorithm>

namespace saccade {
namespace {

constexpr double kForget = 0.99;
constexpr double kUncertain = 1e4;        // variance of an unknown weight
constexpr std::int64_t kTrusted = 8;      // observations before predictions are used
constexpr std::int64_t kFirstChunk = 64;  // tokens, until then
constexpr double kMostVariance = 1e6;     // forgetting must not blow up directions not excited

// Units that make typical features about 1, which keeps the recursion well conditioned.
constexpr double kRowUnit = 16;
constexpr double kTokenUnit = 256;
constexpr double kContextUnit = 16384;
constexpr double kProductUnit = 256.0 * 1024;

}  // namespace

StepTimeModel::StepTimeModel() {
  for (std::size_t i = 0; i < kTerms; ++i) covariance_[i][i] = kUncertain;
}

StepTimeModel::Vector StepTimeModel::features(const StepLoad& load) {
  return {1.0, static_cast<double>(load.decode_rows) / kRowUnit,
          static_cast<double>(load.prefill_tokens) / kTokenUnit,
          static_cast<double>(load.context_tokens) / kContextUnit,
          load.prefill_context / kProductUnit};
}

void StepTimeModel::observe(const StepLoad& load, double seconds) {
  const Vector x = features(load);
  Vector px{};
  double denominator = kForget;
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) px[i] += covariance_[i][j] * x[j];
    denominator += x[i] * px[i];
  }
  double error = seconds;
  for (std::size_t i = 0; i < kTerms; ++i) error -= weights_[i] * x[i];
  for (std::size_t i = 0; i < kTerms; ++i) weights_[i] += px[i] / denominator * error;
  double trace = 0;
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) covariance_[i][j] -= px[i] * px[j] / denominator;
    trace += covariance_[i][i];
  }
  const double grow = trace / kForget < kMostVariance ? 1 / kForget : 1.0;
  for (Vector& row : covariance_) {
    for (double& value : row) value *= grow;
  }
  ++observations_;
}

double StepTimeModel::predict(const StepLoad& load) const {
  const Vector x = features(load);
  double seconds = 0;
  for (std::size_t i = 0; i < kTerms; ++i) seconds += weights_[i] * x[i];
  return std::max(0.0, seconds);
}

std::int64_t StepTimeModel::largest_prefill(StepLoad load, double seconds, std::int64_t least,
                                            std::int64_t most) const {
  if (observations_ < kTrusted) return std::clamp(kFirstChunk, least, std::max(least, most));
  const double mean_context =
      load.prefill_tokens > 0 ? load.prefill_context / static_cast<double>(load.prefill_tokens) : 0;
  // A noisy fit need not be monotone in the tokens; bisection finds a crossing either way.
  std::int64_t fits = least;
  std::int64_t over = most + 1;
  while (over - fits > 1) {
    const std::int64_t middle = fits + (over - fits) / 2;
    load.prefill_tokens = middle;
    load.prefill_context =
        static_cast<double>(middle) * (mean_context + static_cast<double>(middle) / 2);
    (predict(load) <= seconds ? fits : over) = middle;
  }
  return fits;
}

}  // namespace saccade

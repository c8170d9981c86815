#include "engine/admission/step_time_model.h"

#include <algorithm>
#include <bit>

namespace saccade {
namespace {

// Units that make typical terms about 1.
constexpr double kRowUnit = 256;
constexpr double kContextUnit = 16384;
constexpr double kProductUnit = 256.0 * 1024;

double rows_over(std::int64_t rows, std::int64_t knee) {
  return static_cast<double>(std::max<std::int64_t>(0, rows - knee)) / kRowUnit;
}

CostFit::Terms terms_of(const StepLoad& load) {
  const std::int64_t rows = load.decode_rows + load.prefill_tokens;
  return {1.0,
          static_cast<double>(load.decode_rows) / kRowUnit,
          rows_over(rows, 0),
          rows_over(rows, 16),
          rows_over(rows, 32),
          rows_over(rows, 64),
          rows_over(rows, 128),
          rows_over(rows, 256),
          static_cast<double>(load.context_tokens) / kContextUnit,
          load.prefill_context / kProductUnit};
}

// Loads of about the same size, by powers of two: steps of decode alone by rows, others by tokens.
constexpr std::size_t kDecodeStrata = 10;
constexpr std::size_t kPrefillStrata = 18;

std::size_t stratum_of(const StepLoad& load) {
  const auto log2 = [](std::int64_t count) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(count)));
  };
  if (load.prefill_tokens == 0) return std::min(log2(load.decode_rows), kDecodeStrata - 1);
  return kDecodeStrata + std::min(log2(load.prefill_tokens) - 1, kPrefillStrata - 1);
}

}  // namespace

StepTimeModel::StepTimeModel() : fit_(kDecodeStrata + kPrefillStrata) {}

void StepTimeModel::observe(const StepLoad& load, double seconds) {
  const std::int64_t before = fit_.observations();
  fit_.observe(terms_of(load), stratum_of(load), seconds);
  if (fit_.observations() > before) largest_seen_ = std::max(largest_seen_, load.prefill_tokens);
}

double StepTimeModel::predict(const StepLoad& load) const { return fit_.predict(terms_of(load)); }

std::int64_t StepTimeModel::largest_prefill(StepLoad load, double seconds,
                                            std::int64_t most) const {
  if (observations() < kTrusted) return std::min(kFirstChunk, most);
  most = std::min(most, std::max(kFirstChunk, kReach * largest_seen_));
  const double mean_context =
      load.prefill_tokens > 0 ? load.prefill_context / static_cast<double>(load.prefill_tokens) : 0;
  // The prediction grows with the tokens, as no coefficient is negative.
  std::int64_t fits = 0;
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

// A run as genai-bench's result file of one level.
#pragma once

#include <string>

#include "bench/metrics/metrics.h"

namespace saccade::bench {

struct GenaiReportSettings {
  std::string scenario = "dataset";  // as genai-bench writes it: "D(100,100)", "I(512,512)"
  std::string task = "image-text-to-text";
  std::string iteration_type = "num_concurrency";  // or "batch_size", "poisson_arrival_rate"
  std::int64_t level = 1;                          // of the iteration type
  bool with_texts = true;                          // generated_text and answer_text per request
};

// Metrics are to be computed with the rules of genai-bench.
std::string genai_json(const RunLog& log, const RunMetrics& metrics,
                       const GenaiReportSettings& settings);

// experiment_metadata.json, beside the levels.
std::string genai_metadata_json(const RunLog& log, const GenaiReportSettings& settings);

}  // namespace saccade::bench

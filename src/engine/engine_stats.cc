#include "engine/engine_stats.h"

#include <algorithm>

namespace saccade {
namespace {

// vLLM's buckets, so that its dashboards fit.
std::vector<double> short_times() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
}

std::vector<double> token_times() {
  return {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
          0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
}

std::vector<double> long_times() {
  return {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
          30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
}

std::vector<double> stage_times() {
  return {0.00001, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0};
}

std::vector<double> token_counts() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
}

std::vector<double> small_counts() { return {1, 2, 4, 8, 16, 32, 64}; }
std::vector<double> answer_counts() { return {1, 2, 5, 10, 20}; }
std::vector<double> preemption_counts() { return {0, 1, 2, 5, 10, 20, 50}; }

std::vector<double> step_tokens() {
  return {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
}

}  // namespace

void Histogram::observe(double value, std::uint64_t times) {
  if (counts_.empty()) return;
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<std::size_t>(bound - bounds_.begin())] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
}

EngineStats::EngineStats()
    : time_to_first_token(short_times()),
      inter_token_latency(token_times()),
      e2e_request_latency(long_times()),
      request_queue_time(long_times()),
      request_inference_time(long_times()),
      request_prefill_time(long_times()),
      request_decode_time(long_times()),
      request_prompt_tokens(token_counts()),
      request_generation_tokens(token_counts()),
      request_params_max_tokens(token_counts()),
      request_params_n(answer_counts()),
      request_num_preemptions(preemption_counts()),
      iteration_tokens(step_tokens()),
      encode_batch_images(small_counts()),
      stage_encoder_queue(stage_times()),
      stage_encoder_run(stage_times()),
      stage_plan(stage_times()),
      stage_forward(stage_times()),
      stage_sample(stage_times()) {}

}  // namespace saccade

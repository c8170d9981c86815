// What the engine has counted, as plain numbers. serve/ gives them vLLM's names on /metrics; the
// names here are those names without prefix and unit.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "memory/accounting.h"

namespace saccade {

// Counts of observations at or below each bound, and above all.
class Histogram {
 public:
  Histogram() = default;
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void observe(double value, std::uint64_t times = 1);
  std::span<const double> bounds() const { return bounds_; }
  std::span<const std::uint64_t> counts() const { return counts_; }  // [bounds + 1], not cumulated
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;  // ascending
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

struct EngineStats {
  EngineStats();

  // Gauges, as of the last step.
  std::int64_t num_requests_running = 0;
  std::int64_t num_requests_waiting = 0;          // submitted and not running
  std::int64_t num_requests_waiting_encoder = 0;  // of them, for an image to be encoded
  double kv_cache_usage = 0;                      // 0 to 1
  std::int64_t kv_cache_bytes = 0;
  std::int64_t encoder_cache_bytes = 0;
  std::int64_t encoder_queue_images = 0;  // wanted and not ready
  // Adapters of requests that run and of those that wait, by name.
  std::vector<std::string> running_loras;
  std::vector<std::string> waiting_loras;
  std::uint64_t loras_packed = 0;  // made ready on the device, so far
  MemoryUse memory;                // KV pool and embedding arena together
  double utilisation = 0;          // memory.useful over all of it

  // Counters.
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  // of requests that began, cached ones included
  std::uint64_t prompt_tokens_cached = 0;
  std::uint64_t prompt_tokens_recomputed = 0;  // computed again after a preemption
  std::uint64_t generation_tokens = 0;
  std::uint64_t num_preemptions = 0;
  std::uint64_t spec_decode_num_drafts = 0;  // of a sequence in a step
  std::uint64_t spec_decode_num_draft_tokens = 0;
  std::uint64_t spec_decode_num_accepted_tokens = 0;
  // [max_tokens] of them, by their place in the draft; empty where nothing is drafted.
  std::vector<std::uint64_t> spec_decode_num_accepted_tokens_per_pos;
  std::int64_t draft_kv_cache_bytes = 0;  // of a draft model; 0: there is none
  double draft_kv_cache_usage = 0;        // 0 to 1
  std::uint64_t draft_tokens_read = 0;
  double draft_busy_seconds = 0;           // its steps
  std::uint64_t prefix_cache_queries = 0;  // tokens
  std::uint64_t prefix_cache_hits = 0;     // tokens
  std::uint64_t mm_cache_queries = 0;      // images
  std::uint64_t mm_cache_hits = 0;
  std::uint64_t admission_rejections = 0;            // refused at submission
  std::array<std::uint64_t, 5> requests_finished{};  // by FinishReason
  std::uint64_t encoder_runs = 0;                    // EncodeRuns finished
  std::uint64_t images_encoded = 0;
  std::uint64_t images_decoded = 0;           // begun
  std::int64_t images_loading = 0;            // that wait for their pixels
  std::size_t pixel_bytes = 0;                // decoded, not yet encoded
  std::uint64_t encoder_tokens_computed = 0;  // embedding rows made
  std::uint64_t encoder_tokens_consumed = 0;  // embedding rows that entered a forward
  double encoder_busy_seconds = 0;            // the encoder's stages
  double prefill_busy_seconds = 0;            // steps that computed prompt tokens
  std::uint64_t prefill_tokens = 0;           // computed in them
  double embedding_byte_seconds = 0;          // residency of leased embeddings
  std::uint64_t steps_blocked_on_memory = 0;  // something waited for pages
  std::uint64_t steps_blocked_on_budget = 0;  // something waited for the token budget

  // Histograms, seconds unless said otherwise.
  Histogram time_to_first_token;
  Histogram inter_token_latency;
  Histogram e2e_request_latency;
  Histogram request_queue_time;
  Histogram request_inference_time;
  Histogram request_prefill_time;
  Histogram request_decode_time;
  Histogram request_prompt_tokens;      // tokens
  Histogram request_generation_tokens;  // tokens
  Histogram request_params_max_tokens;  // tokens
  Histogram request_params_n;           // answers a prompt
  Histogram request_num_preemptions;    // preemptions
  Histogram iteration_tokens;           // tokens a step
  Histogram encode_batch_images;        // images a run
  // Stages of a request inside the engine; stages before it (fetch, decode, ...) are serve's.
  Histogram stage_encoder_queue;
  Histogram stage_encoder_run;
  Histogram stage_plan;
  Histogram stage_forward;
  Histogram stage_sample;
};

}  // namespace saccade

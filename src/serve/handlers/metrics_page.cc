#include "serve/handlers/metrics_page.h"

#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "base/clock.h"
#include "serve/handlers/metrics_text.h"

namespace saccade::serve {
namespace {

const std::vector<double>& stage_bounds() {
  static const std::vector<double> bounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                             0.25,   0.5,   1,      2.5,   5,    10,    30,   60};
  return bounds;
}

void queue_and_cache(MetricsText& page, const EngineStats& s, std::size_t preparing) {
  page.gauge("vllm:num_requests_running", "Requests in the running batch.",
             static_cast<double>(s.num_requests_running));
  page.gauge("vllm:num_requests_waiting", "Requests waiting, including those being prepared.",
             static_cast<double>(s.num_requests_waiting) + static_cast<double>(preparing));
  const char* reasons = "Waiting requests, by reason.";
  const char* by_reason = "vllm:num_requests_waiting_by_reason";
  page.gauge(by_reason, reasons, static_cast<double>(preparing), {{"reason", "preparing"}});
  page.gauge(by_reason, reasons, static_cast<double>(s.num_requests_waiting_encoder),
             {{"reason", "encoder"}});
  page.gauge(by_reason, reasons,
             static_cast<double>(s.num_requests_waiting - s.num_requests_waiting_encoder),
             {{"reason", "capacity"}});
  page.gauge("vllm:kv_cache_usage_perc", "KV cache usage, 1 is full.", s.kv_cache_usage);
  page.gauge("saccade:kv_cache_bytes", "Size of the KV cache in bytes.",
             static_cast<double>(s.kv_cache_bytes));
  page.gauge("saccade:encoder_cache_bytes", "Capacity of the image embedding cache in bytes.",
             static_cast<double>(s.encoder_cache_bytes));
  page.gauge("saccade:pixel_bytes", "Bytes of decoded images that are not encoded yet.",
             static_cast<double>(s.pixel_bytes));
  page.gauge("saccade:images_loading", "Images requested and not decoded yet.",
             static_cast<double>(s.images_loading));
  page.gauge("saccade:encoder_queue_images", "Images waiting for the encoder.",
             static_cast<double>(s.encoder_queue_images));
}

// The value is when it was so, as vLLM's.
void adapters(MetricsText& page, const EngineStats& s, std::int64_t most) {
  if (most == 0) return;
  page.gauge("vllm:lora_requests_info",
             "Adapters of running and waiting requests; the value is the time.",
             static_cast<double>(wall_clock_now()) / static_cast<double>(kSecond),
             {{"max_lora", std::to_string(most)},
              {"running_lora_adapters", fmt::format("{}", fmt::join(s.running_loras, ","))},
              {"waiting_lora_adapters", fmt::format("{}", fmt::join(s.waiting_loras, ","))}});
  page.counter("saccade:loras_packed_total", "Adapters loaded onto the device.",
               static_cast<double>(s.loras_packed));
}

double count(std::uint64_t n) { return static_cast<double>(n); }

void drafts(MetricsText& page, const EngineStats& s) {
  const auto& accepted = s.spec_decode_num_accepted_tokens_per_pos;
  if (!accepted.empty()) {
    page.counter("vllm:spec_decode_num_drafts_total", "Drafts verified, one per sequence and step.",
                 count(s.spec_decode_num_drafts));
    page.counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens verified.",
                 count(s.spec_decode_num_draft_tokens));
    page.counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.",
                 count(s.spec_decode_num_accepted_tokens));
  }
  for (std::size_t position = 0; position < accepted.size(); ++position) {
    page.counter("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                 "Draft tokens accepted, by position in the draft.", count(accepted[position]),
                 {{"position", std::to_string(position)}});
  }
  if (s.draft_kv_cache_bytes > 0) {
    page.gauge("saccade:draft_kv_cache_usage_perc", "KV cache usage of the draft model, 1 is full.",
               s.draft_kv_cache_usage);
    page.gauge("saccade:draft_kv_cache_bytes", "Size of the draft model's KV cache in bytes.",
               static_cast<double>(s.draft_kv_cache_bytes));
    page.counter("saccade:draft_tokens_read_total", "Tokens that the draft model has read.",
                 count(s.draft_tokens_read));
    page.counter("saccade:draft_busy_seconds_total", "Seconds spent in steps of the draft model.",
                 s.draft_busy_seconds);
  }
}

void tokens_and_requests(MetricsText& page, const EngineStats& s) {
  page.counter("vllm:prompt_tokens_total", "Prompt tokens of requests that started running.",
               count(s.prompt_tokens));
  page.counter("vllm:prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.",
               count(s.prompt_tokens_cached));
  page.counter("vllm:prompt_tokens_recomputed_total", "Tokens recomputed after a preemption.",
               count(s.prompt_tokens_recomputed));
  page.counter("vllm:generation_tokens_total", "Generated tokens.", count(s.generation_tokens));
  page.counter("vllm:num_preemptions_total", "Preemptions.", count(s.num_preemptions));
  drafts(page, s);
  page.counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
               count(s.prefix_cache_queries));
  page.counter("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.",
               count(s.prefix_cache_hits));
  page.counter("vllm:mm_cache_queries_total", "Images looked up in the image embedding cache.",
               count(s.mm_cache_queries));
  page.counter("vllm:mm_cache_hits_total", "Images found in the image embedding cache.",
               count(s.mm_cache_hits));
  page.counter("vllm:admission_rejections_total", "Requests rejected by the engine at submission.",
               count(s.admission_rejections));
  constexpr std::pair<FinishReason, const char*> kReasons[] = {{FinishReason::kStop, "stop"},
                                                               {FinishReason::kLength, "length"},
                                                               {FinishReason::kCancelled, "abort"},
                                                               {FinishReason::kError, "error"}};
  for (const auto& [reason, name] : kReasons) {
    page.counter("vllm:request_success_total", "Finished requests, by finish reason.",
                 count(s.requests_finished[static_cast<std::size_t>(reason)]),
                 {{"finished_reason", name}});
  }
}

void steps_and_images(MetricsText& page, const EngineStats& s) {
  page.counter("saccade:steps_total", "Engine steps.", count(s.steps));
  page.counter("saccade:steps_blocked_total",
               "Steps that left requests waiting, by the limit reached.",
               count(s.steps_blocked_on_memory), {{"on", "memory"}});
  page.counter("saccade:steps_blocked_total",
               "Steps that left requests waiting, by the limit reached.",
               count(s.steps_blocked_on_budget), {{"on", "token_budget"}});
  page.counter("saccade:encoder_runs_total", "Encoder batches run.", count(s.encoder_runs));
  page.counter("saccade:images_decoded_total", "Images decoded.", count(s.images_decoded));
  page.counter("saccade:images_encoded_total", "Images encoded.", count(s.images_encoded));
  page.counter("saccade:encoder_tokens_computed_total", "Image tokens encoded.",
               count(s.encoder_tokens_computed));
  page.counter("saccade:encoder_tokens_consumed_total", "Image tokens used in forward passes.",
               count(s.encoder_tokens_consumed));
  page.counter("saccade:encoder_busy_seconds_total", "Seconds that the encoder was busy.",
               s.encoder_busy_seconds);
  page.counter("saccade:prefill_busy_seconds_total",
               "Seconds of steps that computed prompt tokens.", s.prefill_busy_seconds);
  page.counter("saccade:prefill_tokens_total", "Prompt tokens computed.", count(s.prefill_tokens));
  page.counter("saccade:embedding_byte_seconds_total",
               "Bytes of image embeddings kept for requests, times seconds.",
               s.embedding_byte_seconds);
}

void latencies(MetricsText& page, const EngineStats& s) {
  page.histogram("vllm:time_to_first_token_seconds", "Seconds from arrival to the first token.",
                 s.time_to_first_token);
  page.histogram("vllm:inter_token_latency_seconds", "Seconds between tokens of a request.",
                 s.inter_token_latency);
  page.histogram("vllm:e2e_request_latency_seconds", "Seconds from arrival to the last token.",
                 s.e2e_request_latency);
  page.histogram("vllm:request_queue_time_seconds", "Seconds from submission to first scheduling.",
                 s.request_queue_time);
  page.histogram("vllm:request_inference_time_seconds",
                 "Seconds from first scheduling to the last token.", s.request_inference_time);
  page.histogram("vllm:request_prefill_time_seconds",
                 "Seconds from first scheduling to the first token.", s.request_prefill_time);
  page.histogram("vllm:request_decode_time_seconds", "Seconds from the first token to the last.",
                 s.request_decode_time);
  page.histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.",
                 s.request_prompt_tokens);
  page.histogram("vllm:request_generation_tokens", "Generated tokens of a request.",
                 s.request_generation_tokens);
  page.histogram("vllm:request_params_max_tokens", "max_tokens of a request.",
                 s.request_params_max_tokens);
  page.histogram("vllm:request_params_n", "n of a request.", s.request_params_n);
  page.histogram("vllm:request_num_preemptions", "Preemptions of a request.",
                 s.request_num_preemptions);
  page.histogram("vllm:iteration_tokens_total", "Tokens computed in a step.", s.iteration_tokens);
  page.histogram("saccade:encode_batch_images", "Images in an encoder batch.",
                 s.encode_batch_images);
}

void memory_identity(MetricsText& page, const MemoryUse& m) {
  const std::pair<const char*, std::int64_t> terms[] = {
      {"useful", m.useful},     {"tail", m.tail},       {"slack", m.slack},   {"pad", m.pad},
      {"overhold", m.overhold}, {"reserve", m.reserve}, {"cached", m.cached}, {"free", m.free}};
  for (const auto& [term, bytes] : terms) {
    page.gauge("saccade:memory_bytes", "Bytes of the KV cache by use; the uses add up to its size.",
               static_cast<double>(bytes), {{"use", term}});
  }
}

void image_sizes(MetricsText& page, const ImageSizeStats& sizes) {
  page.gauge("saccade:image_level_tokens", "The level: most tokens that an image may have now.",
             sizes.level);
  page.gauge("saccade:image_cap_tokens",
             "The size in use: the largest of the model's sizes up to the level, in tokens.",
             static_cast<double>(sizes.cap));
  const char* wait = "saccade:predicted_wait_seconds";
  const char* waits = "Predicted seconds of accepted work that is not done yet.";
  page.gauge(wait, waits, seconds(sizes.waits.encoder), {{"stage", "encode"}});
  page.gauge(wait, waits, seconds(sizes.waits.prefill), {{"stage", "prefill"}});
  const char* factor = "saccade:cost_factor";
  const char* factors = "Measured time of a stage over that of its profile.";
  page.gauge(factor, factors, sizes.encode_factor, {{"stage", "encode"}});
  page.gauge(factor, factors, sizes.prefill_factor, {{"stage", "prefill"}});
  for (const auto& [rung, images] : sizes.images_by_rung)
    page.counter("saccade:images_sized_total",
                 "Images, by the size limit in tokens that they keep to.",
                 static_cast<double>(images), {{"rung", std::to_string(rung)}});
  page.counter("saccade:images_reduced_total", "Images made smaller than their clients asked for.",
               static_cast<double>(sizes.reduced));
  page.counter("saccade:requests_late_total",
               "Requests accepted though predicted to miss the target.",
               static_cast<double>(sizes.late));
  page.counter("saccade:requests_refused_late_total",
               "Requests refused because they were predicted to miss the target.",
               static_cast<double>(sizes.refused));
}

}  // namespace

MetricsPage::MetricsPage(const Engine& engine, std::string model_name)
    : engine_(engine), model_name_(std::move(model_name)) {}

void MetricsPage::observe_stage(std::string_view stage, double seconds) {
  const std::lock_guard lock(mutex_);
  auto it = stages_.find(stage);
  if (it == stages_.end())
    it = stages_.emplace(std::string(stage), Histogram(stage_bounds())).first;
  it->second.observe(seconds);
}

std::string MetricsPage::render(const Preparation& preparation) const {
  const EngineStats stats = engine_.stats();
  MetricsText page(model_name_);
  queue_and_cache(page, stats, preparation.requests);
  adapters(page, stats, engine_.settings().max_loras);
  page.gauge("saccade:requests_preparing", "Requests received and not in the engine yet.",
             static_cast<double>(preparation.requests));
  page.gauge("saccade:request_bytes", "Bytes of request bodies and media in memory.",
             static_cast<double>(preparation.held_bytes));
  page.gauge("saccade:request_bytes_limit",
             "Limit of saccade:request_bytes, beyond which requests are refused.",
             static_cast<double>(preparation.held_bytes_limit));
  tokens_and_requests(page, stats);
  steps_and_images(page, stats);
  if (preparation.sizes != nullptr) image_sizes(page, preparation.sizes->stats());
  latencies(page, stats);
  memory_identity(page, stats.memory);
  page.gauge("saccade:memory_utilisation", "Share of the KV cache that holds useful bytes.",
             stats.utilisation);
  const char* name = "saccade:stage_seconds";
  const char* help = "Seconds that a request, an image or a step takes in each stage.";
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stage, histogram] : stages_)
      page.histogram(name, help, histogram, {{"stage", stage}});
  }
  page.histogram(name, help, stats.stage_encoder_queue, {{"stage", "encoder_queue"}});
  page.histogram(name, help, stats.stage_encoder_run, {{"stage", "encoder_run"}});
  page.histogram(name, help, stats.stage_plan, {{"stage", "plan"}});
  page.histogram(name, help, stats.stage_forward, {{"stage", "forward"}});
  page.histogram(name, help, stats.stage_sample, {{"stage", "sample"}});
  for (const auto& part : parts_) part(page);
  return page.text();
}

}  // namespace saccade::serve

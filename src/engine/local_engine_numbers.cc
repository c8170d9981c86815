// What the engine counts: at a plan, and once a step.
#include <algorithm>

#include "engine/local_engine.h"

namespace saccade {
namespace {

constexpr Nanos kMeasureEvery = 100 * kMillisecond;  // exact byte accounting visits every block

}  // namespace

// For whoever has asked to be told (Request::progress).
void LocalEngine::note_progress(const Sequence& sequence) {
  RequestProgress* const to = sequence.request.progress.get();
  if (to == nullptr) return;
  const std::int64_t computed = std::min(sequence.computed(), sequence.prompt_tokens());
  to->set_computed(computed);
  for (const SequenceImage& image : sequence.images) {
    const auto index = static_cast<std::size_t>(image.index);
    if (index < to->images() && (image.end <= computed || images_.ready(image)))
      to->set_encoded(index);
  }
}

void LocalEngine::count_plan(const StepPlan& plan, Nanos now) {
  for (const Sequence* sequence : plan.started) {
    note_progress(*sequence);
    const auto hit = static_cast<std::uint64_t>(sequence->computed());
    current_.prefix_cache_queries += static_cast<std::uint64_t>(sequence->length());
    current_.prefix_cache_hits += hit;
    if (sequence->reached > 0) continue;
    current_.prompt_tokens += static_cast<std::uint64_t>(sequence->prompt_tokens());
    current_.prompt_tokens_cached += hit;
    current_.request_queue_time.observe(seconds(now - sequence->request.times.queued));
  }
  for (const PlannedRows& rows : plan.rows) {
    const std::int64_t again = std::min(rows.end(), rows.sequence->reached) - rows.begin;
    if (again > 0) current_.prompt_tokens_recomputed += static_cast<std::uint64_t>(again);
  }
  current_.num_preemptions += plan.preempted.size();
  if (plan.blocked_on_memory) ++current_.steps_blocked_on_memory;
  if (plan.blocked_on_budget) ++current_.steps_blocked_on_budget;
  if (!plan.empty()) current_.iteration_tokens.observe(static_cast<double>(plan.tokens));
}

// Who waits, for submit(): the scheduler's clients and those who came since it took the inbox.
void LocalEngine::publish_waiting() {
  auto counts = scheduler_.queue().waiting_by_client();
  const std::lock_guard lock(inbox_mutex_);
  for (const auto& arrival : arrivals_)
    ++counts[parts_.scheduler.fair ? arrival->sequence.request.client : 0];
  waiting_of_ = std::move(counts);
}

void LocalEngine::list_loras() {
  current_.loras_packed = lora_slots_.packed();
  current_.running_loras.clear();
  current_.waiting_loras.clear();
  for (const auto& [id, of] : lives_) {
    const LoraAdapter* const adapter = of->sequence.request.adapter.get();
    if (adapter == nullptr || of->sequence.ended) continue;
    auto& names = of->sequence.kv.admitted() ? current_.running_loras : current_.waiting_loras;
    const auto place = std::ranges::lower_bound(names, adapter->name());
    if (place == names.end() || *place != adapter->name()) names.insert(place, adapter->name());
  }
}

void LocalEngine::update_gauges(Nanos now) {
  EngineStats& to = current_;
  to.num_requests_running = static_cast<std::int64_t>(scheduler_.running().size());
  to.num_requests_waiting = scheduler_.waiting();
  to.num_requests_waiting_encoder = scheduler_.waiting_for_images();
  not_running_ = scheduler_.waiting();
  to.kv_cache_usage = parts_.kv->usage();
  to.kv_cache_bytes = static_cast<std::int64_t>(parts_.settings.kv_cache_bytes);
  to.encoder_cache_bytes = parts_.store_bytes();
  to.mm_cache_queries = images_.stats().queries;
  to.mm_cache_hits = images_.stats().hits;
  if (encoder_) {
    to.encoder_queue_images = encoder_->waiting();
    to.encoder_runs = encoder_->stats().runs;
    to.encoder_busy_seconds = encoder_->stats().busy_seconds;
    to.images_encoded = encoder_->stats().images;
    to.images_decoded = pixels_->loads();
    to.images_loading = pixels_->waiting();
    to.pixel_bytes = pixels_->bytes();
    to.encoder_tokens_computed = encoder_->stats().rows;
  }
  to.embedding_byte_seconds +=
      static_cast<double>(images_.store().leased_bytes()) * seconds(now - gauges_at_);
  gauges_at_ = now;
  if (parts_.settings.max_loras > 0) list_loras();
  if (parts_.draft) {
    to.draft_kv_cache_bytes = parts_.draft->pool_bytes();
    to.draft_kv_cache_usage = parts_.draft->usage();
    to.draft_tokens_read = parts_.draft->tokens_read();
    to.draft_busy_seconds = parts_.draft->busy_seconds();
  }
  publish_waiting();
  if (measured_at_ == 0 || now - measured_at_ >= kMeasureEvery) {
    measured_at_ = now;
    to.memory = measure(*parts_.kv);
    to.memory += measure(images_.store());
    to.utilisation = static_cast<double>(to.memory.useful) / static_cast<double>(to.memory.total());
  }
  const std::lock_guard lock(stats_mutex_);
  published_ = to;
}

void LocalEngine::count_token(Live& of, Nanos now) {
  ++current_.generation_tokens;
  if (of.times.first_token == 0) {
    of.times.first_token = now;
    const Nanos from = of.times.arrival > 0 ? of.times.arrival : of.times.queued;
    current_.time_to_first_token.observe(seconds(now - from));
  } else {
    current_.inter_token_latency.observe(seconds(now - of.last_token));
  }
  of.last_token = now;
}

RequestUsage LocalEngine::usage(const Sequence& sequence, std::size_t later) const {
  RequestUsage usage;
  usage.prompt_tokens = sequence.prompt_tokens();
  usage.completion_tokens = sequence.generated() - static_cast<std::int64_t>(later);
  usage.cached_tokens = sequence.cached_tokens;
  usage.image_tokens = sequence.image_tokens();
  usage.video_tokens = sequence.video_tokens();
  return usage;
}

}  // namespace saccade

#include "engine/engine_meter.h"

#include <algorithm>

namespace saccade {
namespace {

constexpr Nanos kMeasureEvery = 100 * kMillisecond;  // exact byte accounting visits every block

Nanos came_at(const RequestTimes& times) {
  return times.arrival > 0 ? times.arrival : times.queued;
}

}  // namespace

EngineMeter::EngineMeter(const EngineParts& parts, const Scheduler& scheduler,
                         const ImagePlanner& images)
    : parts_(parts), scheduler_(scheduler), images_(images) {
  current_.spec_decode_num_accepted_tokens_per_pos.resize(
      static_cast<std::size_t>(parts.settings.speculation.max_tokens));
}

EngineStats EngineMeter::stats() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

// --- requests ---

void EngineMeter::took(const RequestGate::Inbox& inbox) {
  current_.admission_rejections = inbox.rejections;
  for (const auto& active : inbox.requests) {
    const Request& request = active->sequence.request;
    current_.request_params_max_tokens.observe(static_cast<double>(request.sampling.max_tokens));
    if (request.answers > 0) current_.request_params_n.observe(request.answers);
  }
}

void EngineMeter::token(ActiveRequest& of, Nanos now) {
  ++current_.generation_tokens;
  if (of.times.first_token == 0) {
    of.times.first_token = now;
    current_.time_to_first_token.observe(seconds(now - came_at(of.times)));
  } else {
    current_.inter_token_latency.observe(seconds(now - of.last_token));
  }
  of.last_token = now;
}

void EngineMeter::finished(ActiveRequest& of, FinishReason how, Nanos now) {
  RequestTimes& times = of.times;
  times.finished = now;
  ++current_.requests_finished[static_cast<std::size_t>(how)];
  if (times.first_token == 0) return;
  const Sequence& sequence = of.sequence;
  current_.e2e_request_latency.observe(seconds(now - came_at(times)));
  current_.request_inference_time.observe(seconds(now - times.first_scheduled));
  current_.request_prefill_time.observe(seconds(times.first_token - times.first_scheduled));
  current_.request_decode_time.observe(seconds(now - times.first_token));
  current_.request_prompt_tokens.observe(static_cast<double>(sequence.prompt_tokens()));
  current_.request_generation_tokens.observe(static_cast<double>(sequence.generated()));
  current_.request_num_preemptions.observe(sequence.standing->preemptions);
}

// For whoever has asked to be told (Request::progress).
void EngineMeter::note_progress(const Sequence& sequence) const {
  RequestProgress* const to = sequence.request.progress.get();
  if (to == nullptr) return;
  const std::int64_t computed = std::min(sequence.computed(), sequence.prompt_tokens());
  to->set_computed(computed);
  for (const SequenceImage& image : *sequence.images) {
    const auto index = static_cast<std::size_t>(image.index);
    if (index < to->images() && (image.end <= computed || images_.ready(image)))
      to->set_encoded(index);
  }
}

// --- steps ---

void EngineMeter::planned(const StepPlan& plan, Nanos begun, Nanos now) {
  for (const Sequence* sequence : plan.started) {
    note_progress(*sequence);
    const auto hit = static_cast<std::uint64_t>(sequence->computed());
    current_.prefix_cache_queries += static_cast<std::uint64_t>(sequence->length());
    current_.prefix_cache_hits += hit;
    if (sequence->progress->reached > 0) continue;
    current_.prompt_tokens += static_cast<std::uint64_t>(sequence->prompt_tokens());
    current_.prompt_tokens_cached += hit;
    current_.request_queue_time.observe(seconds(now - sequence->request.times.queued));
  }
  for (const PlannedRows& rows : plan.rows) {
    const std::int64_t again = std::min(rows.end(), rows.sequence->progress->reached) - rows.begin;
    if (again > 0) current_.prompt_tokens_recomputed += static_cast<std::uint64_t>(again);
  }
  current_.num_preemptions += plan.preempted.size();
  if (plan.blocked_on_memory) ++current_.steps_blocked_on_memory;
  if (plan.blocked_on_budget) ++current_.steps_blocked_on_budget;
  if (plan.empty()) return;
  current_.iteration_tokens.observe(static_cast<double>(plan.tokens));
  current_.stage_plan.observe(seconds(now - begun));
}

void EngineMeter::launched(std::int64_t embedding_rows) {
  current_.encoder_tokens_consumed += static_cast<std::uint64_t>(embedding_rows);
}

void EngineMeter::settled(const StepRunner::Settled& step) {
  const StepPlan& plan = step.plan;
  for (const PlannedRows& rows : plan.rows) {
    if (!rows.sequence->ended() && rows.begin < rows.sequence->prompt_tokens())
      note_progress(*rows.sequence);
  }
  current_.stage_forward.observe(step.forward_seconds);
  current_.stage_sample.observe(step.sample_seconds);
  if (plan.tokens > plan.decode_rows) {
    current_.prefill_busy_seconds += step.seconds;
    current_.prefill_tokens += static_cast<std::uint64_t>(plan.tokens - plan.decode_rows);
  }
}

void EngineMeter::drafted(const PlannedRows& rows, std::span<const Sampled> sampled) {
  ++current_.spec_decode_num_drafts;
  current_.spec_decode_num_draft_tokens += static_cast<std::uint64_t>(rows.drafts);
  for (std::size_t i = 0; i + 1 < sampled.size(); ++i) {
    if (sampled[i].failed || sampled[i].token != rows.sequence->draft->tokens[i]) return;
    ++current_.spec_decode_num_accepted_tokens;
    ++current_.spec_decode_num_accepted_tokens_per_pos[i];
  }
}

void EngineMeter::encoded(const EncoderQueue::Event& event, const ActiveRequests& requests) {
  const bool done = event.end > 0;
  if (done) {
    current_.stage_encoder_run.observe(seconds(event.end - event.begin));
    current_.encode_batch_images.observe(static_cast<double>(event.keys.size()));
  } else {
    current_.stage_encoder_queue.observe(seconds(event.begin - event.queued), event.keys.size());
  }
  requests.each([&](ActiveRequest& of) {
    for (const SequenceImage& image : *of.sequence.images) {
      if (std::ranges::find(event.keys, image.key) == event.keys.end()) continue;
      if (of.times.encode_start == 0) of.times.encode_start = event.begin;
      if (done) of.times.encode_end = event.end;
    }
    if (done) note_progress(of.sequence);
  });
}

void EngineMeter::stepped() { ++current_.steps; }

// --- gauges ---

void EngineMeter::list_loras(const ActiveRequests& requests) {
  current_.running_loras.clear();
  current_.waiting_loras.clear();
  requests.each([&](const ActiveRequest& of) {
    const LoraAdapter* const adapter = of.sequence.request.adapter.get();
    if (adapter == nullptr || of.sequence.ended()) return;
    auto& names = of.sequence.kv.admitted() ? current_.running_loras : current_.waiting_loras;
    const auto place = std::ranges::lower_bound(names, adapter->name());
    if (place == names.end() || *place != adapter->name()) names.insert(place, adapter->name());
  });
}

void EngineMeter::measure_memory(Nanos now) {
  current_.embedding_byte_seconds +=
      static_cast<double>(images_.store().leased_bytes()) * seconds(now - gauges_at_);
  gauges_at_ = now;
  if (measured_at_ != 0 && now - measured_at_ < kMeasureEvery) return;
  measured_at_ = now;
  current_.memory = measure(*parts_.kv);
  current_.memory += measure(images_.store());
  current_.utilisation =
      static_cast<double>(current_.memory.useful) / static_cast<double>(current_.memory.total());
}

void EngineMeter::publish(Nanos now, const ImageDesk& desk, const LoraSlots& loras,
                          const ActiveRequests& requests) {
  EngineStats& to = current_;
  to.num_requests_running = static_cast<std::int64_t>(scheduler_.running().size());
  to.num_requests_waiting = scheduler_.waiting();
  to.num_requests_waiting_encoder = scheduler_.waiting_for_images();
  to.kv_cache_usage = parts_.kv->usage();
  to.kv_cache_bytes = static_cast<std::int64_t>(parts_.settings.kv_cache_bytes);
  to.encoder_cache_bytes = parts_.store_bytes();
  to.mm_cache_queries = images_.stats().queries;
  to.mm_cache_hits = images_.stats().hits;
  desk.count(to);
  if (parts_.settings.max_loras > 0) {
    to.loras_packed = loras.packed();
    list_loras(requests);
  }
  if (parts_.draft) {
    to.draft_kv_cache_bytes = parts_.draft->pool_bytes();
    to.draft_kv_cache_usage = parts_.draft->usage();
    to.draft_tokens_read = parts_.draft->tokens_read();
    to.draft_busy_seconds = parts_.draft->busy_seconds();
  }
  measure_memory(now);
  const std::lock_guard lock(mutex_);
  published_ = to;
}

}  // namespace saccade

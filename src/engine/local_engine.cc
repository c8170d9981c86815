#include "engine/local_engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"

namespace saccade {

Result<std::unique_ptr<LocalEngine>> LocalEngine::create(EngineParts parts, Network& network,
                                                         Device& device, const Clock& clock,
                                                         ImageExchange* exchange, bool tower) {
  const bool takes_images = network.shape().has_vision && (tower || exchange != nullptr);
  std::unique_ptr<LocalEngine> engine(
      new LocalEngine(std::move(parts), network, device, clock, takes_images));
  LocalEngine* const self = engine.get();
  TRY_DO(self->desk_.open(
      exchange, tower,
      {[self] { self->events_.notify(); },
       [self](const Digest& key, const Error& error) { self->fail_image(key, error); },
       [self](const EncoderQueue::Event& event) {
         self->meter_.encoded(event, self->requests_);
       }}));
  return engine;
}

LocalEngine::LocalEngine(EngineParts parts, Network& network, Device& device, const Clock& clock,
                         bool takes_images)
    : parts_(std::move(parts)),
      device_(device),
      clock_(clock),
      gate_(parts_, network, device, clock, events_, takes_images),
      images_(parts_.settings.encoder_cache, parts_.store_bytes(),
              kEmbeddingPageRows * embedding_row_bytes(network.shape()),
              embedding_row_bytes(network.shape())),
      scheduler_(parts_.settings, *parts_.kv, images_),
      pacer_(parts_.settings.tpot_target_ms / 1e3, parts_.settings.decode_share,
             parts_.settings.max_batched_tokens),
      steps_(parts_, network, device, clock, images_),
      drafter_(parts_, scheduler_, pacer_),
      meter_(parts_, scheduler_, images_),
      desk_(parts_, network, device, clock, images_, scheduler_) {
  meter_.publish(clock_.now(), desk_, steps_.loras(), requests_);
}

// A step that was planned ahead may be under way though all answers have ended.
LocalEngine::~LocalEngine() {
  try {
    device_.synchronize();
  } catch (const std::exception&) {
    // Of a device, or of ranks, that have failed: said when it happened.
  }
}

// --- a step ---

bool LocalEngine::step() {
  const std::uint64_t seen = events_.count();
  bool busy = take_inbox();
  busy = desk_.take() || busy;
  StepPlan next = plan();
  const bool computes = !next.empty();
  busy = busy || computes || !next.started.empty() || !next.preempted.empty();
  if (computes) launch(std::move(next));
  // The next plan is made while the last one runs, as far as the settings let it.
  const auto most = static_cast<std::size_t>(parts_.settings.steps_in_flight);
  if (steps_.in_flight() >= (computes ? most : 1)) {
    settle();
    busy = true;
  }
  // Tokens go out, and metrics say what begins, before pictures may take seconds.
  if (busy && desk_.encoding()) publish();
  const bool encoded = desk_.encode(pacer_, [this] { return gate_.asked(); });
  if (encoded && !computes && steps_.in_flight() == 0) desk_.wait_for_encoder(events_, seen);
  pacer_.end();
  if (!busy && !encoded && !desk_.has_given_rows()) return false;
  meter_.stepped();
  publish();
  return true;
}

// False: nothing was there.
bool LocalEngine::take_inbox() {
  RequestGate::Inbox inbox = gate_.take();
  meter_.took(inbox);
  const bool empty = inbox.empty();
  if (inbox.reset_prefix_cache) parts_.kv->reset_prefix_cache();
  if (inbox.reset_image_cache) images_.clear();
  for (auto& request : inbox.requests) {
    scheduler_.add(request->sequence);
    if (request->guide) masks_.ask(request->guide);
    requests_.add(std::move(request));
  }
  masks_.start();
  for (const RequestId id : inbox.cancellations) {
    ActiveRequest* const of = requests_.find(id);
    if (of == nullptr) continue;
    Delta delta;
    delta.finish = FinishReason::kCancelled;
    finish(*of, std::move(delta));
  }
  return !empty;
}

StepPlan LocalEngine::plan() {
  const Nanos begun = clock_.now();
  StepPlan plan =
      scheduler_.plan(pacer_.begin(scheduler_, desk_.encoding(), desk_.stage_seconds()));
  // Before the answers of this step, or of one in flight: who has one no longer counts.
  for (const Sequence* sequence : plan.started) gate_.left_queue(sequence->request.client);
  for (const EncodeRequest& encode : plan.encodes) desk_.want(encode);
  meter_.planned(plan, begun, clock_.now());
  for (Sequence* sequence : plan.preempted) drafter_.release(requests_.of(*sequence).drafting);
  for (const KvCopy& copy : plan.copies) parts_.pool->copy(device_.lane(Lane::kStep), copy);
  return plan;
}

void LocalEngine::launch(StepPlan plan) {
  const StepPlan& launched = steps_.launch(std::move(plan), requests_, masks_);
  meter_.launched(steps_.embedding_rows());
  scheduler_.launch(launched);
}

void LocalEngine::settle() {
  StepRunner::Settled step = steps_.settle();
  Answered answered = answer(step.plan, step.sampled);
  std::vector<std::span<const TokenId>> tokens;
  std::size_t next = 0;
  for (const std::size_t count : answered.counts) {
    tokens.push_back(std::span(answered.tokens).subspan(next, count));
    next += count;
  }
  scheduler_.settle(step.plan, tokens);
  meter_.settled(step);
  pacer_.forwarded(step.plan, step.seconds);
  deliver(step.plan, answered, clock_.now());
  drafter_.propose();
  requests_.forget_settled();
}

void LocalEngine::settle_all() {
  while (steps_.in_flight() > 0) settle();
}

void LocalEngine::publish() {
  gate_.set_waiting(scheduler_.queue().waiting_by_client(), scheduler_.waiting());
  meter_.publish(clock_.now(), desk_, steps_.loras(), requests_);
  if (after_step_) after_step_();
}

// --- what a step gave ---

// `all`: one sample a sampling row, in the plan's order. A draft token is accepted while the row
// before it sampled that token; the first mismatch gives the corrected token, and the draft's rest
// is dropped. Nothing follows the token that ends an answer.
LocalEngine::Answered LocalEngine::answer(const StepPlan& plan, std::vector<Sampled>& all) {
  Answered answered;
  std::size_t next = 0;
  for (const PlannedRows& rows : plan.rows) {
    const auto sampled = std::span(all).subspan(next, static_cast<std::size_t>(rows.sampled()));
    next += sampled.size();
    std::size_t& count = answered.counts.emplace_back(0);
    if (sampled.empty() || rows.sequence->ended()) continue;
    Sequence& sequence = *rows.sequence;
    ActiveRequest& of = requests_.of(sequence);
    if (rows.drafts > 0) meter_.drafted(rows, sampled);
    for (bool follows = true; follows && count < sampled.size();) {
      Sampled& at = sampled[count];
      follows =
          !at.failed && count + 1 < sampled.size() && at.token == sequence.draft->tokens[count];
      answered.tokens.push_back(at.token);
      answered.deltas.push_back(of.take(at, masks_));
      ++count;
      follows = follows && answered.deltas.back().finish == FinishReason::kNone;
    }
  }
  return answered;
}

// The scheduler has the tokens already. All that ends with this step is counted before the first of
// it goes out.
void LocalEngine::deliver(const StepPlan& plan, Answered& answered, Nanos now) {
  bool any_ends = false;
  auto counted = answered.deltas.begin();
  for (std::size_t row = 0; row < plan.rows.size(); ++row) {
    if (answered.counts[row] == 0) continue;
    ActiveRequest& of = requests_.of(*plan.rows[row].sequence);
    for (std::size_t i = 0; i < answered.counts[row]; ++i, ++counted) {
      if (counted->finish != FinishReason::kError) meter_.token(of, now);
      if (counted->finish == FinishReason::kNone) continue;
      count_end(of, counted->finish, now);
      any_ends = true;
    }
  }
  if (any_ends) meter_.publish(now, desk_, steps_.loras(), requests_);

  auto delta = answered.deltas.begin();
  for (std::size_t row = 0; row < plan.rows.size(); ++row) {
    if (answered.counts[row] == 0) continue;
    Sequence& sequence = *plan.rows[row].sequence;
    ActiveRequest& of = requests_.of(sequence);
    bool ends = false;
    for (std::size_t later = answered.counts[row]; later-- > 0; ++delta) {
      ends = delta->finish != FinishReason::kNone;
      send(of, std::move(*delta), later);
    }
    if (ends) {
      requests_.end(of.id());
      continue;
    }
    if (of.guide) masks_.ask(of.guide);
    drafter_.follow(sequence, of.drafting);
  }
  masks_.start();
}

void LocalEngine::send(ActiveRequest& of, Delta&& delta, std::size_t later) {
  const RequestGate::InSink in_sink(gate_);
  of.send(std::move(delta), later);
}

// Before the last delta: whoever gets it may ask again at once, or read the metrics, and nothing of
// the request counts then but its end.
void LocalEngine::count_end(ActiveRequest& of, FinishReason how, Nanos now) {
  const std::int64_t waited = scheduler_.waiting();
  scheduler_.finish(of.sequence);
  if (scheduler_.waiting() != waited) gate_.left_queue(of.sequence.request.client);
  gate_.ended();
  meter_.finished(of, how, now);
  drafter_.release(of.drafting);
}

// An end that no step brings.
void LocalEngine::finish(ActiveRequest& of, Delta&& delta) {
  const Nanos now = clock_.now();
  count_end(of, delta.finish, now);
  meter_.publish(now, desk_, steps_.loras(), requests_);
  send(of, std::move(delta));
  requests_.end(of.id());
}

void LocalEngine::finish_with(ActiveRequest& of, const Error& error) {
  Delta delta;
  delta.finish = FinishReason::kError;
  delta.error = error.message;
  delta.error_code = error.code;
  finish(of, std::move(delta));
}

// There will be no rows under this key: the answer of all who wait for them.
void LocalEngine::fail_image(const Digest& key, const Error& error) {
  std::vector<ActiveRequest*> waiting;
  requests_.each([&](ActiveRequest& of) {
    const auto waits = [&](const SequenceImage& image) {
      return image.key == key && images_.state(image) == ImageState::kEncoding;
    };
    if (std::ranges::any_of(*of.sequence.images, waits)) waiting.push_back(&of);
  });
  for (ActiveRequest* of : waiting) finish_with(*of, error);
}

// --- the engine's thread from its start to its end, whichever end it is ---

void LocalEngine::run() {
  try {
    run_until_stopped();
    end_all();
  } catch (...) {
    give_up();
    throw;
  }
}

void LocalEngine::run_until_stopped() {
  for (;;) {
    const std::uint64_t seen = events_.count();
    if (gate_.stopping()) break;
    if (!step()) events_.wait(seen);
  }
  settle_all();
}

// Whoever is still here is told.
void LocalEngine::end_all() {
  take_inbox();
  while (!requests_.empty())
    finish_with(
        requests_.any(),
        {ErrorCode::kUnavailable, "the server ends, and the time for running answers is over", {}});
  desk_.close({ErrorCode::kCancelled, "the engine has stopped", {}});
  if (after_step_) after_step_();
}

// After a step that threw: scheduler and KV pages may be inconsistent and are not used. Each sink
// is told in a try of its own: memory may still be short.
void LocalEngine::give_up() {
  gate_.stop();
  for (auto& request : gate_.take().requests) requests_.add(std::move(request));
  requests_.each([&](ActiveRequest& of) {
    if (!of.sequence.ended()) gate_.ended();  // counted; its last delta has not been sent
    try {
      Delta delta;
      delta.finish = FinishReason::kError;
      delta.error = "the engine has stopped: the server ends";
      delta.error_code = ErrorCode::kUnavailable;
      send(of, std::move(delta));
    } catch (const std::exception& error) {
      log::error("request {} cannot be told: {}", of.id(), error.what());
    }
  });
  desk_.close({ErrorCode::kUnavailable, "the engine has stopped", {}});
  if (after_step_) after_step_();
}

}  // namespace saccade

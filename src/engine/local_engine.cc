#include "engine/local_engine.h"

#include <algorithm>
#include <utility>

#include "engine/step/graph_rows.h"

namespace saccade {
namespace {

std::uint64_t seed_of(const Request& request, const EngineSettings& settings) {
  return request.sampling.seed ? *request.sampling.seed : hash_combine(settings.seed, request.id);
}

}  // namespace

LocalEngine::Live::Live(Request request, Sink to, const LocalEngine& engine)
    : sequence(std::move(request), engine.network_.shape().tower_fingerprint,
               engine.network_.shape().short_length, engine.parts_.kv->plan().block_tokens),
      sink(std::move(to)),
      stop(sequence.request.sampling, sequence.request.tokenizer.get(), engine.eos_,
           sequence.prompt_tokens(), engine.parts_.settings.max_model_len),
      sampler(sequence.request.sampling, sequence.request.prompt->ids, engine.eos_,
              seed_of(sequence.request, engine.parts_.settings), engine.device_),
      times(sequence.request.times) {
  if (sequence.request.sampling.grammar)
    guide = std::make_shared<GuidedSequence>(sequence.request.sampling.grammar);
  // Under a grammar the mask of a guessed token's follower is not there in time, and rows of a
  // prompt that is scored are its own.
  if (const SpeculationSettings& how = engine.parts_.settings.speculation;
      how.most_tokens > 0 && !guide && !sequence.request.sampling.prompt_logprobs) {
    guessable = true;
    if (!engine.parts_.draft) speculator.emplace(how);
  }
  sequence.longest = std::min(sequence.prompt_tokens() + sequence.request.sampling.max_tokens,
                              engine.parts_.settings.max_model_len);
}

LocalEngine::LocalEngine(EngineParts parts, Network& network, Device& device, const Clock& clock)
    : parts_(std::move(parts)),
      network_(network),
      device_(device),
      clock_(clock),
      images_(parts_.encoder_cache, parts_.store_bytes(),
              kEmbeddingPageRows * embedding_row_bytes(network.shape()),
              embedding_row_bytes(network.shape())),
      lora_slots_(network, device, parts_.settings.max_loras),
      scheduler_(parts_.scheduler, *parts_.kv, images_),
      pacer_(parts_.settings.tpot_target_ms / 1e3, parts_.settings.max_batched_tokens),
      eos_(network.shape().eos),
      draft_choice_(parts_.settings.speculation.most_tokens, parts_.draft_rows()) {
  current_.prefix_hit_tokens_by_group.resize(parts_.kv->plan().groups.size());
  current_.spec_decode_num_accepted_tokens_per_pos.resize(
      static_cast<std::size_t>(parts_.settings.speculation.most_tokens));
  update_gauges(clock_.now());
}

// A step that was planned ahead may be under way though all answers have ended.
LocalEngine::~LocalEngine() {
  try {
    device_.synchronize();
  } catch (const std::exception&) {
    // Of a device, or of ranks, that have failed: said when it happened.
  }
}

Result<void> LocalEngine::make_encoder(ImageExchange* exchange, bool tower) {
  if (!network_.shape().has_vision) return {};
  const auto wake = [this] {
    {
      const std::lock_guard lock(inbox_mutex_);
      pixels_came_ = true;
    }
    wake_.notify_one();
  };
  if (exchange != nullptr) {
    remote_ = std::make_unique<RemoteImages>(*exchange);
    exchange->set_wake(wake);
  }
  if (!tower) return {};
  TRY(encoder_, EncoderQueue::create(
                    network_, device_, parts_.encoder, clock_,
                    [this](const Digest& key, View rows) { publish(key, rows); },
                    [this](const Digest& key, const Error& error) { failed_here(key, error); },
                    [this](const Digest& key) { return wanted(key); }));
  pixels_ = std::make_unique<PixelLoader>(parts_.settings.pixel_threads,
                                          parts_.settings.max_pixel_bytes, wake);
  lent_ = std::make_unique<LentImages>(device_, clock_, parts_.encoder.max_rows, wake);
  encoder_->set_observer([this](const EncoderQueue::Event& event) { observe(event); });
  return {};
}

// --- any thread ---

Result<void> LocalEngine::validate(const Request& request) const {
  const Prompt& prompt = *request.prompt;
  const EngineSettings& settings = parts_.settings;
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  if (request.adapter != nullptr && settings.max_loras == 0)
    return fail(ErrorCode::kInvalid, "adapter '{}': the engine was made for none",
                request.adapter->name());
  if (request.adapter != nullptr && request.adapter->max_rank() > settings.max_lora_rank)
    return fail(ErrorCode::kInvalid, "adapter '{}' has rank {}, the engine was made for {}",
                request.adapter->name(), request.adapter->max_rank(), settings.max_lora_rank);
  if (length == 0) return fail(ErrorCode::kInvalid, "the prompt has no tokens");
  if (length + 1 > settings.max_model_len) {
    return fail(ErrorCode::kInvalid,
                "the prompt has {} tokens, and with one token of answer the model takes {}", length,
                settings.max_model_len);
  }
  for (const TokenId id : prompt.ids) {
    if (id < 0 || id >= network_.shape().vocab + network_.shape().placeholders) {
      return fail(ErrorCode::kInvalid, "token id {} is not in the vocabulary of {}", id,
                  network_.shape().vocab);
    }
  }
  // What follows from a placeholder has a row of logits, and the placeholder itself has none.
  if (request.sampling.prompt_logprobs) {
    const auto placeholder = std::find_if(prompt.ids.begin() + 1, prompt.ids.end(),
                                          [&](TokenId id) { return id >= network_.shape().vocab; });
    if (placeholder != prompt.ids.end())
      return fail(ErrorCode::kUnsupported,
                  "prompt_logprobs of a prompt with an image: its token {} is none of the {} that "
                  "the model gives probabilities",
                  *placeholder, network_.shape().vocab);
  }
  CHECK(prompt.positions.size() == static_cast<std::size_t>(network_.shape().position_axes),
        "{} position axes, the model has {}", prompt.positions.size(),
        network_.shape().position_axes);
  const auto listed = [&](std::string_view name, std::optional<int> logprobs) -> Result<void> {
    if (logprobs.value_or(0) <= settings.max_logprobs) return {};
    return fail(ErrorCode::kInvalid, "{} is {}, the engine is set up for {}", name, *logprobs,
                settings.max_logprobs);
  };
  TRY_DO(listed("logprobs", request.sampling.logprobs));
  TRY_DO(listed("prompt_logprobs", request.sampling.prompt_logprobs));
  if (request.sampling.max_tokens < 1) {
    return fail(ErrorCode::kInvalid, "max_tokens is {}, at least 1 is needed",
                request.sampling.max_tokens);
  }
  // Decode rows of others may take all but this much of a step.
  const std::int64_t step = settings.max_batched_tokens - settings.max_sequences + 1;
  if (least_step_tokens(prompt) > step) {
    return fail(ErrorCode::kInvalid,
                "{} tokens that attend both ways must be computed in one step, which leaves {} "
                "(max_num_batched_tokens {} less max_num_seqs {})",
                least_step_tokens(prompt), step, settings.max_batched_tokens,
                settings.max_sequences);
  }
  return validate_images(request);
}

Result<void> LocalEngine::validate_images(const Request& request) const {
  if (request.images->empty()) return {};
  if (!encoder_ && !remote_) return fail(ErrorCode::kUnsupported, "the model takes no images");
  TRY_DO(check_images_fit(request));
  const auto what = [](const ImageLayout& image, std::size_t i) {
    return image.frames > 0 ? fmt::format("a group of {} frames", image.frames)
                            : fmt::format("image {}", i);
  };
  std::int64_t together = 0;
  for (std::size_t i = 0; i < request.images->size(); ++i) {
    const ImageLayout& image = (*request.images)[i].layout;
    const std::int64_t rows = image.tokens;
    if (rows > parts_.encoder.max_rows) {
      return fail(ErrorCode::kTooLarge,
                  "{} takes {} tokens, and the encoder is set up for {} (encoder cache {} bytes, "
                  "max_model_len {})",
                  what(image, i), rows, parts_.encoder.max_rows,
                  parts_.settings.encoder_cache_bytes, parts_.settings.max_model_len);
    }
    if (patch_rows(image) > parts_.encoder.max_patches) {
      return fail(ErrorCode::kTooLarge, "{} has {} patches, the encoder is set up for {}",
                  what(image, i), patch_rows(image), parts_.encoder.max_patches);
    }
    const std::int64_t pages = (rows + kEmbeddingPageRows - 1) / kEmbeddingPageRows;
    together += pages * kEmbeddingPageRows * embedding_row_bytes(network_.shape());
  }
  const bool at_once = request.prompt->bidirectional_prefix > 0;
  if (at_once && parts_.arena && together > parts_.store_bytes()) {
    return fail(ErrorCode::kTooLarge,
                "the images' embeddings take {} bytes at once, the encoder cache has {}", together,
                parts_.store_bytes());
  }
  return {};
}

Result<void> LocalEngine::check_images_fit(const Request& request) const {
  return check_cross_images_fit(request, parts_.settings, *parts_.kv);
}

// With inbox_mutex_ held.
Result<void> LocalEngine::check_room(ClientId client) const {
  const std::int64_t most = parts_.settings.max_waiting;
  const auto found = waiting_of_.find(client);
  const std::int64_t own = found == waiting_of_.end() ? 0 : found->second;
  if (own >= most)
    return fail(ErrorCode::kExhausted, "{} requests are waiting, the limit is {}", own, most);
  const std::int64_t all = not_running_ + static_cast<std::int64_t>(arrivals_.size());
  const std::int64_t most_of_all = most * EngineSettings::kClientsWaiting;
  if (all >= most_of_all)
    return fail(ErrorCode::kExhausted, "{} requests of all clients are waiting, the limit is {}",
                all, most_of_all);
  return {};
}

Result<RequestId> LocalEngine::submit(Request request, Sink sink) {
  auto valid = validate(request);
  const RequestId id = next_id_++;
  request.id = id;
  const ClientId client = parts_.scheduler.fair ? request.client : 0;
  if (request.times.queued == 0) request.times.queued = clock_.now();
  std::unique_ptr<Live> made;
  if (valid) made = std::make_unique<Live>(std::move(request), std::move(sink), *this);
  {
    const std::lock_guard lock(inbox_mutex_);
    // What a sink submits goes on with what it is the sink of, which was admitted.
    if (valid && telling_ != std::this_thread::get_id()) valid = check_room(client);
    if (valid && stopping_) valid = fail(ErrorCode::kUnavailable, "the engine has stopped");
    if (!valid) {
      ++rejections_;
      return fail(std::move(valid).error());
    }
    arrivals_.push_back(std::move(made));
    ++waiting_of_[client];
    ++unfinished_;
  }
  wake_.notify_one();
  return id;
}

void LocalEngine::cancel(RequestId id) {
  {
    const std::lock_guard lock(inbox_mutex_);
    cancellations_.push_back(id);
  }
  wake_.notify_one();
}

EngineStats LocalEngine::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return published_;
}

bool LocalEngine::reset_prefix_cache() {
  if (unfinished_ > 0) return false;
  {
    const std::lock_guard lock(inbox_mutex_);
    reset_prefixes_ = true;
  }
  wake_.notify_one();
  return true;
}

void LocalEngine::reset_mm_cache() {
  {
    const std::lock_guard lock(inbox_mutex_);
    reset_images_ = true;
  }
  wake_.notify_one();
}

void LocalEngine::stop() {
  {
    const std::lock_guard lock(inbox_mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
}

// --- the engine thread ---

bool LocalEngine::drain() {
  std::vector<std::unique_ptr<Live>> arrivals;
  std::vector<RequestId> cancellations;
  bool reset_prefixes = false;
  bool reset_images = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    arrivals.swap(arrivals_);
    cancellations.swap(cancellations_);
    reset_prefixes = std::exchange(reset_prefixes_, false);
    reset_images = std::exchange(reset_images_, false);
    current_.admission_rejections = rejections_;
    not_running_ += static_cast<std::int64_t>(arrivals.size());
  }
  if (reset_prefixes) parts_.kv->reset_prefix_cache();
  if (reset_images) images_.clear();
  for (auto& arrival : arrivals) {
    Live& live = *arrival;
    lives_.emplace(live.sequence.request.id, std::move(arrival));
    scheduler_.add(live.sequence);
    if (live.guide) masks_.ask(live.guide);
    current_.request_params_max_tokens.observe(
        static_cast<double>(live.sequence.request.sampling.max_tokens));
  }
  masks_.start();
  for (const RequestId id : cancellations) {
    const auto found = lives_.find(id);
    if (found == lives_.end()) continue;
    scheduler_.finish(found->second->sequence);
    Delta delta;
    delta.finish = FinishReason::kCancelled;
    finish(*found->second, std::move(delta), clock_.now());
  }
  return !arrivals.empty() || !cancellations.empty() || reset_prefixes || reset_images;
}

bool LocalEngine::woken() const {
  return stopping_ || !arrivals_.empty() || !cancellations_.empty() || reset_prefixes_ ||
         reset_images_ || pixels_came_;
}

bool LocalEngine::arrived() {
  const std::lock_guard lock(inbox_mutex_);
  return !arrivals_.empty() || !cancellations_.empty();
}

bool LocalEngine::step() {
  bool busy = drain();
  // This order: taking pixels lowers the flag that news and others' images raise too.
  if (pixels_) busy = take_pixels() || busy;
  if (lent_) busy = take_lent() || busy;
  if (remote_) busy = take_news() || busy;
  busy = take_given() || busy;
  const Nanos begin = clock_.now();
  const bool encoding = encoder_ && !encoder_->idle();
  StepPlan plan =
      scheduler_.plan(pacer_.begin(scheduler_, encoding, encoding ? encoder_->stage_seconds() : 0));
  for (const EncodeWish& wish : plan.encodes) want_image(wish);
  const Nanos planned = clock_.now();
  count_plan(plan, planned);
  if (parts_.draft) {
    for (Sequence* sequence : plan.preempted) parts_.draft->release(live(*sequence).reader);
  }
  for (const KvCopy& copy : plan.copies) parts_.pool->copy(step_stream(), copy);
  busy = busy || !plan.empty() || !plan.started.empty() || !plan.preempted.empty();
  const bool computes = !plan.empty();
  if (computes) {
    current_.stage_plan.observe(seconds(planned - begin));
    launch(std::move(plan));
  }
  // The next plan is made while the last one runs, as far as the settings let it.
  const auto most = static_cast<std::size_t>(parts_.settings.steps_in_flight);
  if (in_flight_.size() >= (computes ? most : 1)) {
    settle();
    busy = true;
    if (encoder_ && !encoder_->idle()) publish_step();  // tokens go out before it goes on
  }
  const bool encoded = encoder_ && encode();
  if (encoded && !computes && in_flight_.empty()) wait_for_encoder();
  pacer_.end();
  if (!busy && !encoded && given_.empty()) return false;
  ++current_.steps;
  if (!computes) ++current_.steps_without_forward;
  publish_step();
  return true;
}

// Stages of the encoder, as many as the step has time for, no further than the end of a batch or an
// arrival. False: there was nothing to do.
bool LocalEngine::encode() {
  bool busy = encoder_->prune();
  while (!encoder_->idle() && !encoder_->waits() &&
         pacer_.another_stage(encoder_->stage_seconds())) {
    const Nanos begin = clock_.now();
    const bool complete = encoder_->advance();
    pacer_.staged(seconds(clock_.now() - begin));
    busy = true;
    if (complete || arrived()) break;
  }
  return busy || !encoder_->idle();
}

// With nothing else to do, for what the device makes: until it is there, or something comes.
void LocalEngine::wait_for_encoder() {
  constexpr std::chrono::microseconds kLook{50};
  while (encoder_->waits()) {
    std::unique_lock lock(inbox_mutex_);
    if (wake_.wait_for(lock, kLook, [&] { return woken(); })) return;
  }
}

void LocalEngine::publish_step() {
  update_gauges(clock_.now());
  if (after_step_) after_step_();
}

void LocalEngine::launch(StepPlan plan) {
  InFlight& step = in_flight_.emplace_back();
  step.plan = std::move(plan);
  step.launched = clock_.now();
  for (const PlannedRows& rows : step.plan.rows) {
    Live& of = live(*rows.sequence);
    if (of.times.first_scheduled == 0) of.times.first_scheduled = step.launched;
  }
  const std::int64_t padded = graph_rows_of(step.plan, parts_.graph_rows);
  if (padded > 0) step_stream().begin_repeated(padded);
  const Batch batch =
      parts_.batches->build(step_stream(), step.plan, parts_.sampling->last_tokens(), *parts_.pool,
                            images_, parts_.arena ? &*parts_.arena : nullptr, &lora_slots_, padded);
  current_.encoder_tokens_consumed += static_cast<std::uint64_t>(parts_.batches->embedding_rows());
  network_.forward(step_stream(), batch);
  if (padded > 0) step_stream().end_repeated();
  step.forwarded = clock_.now();
  sample(step, batch);
  score_prompts(step.plan);
  step_stream().retire();
  if (step.ticket.done.passed()) step.done = clock_.now();
  scheduler_.launch(step.plan);
}

// The last delta. The scheduler has let go of the sequence already.
void LocalEngine::finish(Live& of, Delta&& delta, Nanos now) {
  RequestTimes& times = of.times;
  times.finished = now;
  ++current_.requests_finished[static_cast<std::size_t>(delta.finish)];
  const Sequence& sequence = of.sequence;
  if (times.first_token > 0) {
    const Nanos arrival = times.arrival > 0 ? times.arrival : times.queued;
    current_.e2e_request_latency.observe(seconds(now - arrival));
    current_.request_inference_time.observe(seconds(now - times.first_scheduled));
    current_.request_prefill_time.observe(seconds(times.first_token - times.first_scheduled));
    current_.request_decode_time.observe(seconds(now - times.first_token));
    current_.request_prompt_tokens.observe(static_cast<double>(sequence.prompt_tokens()));
    current_.request_generation_tokens.observe(static_cast<double>(sequence.generated()));
  }
  if (parts_.draft) parts_.draft->release(of.reader);
  const RequestId id = sequence.request.id;
  tell(of, std::move(delta));
  const auto found = lives_.find(id);
  if (sequence.in_flight > 0) departed_.push_back(std::move(found->second));
  lives_.erase(found);
  --unfinished_;
}

// --- images ---

void LocalEngine::want_image(const EncodeWish& wish) {
  const SequenceImage& image = wish.sequence->images[static_cast<std::size_t>(wish.image)];
  const RequestImage& what =
      (*wish.sequence->request.images)[static_cast<std::size_t>(image.index)];
  if (what.source->rows() != nullptr) {
    given_.emplace_back(image.key, what.source);
  } else if (remote_) {
    remote_->want(image, what);
  } else {
    encode_here(image.key, what.source);
  }
}

EncoderQueue::Asker LocalEngine::asker_of(const Digest& key) const {
  const bool lent = lent_ && lent_->wanted(key) && !images_.wanted(key);
  return lent ? EncoderQueue::Asker::kOthers : EncoderQueue::Asker::kThisProcess;
}

void LocalEngine::encode_here(const Digest& key, const std::shared_ptr<const ImageSource>& source) {
  if (auto pixels = source->ready()) {
    encoder_->push(key, std::move(pixels), asker_of(key));
  } else if (!encoder_->contains(key)) {
    pixels_->push(key, source);
  }
}

// What has been decoded goes to the encoder. False: nothing had.
bool LocalEngine::take_pixels() {
  {
    const std::lock_guard lock(inbox_mutex_);
    pixels_came_ = false;
  }
  std::vector<PixelLoader::Loaded> loaded =
      pixels_->take([this](const Digest& key) { return wanted(key); });
  for (PixelLoader::Loaded& one : loaded) {
    if (!wanted(one.key)) continue;
    if (one.image) {
      encoder_->push(one.key, *std::move(one.image), asker_of(one.key));
    } else {
      failed_here(one.key, one.image.error());
    }
  }
  return !loaded.empty();
}

// There will be no rows under this key: the answer of all who wait for them.
void LocalEngine::fail_image(const Digest& key, const Error& error) {
  std::vector<Live*> waiting;
  for (auto& [id, of] : lives_) {
    const auto waits = [&](const SequenceImage& image) {
      return image.key == key && image.state == ImageState::kEncoding;
    };
    if (std::ranges::any_of(of->sequence.images, waits)) waiting.push_back(of.get());
  }
  for (Live* of : waiting) {
    scheduler_.finish(of->sequence);
    Delta delta;
    delta.finish = FinishReason::kError;
    delta.error = error.message;
    delta.error_code = error.code;
    finish(*of, std::move(delta), clock_.now());
  }
}

void LocalEngine::publish(const Digest& key, View rows) {
  if (remote_ && remote_->compares(key)) return remote_->compared(key, rows);
  lent_->publish(key, rows);
  if (!images_.wanted(key)) return;
  if (remote_) remote_->made_here(key, rows);
  // A step in flight may still read what the pages held, and the next one reads what they get.
  Stream& stream = device_.lane(Lane::kEncode);
  stream.wait(step_stream().record());
  write_rows(stream, key, rows);
  step_stream().wait(stream.record());
}

void LocalEngine::write_rows(Stream& stream, const Digest& key, View rows) {
  if (images_.mode() != EncoderCache::kOverlay) {
    parts_.arena->write(stream, images_.store().pages(key), rows);
    images_.set_ready(key);
    return;
  }
  for (Sequence* sequence : scheduler_.running()) {
    for (SequenceImage& image : sequence->images) {
      if (image.state == ImageState::kEncoding && image.key == key) {
        overlay(stream, *sequence, image, rows);
      }
    }
  }
}

void LocalEngine::overlay(Stream& stream, Sequence& sequence, SequenceImage& image, View rows) {
  for (const ImageSpan& span : sequence.request.prompt->images) {
    if (span.index != image.index) continue;
    // Tokens that are computed have their keys and values in these slots.
    const std::int64_t begin = std::max(span.begin, sequence.computed());
    const std::int64_t end = span.begin + span.tokens;
    if (begin >= end) continue;
    const std::int64_t first = span.first_row + begin - span.begin;
    parts_.pool->write_embeddings(stream, sequence.kv, begin,
                                  rows.row_range(first, first + end - begin));
  }
  images_.set_overlaid(image);
}

void LocalEngine::observe(const EncoderQueue::Event& event) {
  if (event.end == 0) {
    lent_->begun(event.begin);
    current_.stage_encoder_queue.observe(seconds(event.begin - event.queued), event.keys.size());
  } else {
    current_.stage_encoder_run.observe(seconds(event.end - event.begin));
    current_.encode_batch_images.observe(static_cast<double>(event.keys.size()));
    if (remote_) remote_->measured(encoder_->cost());
  }
  for (auto& [id, of] : lives_) {
    for (const SequenceImage& image : of->sequence.images) {
      if (std::find(event.keys.begin(), event.keys.end(), image.key) == event.keys.end()) continue;
      if (of->times.encode_start == 0) of->times.encode_start = event.begin;
      if (event.end > 0) of->times.encode_end = event.end;
    }
    if (event.end > 0) note_progress(of->sequence);
  }
}

}  // namespace saccade

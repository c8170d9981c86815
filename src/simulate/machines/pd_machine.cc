#include "simulate/machines/pd_machine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine_plan.h"

namespace saccade::simulate {
namespace {

constexpr int kMaxIdleSteps = 100'000;  // without time: an engine that would never sleep
constexpr TokenId kTokens = 1 << 16;    // different ones that answers are made of

TokenId token_of(RequestId id, std::int64_t number) {
  return static_cast<TokenId>(hash_combine(id, static_cast<std::uint64_t>(number)) % kTokens);
}

const std::string& zeros() {
  static const std::string bytes(std::size_t{1} << 20, '\0');
  return bytes;
}

}  // namespace

TimedImage::TimedImage(const ImageLayout& layout, std::size_t media)
    : media_(std::min(media, zeros().size())) {
  auto image = std::make_shared<PreparedImage>();
  image->layout = layout;
  image_ = std::move(image);
}

PortableImage TimedImage::portable() const {
  return {{std::string_view(zeros()).substr(0, media_)}, "timed"};
}

PdMachine::PdMachine(const PdMachineSettings& settings, EventLoop& loop, RunRecorder& recorder,
                     Ended ended)
    : settings_(settings),
      loop_(loop),
      recorder_(recorder),
      ended_(std::move(ended)),
      clock_(loop.clock()),
      tower_(settings.costs.encode, settings.costs.noise, hash_combine(settings.seed, 1), clock_),
      noise_(settings.costs.noise, hash_combine(settings.seed, 2)),
      pacer_(settings.engine.tpot_target_ms / 1e3, settings.engine.decode_share,
             settings.engine.max_batched_tokens),
      pixel_threads_(static_cast<std::size_t>(std::max(1, settings.engine.pixel_threads)), 0) {}

PdMachine::~PdMachine() = default;

Result<std::unique_ptr<PdMachine>> PdMachine::create(const PdMachineSettings& settings,
                                                     const PdSurroundings& in, Ended ended) {
  auto machine =
      std::unique_ptr<PdMachine>(new PdMachine(settings, in.loop, in.recorder, std::move(ended)));
  TRY_DO(machine->set_up(in.model, in.device, in.images));
  return machine;
}

// --- requests ---

Result<void> PdMachine::validate(const Request& request) const {
  const auto length = static_cast<std::int64_t>(request.prompt->ids.size());
  if (length + 1 > settings_.engine.max_model_len)
    return saccade::fail(
        ErrorCode::kInvalid,
        "the prompt has {} tokens, and with one token of answer the model takes {}", length,
        settings_.engine.max_model_len);
  for (const RequestImage& image : *request.images) {
    if (image.layout.tokens > limits_.max_rows)
      return saccade::fail(ErrorCode::kTooLarge,
                           "an image takes {} tokens, and the encoder is set up for {}",
                           image.layout.tokens, limits_.max_rows);
  }
  TRY_DO(check_cross_images_fit(request, settings_.engine, *kv_));
  const std::int64_t waiting = scheduler_->waiting() + static_cast<std::int64_t>(inbox_.size());
  if (waiting >= settings_.engine.max_waiting)
    return saccade::fail(ErrorCode::kExhausted, "{} requests are waiting, the limit is {}", waiting,
                         settings_.engine.max_waiting);
  return {};
}

Result<void> PdMachine::submit(std::uint32_t index, Request request) {
  TRY_DO(validate(request));
  request.id = ++last_id_;
  request.times.queued = loop_.now();
  auto sequence = std::make_unique<ActiveSequence>(
      index, std::move(request), kv_->plan().block_tokens, settings_.engine.max_model_len);
  inbox_.push_back(std::move(sequence));
  wake();
  return {};
}

void PdMachine::wake() {
  if (stage_ != Stage::kAsleep) return;
  stage_ = Stage::kBegin;
  due_ = loop_.now();
  if (!going_) loop_.step_at(due_, *this);
}

// --- steps ---

void PdMachine::advance(Nanos at, Nanos horizon) {
  going_ = true;
  now_ = at;
  while (true) {
    switch (stage_) {
      case Stage::kBegin:
        begin();
        break;
      case Stage::kForward:
        settle();
        break;
      case Stage::kEncode:
        staged();
        break;
      case Stage::kAsleep:
        break;
    }
    if (stage_ == Stage::kAsleep) break;
    const bool at_once = due_ == now_ && stage_ != Stage::kBegin;
    if (!at_once && (!undisturbed() || due_ >= horizon)) {
      loop_.step_at(due_, *this);
      break;
    }
    now_ = due_;
  }
  going_ = false;
}

// Nobody waits, nothing is encoded and nothing is awaited: until the next event from outside, what
// this machine does concerns nobody else.
bool PdMachine::undisturbed() const {
  return inbox_.empty() && pixels_.empty() && loading_.empty() && scheduler_->waiting() == 0 &&
         (!encoder_ || (encoder_->idle() && !encoder_->running())) &&
         (!remote_ || remote_->open() == 0);
}

bool PdMachine::drain() {
  auto arrivals = std::exchange(inbox_, {});
  for (auto& arrival : arrivals) {
    ActiveSequence& sequence = *arrival;
    active_.emplace(sequence.request.id, std::move(arrival));
    scheduler_->add(sequence);
  }
  return !arrivals.empty();
}

// As LocalEngine::step().
void PdMachine::begin() {
  ++counts_.steps;
  busy_ = drain();
  for (auto& [key, image] : std::exchange(pixels_, {})) {
    busy_ = true;
    if (images_->wanted(key)) encoder_->push(key, std::move(image));
  }
  if (remote_) busy_ = take_news() || busy_;
  const bool encoding = encoder_ && !encoder_->idle();
  plan_ = scheduler_->plan(
      pacer_.begin(*scheduler_, encoding, encoding ? encoder_->stage_seconds() : 0));
  for (const EncodeRequest& encode : plan_.encodes) want_image(encode);
  for (const Sequence* sequence : plan_.started) note_progress(*sequence);
  counts_.preemptions += plan_.preempted.size();
  busy_ = busy_ || !plan_.empty() || !plan_.started.empty() || !plan_.preempted.empty();
  computes_ = !plan_.empty();
  if (!computes_) {
    if (encoder_) busy_ = encoder_->prune() || busy_;
    return encode();
  }
  idle_steps_ = 0;
  StepWork work;
  work.decode_rows = plan_.decode_rows;
  for (const PlannedRows& rows : plan_.rows) {
    ActiveSequence& sequence = static_cast<ActiveSequence&>(*rows.sequence);
    if (sequence.times.first_scheduled == 0) sequence.times.first_scheduled = now_;
    if (rows.count == 1) {
      work.decode_context += rows.begin;
    } else {
      work.prefill_context +=
          static_cast<double>(rows.count) *
          (static_cast<double>(rows.begin) + static_cast<double>(rows.count) / 2);
    }
  }
  work.prefill_tokens = plan_.tokens - plan_.decode_rows;
  scheduler_->launch(plan_);
  took_ = noise_.of(settings_.costs.step_ms(work));
  stage_ = Stage::kForward;
  due_ = now_ + took_;
}

void PdMachine::settle() {
  sampled_.clear();
  for (const PlannedRows& rows : plan_.rows)
    sampled_.push_back(token_of(rows.sequence->request.id, rows.sequence->known()));
  scheduler_->settle(plan_, sampled_);
  for (const PlannedRows& rows : plan_.rows) {
    if (!rows.sequence->ended() && rows.begin < rows.sequence->prompt_tokens())
      note_progress(*rows.sequence);
  }
  pacer_.forwarded(plan_, seconds(took_));
  counts_.busy_seconds += seconds(took_);
  if (plan_.tokens > plan_.decode_rows) {
    stats_.prefill_busy_seconds += seconds(took_);
    stats_.prefill_tokens += static_cast<std::uint64_t>(plan_.tokens - plan_.decode_rows);
  }
  for (const PlannedRows& rows : plan_.rows) {
    if (!rows.samples || rows.sequence->ended()) continue;
    ActiveSequence& sequence = static_cast<ActiveSequence&>(*rows.sequence);
    if (sequence.times.first_token == 0) sequence.times.first_token = now_;
    recorder_.token(sequence.index, now_);
    if (sequence.known() < sequence.max_length) continue;
    scheduler_->finish(sequence);
    finish(sequence, {});
  }
  if (encoder_) encoder_->prune();
  encode();
}

// Stages of the encoder, as many as the step has time for.
void PdMachine::encode() {
  if (!encoder_ || encoder_->idle() || !pacer_.another_stage(encoder_->stage_seconds()))
    return end_step();
  clock_.rejoin();
  complete_ = encoder_->advance();
  took_ = clock_.rejoin();
  idle_steps_ = 0;
  stage_ = Stage::kEncode;
  due_ = now_ + took_;
}

// What the stage has made is there when it is over, and not before.
void PdMachine::staged() {
  pacer_.staged(seconds(took_));
  stats_.encoder_busy_seconds += seconds(took_);
  counts_.busy_seconds += seconds(took_);
  busy_ = true;
  for (const Digest& key : std::exchange(made_, {})) publish(key, now_);
  for (const EncoderQueue::Event& event : std::exchange(seen_, {})) observe(event);
  if (complete_ || !inbox_.empty()) return end_step();
  encode();
}

void PdMachine::end_step() {
  pacer_.end();
  const bool more = busy_ || (encoder_ && !encoder_->idle());
  const bool news = !inbox_.empty() || !pixels_.empty() || (exchange_ && exchange_->has_news());
  if (!more && !news) {
    stage_ = Stage::kAsleep;
    return;
  }
  CHECK(++idle_steps_ < kMaxIdleSteps, "the engine turns and does nothing:\n{}", describe());
  stage_ = Stage::kBegin;
  due_ = now_;
}

void PdMachine::finish(ActiveSequence& sequence, const Error& error) {
  sequence.times.finished = now_;
  if (error.message.empty()) {
    recorder_.finished(sequence.index,
                       {sequence.prompt_tokens(), sequence.layout.image_tokens,
                        sequence.progress->cached_tokens, sequence.generated(), sequence.times});
  }
  const std::uint32_t index = sequence.index;
  const bool begun = sequence.times.first_token != 0;
  CHECK(sequence.progress->in_flight == 0, "request {} ends with rows in flight",
        sequence.request.id);
  active_.erase(sequence.request.id);
  ended_(index, error, now_, begun);
}

const EngineStats& PdMachine::stats() {
  if (encoder_) {
    stats_.images_encoded = encoder_->stats().images;
    stats_.encoder_tokens_computed = encoder_->stats().rows;
  }
  return stats_;
}

}  // namespace saccade::simulate

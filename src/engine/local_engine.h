// The engine of this process: what Engine promises, done by one thread over one model.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/admission/step_pacer.h"
#include "engine/drafting/draft_choice.h"
#include "engine/drafting/speculation.h"
#include "engine/engine_setup.h"
#include "engine/images/lent_images.h"
#include "engine/images/pixel_loader.h"
#include "engine/images/remote_images.h"
#include "engine/step/mask_thread.h"
#include "engine/step/sampler.h"
#include "engine/step/stop_checker.h"

namespace saccade {

// Members without a note belong to the engine thread.
class LocalEngine final : public Engine {
 public:
  // The parts have been set up for this network on this device.
  LocalEngine(EngineParts parts, Network& network, Device& device, const Clock& clock);
  ~LocalEngine() override;

  // Once, before anything else. `exchange`: who decides where images are encoded; null: here. With
  // `tower` false all are encoded elsewhere.
  Result<void> make_encoder(ImageExchange* exchange, bool tower);

  // The same parts, after an engine of their own has run what `with` has for it.
  static Result<EngineParts> warmed_up(EngineParts parts, Network& network, Device& device,
                                       const Clock& clock, bool tower, const WarmUp& with);

  Result<RequestId> submit(Request request, Sink sink) override;
  void cancel(RequestId id) override;
  bool step() override;
  void run() override;
  void stop() override;
  void set_after_step(std::function<void()> callback) override {
    after_step_ = std::move(callback);
  }
  std::int64_t max_image_patches() const override { return parts_.encoder.max_patches; }
  const EngineSettings& settings() const override { return parts_.settings; }
  LentImages* lent() override { return lent_.get(); }
  EngineStats stats() const override;
  bool reset_prefix_cache() override;
  void reset_mm_cache() override;

  // Engine thread: what the parts hold, for tests and tools.
  const EngineParts& parts() const { return parts_; }
  const ImagePlanner& images() const { return images_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  // A request from submission to its last delta.
  struct Live {
    Live(Request request, Sink to, const LocalEngine& engine);
    Sequence sequence;
    Sink sink;
    StopChecker stop;
    SamplerState sampler;
    std::shared_ptr<GuidedSequence> guide;  // null: free text
    bool guessable = false;                 // tokens may be guessed
    std::optional<Speculator> speculator;   // from the text; absent with a draft model
    std::optional<DraftRecord> drafted;     // of a draft model, once it has been asked
    DraftReader reader;
    std::vector<TokenLogprob> prompt_logprobs;  // so far; until the first token
    bool unscorable = false;                    // logits of the prompt are not numbers
    RequestTimes times;
    Nanos last_token = 0;
  };

  Result<void> run_all(std::vector<Request> requests);  // until each has its last delta
  Result<void> validate(const Request& request) const;
  Result<void> check_room(ClientId client) const;
  Result<void> validate_images(const Request& request) const;
  Result<void> check_images_fit(const Request& request) const;

  // What a settled step gave. Row i of the plan has `counts[i]` of the tokens and deltas.
  struct Answered {
    std::vector<TokenId> tokens;
    std::vector<Delta> deltas;  // of each token; none is behind the one that ends the answer
    std::vector<std::size_t> counts;
  };

  // A step that is under way: what was asked for, and what comes of it.
  struct InFlight {
    StepPlan plan;
    SamplingLane::Ticket ticket;  // of the rows that sample, in the plan's order
    Nanos launched = 0;
    Nanos forwarded = 0;
    Nanos done = 0;
  };

  bool drain();
  void run_until_stopped();
  void end_all();
  void give_up();
  bool arrived();
  bool woken() const;  // there is something for the next step; with inbox_mutex_ held
  void launch(StepPlan plan);
  void settle();
  bool encode();
  void wait_for_encoder();
  void publish_step();
  Stream& step_stream() { return device_.lane(Lane::kStep); }
  void sample(InFlight& step, const Batch& batch);
  void score_prompts(const StepPlan& plan);
  Answered answer(const StepPlan& plan, std::vector<Sampled>& all);
  void count_draft(const PlannedRows& rows, std::span<const Sampled> sampled);
  void deliver(const StepPlan& plan, Answered& answered, Nanos now);
  void guess_next();
  void ask_draft(double row_price);
  DraftPrices draft_prices(double row_price) const;
  bool asks_draft(Live& of, std::int64_t count, DraftModel::Ask& ask);
  // `later`: tokens of this step that come behind it.
  void tell(Live& of, Delta&& delta, std::size_t later = 0);
  void name_contradiction(Live& of, Delta& delta);
  Delta take_token(Live& of, Sampled& sampled);
  void count_token(Live& of, Nanos now);
  void finish(Live& of, Delta&& delta, Nanos now);
  void want_image(const EncodeWish& wish);
  EncoderQueue::Asker asker_of(const Digest& key) const;
  void encode_here(const Digest& key, const std::shared_ptr<const ImageSource>& source);
  bool take_pixels();
  bool take_news();
  bool take_lent();
  bool take_given();
  bool wanted(const Digest& key) const;  // by a request, by others, or for comparison
  void failed_here(const Digest& key, const Error& error);
  void publish_host(const Digest& key, std::span<const std::byte> bytes);
  void fail_image(const Digest& key, const Error& error);
  void publish(const Digest& key, View rows);
  void write_rows(Stream& stream, const Digest& key, View rows);
  void overlay(Stream& stream, Sequence& sequence, SequenceImage& image, View rows);
  void observe(const EncoderQueue::Event& event);
  void count_plan(const StepPlan& plan, Nanos now);
  void note_progress(const Sequence& sequence);
  void publish_waiting();
  void list_loras();
  void update_gauges(Nanos now);
  // `later`: tokens that are known and go out with later deltas.
  RequestUsage usage(const Sequence& sequence, std::size_t later = 0) const;
  Live& live(const Sequence& sequence) { return *lives_.at(sequence.request.id); }

  EngineParts parts_;
  Network& network_;
  Device& device_;
  const Clock& clock_;
  ImagePlanner images_;
  LoraSlots lora_slots_;
  Scheduler scheduler_;
  std::vector<std::pair<Digest, std::shared_ptr<const ImageSource>>> given_;  // wanted, by key
  std::unique_ptr<EncoderQueue> encoder_;  // null: no images, or no tower
  std::unique_ptr<RemoteImages> remote_;   // null: all images are encoded here
  std::unique_ptr<LentImages> lent_;       // null: no tower
  StepPacer pacer_;
  std::vector<TokenId> eos_;
  std::unordered_map<RequestId, std::unique_ptr<Live>> lives_;
  std::vector<SamplingRow> sampling_rows_;
  std::vector<TokenId> guesses_;  // of each of them, as SamplingLane::launch has it
  std::vector<Live*> to_guess_;   // whose tokens have just become known
  DraftChoice draft_choice_;
  GuessRate draft_rate_{1.0 / 64};  // of all sequences
  MaskThread masks_;
  std::deque<InFlight> in_flight_;               // as launched; at most settings.steps_in_flight
  std::vector<std::unique_ptr<Live>> departed_;  // have ended, with rows in flight
  Nanos settled_done_ = 0;                       // InFlight::done of the step settled last
  std::function<void()> after_step_;
  EngineStats current_;  // published at the end of a step
  Nanos measured_at_ = 0;
  Nanos gauges_at_ = 0;

  std::atomic<RequestId> next_id_{1};
  std::atomic<std::int64_t> not_running_{0};  // among lives_
  std::atomic<std::int64_t> unfinished_{0};   // submitted, last delta not delivered
  std::atomic<bool> stopping_{false};
  std::atomic<std::thread::id> telling_{};  // in a sink; none: no thread is
  std::mutex inbox_mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<Live>> arrivals_;            // guarded by inbox_mutex_
  std::vector<RequestId> cancellations_;                   // guarded by inbox_mutex_
  std::unordered_map<ClientId, std::int64_t> waiting_of_;  // guarded by inbox_mutex_
  bool reset_prefixes_ = false;                            // guarded by inbox_mutex_
  bool reset_images_ = false;                              // guarded by inbox_mutex_
  bool pixels_came_ = false;                               // guarded by inbox_mutex_
  std::uint64_t rejections_ = 0;                           // guarded by inbox_mutex_
  mutable std::mutex stats_mutex_;
  EngineStats published_;                // guarded by stats_mutex_
  std::unique_ptr<PixelLoader> pixels_;  // null: no images. Last: its threads wake the engine
};

}  // namespace saccade

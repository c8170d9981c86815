// The engine of this process: what Engine promises, done by one thread over one model.
//
//   any thread        RequestGate    requests are judged and wait; cancellations, resets, stop
//                     EngineMeter    stats(), as of the last step
//                     LentImages     images of other processes (lent())
//   the engine's      Scheduler      decides who computes what in the next step; pure
//   thread            StepRunner     launches that on the device, and settles it
//                     ImageDesk      images, from wanted to rows that the model reads
//                     Drafter        draft tokens
//                     ActiveRequests answers under way
//
// The gate, the meter and what the desk's threads hand over each have a mutex of their own, held
// while nobody is called. Whoever leaves something for the engine's thread notifies `events_`: that
// is all that wakes it.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/admission/request_gate.h"
#include "engine/engine.h"
#include "engine/engine_meter.h"
#include "engine/images/image_desk.h"
#include "engine/step/step_runner.h"

namespace saccade {

class LocalEngine final : public Engine {
 public:
  // The parts have been set up for this network on this device. `exchange`: who decides where
  // images are encoded; null: here. With `tower` false all are encoded elsewhere.
  static Result<std::unique_ptr<LocalEngine>> create(EngineParts parts, Network& network,
                                                     Device& device, const Clock& clock,
                                                     ImageExchange* exchange, bool tower);
  ~LocalEngine() override;

  // --- any thread ---
  Result<RequestId> submit(Request request, Sink sink) override {
    return gate_.submit(std::move(request), std::move(sink));
  }
  void cancel(RequestId id) override { gate_.cancel(id); }
  void stop() override { gate_.stop(); }
  bool reset_prefix_cache() override { return gate_.reset_prefix_cache(); }
  void reset_mm_cache() override { gate_.reset_image_cache(); }
  EngineStats stats() const override { return meter_.stats(); }
  LentImages* lent() override { return desk_.lent(); }
  const EngineSettings& settings() const override { return parts_.settings; }
  std::int64_t max_image_patches() const override { return parts_.encoder.max_patches; }

  // --- the engine's thread ---
  bool step() override;
  void run() override;
  void settle_all();  // whatever is in flight
  // The last call: the parts can be another engine's.
  EngineParts take_parts() { return std::move(parts_); }

  // Before the first step.
  void set_after_step(std::function<void()> callback) override {
    after_step_ = std::move(callback);
  }

  // What the parts hold, for tests and tools.
  const EngineParts& parts() const { return parts_; }
  const ImagePlanner& images() const { return images_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  LocalEngine(EngineParts parts, Network& network, Device& device, const Clock& clock,
              bool takes_images);

  // Tokens of a settled step. Row i of the plan has `counts[i]` of the tokens and deltas.
  struct Answered {
    std::vector<TokenId> tokens;
    std::vector<Delta> deltas;  // of each token; none is behind the one that ends the answer
    std::vector<std::size_t> counts;
  };

  bool take_inbox();
  StepPlan plan();
  void launch(StepPlan plan);
  void settle();
  Answered answer(const StepPlan& plan, std::vector<Sampled>& all);
  void deliver(const StepPlan& plan, Answered& answered, Nanos now);
  void send(ActiveRequest& of, Delta&& delta, std::size_t later = 0);
  void count_end(ActiveRequest& of, FinishReason how, Nanos now);
  void finish(ActiveRequest& of, Delta&& delta);
  void finish_with(ActiveRequest& of, const Error& error);
  void fail_image(const Digest& key, const Error& error);
  void publish();
  void run_until_stopped();
  void end_all();
  void give_up();

  EngineParts parts_;
  Device& device_;
  const Clock& clock_;
  EventCount events_;
  RequestGate gate_;
  ImagePlanner images_;
  Scheduler scheduler_;
  StepPacer pacer_;
  ActiveRequests requests_;
  MaskThread masks_;
  StepRunner steps_;
  Drafter drafter_;
  EngineMeter meter_;
  std::function<void()> after_step_;
  ImageDesk desk_;  // last: its threads notify events_
};

}  // namespace saccade

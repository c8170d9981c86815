// A machine that prefills and decodes: the production scheduler, pacer, image planner, page
// allocator and encoder queue, in the order in which LocalEngine calls them, with times that are
// predicted instead of computed tokens.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/admission/scheduler.h"
#include "engine/admission/step_pacer.h"
#include "engine/engine.h"
#include "engine/images/encoder_queue.h"
#include "engine/images/remote_images.h"
#include "simulate/machines/pd_images.h"
#include "simulate/machines/served_model.h"
#include "simulate/machines/simulated_tower.h"
#include "simulate/run_recorder.h"

namespace saccade::simulate {

struct PdMachineSettings {
  EngineSettings engine;
  CostModel costs;
  bool tower = true;
  std::uint64_t seed = 0;
};

// The simulation that a machine is part of; all of it outlives the machine.
struct PdSurroundings {
  const ServedModel& model;
  EventLoop& loop;
  Device& device;
  PdImages* images;  // where others encode; null: nobody does
  RunRecorder& recorder;
};

struct PdCounts {
  std::uint64_t steps = 0;
  std::uint64_t preemptions = 0;
  double busy_seconds = 0;  // steps and encodes
};

class PdMachine final : public Stepper {
 public:
  // How a request ended: its error, or no message; `begun`: after its first token.
  using Ended = std::function<void(std::uint32_t index, const Error& error, Nanos at, bool begun)>;

  // Settings become sizes as the engine's own set-up has it; errors name the setting.
  static Result<std::unique_ptr<PdMachine>> create(const PdMachineSettings& settings,
                                                   const PdSurroundings& in, Ended ended);
  ~PdMachine() override;

  // A request of the workload, complete but for its id and times.queued. The error is the server's.
  Result<void> submit(std::uint32_t index, Request request);

  void advance(Nanos at, Nanos horizon) override;

  const EngineSettings& settings() const { return settings_.engine; }  // as resolved
  // What EngineStats has of it and image sizes are corrected by.
  const EngineStats& stats();
  const PdCounts& counts() const { return counts_; }
  const KvAllocator& kv() const { return *kv_; }
  const ImagePlanner& images() const { return *images_; }
  const EncoderQueue* encoder() const { return encoder_.get(); }
  std::size_t active() const { return active_.size(); }
  std::string describe() const { return scheduler_->describe(); }

 private:
  struct ActiveSequence : Sequence {
    ActiveSequence(std::uint32_t of, Request asked, std::int64_t block_tokens,
                   std::int64_t max_model_len)
        : Sequence(std::move(asked), kTower, 0, block_tokens, max_model_len), index(of) {
      times = request.times;
    }
    std::uint32_t index;
    RequestTimes times;
  };
  enum class Stage : std::uint8_t { kAsleep, kBegin, kForward, kEncode };

  PdMachine(const PdMachineSettings& settings, EventLoop& loop, RunRecorder& recorder, Ended ended);
  Result<void> set_up(const ServedModel& model, Device& device, PdImages* images);
  Result<void> validate(const Request& request) const;
  void wake();

  void begin();
  void settle();
  void encode();
  void staged();
  void end_step();
  bool drain();
  bool take_news();
  void want_image(const EncodeRequest& encode);
  void encode_here(const Digest& key, const std::shared_ptr<const ImageSource>& source);
  void publish(const Digest& key, Nanos at);
  void fail_image(const Digest& key, const Error& error);
  void observe(const EncoderQueue::Event& event);
  void note_progress(const Sequence& sequence);
  void finish(ActiveSequence& sequence, const Error& error);
  bool undisturbed() const;

  PdMachineSettings settings_;
  EventLoop& loop_;
  RunRecorder& recorder_;
  Ended ended_;
  MachineClock clock_;
  SimulatedTower tower_;
  Noise noise_;
  std::unique_ptr<KvAllocator> kv_;
  std::unique_ptr<ImagePlanner> images_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<EncoderQueue> encoder_;
  std::unique_ptr<RemoteImages> remote_;
  PdImages* exchange_ = nullptr;
  StepPacer pacer_;
  EncoderLimits limits_;

  Stage stage_ = Stage::kAsleep;
  Nanos now_ = 0;  // of the machine, while it goes on
  Nanos due_ = 0;  // of the stage
  bool going_ = false;
  bool busy_ = false;  // the step in hand has done something
  bool computes_ = false;
  int idle_steps_ = 0;  // that took no time, one after another
  StepPlan plan_;
  Nanos took_ = 0;
  bool complete_ = false;  // the encode stage in hand ends a batch
  std::vector<TokenId> sampled_;
  std::vector<Digest> made_;               // by the encode stage in hand
  std::vector<EncoderQueue::Event> seen_;  // likewise
  std::vector<std::unique_ptr<ActiveSequence>> inbox_;
  std::vector<std::pair<Digest, std::shared_ptr<const PreparedImage>>> pixels_;  // ready
  std::unordered_map<Digest, bool, DigestHash> loading_;
  std::vector<Nanos> pixel_threads_;  // when each is free
  std::unordered_map<RequestId, std::unique_ptr<ActiveSequence>> active_;
  RequestId last_id_ = 0;
  EngineStats stats_;
  PdCounts counts_;
};

// An image on its way, of which only the size counts.
class TimedImage final : public ImageSource {
 public:
  // media: how much of it travels, in rows' bytes.
  TimedImage(const ImageLayout& layout, std::size_t media);
  const std::shared_ptr<const PreparedImage>& image() const { return image_; }
  Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override { return *image_; }
  std::size_t load_bytes() const override { return 0; }
  PortableImage portable() const override;

 private:
  std::shared_ptr<const PreparedImage> image_;
  std::size_t media_;
};

}  // namespace saccade::simulate

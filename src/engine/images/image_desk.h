// Everything of images between two steps: an image that a plan asks for is taken on here, and ends
// as rows where the model reads them or as a failure of all who wait for it.
//
//   want()   its rows came with the request      -> written by the next take()
//            others may encode it                -> RemoteImages, whose news say where it is made
//            else, or where the news say "here"  -> ImageEncoder
//
// Engine thread, but for lent(), whose own header says what others may call.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/admission/scheduler.h"
#include "engine/admission/step_pacer.h"
#include "engine/engine_setup.h"
#include "engine/engine_stats.h"
#include "engine/images/image_encoder.h"
#include "engine/images/remote_images.h"

namespace saccade {

class ImageDesk {
 public:
  struct Hooks {
    std::function<void()> wake;  // any thread: there is something to take. Must not block
    // Within the desk's calls. There will be no rows of an image that sequences may wait for.
    std::function<void(const Digest& key, const Error& error)> failed;
    std::function<void(const EncoderQueue::Event& event)> encoded;  // a batch begins, or is done
  };

  // All of these outlive it.
  ImageDesk(EngineParts& parts, Network& network, Device& device, const Clock& clock,
            ImagePlanner& planner, const Scheduler& scheduler);

  // Once, before anything else. `exchange`: who decides where images are encoded; null: here. With
  // `tower` false all are encoded elsewhere.
  Result<void> open(ImageExchange* exchange, bool tower, Hooks hooks);

  void want(const EncodeRequest& encode);
  // Whatever has come since the last time goes a station further. False: nothing had.
  bool take();
  // There is something to take that nobody will wake the engine for.
  bool has_given_rows() const { return !given_.empty(); }

  // Something is to be encoded here, its next stage predicted to take so long (0: nobody knows).
  bool encoding() const { return encoder_ && !encoder_->queue().idle(); }
  double stage_seconds() const { return encoding() ? encoder_->queue().stage_seconds() : 0; }
  // Stages of the encoder, or pieces of them, as many as the step has time for, no further than the
  // end of a batch or what `interrupted` says. False: there was nothing to do.
  bool encode(StepPacer& pacer, const std::function<bool()>& interrupted);
  // With nothing else to do, for what the device makes (ImageEncoder::wait()).
  void wait_for_encoder(EventCount& events, std::uint64_t seen) const {
    if (encoder_) encoder_->wait(events, seen);
  }

  LentImages* lent() { return encoder_ ? &encoder_->lent() : nullptr; }  // null: no tower
  // Nothing goes on: what others have here ends with `error`.
  void close(const Error& error);
  void count(EngineStats& to) const;

 private:
  bool take_news();
  bool take_given();
  void failed_here(const Digest& key, const Error& error);
  void publish(const Digest& key, View rows);
  void publish_host(const Digest& key, std::span<const std::byte> bytes);
  void write(Stream& stream, const Digest& key, View rows);
  void overlay(Stream& stream, const Sequence& sequence, const SequenceImage& image, View rows);
  Stream& step_stream() { return device_.lane(Lane::kStep); }

  EngineParts& parts_;
  Network& network_;
  Device& device_;
  const Clock& clock_;
  ImagePlanner& planner_;
  const Scheduler& scheduler_;
  Hooks hooks_;
  std::vector<std::pair<Digest, std::shared_ptr<const ImageSource>>> given_;  // wanted, by key
  std::unique_ptr<RemoteImages> remote_;   // null: all images are encoded here
  std::unique_ptr<ImageEncoder> encoder_;  // null: no images, or no tower. Last: wakes the engine
};

}  // namespace saccade

// Everything of images between two steps: an image that a plan asks for is taken on here, and ends
// as rows where the model reads them or as a failure of all who wait for it.
//
//   want()   its rows came with the request      -> written by the next take()
//            others may encode it                -> RemoteImages, whose news say where it is made
//            else, or where the news say "here"  -> PixelLoader, which decodes -> EncoderQueue
//
// Images that other processes have encoded here (LentImages) go the same way as its own; one that
// both want is encoded once.
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
#include "engine/images/lent_images.h"
#include "engine/images/pixel_loader.h"
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

  void want(const EncodeWish& wish);
  // Whatever has come since the last time goes a station further. False: nothing had.
  bool take();
  // There is something to take that nobody will wake the engine for.
  bool has_given_rows() const { return !given_.empty(); }

  // Something is to be encoded here, its next stage predicted to take so long (0: nobody knows).
  bool encoding() const { return encoder_ && !encoder_->idle(); }
  double stage_seconds() const { return encoding() ? encoder_->stage_seconds() : 0; }
  // Stages of the encoder, or pieces of them, as many as the step has time for, no further than the
  // end of a batch or what `interrupted` says. False: there was nothing to do.
  bool encode(StepPacer& pacer, const std::function<bool()>& interrupted);
  // All of a batch has been submitted, and the device is at it.
  bool waits_for_device() const { return encoder_ && encoder_->waits(); }

  LentImages* lent() { return lent_.get(); }  // null: no tower
  // Nothing goes on: what others have here ends with `error`.
  void close(const Error& error);
  void count(EngineStats& to) const;

 private:
  bool wanted(const Digest& key) const;  // by a sequence, by others, or for comparison
  EncodeOrigin origin_of(const Digest& key, ClientId client) const;
  // For a client, where one of this process's asked.
  void encode_here(const Digest& key, const std::shared_ptr<const ImageSource>& source,
                   ClientId client = 0);
  bool take_pixels();
  bool take_lent();
  bool take_news();
  bool take_given();
  void batch(const EncoderQueue::Event& event);
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
  std::unique_ptr<EncoderQueue> encoder_;  // null: no images, or no tower
  std::unique_ptr<RemoteImages> remote_;   // null: all images are encoded here
  std::unique_ptr<LentImages> lent_;       // as encoder_
  std::unique_ptr<PixelLoader> pixels_;    // as encoder_. Last: its threads wake the engine
};

}  // namespace saccade

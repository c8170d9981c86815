// Images that this process encodes, for its own requests and for other processes (LentImages):
// decoded on threads of their own (PixelLoader), then encoded (EncoderQueue). One that both want is
// encoded once.
//
// Engine thread, but for lent(), whose own header says what others may call.
#pragma once

#include <functional>
#include <memory>

#include "engine/event_count.h"
#include "engine/images/encoder_queue.h"
#include "engine/images/lent_images.h"
#include "engine/images/pixel_loader.h"

namespace saccade {

struct ImageEncoderSettings {
  EncoderLimits limits;
  int pixel_threads = 2;
  std::size_t max_pixel_bytes = std::size_t{256} << 20;
};

class ImageEncoder {
 public:
  struct Hooks {
    std::function<void()> wake;  // any thread: there is something to take. Must not block
    // Of this process's own requests, within this class's calls, as EncoderQueue::Hooks.
    std::function<void(const Digest& key, View rows)> publish;
    std::function<void(const Digest& key, const Error& error)> failed;
    std::function<bool(const Digest& key)> wanted;
    std::function<void(const EncoderQueue::Event& event)> batch;
  };

  // The network's scratch holds limits.max_patches. What is passed by reference outlives it.
  static Result<std::unique_ptr<ImageEncoder>> create(Network& network, Device& device,
                                                      const Clock& clock,
                                                      const ImageEncoderSettings& settings,
                                                      Hooks hooks);

  // Does nothing for a key that is on its way. client: whose request asked, of this process.
  void push(const Digest& key, const std::shared_ptr<const ImageSource>& source,
            ClientId client = 0);
  // What others ask for and what has been decoded goes a station further. False: nothing had come.
  bool take();
  // While the device is at a batch: until that is done, or `events` counts more than `seen`.
  void wait(EventCount& events, std::uint64_t seen) const;

  EncoderQueue& queue() { return *queue_; }
  const PixelLoader& pixels() const { return pixels_; }
  LentImages& lent() { return lent_; }

 private:
  ImageEncoder(Device& device, const Clock& clock, const ImageEncoderSettings& settings,
               Hooks hooks);
  bool wanted(const Digest& key) const { return lent_.wanted(key) || hooks_.wanted(key); }
  EncodeOrigin origin(const Digest& key, ClientId client) const;
  void failed(const Digest& key, const Error& error);

  const Hooks hooks_;
  LentImages lent_;
  std::unique_ptr<EncoderQueue> queue_;
  PixelLoader pixels_;  // last: its threads wake the engine
};

}  // namespace saccade

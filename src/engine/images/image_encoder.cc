#include "engine/images/image_encoder.h"

#include <utility>

namespace saccade {

Result<std::unique_ptr<ImageEncoder>> ImageEncoder::create(Network& network, Device& device,
                                                           const Clock& clock,
                                                           const ImageEncoderSettings& settings,
                                                           Hooks hooks) {
  std::unique_ptr<ImageEncoder> made(new ImageEncoder(device, clock, settings, std::move(hooks)));
  ImageEncoder* const self = made.get();
  TRY(made->queue_,
      EncoderQueue::create(
          network, device, settings.limits, clock,
          {.publish =
               [self](const Digest& key, View rows) {
                 self->lent_.publish(key, rows);
                 self->hooks_.publish(key, rows);
               },
           .failed = [self](const Digest& key, const Error& error) { self->failed(key, error); },
           .wanted = [self](const Digest& key) { return self->wanted(key); }}));
  made->queue_->set_observer([self](const EncoderQueue::Event& event) {
    if (event.end == 0) self->lent_.begun(event.begin);
    self->hooks_.batch(event);
  });
  return made;
}

ImageEncoder::ImageEncoder(Device& device, const Clock& clock, const ImageEncoderSettings& settings,
                           Hooks hooks)
    : hooks_(std::move(hooks)),
      lent_(device, clock, settings.limits.max_rows, hooks_.wake),
      pixels_(settings.pixel_threads, settings.max_pixel_bytes, hooks_.wake) {}

EncodeOrigin ImageEncoder::origin(const Digest& key, ClientId client) const {
  if (lent_.wanted(key) && !hooks_.wanted(key)) return {.others = true, .client = 0};
  return {.others = false, .client = client};
}

void ImageEncoder::push(const Digest& key, const std::shared_ptr<const ImageSource>& source,
                        ClientId client) {
  if (auto pixels = source->ready()) {
    queue_->push(key, std::move(pixels), origin(key, client));
  } else if (!queue_->contains(key)) {
    pixels_.push(key, source, client);
  }
}

bool ImageEncoder::take() {
  const auto is_wanted = [this](const Digest& key) { return wanted(key); };
  std::vector<PixelLoader::Loaded> loaded = pixels_.take(is_wanted);
  for (PixelLoader::Loaded& one : loaded) {
    if (!wanted(one.key)) continue;
    if (one.image) {
      queue_->push(one.key, *std::move(one.image), origin(one.key, one.client));
    } else if (one.image.error().code != ErrorCode::kCancelled) {
      failed(one.key, one.image.error());
    }
  }
  lent_.measured(queue_->cost());
  const bool asked =
      lent_.take([this](const Digest& key, const std::shared_ptr<const ImageSource>& source) {
        push(key, source);
      });
  return asked || !loaded.empty();
}

void ImageEncoder::wait(EventCount& events, std::uint64_t seen) const {
  constexpr std::chrono::microseconds kLook{50};
  while (queue_->waits()) {
    if (events.wait_for(seen, kLook)) return;
  }
}

void ImageEncoder::failed(const Digest& key, const Error& error) {
  lent_.fail(key, error);
  hooks_.failed(key, error);
}

}  // namespace saccade

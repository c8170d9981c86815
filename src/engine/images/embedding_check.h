// Whether embeddings are numbers: stored, others would spoil every later request with the image.
// Where the host can read rows it looks at them; elsewhere the device makes one row of an image's
// rows, times zero, which is zero unless one of them was not finite.
#pragma once

#include <span>

#include "base/result.h"
#include "ops/device.h"

namespace saccade {

class EmbeddingCheck {
 public:
  static constexpr std::int64_t kMaxImages = 64;  // of one submit()

  // For rows of `width` numbers, in `stream`'s device.
  static Result<EmbeddingCheck> create(Device& device, std::int64_t width);

  // Has the images' rows looked at once the stream has come to it. The lists are the stream's:
  // until its retire().
  void submit(Stream& stream, std::span<const View> images);
  // Of an image of the last submit(), once the stream has passed it.
  bool finite(std::size_t image) const;

 private:
  EmbeddingCheck() = default;

  Buffer partial_;  // [kGroups, width] f32
  Buffer sums_;     // [kMaxImages, width] f32
  Buffer seen_;     // of the host
  std::int64_t width_ = 0;
  bool by_host_ = false;
  std::span<const View> images_;
};

}  // namespace saccade

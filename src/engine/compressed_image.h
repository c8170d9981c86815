// An image, or a group of a video's frames, as it came: compressed bytes, and a layout made from
// their headers. It is what a waiting request holds, and what an encoder elsewhere is sent.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_budget.h"
#include "engine/image_source.h"

namespace saccade {

class CompressedImage final : public ImageSource {
 public:
  struct Frame {
    std::string bytes;
    std::string name;  // for messages: "image 0"
  };
  // One frame for an image; for a group of a video's frames `layout` is the whole video's. The
  // model outlives it. `held` counts the bytes, may be null, and is let go with the last of those
  // who share it.
  CompressedImage(const Model& model, ImageLayout layout, std::vector<Frame> frames,
                  ImageLimits limits, std::shared_ptr<const ByteReservation> held);

  std::span<const Frame> frames() const { return frames_; }
  Result<PreparedImage> load() const override;
  std::size_t load_bytes() const override;

 private:
  const Model& model_;
  ImageLayout layout_;
  std::vector<Frame> frames_;
  ImageLimits limits_;
  std::shared_ptr<const ByteReservation> held_;
};

}  // namespace saccade

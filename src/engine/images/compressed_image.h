// An image, or a group of a video's frames, as it came: compressed bytes, and a layout made from
// their headers. It is what a waiting request holds, and what an encoder elsewhere is sent.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/images/image_source.h"
#include "model/prompts/processor.h"

namespace saccade {

class CompressedImage final : public ImageSource {
 public:
  struct Frame {
    std::string bytes;
    std::string name;  // for messages: "image 0"
  };
  // One frame for an image; for a group of a video's frames `layout` is the whole video's. The
  // processor outlives it. `held` counts the bytes (a ByteReservation), may be null, and is let go
  // with the last of those who share it.
  // `recipe`: how the layout was asked for, as write_image_recipe() has it.
  CompressedImage(const Processor& processor, ImageLayout layout, std::vector<Frame> frames,
                  ImageLimits limits, std::shared_ptr<const void> held, std::string recipe);

  // The same with a copy(): its frames laid out otherwise.
  std::shared_ptr<const CompressedImage> with_copy(ImageLayout layout, std::string recipe) const;

  std::span<const Frame> frames() const { return *frames_; }
  Result<PreparedImage> load(const Cancelled& cancelled) const override;
  std::size_t load_bytes() const override;
  PortableImage portable() const override;
  const ReducedCopy* copy() const override { return copy_.get(); }

 private:
  const Processor& processor_;
  ImageLayout layout_;
  std::shared_ptr<const std::vector<Frame>> frames_;
  ImageLimits limits_;
  std::shared_ptr<const void> held_;
  std::string recipe_;
  std::shared_ptr<const ReducedCopy> copy_;
};

}  // namespace saccade

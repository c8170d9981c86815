// Where the encoder's input comes from when it is wanted, and not before: a request that waits
// holds its images as they came.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/threads/cancelled.h"
#include "model/images/prepared_image.h"

namespace saccade {

struct GivenRows;

// What an encoder elsewhere is sent for an image: its files as they came, and how their layout
// follows from them (image_recipe.h). Views of the source.
struct PortableImage {
  std::vector<std::string_view> files;  // empty: it cannot be sent
  std::string_view recipe;
};

struct ReducedCopy;

// Any thread; const.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // What is there already; null: load() makes it.
  virtual std::shared_ptr<const PreparedImage> ready() const { return nullptr; }
  // Decodes and resizes. Blocks. Called again when rows that were evicted are needed once more.
  // kUndecodable for what is no image, whatever its header says; kCancelled once `cancelled`, asked
  // every few rows of pixels, says so.
  virtual Result<PreparedImage> load(const Cancelled& cancelled) const = 0;
  // About as many bytes as load() holds at most, its result included.
  virtual std::size_t load_bytes() const = 0;
  virtual PortableImage portable() const { return {}; }
  // What encoders elsewhere are asked for in its place, and whose rows nobody reads (--image-size
  // seed-as-published). Null: they are asked for the image itself.
  virtual const ReducedCopy* copy() const { return nullptr; }
  // Of an image that came as its rows: they take the place of decoding and encoding. Null: pixels.
  virtual const GivenRows* rows() const { return nullptr; }
};

struct ReducedCopy {
  ImageLayout layout;
  std::shared_ptr<const ImageSource> source;
};

// Pixels that are in memory: tests, tools.
class ReadyImage final : public ImageSource {
 public:
  explicit ReadyImage(PreparedImage image)
      : image_(std::make_shared<const PreparedImage>(std::move(image))) {}
  std::shared_ptr<const PreparedImage> ready() const override { return image_; }
  Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override { return *image_; }
  std::size_t load_bytes() const override { return 0; }

 private:
  std::shared_ptr<const PreparedImage> image_;
};

}  // namespace saccade

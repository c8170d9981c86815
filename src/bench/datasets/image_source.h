// The images of a run: drawn or read, encoded in parallel before the run starts, and shared by the
// requests that send them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/datasets/prompt.h"
#include "bench/datasets/synthetic_image.h"

namespace saccade::bench {

struct ImageEncoding {
  enum class Codec { kJpeg, kPng };
  Codec codec = Codec::kJpeg;
  int quality = 75;  // of JPEG, 1 to 100; 75 is what Pillow's save() takes
};
Result<ImageEncoding> parse_image_encoding(std::string_view name);  // "jpeg", "jpeg85", "png"

Result<SharedImage> encode_image(const Pixels& pixels, const ImageEncoding& encoding);

// A file's bytes as they are, or decoded (upright, on white) and encoded anew. Errors name `name`.
Result<SharedImage> wrap_image(std::string_view bytes, std::string_view name,
                               const std::optional<ImageEncoding>& encode_anew);

// A file as it is: its bytes, or with `by_url` a file:// URL that the server is to read itself.
Result<SharedImage> file_image(const std::string& path, bool by_url);

// The file's picture with its first corner (8x8 pixels, or as many as there are) of the colour that
// `salt` says: no cache knows it. A JPEG is one again, everything else a PNG.
Result<SharedImage> changed_image(const std::string& path, std::uint64_t salt);

// make(i) for each of [0, count), in order, on `threads` threads. The first error in that order is
// returned.
Result<std::vector<SharedImage>> make_images(
    std::size_t count, int threads, const std::function<Result<SharedImage>(std::size_t)>& make);
// One for each, likewise.
Result<std::vector<SharedImage>> draw_images(std::span<const SyntheticImage> images,
                                             const ImageEncoding& encoding, int threads);
Result<std::vector<SharedImage>> read_images(std::span<const std::string> paths,
                                             const std::optional<ImageEncoding>& encode_anew,
                                             int threads);

// The .jpg, .jpeg, .png, .webp, .gif and .bmp files below a folder, sorted by path. kNotFound where
// there is none.
Result<std::vector<std::string>> list_images(const std::string& folder);

// Which image each use of a run takes: by default its own, so that no cache on the way can help.
struct ImageReuse {
  double reuse = 0;               // the chance that a use repeats an image used before
  std::size_t unique_images = 0;  // at most this many; later uses repeat them in turn. 0: no limit
};

// An index per use, in order; the indices seen for the first time are 0, 1, 2, ...
std::vector<std::size_t> plan_images(std::size_t uses, const ImageReuse& reuse, std::uint64_t seed);

}  // namespace saccade::bench

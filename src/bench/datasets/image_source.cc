#include "bench/datasets/image_source.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text/base64.h"
#include "bench/datasets/text_file.h"
#include "image/pixels.h"

namespace saccade::bench {
namespace {

std::string_view media_type_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "image/jpeg";
    case ImageFormat::kPng:
      return "image/png";
    case ImageFormat::kWebp:
      return "image/webp";
    case ImageFormat::kGif:
      return "image/gif";
    case ImageFormat::kBmp:
      return "image/bmp";
  }
  return "application/octet-stream";
}

SharedImage share(std::string_view bytes, const ImageHeader& header) {
  auto image = std::make_shared<EncodedImage>();
  image->width = header.width;
  image->height = header.height;
  image->media_type = media_type_of(header.format);
  image->base64 = std::make_shared<const std::string>(base64_encode(bytes));
  image->bytes = bytes.size();
  image->sha256 = to_hex(sha256(bytes));
  return image;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

// The threads take the next one when free.
Result<std::vector<SharedImage>> make_images(
    std::size_t count, int threads, const std::function<Result<SharedImage>(std::size_t)>& make) {
  std::vector<Result<SharedImage>> made(count);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      made[i] = make(i);
      if (!made[i]) failed = true;
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t extra = std::min<std::size_t>(std::max(threads, 1) - 1, count);
  helpers.reserve(extra);
  for (std::size_t t = 0; t < extra; ++t) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();

  std::vector<SharedImage> images;
  images.reserve(count);
  for (Result<SharedImage>& image : made) {
    if (!image) return fail(std::move(image).error());
    images.push_back(*std::move(image));
  }
  return images;
}

Result<ImageEncoding> parse_image_encoding(std::string_view name) {
  using Codec = ImageEncoding::Codec;
  if (name == "png") return ImageEncoding{Codec::kPng, 0};
  if (name == "jpeg") return ImageEncoding{};
  if (name.starts_with("jpeg")) {
    int quality = 0;
    for (const char digit : name.substr(4)) {
      const bool fits = digit >= '0' && digit <= '9' && quality <= 100;
      quality = fits ? quality * 10 + (digit - '0') : 1'000;
    }
    if (quality >= 1 && quality <= 100) return ImageEncoding{Codec::kJpeg, quality};
  }
  return fail(ErrorCode::kInvalid, "image encoding '{}' is not jpeg, jpeg1 to jpeg100, or png",
              name);
}

Result<SharedImage> encode_image(const Pixels& pixels, const ImageEncoding& encoding) {
  const bool jpeg = encoding.codec == ImageEncoding::Codec::kJpeg;
  TRY(const std::vector<std::byte> bytes,
      jpeg ? encode_jpeg(pixels, encoding.quality) : encode_png(pixels));
  return share({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
               {jpeg ? ImageFormat::kJpeg : ImageFormat::kPng, pixels.width, pixels.height});
}

Result<SharedImage> wrap_image(std::string_view bytes, std::string_view name,
                               const std::optional<ImageEncoding>& encode_anew) {
  if (!encode_anew) {
    const Result<ImageHeader> header = probe_image(bytes_of(bytes));
    if (!header) return fail_within(name, header.error());
    return share(bytes, *header);
  }
  const Result<Pixels> pixels = decode_image(bytes_of(bytes));
  if (!pixels) return fail_within(name, pixels.error());
  Result<SharedImage> image = encode_image(*pixels, *encode_anew);
  if (!image) return fail_within(name, std::move(image).error());
  return image;
}

Result<SharedImage> file_image(const std::string& path, bool by_url) {
  TRY(const std::string bytes, read_image_file(path));
  if (!by_url) return wrap_image(bytes, path, std::nullopt);
  const Result<ImageHeader> header = probe_image(bytes_of(bytes));
  if (!header) return fail_within(path, header.error());
  EncodedImage image;
  image.width = header->width;
  image.height = header->height;
  image.url = "file://" + std::filesystem::absolute(path).string();
  image.bytes = bytes.size();
  image.sha256 = to_hex(sha256(bytes));
  return std::make_shared<const EncodedImage>(std::move(image));
}

Result<SharedImage> changed_image(const std::string& path, std::uint64_t salt) {
  constexpr int kCorner = 8;  // a block of JPEG's, which keeps its mean colour
  TRY(const std::string bytes, read_image_file(path));
  const Result<ImageHeader> header = probe_image(bytes_of(bytes));
  if (!header) return fail_within(path, header.error());
  Result<Pixels> pixels = decode_image(bytes_of(bytes));
  if (!pixels) return fail_within(path, pixels.error());
  for (int y = 0; y < std::min(kCorner, pixels->height); ++y) {
    for (int x = 0; x < std::min(kCorner, pixels->width); ++x) {
      std::uint8_t* const pixel =
          pixels->rgb.data() +
          3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(pixels->width) +
               static_cast<std::size_t>(x));
      for (int channel = 0; channel < 3; ++channel)
        pixel[channel] = static_cast<std::uint8_t>(salt >> (8 * channel));
    }
  }
  const bool jpeg = header->format == ImageFormat::kJpeg;
  return encode_image(*pixels,
                      {jpeg ? ImageEncoding::Codec::kJpeg : ImageEncoding::Codec::kPng, 95});
}

Result<std::vector<SharedImage>> draw_images(std::span<const SyntheticImage> images,
                                             const ImageEncoding& encoding, int threads) {
  return make_images(images.size(), threads,
                     [&](std::size_t i) { return encode_image(draw(images[i]), encoding); });
}

Result<std::vector<SharedImage>> read_images(std::span<const std::string> paths,
                                             const std::optional<ImageEncoding>& encode_anew,
                                             int threads) {
  return make_images(paths.size(), threads, [&](std::size_t i) -> Result<SharedImage> {
    TRY(const std::string bytes, read_image_file(paths[i]));
    return wrap_image(bytes, paths[i], encode_anew);
  });
}

Result<std::vector<std::string>> list_images(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> paths;
  constexpr std::string_view kEndings[] = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"};
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::string ending = at->path().extension().string();
    for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    const bool image =
        std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
    std::error_code ignored;
    if (image && at->is_regular_file(ignored)) paths.push_back(at->path().string());
  }
  if (error) return fail(ErrorCode::kNotFound, "image folder {}: {}", folder, error.message());
  if (paths.empty()) {
    return fail(ErrorCode::kNotFound, "image folder {} holds no JPEG, PNG, WebP, GIF or BMP file",
                folder);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::size_t> plan_images(std::size_t uses, const ImageReuse& reuse,
                                     std::uint64_t seed) {
  CHECK(reuse.reuse >= 0 && reuse.reuse <= 1, "image reuse {}", reuse.reuse);
  const std::size_t most = reuse.unique_images == 0 ? uses : reuse.unique_images;
  Rng rng(seed);
  std::vector<std::size_t> plan;
  plan.reserve(uses);
  std::size_t known = 0;      // images used so far
  std::size_t following = 0;  // the one to repeat next, once there are no new ones
  for (std::size_t use = 0; use < uses; ++use) {
    if (known > 0 && rng.uniform() < reuse.reuse) {
      plan.push_back(rng.below(known));
    } else if (known < most) {
      plan.push_back(known++);
    } else {
      plan.push_back(following);
      following = (following + 1) % most;
    }
  }
  return plan;
}

}  // namespace saccade::bench

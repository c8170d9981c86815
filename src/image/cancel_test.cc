// A picture that nobody waits for any more is put aside within one piece of work, whatever it is.
#include <gtest/gtest.h>
#include <webp/decode.h>

#include <functional>
#include <map>

#include "image/bmp_encode.h"
#include "image/exif.h"
#include "image/formats.h"
#include "image/resize_kernels.h"
#include "tests/support/golden_pictures.h"
#include "tests/support/picture_files.h"

namespace saccade {
namespace {

using test::bytes_of;
using test::noisy_pixels;

using Work = std::function<Result<void>(const Cancelled& cancelled)>;

// How often the whole of the work asks.
int asks_of(const Work& work) {
  int asks = 0;
  const Result<void> whole = work([&asks] {
    ++asks;
    return false;
  });
  EXPECT_TRUE(whole.has_value()) << whole.error().message;
  return asks;
}

// Whenever it is told to, it ends, and does nothing more.
void expect_ends_early(const Work& work, int least_asks) {
  const int all = asks_of(work);
  EXPECT_GE(all, least_asks);
  for (const int told_at : {1, 2, all / 7, all / 3, all / 2, all * 9 / 10, all}) {
    if (told_at < 1) continue;
    int asks = 0;
    const Result<void> ended = work([&] { return ++asks >= told_at; });
    ASSERT_FALSE(ended.has_value()) << "told at " << told_at << " of " << all;
    EXPECT_EQ(ended.error().code, ErrorCode::kCancelled) << ended.error().message;
    EXPECT_EQ(asks, told_at) << "of " << all;
  }
}

std::string text_of(const Result<std::vector<std::byte>>& bytes) {
  EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

struct File {
  std::string bytes;
  int least_asks = 0;
};

TEST(Cancel, ADecodeEndsWithinARow) {
  constexpr int kWidth = 300, kHeight = 500;
  const Pixels pixels = noisy_pixels(kWidth, kHeight);
  const std::map<std::string, File> files = {
      {"jpeg", {text_of(encode_jpeg(pixels, 80)), kHeight}},
      // Ten scans of blocks, then the rows.
      {"progressive jpeg", {test::progressive_jpeg(pixels), kHeight + 10 * (kHeight / 16)}},
      {"png", {text_of(encode_png(pixels)), kHeight}},
      {"interlaced png", {test::interlaced_png(pixels), 7 * kHeight}},
      {"gif", {test::gif(pixels), 2 * kHeight}},
      {"bmp", {encode_bmp(pixels), kHeight}},
      {"rle bmp", {test::rle_bmp(kWidth, kHeight, 3), kHeight + kWidth / 3 * kHeight / 4096}},
  };
  for (const auto& [name, file] : files) {
    SCOPED_TRACE(name);
    expect_ends_early(
        [&](const Cancelled& cancelled) {
          return decode_image(bytes_of(file.bytes), {}, cancelled).map([](const Pixels&) {});
        },
        file.least_asks);
  }
}

// libwebp has no rows to stop at: what it is given is in pieces.
TEST(Cancel, AWebpEndsWithinAPieceOfItsBytes) {
  constexpr int kSide = 1'600;
  const Pixels pixels = noisy_pixels(kSide, kSide);
  const std::map<std::string, File> files = {
      {"lossy", {test::webp(pixels, {}), 19}},
      {"lossy of 8 partitions", {test::webp(pixels, {.partitions = 3}), 19}},
      {"lossless", {test::webp(pixels, {.lossless = true}), 4}},
      {"lossy with alpha", {test::webp(pixels, {.alpha = true}), 19 + kSide}},
      {"lossless with alpha", {test::webp(pixels, {.lossless = true, .alpha = true}), kSide + 6}},
  };
  for (const auto& [name, file] : files) {
    SCOPED_TRACE(name);
    expect_ends_early(
        [&](const Cancelled& cancelled) {
          return decode_image(bytes_of(file.bytes), {}, cancelled).map([](const Pixels&) {});
        },
        file.least_asks);
  }
}

std::vector<std::uint8_t> decoded_whole(const std::string& file, bool alpha) {
  int width = 0, height = 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  std::uint8_t* rgba = WebPDecodeRGBA(bytes, file.size(), &width, &height);
  if (rgba == nullptr) return {};
  std::vector<std::uint8_t> rgb(std::size_t{3} * static_cast<std::size_t>(width * height));
  for (std::size_t i = 0; i < rgb.size() / 3; ++i) {
    if (!alpha) rgba[4 * i + 3] = 255;
    put_over_white(rgba + 4 * i, &rgb[3 * i]);
  }
  WebPFree(rgba);
  return rgb;
}

TEST(Cancel, AWebpInPiecesIsTheWholeOne) {
  const Pixels pixels = noisy_pixels(1'300, 900);
  Rng rng(5);
  int sound = 0, refused = 0;
  for (const test::WebpForm& form : {test::WebpForm{},
                                     {.partitions = 3},
                                     {.alpha = true},
                                     {.lossless = true},
                                     {.lossless = true, .alpha = true}}) {
    const std::string file = test::webp(pixels, form);
    for (int round = 0; round < 12; ++round) {
      std::string damaged = file;
      for (int hit = 0; hit < round; ++hit)  // behind the headers
        damaged[100 + rng.below(damaged.size() - 100)] = static_cast<char>(rng());
      const std::vector<std::uint8_t> whole = decoded_whole(damaged, form.alpha);
      const Result<Pixels> pieces = decode_image(bytes_of(damaged));
      ++(pieces ? sound : refused);
      ASSERT_EQ(pieces.has_value(), !whole.empty()) << round;
      if (pieces) {
        ASSERT_TRUE(pieces->rgb == whole) << round;
      }
    }
  }
  EXPECT_GT(sound, 20);
  EXPECT_GT(refused, 2);
}

TEST(Cancel, TurningEndsWithinATile) {
  const Pixels stored = noisy_pixels(200, 640);
  for (int orientation = 2; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    expect_ends_early(
        [&](const Cancelled& cancelled) {
          return oriented(stored, static_cast<Orientation>(orientation), cancelled)
              .map([](const Pixels&) {});
        },
        200 / 32);
  }
}

// Sides that take each of the ways through resize().
TEST(Cancel, AResizeEndsWithinAFewRows) {
  const Pixels from = noisy_pixels(300, 640);
  for (const auto& [width, height, filter, least_asks] :
       {std::tuple{30, 640, ResampleFilter::kBicubic, 40},
        {300, 50, ResampleFilter::kBicubic, 50},
        {200, 600, ResampleFilter::kBicubic, 40},
        {299, 50, ResampleFilter::kLanczos, 50},
        {100, 90, ResampleFilter::kNearest, 90}}) {
    SCOPED_TRACE(std::to_string(width) + "x" + std::to_string(height));
    expect_ends_early(
        [&, w = width, h = height, f = filter](const Cancelled& cancelled) -> Result<void> {
          bool told = false;
          const Pixels to = resize(from, w, h, f, [&] { return told = cancelled(); });
          EXPECT_EQ(to.rgb.size(), std::size_t{3} * static_cast<std::size_t>(w * h));
          if (told) return fail(ErrorCode::kCancelled, "as its caller says");
          return {};
        },
        least_asks);
  }
}

}  // namespace
}  // namespace saccade

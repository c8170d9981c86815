// Pictures as files that image/ only reads: what its tests decode, of any size.
#pragma once

// clang-format off
#include <cstdio>  // first: jpeglib.h needs FILE and size_t
#include <jpeglib.h>
// clang-format on

#include <gif_lib.h>
#include <gtest/gtest.h>
#include <png.h>
#include <webp/encode.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/rng.h"
#include "image/pixels.h"

namespace saccade::test {

// Slopes under noise, so that no part of it is smaller than another when it is compressed.
inline Pixels noisy_pixels(int width, int height) {
  Rng rng(3);
  Pixels pixels{width, height, {}};
  pixels.rgb.reserve(std::size_t{3} * static_cast<std::size_t>(width * height));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        pixels.rgb.push_back(static_cast<std::uint8_t>(x / 3 + y / 2 + 80 * c + rng.below(16)));
  return pixels;
}

// Of the ten scans that encoders write the last is repeated: as many passes over the picture more,
// each of a few bytes where the picture is plain.
inline std::string progressive_jpeg(const Pixels& pixels, int more_scans = 0) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(pixels.width);
  info.image_height = static_cast<JDIMENSION>(pixels.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.rgb.data() +
                                     std::size_t{3} * info.next_scanline * info.image_width);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  const std::size_t scan = file.rfind("\xff\xda");
  const std::string last = file.substr(scan, file.size() - 2 - scan);
  file.resize(file.size() - 2);
  for (int i = 0; i < more_scans; ++i) file += last;
  return file + "\xff\xd9";
}

inline std::string interlaced_png(const Pixels& pixels) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      [](png_structp) {});
  png_set_compression_level(png, 1);
  png_set_IHDR(png, info, static_cast<png_uint_32>(pixels.width),
               static_cast<png_uint_32>(pixels.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (int y = 0; y < pixels.height; ++y)
    rows.push_back(const_cast<png_bytep>(pixels.rgb.data()) +
                   std::size_t{3} * static_cast<std::size_t>(y) *
                       static_cast<std::size_t>(pixels.width));
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

// Of 256 colours; the pixels' reds say which.
inline std::string gif(const Pixels& pixels) {
  std::string file;
  int error = 0;
  GifFileType* to = EGifOpen(
      &file,
      [](GifFileType* self, const GifByteType* bytes, int count) {
        static_cast<std::string*>(self->UserData)
            ->append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
        return count;
      },
      &error);
  ColorMapObject* colours = GifMakeMapObject(256, nullptr);
  for (int i = 0; i < 256; ++i)
    colours->Colors[i] = {static_cast<GifByteType>(255 - i), static_cast<GifByteType>(i), 7};
  EXPECT_EQ(EGifPutScreenDesc(to, pixels.width, pixels.height, 8, 0, colours), GIF_OK);
  EXPECT_EQ(EGifPutImageDesc(to, 0, 0, pixels.width, pixels.height, false, nullptr), GIF_OK);
  std::vector<GifPixelType> line(static_cast<std::size_t>(pixels.width));
  const std::uint8_t* from = pixels.rgb.data();
  for (int y = 0; y < pixels.height; ++y) {
    for (GifPixelType& index : line) {
      index = *from;
      from += 3;
    }
    EXPECT_EQ(EGifPutLine(to, line.data(), pixels.width), GIF_OK);
  }
  GifFreeMapObject(colours);
  EXPECT_EQ(EGifCloseFile(to, &error), GIF_OK);
  return file;
}

// 8 bits, in runs of `run` pixels, each of another index than the one before.
inline std::string rle_bmp(int width, int height, int run) {
  const auto number = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  std::string runs;
  std::uint8_t index = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; x += run) {
      runs += static_cast<char>(std::min(run, width - x));
      runs += static_cast<char>(++index);
    }
    runs += std::string(2, '\0');
  }
  const std::uint32_t start = 14 + 40 + 4 * 256;
  std::string file = "BM" + number(start + static_cast<std::uint32_t>(runs.size()), 4) +
                     number(0, 4) + number(start, 4) + number(40, 4) +
                     number(static_cast<std::uint32_t>(width), 4) +
                     number(static_cast<std::uint32_t>(height), 4) + number(1, 2) + number(8, 2) +
                     number(1, 4) + std::string(20, '\0');
  for (std::uint32_t i = 0; i < 256; ++i) file += number(i * 0x010203, 4);
  return file + runs;
}

struct WebpForm {
  bool lossless = false;
  bool alpha = false;  // one that differs from row to row
  int partitions = 0;  // of a lossy one, as a power of two
};

inline std::string webp(const Pixels& pixels, const WebpForm& form) {
  WebPConfig config;
  WebPConfigInit(&config);
  if (form.lossless) WebPConfigLosslessPreset(&config, 0);
  config.method = 0;
  config.partitions = form.partitions;
  WebPPicture picture;
  WebPPictureInit(&picture);
  picture.use_argb = form.lossless ? 1 : 0;
  picture.width = pixels.width;
  picture.height = pixels.height;
  std::vector<std::uint8_t> rgba;
  for (std::size_t i = 0; i < pixels.rgb.size(); i += 3) {
    const std::size_t row = i / 3 / static_cast<std::size_t>(pixels.width);
    rgba.insert(rgba.end(), pixels.rgb.begin() + static_cast<std::ptrdiff_t>(i),
                pixels.rgb.begin() + static_cast<std::ptrdiff_t>(i + 3));
    rgba.push_back(static_cast<std::uint8_t>(form.alpha ? row : 255));
  }
  EXPECT_TRUE(WebPPictureImportRGBA(&picture, rgba.data(), pixels.width * 4));
  WebPMemoryWriter writer;
  WebPMemoryWriterInit(&writer);
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  EXPECT_TRUE(WebPEncode(&config, &picture)) << picture.error_code;
  std::string file(reinterpret_cast<const char*>(writer.mem), writer.size);
  WebPMemoryWriterClear(&writer);
  WebPPictureFree(&picture);
  return file;
}

}  // namespace saccade::test

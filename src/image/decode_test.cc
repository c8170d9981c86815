// Decoding equals Pillow's on every golden file, and survives what Pillow never sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <ctime>

#include "base/rng.h"
#include "image/pixels.h"
#include "tests/support/golden_pictures.h"

namespace saccade {
namespace {

using test::bytes_of;
using test::digest_of;
using test::read_golden;
using test::read_table;
using ::testing::HasSubstr;

TEST(Decode, EqualsPillow) {
  const auto rows = read_table("decode.tsv");
  ASSERT_GT(rows.size(), 100u);
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0]);
    const std::string file = read_golden(row[0]);
    const Result<Pixels> pixels = decode_image(bytes_of(file));
    if (!pixels) {
      ADD_FAILURE() << pixels.error().message;
      continue;
    }
    EXPECT_EQ(std::to_string(pixels->width), row[1]);
    EXPECT_EQ(std::to_string(pixels->height), row[2]);
    EXPECT_EQ(digest_of(pixels->rgb), row[3]);
  }
}

TEST(Decode, ProbeTellsTheSizeOfTheUprightImage) {
  for (const auto& row : read_table("decode.tsv")) {
    const std::string file = read_golden(row[0]);
    const Result<ImageHeader> header = probe_image(bytes_of(file));
    ASSERT_TRUE(header.has_value()) << row[0] << ": " << header.error().message;
    EXPECT_EQ(std::to_string(header->width), row[1]) << row[0];
    EXPECT_EQ(std::to_string(header->height), row[2]) << row[0];
  }
}

// Every proper prefix is refused or, where only bytes after the pixels are missing, decodes to the
// whole image.
TEST(Decode, TruncatedFilesAreUndecodable) {
  for (const char* name :
       {"jpg/rgb_420.jpg", "jpg/rgb_420_progressive.jpg", "jpg/cmyk.jpg", "png/rgba.png",
        "png/palette4_interlaced.png", "webp/lossy_alpha.webp", "webp/lossless.webp",
        "gif/interlaced.gif", "bmp/rgb.bmp", "bmp/rle8.bmp"}) {
    SCOPED_TRACE(name);
    const std::string file = read_golden(name);
    const Result<Pixels> whole = decode_image(bytes_of(file));
    ASSERT_TRUE(whole.has_value());
    std::size_t refused = 0;
    for (std::size_t length = 0; length < file.size(); ++length) {
      const std::string cut = file.substr(0, length);
      const Result<Pixels> pixels = decode_image(bytes_of(cut));
      if (pixels) {
        EXPECT_EQ(pixels->rgb, whole->rgb) << length << " of " << file.size() << " bytes";
      } else {
        EXPECT_EQ(pixels.error().code, ErrorCode::kUndecodable) << pixels.error().message;
        ++refused;
      }
    }
    EXPECT_GT(refused, file.size() * 9 / 10);
  }
}

std::string png_header(std::uint32_t width, std::uint32_t height) {
  std::string file = read_golden("png/rgb.png");
  for (int i = 0; i < 4; ++i) {
    file[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    file[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  return file;
}

TEST(Decode, SizesOverTheLimitAreRefusedFromTheHeader) {
  const std::string file = png_header(100'000, 100'000);
  const std::clock_t start = std::clock();  // of this process: others may have the machine
  for (const Result<void>& result : {decode_image(bytes_of(file)).map([](const Pixels&) {}),
                                     probe_image(bytes_of(file)).map([](const ImageHeader&) {})}) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kTooLarge);
    EXPECT_THAT(result.error().message, HasSubstr("100000x100000"));
    EXPECT_THAT(result.error().message, HasSubstr("65535"));
  }
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);  // 40 GB of pixels take longer

  const std::string wide = png_header(60'000, 60'000);
  const Result<ImageHeader> pixels = probe_image(bytes_of(wide));
  ASSERT_FALSE(pixels.has_value());
  EXPECT_THAT(pixels.error().message, HasSubstr("60000x60000 = 3600000000 pixels"));
  EXPECT_THAT(pixels.error().message, HasSubstr("178956970"));
  const std::string most = png_header(0xffffffff, 0xffffffff);
  EXPECT_EQ(probe_image(bytes_of(most)).error().code, ErrorCode::kTooLarge);
  const std::string empty = png_header(0, 7);
  EXPECT_EQ(probe_image(bytes_of(empty)).error().code, ErrorCode::kUndecodable);

  const std::string jpeg = read_golden("jpg/rgb_420.jpg");  // 61x47
  EXPECT_TRUE(decode_image(bytes_of(jpeg), {61 * 47, 61}).has_value());
  EXPECT_EQ(decode_image(bytes_of(jpeg), {61 * 47 - 1, 61}).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(decode_image(bytes_of(jpeg), {61 * 47, 60}).error().code, ErrorCode::kTooLarge);
}

TEST(Decode, HeadersOfEveryFormatAreHeldAgainstTheLimit) {
  for (const char* name : {"jpg/gray.jpg", "png/gray8.png", "webp/lossy.webp", "webp/animated.webp",
                           "gif/grown.gif", "bmp/rgb.bmp"}) {
    const std::string file = read_golden(name);
    const Result<Pixels> pixels = decode_image(bytes_of(file), {100, 65'535});
    ASSERT_FALSE(pixels.has_value()) << name;
    EXPECT_EQ(pixels.error().code, ErrorCode::kTooLarge) << name;
  }
}

TEST(Decode, ErrorsNameTheFormatAndTheReason) {
  const auto message = [](const std::string& file) {
    const Result<Pixels> pixels = decode_image(bytes_of(file));
    EXPECT_FALSE(pixels.has_value());
    return pixels ? std::string() : pixels.error().message;
  };
  EXPECT_THAT(message(""), HasSubstr("empty"));
  EXPECT_THAT(message("<svg/>"), HasSubstr("not JPEG, PNG, WebP, GIF or BMP"));
  const std::string jpeg = read_golden("jpg/rgb_420.jpg");
  EXPECT_THAT(message(jpeg.substr(0, jpeg.size() / 2)), HasSubstr("JPEG: the data is truncated"));
  const std::string png = read_golden("png/rgb.png");
  EXPECT_THAT(message(png.substr(0, png.size() / 2)), HasSubstr("PNG: the data is truncated"));
  std::string damaged = png;
  damaged[50] = static_cast<char>(damaged[50] ^ 0x55);
  EXPECT_THAT(message(damaged), HasSubstr("PNG: "));
  EXPECT_THAT(message(read_golden("webp/lossy.webp").substr(0, 60)), HasSubstr("WebP: "));
  EXPECT_THAT(message(read_golden("gif/plain.gif").substr(0, 100)), HasSubstr("GIF: "));
  EXPECT_THAT(message(read_golden("bmp/rgb.bmp").substr(0, 200)), HasSubstr("BMP: truncated: "));
}

TEST(Decode, DamagedBytesNeverCrash) {
  Rng rng(7);
  for (const auto& row : read_table("decode.tsv")) {
    const std::string file = read_golden(row[0]);
    for (int round = 0; round < 20; ++round) {
      std::string damaged = file;
      for (std::uint64_t hits = 1 + rng.below(4); hits > 0; --hits)
        damaged[rng.below(damaged.size())] = static_cast<char>(rng());
      const Result<Pixels> pixels = decode_image(bytes_of(damaged), {1 << 20, 4'096});
      if (pixels) {
        EXPECT_EQ(pixels->rgb.size(), static_cast<std::size_t>(pixels->width) * pixels->height * 3);
      }
    }
  }
}

TEST(Decode, ScansAreLimited) {
  // The last scan of a progressive file repeated: legal to read, and work without end.
  const std::string file = read_golden("jpg/gray_progressive.jpg");
  const std::size_t scan = file.rfind("\xff\xda");
  const std::string last = file.substr(scan, file.size() - 2 - scan);
  std::string bomb = file.substr(0, file.size() - 2);
  for (int i = 0; i < 300; ++i) bomb += last;
  bomb += "\xff\xd9";
  const Result<Pixels> pixels = decode_image(bytes_of(bomb));
  ASSERT_FALSE(pixels.has_value());
  EXPECT_THAT(pixels.error().message, HasSubstr("100 scans"));
}

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

std::string png_chunk(const std::string& name, const std::string& data) {
  const std::string summed = name + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + summed +
         big_endian(static_cast<std::uint32_t>(sum));
}

// A white PNG of 8 x 8 pixels whose compressed data go on for as many zeros, in chunks of
// `piece` bytes. Where it is interlaced, its rows are those of the seven passes.
std::string png_with_more(std::size_t zeros, bool interlaced, std::size_t piece,
                          const std::string& behind) {
  const auto row = [](int width) { return '\0' + std::string(3 * width, '\xff'); };
  std::string rows;
  if (interlaced) {
    for (const auto& [width, height] :
         {std::pair{1, 1}, {1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4}, {8, 4}})
      for (int y = 0; y < height; ++y) rows += row(width);
  } else {
    for (int y = 0; y < 8; ++y) rows += row(8);
  }
  rows.append(zeros, '\0');
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(rows.data()), rows.size(), 1);
  packed.resize(size);
  std::string file = "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big_endian(8) + big_endian(8) +
                                                                 std::string("\x08\x02\0\0", 4) +
                                                                 (interlaced ? '\1' : '\0'));
  for (std::size_t at = 0; at < packed.size(); at += piece)
    file += png_chunk("IDAT", packed.substr(at, piece));
  return file + behind + png_chunk("IEND", "");
}

TEST(Decode, PngsAreTurnedByWhatStandsBeforeTheirEnd) {
  const std::string plain = read_golden("png/rgb.png");
  const std::size_t end = plain.size() - png_chunk("IEND", "").size();
  const auto sides = [](const std::string& file) {
    const Pixels pixels = *decode_image(bytes_of(file));
    return std::pair(pixels.width, pixels.height);
  };
  const auto [width, height] = sides(plain);
  ASSERT_NE(width, height);
  const auto turned = std::pair(height, width);
  const std::string keyword("XML:com.adobe.xmp\0\0\0\0\0", 22);
  for (const std::string& chunk :
       {png_chunk(
            "eXIf",
            std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 26)),
        png_chunk("iTXt", keyword + "<a tiff:Orientation=\"6\"/>")}) {
    EXPECT_EQ(sides(plain.substr(0, end) + chunk + plain.substr(end)), turned);
    EXPECT_EQ(sides(plain + chunk), std::pair(width, height));
  }
}

// What libpng does with data behind the last row is to inflate them, all of a gigabyte. A file that
// is cut there tells whether they were read.
TEST(Decode, WhatFollowsTheLastRowIsNotInflated) {
  constexpr std::size_t kWhole = std::size_t{1} << 30;
  for (const bool interlaced : {false, true}) {
    for (const std::size_t piece : {kWhole, std::size_t{1000}}) {
      for (const std::size_t zeros : {0, 1, 100'000, 12 << 20}) {
        const std::string file = png_with_more(zeros, interlaced, piece, "");
        for (const std::string& each : {file, file.substr(0, file.size() - 12),
                                        zeros < 1'000'000 ? file : file.substr(0, 20'000)}) {
          const Result<Pixels> pixels = decode_image(bytes_of(each));
          EXPECT_TRUE(pixels.has_value()) << interlaced << zeros << ": " << pixels.error().message;
          if (!pixels) continue;
          EXPECT_THAT(pixels->rgb,
                      ::testing::AllOf(::testing::SizeIs(8 * 8 * 3), ::testing::Each(0xff)));
        }
      }
    }
  }
}

// Chunks behind the data are not the picture's, however many there are.
TEST(Decode, ChunksBehindAPngsDataAreLegal) {
  std::string chunks;
  for (int i = 0; i < 100; ++i) chunks += png_chunk("tEXt", "k" + std::string(10'000, '\0'));
  EXPECT_TRUE(decode_image(bytes_of(png_with_more(0, false, 1000, chunks))).has_value());
}

TEST(Crop, TakesARectangle) {
  Pixels from{3, 2, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5}};
  const Pixels part = crop(from, 1, 0, 2, 2);
  EXPECT_EQ(part.width, 2);
  EXPECT_EQ(part.rgb, (std::vector<std::uint8_t>{1, 1, 1, 2, 2, 2, 4, 4, 4, 5, 5, 5}));
  EXPECT_DEATH(crop(from, 2, 0, 2, 1), "2x1 at");
}

}  // namespace
}  // namespace saccade

#include "bench/datasets/image_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/hash.h"
#include "base/text/base64.h"
#include "image/pixels.h"

namespace saccade::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ImagePattern kPatterns[] = {ImagePattern::kNoise, ImagePattern::kGradient,
                                      ImagePattern::kBlocks, ImagePattern::kTextPage};

std::string bytes_in(const SharedImage& image) { return base64_decode(*image->base64).value(); }

Pixels pixels_in(const SharedImage& image) {
  const std::string bytes = bytes_in(image);
  return decode_image(std::as_bytes(std::span(bytes))).value();
}

// A file that no cache knows, and that differs in its corner alone.
TEST(ImageSource, AChangedFileIsTheSamePictureToNoCache) {
  const std::string path = SACCADE_SOURCE_DIR "/tests/golden/images/png/bilevel.png";
  const SharedImage one = changed_image(path, 1).value();
  const SharedImage two = changed_image(path, 2).value();
  EXPECT_EQ(bytes_in(one), bytes_in(changed_image(path, 1).value()));
  const Pixels a = pixels_in(one);
  const Pixels b = pixels_in(two);
  ASSERT_EQ(a.rgb.size(), b.rgb.size());
  EXPECT_NE(a.rgb, b.rgb);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) differing += a.rgb[i] != b.rgb[i];
  EXPECT_LE(differing, 8u * 8 * 3);
}

TEST(SyntheticImage, TheSeedDecides) {
  for (const ImagePattern pattern : kPatterns) {
    EXPECT_EQ(parse_image_pattern(name_of(pattern)).value(), pattern);
    const SyntheticImage image{pattern, 93, 61, 5};
    SyntheticImage other = image;
    other.seed = 6;
    EXPECT_EQ(draw(image).rgb, draw(image).rgb) << name_of(pattern);
    EXPECT_NE(draw(image).rgb, draw(other).rgb) << name_of(pattern);
    EXPECT_EQ(draw(image).rgb.size(), 93u * 61 * 3);
    EXPECT_EQ(draw({pattern, 1, 1, 0}).rgb.size(), 3u);
  }
  EXPECT_FALSE(parse_image_pattern("photo").has_value());
}

TEST(SyntheticImage, NoiseIsUniform) {
  const Pixels noise = draw({ImagePattern::kNoise, 256, 256, 1});
  std::array<int, 256> counts{};
  for (const std::uint8_t value : noise.rgb) ++counts[value];
  double chi_squared = 0;
  const double expected = 256.0 * 256 * 3 / 256;
  for (const int count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_GT(chi_squared, 170);  // 255 degrees of freedom: 99.99 % lie between
  EXPECT_LT(chi_squared, 350);
}

TEST(ImageSource, PatternsDifferInWhatTheyCost) {
  const auto bytes_a_pixel = [](ImagePattern pattern, int quality) {
    const SyntheticImage image{pattern, 512, 512, 1};
    const ImageEncoding encoding{ImageEncoding::Codec::kJpeg, quality};
    return draw_images({&image, 1}, encoding, 1).value()[0]->bytes / (512.0 * 512);
  };
  EXPECT_GT(bytes_a_pixel(ImagePattern::kNoise, 75), 0.5);
  EXPECT_LT(bytes_a_pixel(ImagePattern::kNoise, 85), 1.0);
  EXPECT_LT(bytes_a_pixel(ImagePattern::kGradient, 85), 0.05);
  EXPECT_LT(bytes_a_pixel(ImagePattern::kBlocks, 85), 0.2);
  EXPECT_GT(bytes_a_pixel(ImagePattern::kTextPage, 85), 0.1);
}

TEST(ImageSource, SaysWhatItHolds) {
  const SyntheticImage picture{ImagePattern::kTextPage, 70, 50, 9};
  for (const char* name : {"png", "jpeg", "jpeg85"}) {
    const ImageEncoding encoding = parse_image_encoding(name).value();
    const SharedImage image = draw_images({&picture, 1}, encoding, 1).value()[0];
    EXPECT_EQ(image->width, 70);
    EXPECT_EQ(image->height, 50);
    EXPECT_EQ(image->bytes, bytes_in(image).size());
    EXPECT_EQ(image->sha256, to_hex(sha256(bytes_in(image))));
    EXPECT_EQ(image->media_type, *name == 'p' ? "image/png" : "image/jpeg");
    EXPECT_EQ(pixels_in(image).width, 70);
  }
  const SharedImage png = draw_images({&picture, 1}, {ImageEncoding::Codec::kPng}, 1).value()[0];
  EXPECT_EQ(pixels_in(png).rgb, draw(picture).rgb);
  for (const char* name : {"", "jpg", "jpeg0", "jpeg101", "jpeg-5", "jpeg99999999999", "webp"})
    EXPECT_FALSE(parse_image_encoding(name).has_value()) << name;
}

TEST(ImageSource, ThreadsChangeNothingAndEveryImageIsDistinct) {
  std::vector<SyntheticImage> pictures;
  for (const ImagePattern pattern : kPatterns) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) pictures.push_back({pattern, 64, 48, seed});
  }
  const auto one = draw_images(pictures, {}, 1).value();
  const auto four = draw_images(pictures, {}, 4).value();
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    EXPECT_EQ(one[i]->sha256, four[i]->sha256);
    distinct.insert(one[i]->sha256);
  }
  EXPECT_EQ(distinct.size(), pictures.size());
  EXPECT_TRUE(draw_images({}, {}, 4).value().empty());
}

class ImageFolder : public ::testing::Test {
 protected:
  ImageFolder()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("images_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(root_ / "b");
    const auto pictures = std::vector<SyntheticImage>{{ImagePattern::kBlocks, 30, 20, 1},
                                                      {ImagePattern::kBlocks, 20, 30, 2}};
    const auto png = draw_images(pictures, {ImageEncoding::Codec::kPng}, 1).value();
    write("b/1.PNG", bytes_in(png[0]));
    write("a.png", bytes_in(png[1]));
    write("notes.txt", "no image");
  }
  ~ImageFolder() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
  }
  std::filesystem::path root_;
};

TEST_F(ImageFolder, ListsSortedAndReads) {
  const auto paths = list_images(root_).value();
  EXPECT_THAT(paths, ElementsAre((root_ / "a.png").string(), (root_ / "b/1.PNG").string()));
  const auto as_they_are = read_images(paths, std::nullopt, 2).value();
  EXPECT_EQ(as_they_are[0]->height, 30);
  EXPECT_EQ(as_they_are[1]->media_type, "image/png");
  EXPECT_EQ(as_they_are[1]->bytes, std::filesystem::file_size(paths[1]));
  const auto anew = read_images(paths, ImageEncoding{}, 2).value();
  EXPECT_EQ(anew[0]->media_type, "image/jpeg");
  EXPECT_EQ(anew[0]->width, 20);
}

TEST_F(ImageFolder, ErrorsNameTheFile) {
  write("c.jpg", "\xff\xd8\xff but no more");
  const auto broken = read_images(list_images(root_).value(), std::nullopt, 2);
  ASSERT_FALSE(broken.has_value());
  EXPECT_THAT(broken.error().message, HasSubstr("c.jpg: JPEG: "));
  EXPECT_EQ(list_images(root_ / "none").error().code, ErrorCode::kNotFound);
  std::filesystem::create_directories(root_ / "empty");
  EXPECT_THAT(list_images(root_ / "empty").error().message, HasSubstr("holds no"));
  const std::string missing = (root_ / "gone.png").string();
  EXPECT_EQ(read_images({&missing, 1}, std::nullopt, 1).error().code, ErrorCode::kNotFound);
}

TEST(PlanImages, DistinctUnlessAsked) {
  EXPECT_THAT(plan_images(4, {}, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(plan_images(5, {0, 2}, 1), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(plan_images(3, {1, 0}, 1), ElementsAre(0, 0, 0));
  EXPECT_TRUE(plan_images(0, {0.5, 7}, 1).empty());
}

TEST(PlanImages, ReuseIsTheShareOfRepeats) {
  const auto plan = plan_images(20'000, {0.3, 0}, 42);
  std::set<std::size_t> seen;
  for (const std::size_t image : plan) {
    EXPECT_LE(image, seen.size());  // new ones come in order
    seen.insert(image);
  }
  EXPECT_NEAR(static_cast<double>(seen.size()) / 20'000, 0.7, 0.01);
  EXPECT_EQ(plan, plan_images(20'000, {0.3, 0}, 42));
  EXPECT_NE(plan, plan_images(20'000, {0.3, 0}, 43));
  for (const std::size_t image : plan_images(1'000, {0.3, 5}, 1)) EXPECT_LT(image, 5u);
}

}  // namespace
}  // namespace saccade::bench

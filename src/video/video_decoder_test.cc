#include "video/video_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "base/json.h"
#include "image/pixels.h"

namespace saccade::video {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/videos/";
const std::string kDecoder = SACCADE_VIDEO_DECODER;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Read {
  Result<void> done;
  FileFacts facts;
  std::vector<Frame> frames;
};

// All frames, or those of `indices`.
Read read(const std::string& bytes, std::vector<std::int64_t> indices = {},
          DecodeLimits limits = {}, const std::string& program = kDecoder,
          std::function<bool()> cancelled = {}) {
  Read read;
  VideoReading reading;
  reading.choose = [&](const FileFacts& facts) -> Result<std::vector<std::int64_t>> {
    read.facts = facts;
    read.frames.clear();
    if (!indices.empty()) return indices;
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < facts.frames; ++i) all.push_back(i);
    return all;
  };
  reading.take = [&](Frame frame) -> Result<void> {
    read.frames.push_back(std::move(frame));
    return {};
  };
  reading.cancelled = std::move(cancelled);
  read.done = read_video(program, std::as_bytes(std::span(bytes)), limits, reading);
  return read;
}

struct Expected {
  std::int64_t frames = 0;
  double fps = 0;
  std::vector<double> seconds;
  std::vector<std::int64_t> kept;
  int width = 0;
  int height = 0;
  Pixels strip;
};

Expected expected_of(const std::string& name) {
  Expected expected;
  const auto tree = json::parse(read_file(kFolder + name + ".json"));
  EXPECT_TRUE(tree) << name;
  const json::object& facts = tree->get_object();
  expected.frames = facts.at("frames").to_number<std::int64_t>();
  expected.fps = facts.at("fps").to_number<double>();
  expected.width = facts.at("width").to_number<int>();
  expected.height = facts.at("height").to_number<int>();
  for (const auto& at : facts.at("seconds").as_array())
    expected.seconds.push_back(at.to_number<double>());
  for (const auto& at : facts.at("kept").as_array())
    expected.kept.push_back(at.to_number<std::int64_t>());
  const std::string png = read_file(kFolder + name + ".png");
  auto strip = decode_image(std::as_bytes(std::span(png)));
  EXPECT_TRUE(strip) << name;
  expected.strip = *std::move(strip);
  return expected;
}

// Pixel (x, y) of a frame as it was coded, out of one that was turned clockwise for showing.
std::size_t shown_at(int x, int y, int quarter_turns, const Expected& coded) {
  int shown_x = x;
  int shown_y = y;
  int shown_width = coded.width;
  if (quarter_turns == 1) {
    shown_x = coded.height - 1 - y;
    shown_y = x;
    shown_width = coded.height;
  } else if (quarter_turns == 2) {
    shown_x = coded.width - 1 - x;
    shown_y = coded.height - 1 - y;
  } else if (quarter_turns == 3) {
    shown_x = y;
    shown_y = coded.width - 1 - x;
    shown_width = coded.height;
  }
  return (static_cast<std::size_t>(shown_y) * static_cast<std::size_t>(shown_width) +
          static_cast<std::size_t>(shown_x)) *
         3;
}

// The largest and the mean difference of frame `kept` from the reference's.
std::pair<int, double> difference(const Frame& frame, const Expected& expected, std::size_t kept,
                                  int quarter_turns) {
  const auto width = static_cast<std::size_t>(expected.width);
  const auto height = static_cast<std::size_t>(expected.height);
  const std::uint8_t* coded = expected.strip.rgb.data() + kept * width * height * 3;
  int most = 0;
  double sum = 0;
  for (int y = 0; y < expected.height; ++y) {
    for (int x = 0; x < expected.width; ++x) {
      const std::uint8_t* shown = frame.rgb.data() + shown_at(x, y, quarter_turns, expected);
      for (int channel = 0; channel < 3; ++channel) {
        const int off = std::abs(*coded++ - shown[channel]);
        most = std::max(most, off);
        sum += off;
      }
    }
  }
  return {most, sum / static_cast<double>(width * height * 3)};
}

struct Kind {
  std::string file;
  int quarter_turns = 0;  // clockwise; a display matrix counts the other way
  double real_fps = 0;    // where the header's rate, which PyAV tells, is not what the frames say
  // From the reference's pictures, of 255. Chroma of 10 bits or odd sides is interpolated, which
  // each release of swscale does its own way: edges of saturated colours show it.
  int most = 3;
  double mean = 0.01;
};

class Videos : public testing::TestWithParam<Kind> {};

TEST_P(Videos, FramesTimesAndPicturesAreTheReferences) {
  const Kind& kind = GetParam();
  const Expected expected = expected_of(kind.file);
  const std::string bytes = read_file(kFolder + kind.file);
  const Read some = read(bytes, expected.kept);
  ASSERT_TRUE(some.done) << some.done.error().message;
  EXPECT_EQ(some.facts.frames, expected.frames);
  EXPECT_NEAR(some.facts.fps, kind.real_fps > 0 ? kind.real_fps : expected.fps, 1e-9);
  const bool turned = kind.quarter_turns % 2 == 1;
  EXPECT_EQ(some.facts.width, turned ? expected.height : expected.width);
  EXPECT_EQ(some.facts.height, turned ? expected.width : expected.height);
  ASSERT_EQ(some.frames.size(), expected.kept.size());
  for (std::size_t i = 0; i < expected.kept.size(); ++i) {
    EXPECT_EQ(some.frames[i].index, expected.kept[i]);
    if (!expected.seconds.empty()) {
      EXPECT_NEAR(some.frames[i].seconds,
                  expected.seconds[static_cast<std::size_t>(expected.kept[i])], 0.0011);
    }
    const auto [worst, mean] = difference(some.frames[i], expected, i, kind.quarter_turns);
    EXPECT_LE(worst, kind.most) << "frame " << expected.kept[i];
    EXPECT_LE(mean, kind.mean) << "frame " << expected.kept[i];
  }
  // The same pictures out of all of them.
  const Read all = read(bytes);
  ASSERT_TRUE(all.done) << all.done.error().message;
  ASSERT_EQ(all.frames.size(), static_cast<std::size_t>(expected.frames));
  for (std::size_t i = 0; i < expected.kept.size(); ++i)
    EXPECT_EQ(all.frames[static_cast<std::size_t>(expected.kept[i])].rgb, some.frames[i].rgb);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Videos,
    testing::Values(Kind{"h264.mp4"}, Kind{"h264_rate.mov"}, Kind{"h264.mkv"},
                    Kind{"exact.mp4", 0, 0, 0, 0}, Kind{"h264_444.mp4"},
                    Kind{"h264_full_range.mp4"}, Kind{"h264_bt709.mp4"}, Kind{"h264_fragments.mp4"},
                    Kind{"h264_sound.mp4"}, Kind{"h264_uneven.mkv", 0, 12 / (0.6 * 12 / 11)},
                    Kind{"h264_uneven.mp4", 0, 12 / (0.6 * 12 / 11)}, Kind{"hevc.mp4"},
                    Kind{"hevc_10bit.mp4", 0, 0, 25, 1.1}, Kind{"vp8.webm"},
                    Kind{"vp9_odd.webm", 0, 0, 27, 1.3}, Kind{"av1.mp4"}, Kind{"mpeg4.mp4"},
                    Kind{"one_frame.mp4"}, Kind{"long.mp4"}, Kind{"h264_turned_90.mp4", 3},
                    Kind{"h264_turned_180.mp4", 2}, Kind{"h264_turned_270.mp4", 1}),
    [](const auto& kind) {
      std::string name = kind.param.file;
      std::ranges::replace_if(name, [](char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

// What a decoder refuses, and the server's words for it.
void expect_refused(const std::string& bytes, ErrorCode code, const std::string& words,
                    const DecodeLimits& limits = {}) {
  const Read refused = read(bytes, {0}, limits);
  ASSERT_FALSE(refused.done) << words;
  EXPECT_EQ(refused.done.error().code, code) << refused.done.error().message;
  EXPECT_THAT(refused.done.error().message, HasSubstr(words));
}

TEST(VideoFiles, OtherKindsAreNamed) {
  expect_refused(read_file(kFolder + "refused_container.avi"), ErrorCode::kUndecodable,
                 "mp4, mov, mkv and webm");
  expect_refused(read_file(kFolder + "refused_codec.mkv"), ErrorCode::kUnsupported, "ffv1");
  expect_refused(read_file(kFolder + "refused_sound.mp4"), ErrorCode::kUndecodable, "no video");
}

TEST(VideoFiles, RandomAndEmptyBytes) {
  expect_refused("", ErrorCode::kUndecodable, "none of mp4");
  std::mt19937 random(7);
  std::string noise(200'000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  expect_refused(noise, ErrorCode::kUndecodable, "none of mp4");
}

// Lists that name files of the server, or of others, are no videos.
TEST(VideoFiles, PlaylistsOpenNothing) {
  for (const std::string list :
       {"ffconcat version 1.0\nfile '/etc/passwd'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n"
        "#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        "<?xml version=\"1.0\"?><MPD><Period><BaseURL>http://127.0.0.1/</BaseURL></Period></MPD>",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n"})
    expect_refused(list, ErrorCode::kUndecodable, "none of mp4");
}

TEST(VideoFiles, TruncatedAnywhere) {
  for (const std::string name : {"h264.mp4", "h264.mkv", "vp9_odd.webm", "h264_fragments.mp4"}) {
    const std::string whole = read_file(kFolder + name);
    for (std::size_t size = 1; size < whole.size(); size += whole.size() / 9) {
      const Read cut = read(whole.substr(0, size));
      // A file that ends between two frames is a shorter one; within a frame it is broken.
      if (cut.done) continue;
      EXPECT_TRUE(cut.done.error().code == ErrorCode::kUndecodable) << cut.done.error().message;
    }
    const Read cut = read(whole.substr(0, whole.size() / 2), {0});
    if (name == "h264.mp4") {
      EXPECT_FALSE(cut.done) << name;
    }
  }
}

// Bytes that are turned over at random end in frames or in an error, never in the end of the test.
TEST(VideoFiles, DamagedAnywhere) {
  std::mt19937 random(3);
  int refused = 0;
  for (const std::string name : {"h264.mp4", "hevc.mp4", "vp8.webm", "av1.mp4", "mpeg4.mp4"}) {
    const std::string whole = read_file(kFolder + name);
    for (int i = 0; i < 12; ++i) {
      std::string damaged = whole;
      for (int byte = 0; byte < 8; ++byte) damaged[random() % damaged.size()] ^= 0x5a;
      const Read made = read(damaged);
      if (made.done) continue;
      ++refused;
      const ErrorCode code = made.done.error().code;
      EXPECT_TRUE(code == ErrorCode::kUndecodable || code == ErrorCode::kUnsupported ||
                  code == ErrorCode::kTooLarge)
          << made.done.error().message;
    }
  }
  EXPECT_GT(refused, 0);
}

void put_big_endian(std::string& bytes, std::size_t at, std::uint32_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i)
    bytes.at(at + i) = static_cast<char>(value >> 8 * (width - 1 - i));
}

TEST(VideoFiles, AHeaderThatClaimsTwoBillionFrames) {
  const std::string whole = read_file(kFolder + "h264.mp4");
  for (const auto& [box, field] : {std::pair{"stts", 8}, {"stsz", 12}, {"ctts", 8}}) {
    std::string claims = whole;
    const std::size_t at = claims.find(box);
    ASSERT_NE(at, std::string::npos);
    put_big_endian(claims, at + static_cast<std::size_t>(field), 0x7fffffff, 4);
    const Read made = read(claims, {0});
    if (made.done) {
      EXPECT_LE(made.facts.frames, 20) << box;
      continue;
    }
    EXPECT_TRUE(made.done.error().code == ErrorCode::kUndecodable ||
                made.done.error().code == ErrorCode::kTooLarge)
        << made.done.error().message;
  }
}

TEST(VideoFiles, PixelsMemoryAndTimeAreBounded) {
  const std::string good = read_file(kFolder + "h264.mp4");
  expect_refused(good, ErrorCode::kTooLarge, "64x48 pixels, limit 3071",
                 {.max_pixels = 64 * 48 - 1});
  // As coded in VP8: 14 bits a side behind the first picture's start code.
  std::string huge = read_file(kFolder + "vp8.webm");
  const std::size_t code = huge.find("\x9d\x01\x2a");
  ASSERT_NE(code, std::string::npos);
  for (const std::size_t side : {0u, 2u}) {
    huge[code + 3 + side] = '\xff';
    huge[code + 4 + side] = '\x3f';
  }
  const Read sixteen = read(huge, {0});
  ASSERT_FALSE(sixteen.done);
  // 1 MiB beside what is mapped holds no decoder.
  const Read little = read(good, {0}, {.memory = 1 << 20});
  ASSERT_FALSE(little.done);
  const Read late = read(good, {0}, {.time = std::chrono::milliseconds(0)});
  ASSERT_FALSE(late.done);
  EXPECT_EQ(late.done.error().code, ErrorCode::kTimeout);
}

TEST(VideoFiles, WithoutADecoderABuildSaysSo) {
  const Read none = read("", {0}, {}, "");
  ASSERT_FALSE(none.done);
  EXPECT_EQ(none.done.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.done.error().message, HasSubstr("no FFmpeg"));
}

// Programs that are no decoder, as one is that was taken over.
TEST(Decoders, AreBelievedNothing) {
  std::signal(SIGPIPE, SIG_IGN);
  for (const auto& [program, words] : {std::pair{"/bin/true", "ended"},
                                       {"/bin/cat", "protocol"},
                                       {"/usr/bin/yes", "protocol"},
                                       {"/no/such/program", "no video decoder"}}) {
    const Read made = read("x", {0}, {}, program);
    ASSERT_FALSE(made.done) << program;
    EXPECT_THAT(made.done.error().message, HasSubstr(words)) << program;
  }
}

TEST(Decoders, ThatSayNothingEndInTimeOrWithTheirClient) {
  const std::string silent = "/usr/bin/sort";  // reads until its input ends, which it does not
  const Read late = read("x", {0}, {.time = std::chrono::milliseconds(200)}, silent);
  ASSERT_FALSE(late.done);
  EXPECT_EQ(late.done.error().code, ErrorCode::kTimeout);
  int looks = 0;
  const Read left = read("x", {0}, {}, silent, [&looks] { return ++looks > 3; });
  ASSERT_FALSE(left.done);
  EXPECT_EQ(left.done.error().code, ErrorCode::kCancelled);
}

TEST(Decoders, AreNotLeftBehindByAChoiceThatFails) {
  VideoReading reading;
  reading.choose = [](const FileFacts&) -> Result<std::vector<std::int64_t>> {
    return fail(ErrorCode::kInvalid, "none of them");
  };
  const std::string bytes = read_file(kFolder + "h264.mp4");
  const auto done = read_video(kDecoder, std::as_bytes(std::span(bytes)), {}, reading);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "none of them");
}

}  // namespace
}  // namespace saccade::video

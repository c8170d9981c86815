// Video files against the real binary: a file is answered as its frames are as a list, and what is
// no video, or takes too long, is refused while others are served.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/json.h"
#include "base/text/base64.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

const std::string kVideos = kGoldens + "videos/";
const std::string kOfVideos = R"(, "temperature": 0, "repetition_penalty": 1.0, "max_tokens": 24,
    "ignore_eos": true, "return_token_ids": true)";

std::string inline_file(const std::string& name) {
  return "data:video/mp4;base64," + base64_encode(read_file(kVideos + name));
}

// A file in vLLM's form; `more`: members of the part.
std::string video(const std::string& url, const std::string& more = "") {
  return R"({"type": "video_url", "video_url": {"url": ")" + url + "\"}" + more + "}";
}

// Frames of exact.mp4, which are those of tests/golden/frames, as Qwen's list.
std::string list(const std::vector<int>& indices, const std::string& fps) {
  std::string urls;
  for (const int index : indices)
    urls += std::string(urls.empty() ? "" : ",") + "\"data:image/png;base64," +
            base64_encode(read_file(kGoldens + "frames/wide_" + std::to_string(index) + ".png")) +
            '"';
  return R"({"type": "video", "video": [)" + urls + R"(], "fps": )" + fps + "}";
}

std::string video_body(const std::string& parts, const std::string& members = "") {
  return R"({"messages": [{"role": "user", "content": [)" + parts +
         R"(,{"type": "text", "text": "What?"}]}])" + members + "}";
}

RawAnswer ask_of(const ServerProcess& server, const std::string& parts,
                 const std::string& members = "") {
  return exchange(server.port(), "POST", "/v1/chat/completions",
                  video_body(parts, kOfVideos + members));
}

std::string tokens_of(const RawAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  const auto tree = json::parse(answer.body);
  if (!tree || answer.status != 200) return "";
  return boost::json::serialize(tree->at("choices").at(0).at("token_ids")) + " after " +
         boost::json::serialize(tree->at("usage").at("prompt_tokens"));
}

class VideoFiles : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::string> flags(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"serve", "--model", kGoldens + GetParam(), "--dtype", "float32",
                               "--allowed-local-media-path", kVideos});
    return more;
  }
};

// Five frames at one a second, lossless. Qwen2-VL and Qwen2.5-VL take whole groups in even steps,
// Qwen3-VL goes from the first frame to the last, and GLM-4.1V, which would have ten, has each once
// and the last one twice.
TEST_P(VideoFiles, AreAnsweredAsTheirFramesAre) {
  const ServerProcess server(SACCADE_BINARY, flags());
  const bool glm = GetParam().starts_with("glm");
  const bool ends = glm || GetParam().starts_with("qwen3");
  std::string all = ends ? list({0, 1, 2, 3, 4}, "1") : list({0, 1, 2, 3}, "0.8");
  if (glm) all = list({0, 1, 2, 3, 4, 4}, "1");
  const std::string expected = tokens_of(ask_of(server, all));
  EXPECT_EQ(tokens_of(ask_of(server, video(inline_file("exact.mp4")))), expected);
  EXPECT_EQ(tokens_of(ask_of(server, video("file://" + kVideos + "exact.mp4"))), expected);
  EXPECT_EQ(tokens_of(ask_of(server, R"({"type": "video", "video": "file://)" + kVideos +
                                         R"(exact.mp4", "fps": 2.0})")),
            expected);
  // Two frames: 0 and 2 in steps, or the first and the last, whose times a list cannot have.
  const std::string two = video(inline_file("exact.mp4"), R"(, "num_frames": 2)");
  const std::string pair = tokens_of(ask_of(server, two));
  EXPECT_NE(pair, expected);
  if (!ends) {
    EXPECT_EQ(pair, tokens_of(ask_of(server, list({0, 2}, "0.4"))));
  } else {
    EXPECT_EQ(pair, tokens_of(ask_of(server, list({0, 4}, "0.25"))));
  }
  EXPECT_EQ(tokens_of(ask_of(server, video(inline_file("exact.mp4")),
                             R"(, "mm_processor_kwargs": {"num_frames": 2})")),
            pair);
  EXPECT_EQ(tokens_of(ask_of(server, video(inline_file("exact.mp4")),
                             R"(, "media_io_kwargs": {"video": {"num_frames": 2}})")),
            pair);
  // Beside a list, in one request.
  EXPECT_EQ(tokens_of(ask_of(server, all + "," + video(inline_file("exact.mp4")))),
            tokens_of(ask_of(server, all + "," + all)));
}

TEST_P(VideoFiles, TheServersOwnChoice) {
  const ServerProcess server(
      SACCADE_BINARY, flags({"--media-io-kwargs", R"({"video": {"num_frames": 2, "fps": -1}})"}));
  const ServerProcess plain(SACCADE_BINARY, flags());
  const std::string file = inline_file("exact.mp4");
  EXPECT_EQ(tokens_of(ask_of(server, video(file))),
            tokens_of(ask_of(plain, video(file, R"(, "num_frames": 2)"))));
  EXPECT_EQ(tokens_of(ask_of(server, video(file, R"(, "fps": 1)"))),
            tokens_of(ask_of(plain, video(file))));
}

TEST_P(VideoFiles, EveryKindIsTaken) {
  const ServerProcess server(SACCADE_BINARY, flags());
  for (const std::string name :
       {"h264.mkv", "h264_rate.mov", "hevc.mp4", "hevc_10bit.mp4", "vp8.webm", "vp9_odd.webm",
        "av1.mp4", "mpeg4.mp4", "one_frame.mp4", "h264_uneven.mp4", "h264_turned_90.mp4"}) {
    const RawAnswer answer = ask_of(server, video("file://" + kVideos + name));
    EXPECT_EQ(answer.status, 200) << name << ": " << answer.body;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, VideoFiles,
                         testing::Values("qwen2_vl/odd_heads", "qwen2_5_vl/odd_heads",
                                         "qwen3_vl/odd_heads", "qwen3_5_vl/odd_heads",
                                         "glm4v/odd_heads"),
                         [](const auto& checkpoint) {
                           return checkpoint.param.substr(0, checkpoint.param.find('/'));
                         });

// Families whose frames are tiles: by their own number, or their file's (num_frames 3), in steps or
// from the middles of parts.
TEST(VideoFileTiles, AreAnsweredAsTheirFramesAre) {
  const std::vector<int> all = {0, 1, 2, 3, 4};
  for (const auto& [checkpoint, frames] :
       {std::pair<std::string, std::vector<int>>{"llava_onevision/newlines", all},
        {"llava_onevision/scaled", {0, 1, 3}},
        {"internvl3/hf3", all},
        {"internvl3/own3", all},
        {"internvl3/hf35", {0, 2, 4}},
        {"minicpmv/slices", all},
        {"minicpmv/plain", all}}) {
    SCOPED_TRACE(checkpoint);
    const ServerProcess server(SACCADE_BINARY,
                               {"serve", "--model", kGoldens + checkpoint, "--dtype", "float32"});
    const std::string expected = tokens_of(ask_of(server, list(frames, "1")));
    EXPECT_EQ(tokens_of(ask_of(server, video(inline_file("exact.mp4")))), expected);
    const RawAnswer refused =
        ask_of(server, video(inline_file("exact.mp4"), R"(, "total_pixels": 100000)"));
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_NE(refused.body.find("total_pixels is 100000"), std::string::npos) << refused.body;
  }
}

std::string prompt_of(const ServerProcess& server, const std::string& parts) {
  const RawAnswer counted = exchange(server.port(), "POST", "/tokenize", video_body(parts));
  EXPECT_EQ(counted.status, 200) << counted.body;
  const auto tokens = json::parse(counted.body);
  const auto text =
      json::parse(exchange(server.port(), "POST", "/detokenize",
                           R"({"tokens": )" + boost::json::serialize(tokens->at("tokens")) + "}")
                      .body);
  return std::string(text->at("prompt").as_string());
}

// A frame a second, or fewer over all of the film's tenths of a second.
TEST(VideoFileTiles, MiniCpmvTakesAFrameASecond) {
  const ServerProcess server(
      SACCADE_BINARY, {"serve", "--model", kGoldens + "minicpmv/slices", "--dtype", "float32"});
  EXPECT_EQ(tokens_of(ask_of(server, video(inline_file("exact.mp4"), R"(, "num_frames": 2)"))),
            tokens_of(ask_of(server, list({0, 4}, "1"))));
  for (const std::string name : {"fps", "min_frames"}) {
    const RawAnswer refused =
        ask_of(server, video(inline_file("exact.mp4"), ", \"" + name + "\": 2"));
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_NE(refused.body.find(name + " is not taken"), std::string::npos) << refused.body;
  }
}

// A file says how long it is; a list is as long as its last frame's time.
TEST(VideoFileTiles, SmolVlm2SaysHowLongTheFilmIs) {
  const ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGoldens + "smolvlm2/thirds"});
  const std::string file = prompt_of(server, video(inline_file("exact.mp4")));
  EXPECT_NE(file.find("series of five frames from a 0:00:05 [H:MM:SS] video."), std::string::npos)
      << file;
  EXPECT_NE(file.find("\nFrame from 00:04:"), std::string::npos) << file;
  const std::string frames = prompt_of(server, list({0, 1, 2}, "0.5"));
  EXPECT_NE(frames.find("series of three frames from a 0:00:04 [H:MM:SS] video."),
            std::string::npos)
      << frames;
  EXPECT_EQ(ask_of(server, video(inline_file("exact.mp4"))).status, 200);
}

// Frames at 0, 1/30, ... 7/30, then 0.3, 0.4, 0.5 and 0.6 s: a group says the mean of its two
// frames' own times. An average rate would have 0.4 and 0.5 s for the fourth and the fifth.
TEST(VideoFileTimes, AreTheFilesOwn) {
  const ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGoldens + "qwen3_vl/odd_heads"});
  const std::string prompt =
      prompt_of(server, video(inline_file("h264_uneven.mp4"), R"(, "fps": 100)"));
  std::string times;
  for (std::size_t at = prompt.find(" seconds>"); at != std::string::npos;
       at = prompt.find(" seconds>", at + 1))
    times += prompt.substr(at - 3, 3) + " ";
  EXPECT_EQ(times, "0.0 0.1 0.1 0.2 0.3 0.6 ") << prompt;
}

const std::string kVideoCheckpoint = kGoldens + "qwen2_5_vl/odd_heads";

void expect_refused(const ServerProcess& server, const std::string& part, int status,
                    const std::vector<std::string>& words, const std::string& members = "") {
  const RawAnswer refused = ask_of(server, part, members);
  EXPECT_EQ(refused.status, status) << refused.body;
  for (const std::string& word : words)
    EXPECT_NE(refused.body.find(word), std::string::npos) << word << " is not in " << refused.body;
}

TEST(VideoFileLimits, WhatIsNoVideoIsRefusedAndTheServerGoesOn) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", kVideoCheckpoint, "--allowed-local-media-path", kVideos,
                        "--max-video-frames", "8", "--max-image-pixels", "5000"});
  const auto data = [](const std::string& bytes) {
    return video("data:video/mp4;base64," + base64_encode(bytes));
  };
  expect_refused(server, data("#EXTM3U\nfile:///etc/passwd\n"), 422, {"video 0", "none of mp4"});
  expect_refused(server, data(std::string(5000, '\x13')), 422, {"video 0", "none of mp4"});
  expect_refused(server, data(read_file(kVideos + "h264.mp4").substr(0, 2000)), 422, {"video 0"});
  expect_refused(server, video("file://" + kVideos + "refused_codec.mkv"), 400, {"ffv1"});
  expect_refused(server, video("file:///etc/passwd"), 400, {"video 0"});
  expect_refused(server, video("https://example.org/film.mp4"), 400,
                 {"video 0", "allowed-media-domains"});
  expect_refused(server, video("data:video/mp4;base64,!!"), 422, {"video 0"});
  expect_refused(server, video(inline_file("exact.mp4")), 413, {"90x61", "5000"});
  const std::string film = inline_file("long.mp4");
  EXPECT_EQ(ask_of(server, video(film)).status, 200);  // eight frames of it
  expect_refused(server, video(film, R"(, "num_frames": 10)"), 400, {"10 frames", "8"});
  expect_refused(server, video(film, R"(, "min_frames": 5, "max_frames": 4)"), 400, {"min_frames"});
  expect_refused(server, video(film), 400, {"do_sample_frames"},
                 R"(, "mm_processor_kwargs": {"do_sample_frames": false})");
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(VideoFileLimits, BytesOfAFileHaveALimitOfTheirOwn) {
  const std::string path = kVideos + "exact.mp4";
  const auto bytes = std::filesystem::file_size(path);
  const std::vector<std::string> flags = {"serve",          "--model",
                                          kVideoCheckpoint, "--allowed-local-media-path",
                                          kVideos,          "--max-video-bytes"};
  const auto with = [&](std::uintmax_t limit) {
    auto all = flags;
    all.push_back(std::to_string(limit));
    return all;
  };
  const ServerProcess fits(SACCADE_BINARY, with(bytes));
  EXPECT_EQ(ask_of(fits, video(inline_file("exact.mp4"))).status, 200);
  EXPECT_EQ(ask_of(fits, video("file://" + path)).status, 200);
  const ServerProcess over(SACCADE_BINARY, with(bytes - 1));
  const std::string limit = "limit " + std::to_string(bytes - 1) + " (--max-video-bytes)";
  expect_refused(over, video(inline_file("exact.mp4")), 413, {"video 0", limit});
  expect_refused(over, video("file://" + path), 413,
                 {"video 0", std::to_string(bytes) + " bytes", limit});
}

TEST(VideoFileLimits, BytesOfFramesAreCountedBeforeTheyAreDecoded) {
  const ServerProcess server(
      SACCADE_BINARY, {"serve", "--model", kVideoCheckpoint, "--max-request-media-bytes", "40000"});
  expect_refused(server, video(inline_file("exact.mp4")), 413,
                 {"video 0", "40000", "--max-request-media-bytes"});
}

// A server whose decoder is another program, in a folder of its own.
class OtherDecoder {
 public:
  explicit OtherDecoder(const std::string& decoder)
      : folder_(std::filesystem::path(SACCADE_BINARY).parent_path() /
                ("other-decoder-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder_);
    std::filesystem::create_hard_link(SACCADE_BINARY, folder_ / "saccade");
    if (!decoder.empty())
      std::filesystem::create_symlink(decoder, folder_ / "saccade-video-decoder");
  }
  ~OtherDecoder() { std::filesystem::remove_all(folder_); }
  std::string binary() const { return folder_ / "saccade"; }
  // Of it that run now.
  int running() const {
    int count = 0;
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(process.path() / "cmdline");
      std::string name;
      std::getline(file, name, '\0');
      count += name == (folder_ / "saccade-video-decoder").string();
    }
    return count;
  }
  bool comes_to(int count) const {
    for (int i = 0; i < 6'000 && running() != count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return running() == count;
  }

 private:
  std::filesystem::path folder_;
};

TEST(VideoDecoders, ABuildWithoutOneSaysSo) {
  const OtherDecoder none("");
  const ServerProcess server(none.binary(), {"serve", "--model", kVideoCheckpoint});
  expect_refused(server, video(inline_file("exact.mp4")), 400, {"video 0", "no FFmpeg"});
}

// It reads until its input ends, which it does not: a decoder that hangs.
constexpr auto kSilent = "/usr/bin/sort";

TEST(VideoDecoders, ThatHangHoldUpNobodyAndEndWithTheirClients) {
  const OtherDecoder silent(kSilent);
  ServerProcess server(silent.binary(), {"serve", "--model", kVideoCheckpoint, "--worker-threads",
                                         "1", "--video-threads", "2", "--video-timeout", "3600"});
  const std::string request = video_body(video(inline_file("exact.mp4")));
  std::vector<TcpSocket> clients;
  for (int i = 0; i < 3; ++i) {  // the third waits for one of the other two
    clients.push_back(TcpSocket::connect(server.port()));
    ASSERT_TRUE(clients.back().send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
        std::to_string(request.size()) + "\r\n\r\n" + request));
  }
  EXPECT_TRUE(silent.comes_to(2));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(ask_of(server, R"({"type": "text", "text": "a"})").status, 200);
  EXPECT_EQ(silent.running(), 2);
  for (TcpSocket& client : clients) client.close();
  EXPECT_TRUE(silent.comes_to(0));
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(VideoDecoders, ThatHangEndInTime) {
  const OtherDecoder silent(kSilent);
  ServerProcess server(silent.binary(),
                       {"serve", "--model", kVideoCheckpoint, "--video-timeout", "1"});
  expect_refused(server, video(inline_file("exact.mp4")), 422, {"video 0", "--video-timeout"});
  EXPECT_TRUE(silent.comes_to(0));
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(VideoDecoders, EndWithTheirServer) {
  const OtherDecoder silent(kSilent);
  ServerProcess server(silent.binary(), {"serve", "--model", kVideoCheckpoint, "--drain-seconds",
                                         "1", "--video-timeout", "3600"});
  auto asked = std::async(std::launch::async,
                          [&] { return ask_of(server, video(inline_file("exact.mp4"))).status; });
  EXPECT_TRUE(silent.comes_to(1));
  server.stop();
  EXPECT_TRUE(silent.comes_to(0));
  asked.wait();
}

}  // namespace
}  // namespace saccade::test

// Videos as lists of frames, against the real binary: every form that clients send gives the
// reference's answer, and what is no such list is refused by name. Files: video_file_test.cc.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/json.h"
#include "base/text/base64.h"
#include "image/pixels.h"
#include "model/golden.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

const std::string kFrames = kGoldens + "frames/";
constexpr std::int64_t kVideoPad = 473;
const std::string kOfFrames = R"(, "temperature": 0, "repetition_penalty": 1.0, "max_tokens": 64,
    "ignore_eos": true, "return_token_ids": true)";

std::string frame(const std::string& shot, int index) {
  return base64_encode(read_file(kFrames + shot + "_" + std::to_string(index) + ".png"));
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string joined(const std::vector<std::string>& each) {
  std::string text;
  for (const std::string& one : each) text += (text.empty() ? "" : ",") + one;
  return text;
}

// The first `count` frames of a shot in vLLM's form and in Qwen's; `more`: members of the part.
std::string video_url(const std::vector<std::string>& frames, const std::string& more = "") {
  return R"({"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,)" + joined(frames) +
         R"("})" + more + "}";
}
std::string video_list(const std::vector<std::string>& urls, const std::string& more = "") {
  std::vector<std::string> each;
  for (const std::string& url : urls) each.push_back(quoted(url));
  return R"({"type": "video", "video": [)" + joined(each) + "]" + more + "}";
}
std::vector<std::string> shot(const std::string& name, int count, const std::string& head = "") {
  std::vector<std::string> frames;
  for (int i = 0; i < count; ++i) frames.push_back(head + frame(name, i));
  return frames;
}
const std::string kPng = "data:image/png;base64,";

std::string text(const std::string& words) {
  return R"({"type": "text", "text": ")" + words + "\"}";
}
std::string message(const std::string& parts, const std::string& role = "user") {
  return R"({"role": ")" + role + R"(", "content": [)" + parts + "]}";
}
std::string frames_body(const std::string& messages, const std::string& members = "") {
  return R"({"messages": [)" + messages + "]" + members + "}";
}

class Videos : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::string> flags(const std::string& checkpoint,
                                        std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"serve", "--model", kGoldens + checkpoint, "--dtype", "float32",
                               "--allowed-local-media-path", kFrames, "--max-video-frames", "20"});
    return more;
  }
  void SetUp() override {
    checkpoint_ = GetParam();
    server_ = std::make_unique<ServerProcess>(SACCADE_BINARY, flags(checkpoint_));
  }
  void TearDown() override { EXPECT_EQ(server_->stop(), 0) << server_->log(); }

  RawAnswer post(const std::string& path, const std::string& request) const {
    return exchange(server_->port(), "POST", path, request);
  }
  std::vector<std::int64_t> answer(const std::string& messages,
                                   const std::string& members = "") const {
    std::vector<std::int64_t> tokens;
    const auto tree =
        parsed(post("/v1/chat/completions", frames_body(messages, kOfFrames + members)));
    if (!tree.get_object().contains("choices")) return tokens;
    for (const auto& id : tree.at("choices").at(0).at("token_ids").as_array())
      tokens.push_back(id.as_int64());
    return tokens;
  }
  std::vector<std::int64_t> greedy(const std::string& name) const {
    const auto golden = read_golden(kGoldens + checkpoint_ + "/golden/" + name + ".safetensors");
    EXPECT_TRUE(golden);
    return {golden->greedy.begin(), golden->greedy.end()};
  }
  // The words that the generator put into a golden's prompt: texts of its first message.
  std::vector<std::string> words(const std::string& name, std::size_t turn = 0) const {
    const auto golden = read_golden(kGoldens + checkpoint_ + "/golden/" + name + ".safetensors");
    std::vector<std::string> texts;
    for (const auto& part : golden->messages.at(turn).at("content").as_array())
      if (part.at("type") == "text") texts.emplace_back(part.at("text").get_string());
    return texts;
  }
  void expect_refused(const std::string& part, int status, std::vector<std::string> names,
                      const std::string& members = "") const {
    const RawAnswer refused =
        post("/v1/chat/completions", frames_body(message(part + "," + text("?")), members));
    EXPECT_EQ(refused.status, status) << refused.body;
    for (const std::string& name : names)
      EXPECT_NE(refused.body.find(name), std::string::npos)
          << name << " is not in " << refused.body;
  }

  std::string checkpoint_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_P(Videos, EveryFormIsTheReferencesAnswer) {
  const auto texts = words("video_odd");
  const auto expected = greedy("video_odd");
  const auto around = [&](const std::string& video) {
    return message(text(texts.at(0)) + "," + video + "," + text(texts.at(1)));
  };
  std::vector<std::string> files;
  for (int i = 0; i < 5; ++i)
    files.push_back("file://" + kFrames + "wide_" + std::to_string(i) + ".png");
  EXPECT_EQ(answer(around(video_url(shot("wide", 5), R"(, "fps": 1)"))), expected);
  EXPECT_EQ(answer(around(video_list(shot("wide", 5, kPng), R"(, "fps": 1.0)"))), expected);
  EXPECT_EQ(answer(around(video_list(files, R"(, "sample_fps": 1)"))), expected);
  EXPECT_EQ(answer(around(video_url(shot("wide", 5))), R"(, "mm_processor_kwargs": {"fps": [1]})"),
            expected);
  EXPECT_EQ(answer(around(video_url(shot("wide", 5))),
                   R"(, "media_io_kwargs": {"video": {"fps": 24, "total_num_frames": 120,
                        "frames_indices": [0, 24, 48, 72, 96]}})"),
            expected);
}

TEST_P(Videos, SeveralAmongImagesAndTurns) {
  const std::string small =
      R"({"type": "image_url", "image_url": {"url": ")" + kPng +
      base64_encode(read_file(kGoldens + checkpoint_ + "/../images/small.png")) + R"("}})";
  const auto picture = [&](const std::string& name) {
    return R"({"type": "image_url", "image_url": {"url": ")" + kPng +
           base64_encode(read_file(kGoldens + checkpoint_ + "/../images/" + name)) + R"("}})";
  };
  auto texts = words("video_mixed");
  EXPECT_EQ(
      answer(message(small + "," + video_url(shot("wide", 4), R"(, "fps": 3)") + "," +
                     text(texts.at(0)) + "," + video_list(shot("tall", 3, kPng), R"(, "fps": 24)") +
                     "," + picture("square.png") + "," + text(texts.at(1)))),
      greedy("video_mixed"));
  const std::string turns =
      message(video_url(shot("tall", 2)) + "," + text(words("video_turns").at(0))) + "," +
      message(text(words("video_turns", 1).at(0)), "assistant") + "," +
      message(text(words("video_turns", 2).at(0)) + "," + picture("wide.png") + "," +
              video_list(shot("wide", 3, kPng)));
  EXPECT_EQ(answer(turns), greedy("video_turns"));
}

TEST_P(Videos, AreCounted) {
  const std::string one =
      message(video_url(shot("wide", 5)) + "," + video_list(shot("tall", 3, kPng)) + "," +
              text("And <|video_pad|>?"));
  const auto tokens = parsed(post("/tokenize", frames_body(one)));
  EXPECT_EQ(boost::json::serialize(tokens.at("video_tokens")), "[18,16]");
  EXPECT_EQ(boost::json::serialize(tokens.at("image_tokens")), "[]");
  std::int64_t placeholders = 0;
  for (const auto& id : tokens.at("tokens").as_array()) placeholders += id.as_int64() == kVideoPad;
  EXPECT_EQ(placeholders, 34);  // what a user writes out stays text
  const auto usage =
      parsed(post("/v1/chat/completions", frames_body(one, R"(, "max_tokens": 1)"))).at("usage");
  EXPECT_EQ(usage.at("prompt_tokens_details").at("video_tokens").as_int64(), 34);
  EXPECT_EQ(usage.at("prompt_tokens_details").at("image_tokens").as_int64(), 0);
  EXPECT_EQ(usage.at("prompt_tokens").to_number<std::size_t>(),
            tokens.at("tokens").as_array().size());

  const auto counted = [&](const std::string& part, const std::string& members = "") {
    return boost::json::serialize(
        parsed(post("/tokenize", frames_body(message(part), members))).at("video_tokens"));
  };
  EXPECT_EQ(counted(video_url(shot("wide", 4), R"(, "max_pixels": 3136)")), "[4]");
  EXPECT_EQ(counted(video_url(shot("wide", 4), R"(, "total_pixels": 6272)")), "[4]");
  EXPECT_EQ(counted(video_url(shot("wide", 4)), R"(, "mm_processor_kwargs": {"max_pixels": 3136})"),
            "[4]");
  const auto card = parsed(exchange(server_->port(), "GET", "/v1/models", ""));
  EXPECT_TRUE(card.at("data").at(0).at("capabilities").at("video").as_bool());
}

TEST_P(Videos, RefusesWhatIsNoListOfFrames) {
  const std::string good = frame("wide", 0);
  expect_refused(R"({"type": "video_url", "video_url": {"url": "data:video/mp4,AAAA"}})", 400,
                 {"video/mp4", "FRAME,FRAME"});
  expect_refused(R"({"type": "video", "video": "ftp://a/film.mp4"})", 400, {"film.mp4", "frames"});
  expect_refused(video_list({}), 400, {"no frames"});
  expect_refused(video_url({good, ""}), 400, {"frame 1", "empty"});
  expect_refused(video_url({good, "!!"}), 422, {"video 0, frame 1"});
  expect_refused(video_url({good, good.substr(0, 200)}), 422, {"video 0, frame 1"});
  expect_refused(video_list({kPng + good, kPng + frame("tall", 0)}), 400,
                 {"frame 1", "47x100", "90x61"});
  expect_refused(video_url(std::vector<std::string>(21, good)), 400, {"21 frames", "20"});
  expect_refused(video_list({kPng + good, "file:///etc/passwd"}), 400, {"video 0, frame 1"});
  expect_refused(video_list({"http://example.org/1.png"}), 400,
                 {"video 0, frame 0", "allowed-media-domains"});
  expect_refused(video_url({good}, R"(, "fps": 0.0001)"), 400, {"video 0", "fps"});
  expect_refused(video_url({good}, R"(, "min_pixels": 9000, "max_pixels": 5000)"), 400,
                 {"video 0"});
  expect_refused(video_url({good}, R"(, "max_pixels": 90000, "min_pixels": 90000)"), 413,
                 {"video 0", "patches"});
  expect_refused(video_url({good}), 400, {"do_sample_frames"},
                 R"(, "mm_processor_kwargs": {"do_sample_frames": true})");
  std::string many;
  for (int i = 0; i < 17; ++i) many += (i == 0 ? "" : ",") + video_url({good});
  expect_refused(many, 400, {"At most 16 video(s)", "17"});
}

INSTANTIATE_TEST_SUITE_P(Families, Videos,
                         testing::Values("qwen2_vl/odd_heads", "qwen2_5_vl/odd_heads"),
                         [](const auto& checkpoint) {
                           return checkpoint.param.substr(0, checkpoint.param.find('/'));
                         });

// What fits no context is refused before a frame is decoded, and all bytes of a request have one
// limit.
TEST(VideoLimits, TokensAndBytesOfARequest) {
  constexpr std::size_t kBytes = 200'000;
  const ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGoldens + "qwen2_vl/odd_heads",
                                              "--max-request-media-bytes", std::to_string(kBytes)});
  const auto send = [&](const std::string& parts) {
    return exchange(server.port(), "POST", "/tokenize", frames_body(message(parts)));
  };
  const auto png = encode_png(Pixels{28, 28, std::vector<std::uint8_t>(28 * 28 * 3)});
  ASSERT_TRUE(png);
  ASSERT_LT(1200 * png->size(), kBytes);
  const std::string dot = base64_encode({reinterpret_cast<const char*>(png->data()), png->size()});
  // 200 groups of 4 tokens.
  const std::string video = video_url(std::vector<std::string>(400, dot));
  EXPECT_EQ(send(video + "," + video).status, 200);
  const RawAnswer tokens = send(video + "," + video + "," + video);
  EXPECT_EQ(tokens.status, 400) << tokens.body;
  for (const std::string word : {"video 2", "2400", "2048"})
    EXPECT_NE(tokens.body.find(word), std::string::npos) << tokens.body;

  const std::string large = frame("wide", 0);
  const RawAnswer bytes =
      send(video_url(std::vector<std::string>(2 * kBytes / large.size() + 1, large)));
  EXPECT_EQ(bytes.status, 413) << bytes.body;
  EXPECT_NE(bytes.body.find("limit 200000"), std::string::npos) << bytes.body;
}

TEST(VideoLimits, OtherFamiliesAreNamed) {
  for (const auto& [checkpoint, family] :
       {std::pair{"gemma3/pooled", "gemma-3"}, {"qwen2/odd_heads", "qwen2"}}) {
    const ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGoldens + checkpoint});
    const RawAnswer answer = exchange(server.port(), "POST", "/v1/chat/completions",
                                      frames_body(message(video_url({frame("wide", 0)}))));
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find(std::string("family ") + family), std::string::npos) << answer.body;
    const auto card = parsed(exchange(server.port(), "GET", "/v1/models", ""));
    EXPECT_FALSE(card.at("data").at(0).at("capabilities").at("video").as_bool());
  }
}

}  // namespace
}  // namespace saccade::test

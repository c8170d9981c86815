// Image sizes under load on the real server: they fall while requests wait and come back, and what
// the answers say of them is so. Costs are planted, so that what is decided does not depend on how
// fast this machine is.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>

#include "base/json.h"
#include "base/rng.h"
#include "base/text/base64.h"
#include "image/pixels.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/command.h"
#include "tests/support/eventually.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

constexpr int kTrafficSide = 448;  // 256 tokens: as many as the model takes
constexpr std::int64_t kNative = 256;

std::string noise_url(std::uint64_t seed, int side = kTrafficSide) {
  Rng rng(seed);
  Pixels pixels{side, side, std::vector<std::uint8_t>(static_cast<std::size_t>(side * side * 3))};
  for (std::uint8_t& value : pixels.rgb) value = static_cast<std::uint8_t>(rng());
  const auto png = encode_png(pixels);
  return "data:image/png;base64," +
         base64_encode({reinterpret_cast<const char*>(png->data()), png->size()});
}

std::string asked_about(const std::string& url, const std::string& members = "",
                        const std::string& in_part = "") {
  return R"({"temperature": 0, "max_tokens": 2, "messages": [{"role": "user", "content": [)"
         R"({"type": "image_url", "image_url": {"url": ")" +
         url + "\"" + in_part + R"(}}, {"type": "text", "text": "What is it?"}]}])" + members + "}";
}

// A target that this machine keeps however busy it is: then the level alone decides.
const std::string kPatient = R"(, "ttft_slo_ms": 3600000)";

const std::string kText =
    R"({"temperature": 0, "max_tokens": 8, "messages": [{"role": "user", "content": "Count."}]})";

struct Sized {
  int status = 0;
  std::int64_t image_tokens = 0;
  std::int64_t prompt_tokens = 0;
  double scale = -1;
  std::string text;
  std::string head;
};

Sized ask(const ServerProcess& server, const std::string& body, const std::string& headers = "") {
  const RawAnswer answer =
      exchange(server.port(), "POST", "/v1/chat/completions", body, -1, headers);
  Sized sized;
  sized.status = answer.status;
  sized.head = answer.head;
  if (const std::size_t at = answer.head.find("x-saccade-image-scale: "); at != std::string::npos)
    sized.scale = std::strtod(answer.head.c_str() + at + 23, nullptr);
  const auto tree = json::parse(answer.body);
  if (answer.status != 200 || !tree) return sized;
  const auto& usage = tree->at("usage");
  sized.prompt_tokens = usage.at("prompt_tokens").as_int64();
  sized.image_tokens = usage.at("prompt_tokens_details").at("image_tokens").as_int64();
  sized.text = std::string(tree->at("choices").at(0).at("message").at("content").as_string());
  return sized;
}

// Nobody waits, and the level is at its top.
bool at_rest(const ServerProcess& server) {
  return metric(server.port(), "saccade:image_level_tokens") == static_cast<double>(kNative) &&
         metric(server.port(), "saccade:predicted_wait_seconds") == 0;
}

// A profile as `saccade profile` makes it, with other times: 2.4 ms a token for encoding and 1 ms
// for prefill. An image of 256 tokens is 0.9 s of a target of 2 s.
class TrafficSizes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryDirectory>();
    const CommandOutcome made = run_command(
        SACCADE_BINARY, {"profile", kGlimpse, "--profile-folder", folder_->path(), "--output",
                         *folder_ / "measured.json", "--max-model-len", "512"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    output_ = made.out;
    auto tree = json::parse_file(*folder_ / "measured.json");
    ASSERT_TRUE(tree);
    measured_ = *tree;
    for (const auto& [stage, ms] : {std::pair{"encode", 2.4}, std::pair{"prefill", 1.0}}) {
      for (auto& point : tree->at(stage).as_array())
        point.as_object()["ms"] = ms * static_cast<double>(point.at("tokens").as_int64());
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_->path())) {
      if (entry.path().filename().string().starts_with("profile-"))
        write_file(entry.path().string(), boost::json::serialize(*tree));
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::unique_ptr<ServerProcess> serve(std::vector<std::string> more) {
    more.insert(more.begin(), {"serve", kGlimpse, "--profile-folder", folder_->path()});
    return std::make_unique<ServerProcess>(SACCADE_BINARY, std::move(more));
  }
  static std::unique_ptr<ServerProcess> dynamic(std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"--image-size", "dynamic", "--ttft-target", "2s", "--image-floor", "16"});
    return serve(std::move(more));
  }

  static std::unique_ptr<TemporaryDirectory> folder_;
  static std::string output_;
  static json::value measured_;
};
std::unique_ptr<TemporaryDirectory> TrafficSizes::folder_;
std::string TrafficSizes::output_;
json::value TrafficSizes::measured_;

TEST_F(TrafficSizes, TheProfileMeasuresBothStagesApart) {
  EXPECT_NE(output_.find("encode:"), std::string::npos) << output_;
  EXPECT_NE(output_.find("prefill:"), std::string::npos) << output_;
  EXPECT_NE(output_.find("R2"), std::string::npos) << output_;
  for (const char* stage : {"encode", "prefill"}) {
    const auto& points = measured_.at(stage).as_array();
    EXPECT_GE(points.size(), 4u) << stage;
    std::int64_t last = 0;
    for (const auto& point : points) {
      EXPECT_GT(point.at("ms").to_number<double>(), 0);
      EXPECT_GT(point.at("tokens").as_int64(), last);
      last = point.at("tokens").as_int64();
    }
    for (const char* weight : {"base_ms", "ms_per_token", "ms_per_token_squared"})
      EXPECT_GE(measured_.at(std::string(stage) + "_cost").at(weight).to_number<double>(), 0);
  }
  EXPECT_EQ(measured_.at("encode").as_array().back().at("tokens").as_int64(), kNative);
  // What is there is used again, and not measured: the planted times come out.
  const CommandOutcome again = run_command(
      SACCADE_BINARY,
      {"profile", kGlimpse, "--profile-folder", folder_->path(), "--max-model-len", "512"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.out.find("2.4 ms a token"), std::string::npos) << again.out << again.err;
}

TEST_F(TrafficSizes, SizesFallUnderLoadAndComeBack) {
  const auto server = dynamic();
  const Sized idle = ask(*server, asked_about(noise_url(1), kPatient));
  ASSERT_EQ(idle.status, 200);
  EXPECT_EQ(idle.image_tokens, kNative);
  EXPECT_EQ(idle.scale, 1);
  const std::int64_t text_tokens = idle.prompt_tokens - idle.image_tokens;

  std::vector<std::string> bodies;
  for (std::uint64_t i = 0; i < 16; ++i) bodies.push_back(asked_about(noise_url(100 + i)));
  std::vector<std::future<Sized>> answers;
  for (const std::string& body : bodies)
    answers.push_back(std::async(std::launch::async, [&] { return ask(*server, body); }));
  std::int64_t least = kNative;
  int reduced = 0;
  for (auto& answer : answers) {
    const Sized sized = answer.get();
    ASSERT_EQ(sized.status, 200);
    // What is said is what was done: the prompt has as many tokens less.
    EXPECT_EQ(sized.prompt_tokens - sized.image_tokens, text_tokens);
    EXPECT_NEAR(sized.scale, static_cast<double>(sized.image_tokens) / kNative, 0.006);
    EXPECT_GE(sized.image_tokens, 9);  // squares: up to 16 tokens are 3 x 3 at the least
    least = std::min(least, sized.image_tokens);
    reduced += sized.image_tokens < kNative ? 1 : 0;
  }
  EXPECT_GE(reduced, 8);
  EXPECT_LE(least, 64);
  EXPECT_EQ(metric(server->port(), "saccade:images_reduced_total"), reduced);

  EXPECT_TRUE(eventually([&] { return at_rest(*server); }));
  EXPECT_EQ(ask(*server, asked_about(noise_url(2), kPatient)).image_tokens, kNative);
  EXPECT_EQ(server->stop(), 0);
}

// Text is untouched, and an image that is not reduced is answered as ever.
TEST_F(TrafficSizes, AnswersAreThoseOfAServerWithoutSizes) {
  const auto plain = serve({});
  const auto sized = dynamic({"--ttft-target", "3600s"});
  for (const std::string& body :
       {kText, asked_about(noise_url(5)), asked_about(noise_url(6, 100))}) {
    const Sized a = ask(*plain, body);
    const Sized b = ask(*sized, body);
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  }
  EXPECT_EQ(ask(*plain, kText).head.find("x-saccade-image-scale"), std::string::npos);
  EXPECT_EQ(ask(*sized, kText).head.find("x-saccade-image-scale"), std::string::npos);
}

TEST_F(TrafficSizes, ClientsSayWhatTheyNeed) {
  const auto server = dynamic();
  // 0.3 s leave 79 tokens with 2.4 + 1 ms a token and a few of text.
  const std::string hurry = R"(, "ttft_slo_ms": 300)";
  const Sized reduced = ask(*server, asked_about(noise_url(10), hurry));
  EXPECT_LE(reduced.image_tokens, 64);
  EXPECT_LE(ask(*server, asked_about(noise_url(11)), "x-llm-d-slo-ttft-ms: 300\r\n").image_tokens,
            64);
  EXPECT_EQ(ask(*server, asked_about(noise_url(12), hurry, R"(, "detail": "high")")).image_tokens,
            kNative);
  const Sized bounded =
      ask(*server, asked_about(noise_url(13), hurry, R"(, "min_pixels": 100000)"));
  EXPECT_GE(bounded.image_tokens, 100'000 / 784);
  EXPECT_LT(bounded.image_tokens, kNative);
  EXPECT_EQ(
      ask(*server, asked_about(noise_url(14), hurry, R"(, "min_pixels": 9000, "max_pixels": 5000)"))
          .status,
      400);
  for (const char* bad : {R"(, "ttft_slo_ms": 0)", R"(, "ttft_slo_ms": "fast")"})
    EXPECT_EQ(ask(*server, asked_about(noise_url(15), bad)).status, 400) << bad;
  EXPECT_EQ(ask(*server, kText, "x-llm-d-slo-ttft-ms: -1\r\n").status, 400);

  // Another turn about an image has it as the first one had it, and it is there.
  ASSERT_TRUE(eventually([&] { return at_rest(*server); }));
  const std::string turn = asked_about(noise_url(16), kPatient);
  EXPECT_EQ(ask(*server, turn).image_tokens, kNative);
  const double encoded = metric(server->port(), "saccade:images_encoded_total");
  EXPECT_EQ(ask(*server, turn).image_tokens, kNative);
  EXPECT_EQ(metric(server->port(), "saccade:images_encoded_total"), encoded);
}

TEST_F(TrafficSizes, WhatIsTooLateIsRefusedWhenAskedTo) {
  const auto server = dynamic({"--over-target", "refuse"});
  const Sized taken = ask(*server, asked_about(noise_url(20), kPatient, R"(, "detail": "high")"));
  EXPECT_EQ(taken.status, 200);
  const Sized late =
      ask(*server, asked_about(noise_url(21), R"(, "ttft_slo_ms": 500)", R"(, "detail": "high")"));
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.head.find("Retry-After: "), std::string::npos) << late.head;
  EXPECT_EQ(metric(server->port(), "saccade:requests_refused_late_total"), 1);
}

TEST_F(TrafficSizes, ThePublishedRule) {
  // 144 tokens: sides of 12 * 28 pixels.
  const auto fixed = serve({"--image-size", "static:144"});
  EXPECT_EQ(ask(*fixed, asked_about(noise_url(30))).image_tokens, 144);
  EXPECT_EQ(ask(*fixed, asked_about(noise_url(31, 100))).image_tokens, 16);
  // 17,015 tokens in 2 s leave every image alone that this model takes.
  const auto seed = serve({"--image-size", "seed", "--ttft-target", "2s"});
  EXPECT_EQ(ask(*seed, asked_about(noise_url(32))).image_tokens, kNative);
}

TEST_F(TrafficSizes, WhatOneProcessCannotDoIsRefusedByName) {
  const CommandOutcome ended = run_command(
      SACCADE_BINARY, {"serve", kGlimpse, "--image-size", "seed-as-published", "--port", "0"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE((ended.out + ended.err).find("seed-as-published"), std::string::npos);
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"--image-size", "static:x"},
                                              {"--seed-line", "0.2,1", "--image-size", "dynamic"},
                                              {"--seed-line", "0.2,1"},
                                              {"--ttft-target", "soon"},
                                              {"--ttft-target", "0s", "--image-size", "dynamic"}}) {
    std::vector<std::string> words = {"serve", kGlimpse, "--port", "0"};
    words.insert(words.end(), bad.begin(), bad.end());
    const CommandOutcome wrong = run_command(SACCADE_BINARY, words);
    EXPECT_NE(wrong.exit_code, 0) << bad.back();
    EXPECT_NE((wrong.out + wrong.err).find(bad.front()), std::string::npos) << wrong.err;
  }
}

}  // namespace
}  // namespace saccade::test

#include "bench/methods/profile_ttft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <set>

#include "net/server/http_server.h"

namespace saccade::bench {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ProfileTtft, Sides) {
  EXPECT_EQ(parse_sides("256,512,1024").value(), (std::vector<std::int32_t>{256, 512, 1024}));
  EXPECT_EQ(parse_sides("100..300:100").value(), (std::vector<std::int32_t>{100, 200, 300}));
  EXPECT_EQ(parse_sides("100..250:100").value(), (std::vector<std::int32_t>{100, 200, 250}));
  EXPECT_EQ(parse_sides("1700..3840").value().front(), 1700);
  EXPECT_EQ(parse_sides("1700..3840").value().back(), 3840);
  for (const char* bad : {"", "0", "x", "5..3", "1..99999", "3,,4", "1..9:0"})
    EXPECT_FALSE(parse_sides(bad)) << bad;
}

// The published profile's end points: 61^2 and, shrunk to 12,845,056 pixels, 128^2.
TEST(ProfileTtft, VisionTokens) {
  EXPECT_EQ(qwen_vision_tokens(1700, 1700).value(), 3721);
  EXPECT_EQ(qwen_vision_tokens(3840, 3840).value(), 16384);
  EXPECT_EQ(qwen_vision_tokens(1536, 1536).value(), 3025);
  EXPECT_EQ(qwen_vision_tokens(28, 28).value(), 4);  // grown to 56 x 56
  EXPECT_EQ(qwen_vision_tokens(56, 112).value(), 8);
  EXPECT_EQ(qwen_vision_tokens(1000, 10).value(), 20);  // 10 / 28 rounds to 0, so that it grows
  EXPECT_FALSE(qwen_vision_tokens(4000, 10));           // as the model refuses it
}

std::vector<TtftPoint> points_on(double a, double b, double c) {
  std::vector<TtftPoint> points;
  for (const std::int64_t tokens : {1000, 4000, 9000, 16000}) {
    TtftPoint point;
    point.tokens = tokens;
    const double t = static_cast<double>(tokens);
    point.median_s = a + t * (b + t * c);
    points.push_back(std::move(point));
  }
  return points;
}

TEST(ProfileTtft, CurvesAreFoundAgain) {
  const TtftCurve bent = fit_curve(points_on(0.05, 1e-4, 2e-9));
  EXPECT_NEAR(bent.a, 0.05, 1e-9);
  EXPECT_NEAR(bent.b, 1e-4, 1e-12);
  EXPECT_NEAR(bent.c, 2e-9, 1e-15);
  const TtftCurve straight = fit_curve(points_on(0.05, 1e-4, 0));
  EXPECT_NEAR(straight.at(8000), 0.85, 1e-9);
  // A curve that bends downwards would promise large images for nothing: a line is taken.
  EXPECT_EQ(fit_curve(points_on(0.05, 3e-4, -5e-9)).c, 0);
  EXPECT_EQ(fit_curve({}).at(100), 0);
}

// Answers one token to every question, and 200 to the resets that it has; keeps what it was asked.
class AskedServer {
 public:
  explicit AskedServer(std::set<std::string> resets) : resets_(std::move(resets)) {
    net::HttpServerSettings settings;
    settings.port = 0;
    server_ = net::HttpServer::listen(settings, [this](net::HttpRequest request,
                                                       net::Responder responder) {
                responder.respond(answer(request));
              }).value();
  }
  ProfileSettings settings() const {
    ProfileSettings profile;
    profile.serve.target.backend = "openai-chat";
    profile.serve.target.port = server_->port();
    profile.serve.check.num_warmups = 2;
    profile.serve.check.scrape_period_s = 0;
    profile.serve.output.progress = false;
    profile.files = {SACCADE_SOURCE_DIR "/data/glimpse/000-read.png"};
    return profile;
  }
  // Questions ("ask") and resets in their order.
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  std::vector<std::string> bodies() {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }

 private:
  net::HttpResponse answer(const net::HttpRequest& request) {
    if (request.path == "/v1/models")
      return {200, "application/json", R"({"object": "list", "data": [{"id": "m"}]})", {}};
    const std::lock_guard lock(mutex_);
    if (request.path == "/v1/chat/completions") {
      asked_.emplace_back("ask");
      bodies_.push_back(request.body);
      return {200,
              "text/event-stream",
              "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},"
              "\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n",
              {}};
    }
    if (request.method == "POST") asked_.push_back(request.path);
    return {resets_.contains(request.path) ? 200 : 404, "application/json", "{}", {}};
  }

  std::set<std::string> resets_;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::vector<std::string> bodies_;
  std::unique_ptr<net::HttpServer> server_;
};

// Files that the server reads itself cannot differ: each is asked for once, behind the resets, and
// the report names those that the server has.
TEST(ProfileTtft, FilesThatTheServerReadsAreAskedForOnceAfterAReset) {
  AskedServer server({"/reset_prefix_cache", "/reset_mm_cache"});
  ProfileSettings profile = server.settings();
  profile.file_urls = true;
  profile.repeats = 3;
  std::atomic<bool> stop = false;
  const auto report = profile_ttft(profile, stop);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(*report, HasSubstr("\nCaches: files that the server reads are asked for once, after "
                                 "/reset_prefix_cache, /reset_mm_cache\n"));
  EXPECT_THAT(server.asked(), ElementsAre("ask", "ask", "/reset_prefix_cache", "/reset_mm_cache",
                                          "/reset_encoder_cache", "/flush_cache", "ask"));
  EXPECT_THAT(server.bodies().back(), HasSubstr("\"file://"));
}

// What would measure a cache is an error, and nothing is measured.
TEST(ProfileTtft, FilesOfAServerThatCannotForgetAreAnError) {
  AskedServer server({});
  ProfileSettings profile = server.settings();
  profile.file_urls = true;
  std::atomic<bool> stop = false;
  const auto report = profile_ttft(profile, stop);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("has none of the cache resets"));
  EXPECT_EQ(server.bodies().size(), 2U);  // the warm-up
}

// Images that differ need no reset, and no two of them are alike.
TEST(ProfileTtft, ImagesOfTheClientsOwnAllDiffer) {
  AskedServer server({"/reset_prefix_cache"});
  ProfileSettings profile = server.settings();
  profile.repeats = 3;
  std::atomic<bool> stop = false;
  ASSERT_TRUE(profile_ttft(profile, stop));
  EXPECT_THAT(server.asked(), Each("ask"));
  const std::vector<std::string> bodies = server.bodies();
  ASSERT_EQ(bodies.size(), 5U);
  EXPECT_EQ(std::set<std::string>(bodies.begin() + 2, bodies.end()).size(), 3U);
}

}  // namespace
}  // namespace saccade::bench

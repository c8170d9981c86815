// Downloads from a hub and a store of ours, on two ports.
#include "hub/model_pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "base/hash.h"
#include "model/checkpoint/checkpoint.h"
#include "net/http_server.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;
using net::HttpRequest;
using net::HttpResponse;
using net::HttpServer;
using ::testing::Contains;
using ::testing::HasSubstr;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Small files come from the hub itself; safetensors by a redirect to the store, under their hash.
class ModelPullTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cache_ = ::testing::TempDir() + "/saccade_pull_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(cache_);
    files_["config.json"] = R"({"model_type": "qwen2_vl"})";
    files_["tokenizer.json"] = "{}";
    files_["model.safetensors"] = std::string(300'000, 'w') + "end";
    files_["pytorch_model.bin"] = "pickle";
    files_["README.md"] = "text";
    store_ = listen([this](const HttpRequest& request) { return store(request); });
    hub_ = listen([this](const HttpRequest& request) { return hub(request); });
    settings_.repository = "Org/Name";
    settings_.endpoint = fmt::format("http://127.0.0.1:{}", hub_->port());
    settings_.token = "secret";
    settings_.cache_directory = cache_;
    settings_.retry_delay = 0;
  }
  void TearDown() override { fs::remove_all(cache_); }

  static std::unique_ptr<HttpServer> listen(
      std::function<HttpResponse(const HttpRequest&)> answer) {
    net::HttpServerSettings settings;
    settings.port = 0;
    auto server = HttpServer::listen(
        settings, [answer = std::move(answer)](HttpRequest request, net::Responder responder) {
          responder.respond(answer(request));
        });
    EXPECT_TRUE(server) << server.error().message;
    return *std::move(server);
  }

  HttpResponse hub(const HttpRequest& request) {
    note("hub " + request.method + " " + request.path);
    if (request.header("authorization") != "Bearer secret") return {401, "text/plain", "", {}};
    if (request.path == "/api/models/Org/Name/revision/main") {
      std::string list;
      for (const auto& [name, text] : files_)
        list += (list.empty() ? "" : ", ") + fmt::format(R"({{"rfilename": "{}"}})", name);
      return {200,
              "application/json",
              fmt::format(R"({{"sha": "{}", "siblings": [{}, {{"rfilename": "../evil.json"}}]}})",
                          kCommit, list),
              {}};
    }
    const std::string name = request.path.substr(request.path.rfind('/') + 1);
    const auto found = files_.find(name);
    if (found == files_.end() || !request.path.starts_with("/Org/Name/resolve/" + kCommit))
      return {404, "text/plain", "", {}};
    if (!name.ends_with(".safetensors"))
      return {200,
              "text/plain",
              found->second,
              {{"ETag", "\"" + std::string(40, name[0] == 'c' ? 'a' : 'b') + "\""}}};
    const std::string digest =
        stated_digest_.empty() ? to_hex(sha256(found->second)) : stated_digest_;
    return {302,
            "text/plain",
            "",
            {{"Location", fmt::format("http://127.0.0.1:{}/lfs/{}", store_->port(), name)},
             {"X-Linked-Etag", "\"" + digest + "\""},
             {"X-Linked-Size", std::to_string(found->second.size())}}};
  }

  HttpResponse store(const HttpRequest& request) {
    note("store " + request.method + " " + std::string(request.header("range")));
    EXPECT_EQ(request.header("authorization"), "");  // another host
    if (failures_-- > 0) return {503, "text/plain", "busy", {}};
    const std::string& text = files_.at(request.path.substr(request.path.rfind('/') + 1));
    const std::string range(request.header("range"));
    if (range.empty() || !ranges_) return {200, "text/plain", text, {}};
    const std::size_t from = std::stoul(range.substr(range.find('=') + 1));
    return {206,
            "text/plain",
            text.substr(from),
            {{"Content-Range", fmt::format("bytes {}-{}/{}", from, text.size() - 1, text.size())}}};
  }

  void note(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    seen_.push_back(line);
  }
  std::vector<std::string> seen() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(seen_, {});
  }
  fs::path blob(const std::string& name) const {
    return fs::path(cache_) / "models--Org--Name/blobs" / name;
  }

  std::string cache_;
  std::map<std::string, std::string> files_;
  std::string stated_digest_;
  std::atomic<int> failures_{0};
  bool ranges_ = true;
  std::unique_ptr<HttpServer> store_;
  std::unique_ptr<HttpServer> hub_;
  PullSettings settings_;
  std::mutex mutex_;
  std::vector<std::string> seen_;
};

TEST_F(ModelPullTest, WritesTheHubsLayoutAndKeepsIt) {
  const auto directory = pull_model(settings_);
  ASSERT_TRUE(directory) << directory.error().message;
  EXPECT_EQ(*directory, cache_ + "/models--Org--Name/snapshots/" + kCommit);
  EXPECT_EQ(read(fs::path(*directory) / "config.json"), files_["config.json"]);
  EXPECT_EQ(read(fs::path(*directory) / "model.safetensors"), files_["model.safetensors"]);
  EXPECT_TRUE(fs::is_symlink(fs::path(*directory) / "model.safetensors"));
  EXPECT_TRUE(fs::exists(blob(to_hex(sha256(files_["model.safetensors"])))));
  EXPECT_FALSE(fs::exists(fs::path(*directory) / "pytorch_model.bin"));
  EXPECT_FALSE(fs::exists(fs::path(*directory).parent_path() / "evil.json"));
  ::setenv("HF_HUB_CACHE", cache_.c_str(), 1);
  EXPECT_EQ(resolve_checkpoint("Org/Name").value(), *directory);
  ::unsetenv("HF_HUB_CACHE");

  seen();
  ASSERT_TRUE(pull_model(settings_));
  EXPECT_EQ(seen().size(), 1u);  // the list alone
}

// A hub that only a proxy reaches; the store of the weights is excepted.
TEST_F(ModelPullTest, GoesThroughTheProxyOfTheEnvironment) {
  const std::string proxy = settings_.endpoint;
  settings_.endpoint = "http://hub.test";
  EXPECT_FALSE(pull_model(settings_));
  ::setenv("HTTP_PROXY", proxy.c_str(), 1);
  ::setenv("NO_PROXY", "127.0.0.1", 1);
  const auto directory = pull_model(settings_);
  ::unsetenv("HTTP_PROXY");
  ::unsetenv("NO_PROXY");
  ASSERT_TRUE(directory) << directory.error().message;
  EXPECT_EQ(read(fs::path(*directory) / "model.safetensors"), files_["model.safetensors"]);
  EXPECT_THAT(seen(), Contains("hub GET /api/models/Org/Name/revision/main"));
}

TEST_F(ModelPullTest, GoesOnWhereItBrokeOff) {
  const std::string& weights = files_["model.safetensors"];
  fs::create_directories(blob("x").parent_path());
  std::ofstream(blob(to_hex(sha256(weights)) + ".incomplete"), std::ios::binary)
      << weights.substr(0, 100'000);
  const auto directory = pull_model(settings_);
  ASSERT_TRUE(directory) << directory.error().message;
  EXPECT_THAT(seen(), Contains("store GET bytes=100000-"));
  EXPECT_EQ(read(fs::path(*directory) / "model.safetensors"), weights);
}

TEST_F(ModelPullTest, StartsOverWhereRangesAreNotServed) {
  ranges_ = false;
  const std::string& weights = files_["model.safetensors"];
  fs::create_directories(blob("x").parent_path());
  std::ofstream(blob(to_hex(sha256(weights)) + ".incomplete"), std::ios::binary)
      << std::string(5000, 'x');
  const auto directory = pull_model(settings_);
  ASSERT_TRUE(directory) << directory.error().message;
  EXPECT_EQ(read(fs::path(*directory) / "model.safetensors"), weights);
}

TEST_F(ModelPullTest, TriesAgainAndGivesUp) {
  failures_ = 2;
  EXPECT_TRUE(pull_model(settings_));
  fs::remove_all(cache_);
  failures_ = 1000;
  settings_.attempts = 2;
  const auto directory = pull_model(settings_);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(fs::exists(cache_ + "/models--Org--Name/refs/main"));
}

TEST_F(ModelPullTest, DiscardsWhatFailsItsChecksum) {
  stated_digest_ = std::string(64, '0');
  const auto directory = pull_model(settings_);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(directory.error().message, HasSubstr("model.safetensors"));
  EXPECT_FALSE(fs::exists(blob(stated_digest_)));
  EXPECT_FALSE(fs::exists(blob(stated_digest_ + ".incomplete")));
}

TEST_F(ModelPullTest, SaysWhatIsWrong) {
  settings_.token = "other";
  EXPECT_EQ(pull_model(settings_).error().code, ErrorCode::kDenied);
  EXPECT_THAT(pull_model(settings_).error().message, HasSubstr("HF_TOKEN"));
  settings_.token = "secret";
  settings_.repository = "Org/Missing";
  EXPECT_EQ(pull_model(settings_).error().code, ErrorCode::kNotFound);
  settings_.repository = "../etc";
  EXPECT_EQ(pull_model(settings_).error().code, ErrorCode::kInvalid);
  settings_.repository = "Org/Name";
  files_.erase("model.safetensors");
  EXPECT_THAT(pull_model(settings_).error().message, HasSubstr("pytorch_model.bin"));
  settings_.endpoint = "http://127.0.0.1:1";
  EXPECT_FALSE(pull_model(settings_));
}

}  // namespace
}  // namespace saccade::hub

// Downloads from a hub and a store of ours, on two ports.
#include "hub/model_pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "base/hash.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/hub_cache.h"
#include "net/server/http_server.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;
using net::HttpRequest;
using net::HttpResponse;
using net::HttpServer;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Small files come from the hub itself; weights by a redirect to the store, under their hash.
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
    files_["onnx/model.safetensors"] = "of another format";
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
    const std::string prefix = "/Org/Name/resolve/" + kCommit + "/";
    if (!request.path.starts_with(prefix)) return {404, "text/plain", "", {}};
    const std::string name = request.path.substr(prefix.size());
    const auto found = files_.find(name);
    if (found == files_.end()) return {404, "text/plain", "", {}};
    if (!name.ends_with(".safetensors") && !name.ends_with(".gguf"))
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
    const std::string& text = files_.at(request.path.substr(std::strlen("/lfs/")));
    const std::string range(request.header("range"));
    if (breaks_off_at_ > 0)
      return {200, "text/plain", text.substr(0, breaks_off_at_.exchange(0)), {}};
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
  std::atomic<std::size_t> breaks_off_at_{0};  // bytes of the next file
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
  EXPECT_FALSE(fs::exists(fs::path(*directory) / "onnx"));
  EXPECT_FALSE(fs::exists(fs::path(*directory).parent_path() / "evil.json"));
  ::setenv("HF_HUB_CACHE", cache_.c_str(), 1);
  EXPECT_EQ(resolve_checkpoint("Org/Name").value(), *directory);
  ::unsetenv("HF_HUB_CACHE");

  seen();
  ASSERT_TRUE(pull_model(settings_));
  EXPECT_EQ(seen().size(), 1u);  // the list alone
}

// By file, of how many, and to each one's end.
TEST_F(ModelPullTest, SaysHowFarItIs) {
  std::vector<PullProgress> said;
  settings_.progress = [&](const PullProgress& of) { said.push_back(of); };
  ASSERT_TRUE(pull_model(settings_));
  std::map<std::string, PullProgress> last;
  for (const PullProgress& one : said) {
    EXPECT_EQ(one.files, 3U);
    EXPECT_GT(one.done, last[one.file].done) << one.file;
    EXPECT_LE(one.done, one.size);
    last[one.file] = one;
  }
  std::set<std::size_t> indices;
  for (const auto& [name, one] : last) {
    EXPECT_EQ(one.done, files_[name].size()) << name;
    EXPECT_EQ(one.size, files_[name].size()) << name;
    indices.insert(one.index);
  }
  EXPECT_THAT(indices, ElementsAre(0, 1, 2));
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
  settings_.gguf.model = "Q8_0";
  EXPECT_THAT(pull_model(settings_).error().message, HasSubstr("Org/Name: no model in GGUF"));
  settings_.gguf.model.clear();
  files_.erase("model.safetensors");
  EXPECT_THAT(pull_model(settings_).error().message, HasSubstr("pytorch_model.bin"));
  settings_.endpoint = "http://127.0.0.1:1";
  EXPECT_FALSE(pull_model(settings_));
}

// A repository of models in GGUF.
class GgufPullTest : public ModelPullTest {
 protected:
  void SetUp() override {
    ModelPullTest::SetUp();
    files_ = {{"README.md", "text"},
              {"config.json", "{}"},
              {"Vl-Q4_K_M.gguf", std::string(200'000, 'q') + "end"},
              {"Vl-Q8_0.gguf", "eight bits"},
              {"Vl-IQ4_XS.gguf", "fewer bits"},
              {"BF16/Vl-BF16-00001-of-00002.gguf", "the first half"},
              {"BF16/Vl-BF16-00002-of-00002.gguf", "the second half"},
              {"mmproj-Vl-Q8_0.gguf", "a tower in eight bits"},
              {"mmproj-Vl-f16.gguf", "a tower in sixteen"}};
    ::setenv("HF_HUB_CACHE", cache_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("HF_HUB_CACHE");
    ModelPullTest::TearDown();
  }

  Result<std::string> pull(const std::string& pattern) {
    settings_.gguf.model = pattern;
    return pull_model(settings_);
  }
  std::string at(const std::string& file) const {
    return cache_ + "/models--Org--Name/snapshots/" + kCommit + "/" + file;
  }
  std::set<std::string> snapshot() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(at("")))
      if (!entry.is_directory()) names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(GgufPullTest, OneModelAndTheTowerThatHasLostLeast) {
  const auto place = pull("q4_k_m");
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(*place, at("Vl-Q4_K_M.gguf") + "," + at("mmproj-Vl-f16.gguf"));
  EXPECT_THAT(snapshot(), ElementsAre("Vl-Q4_K_M.gguf", "mmproj-Vl-f16.gguf"));
  EXPECT_EQ(read(at("Vl-Q4_K_M.gguf")), files_["Vl-Q4_K_M.gguf"]);
  EXPECT_EQ(resolve_checkpoint("Org/Name:Q4_K_M").value(), *place);
  EXPECT_EQ(resolve_checkpoint("Org/Name").value(), *place);
  EXPECT_EQ(resolve_checkpoint("Org/Name:Vl-Q4_K_M.gguf").value(), *place);
  EXPECT_EQ(resolve_checkpoint("Org/Name:Q8_0").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(resolve_checkpoint("Org/Name:Q8_0").error().message,
              HasSubstr("`saccade model pull Org/Name:Q8_0` downloads it"));
  EXPECT_EQ(find_in_hub_cache("Org/Name", {.text_alone = true}, "", "main").value(),
            at("Vl-Q4_K_M.gguf"));
  seen();
  ASSERT_TRUE(pull("Q4_K_M"));
  EXPECT_EQ(seen().size(), 1u);  // the list alone

  EXPECT_EQ(pull("").value(), *place);  // Q4_K_M is the usual one
  settings_.gguf.projector = "q8_0";
  const auto other = pull("Q8_0");
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(*other, at("Vl-Q8_0.gguf") + "," + at("mmproj-Vl-Q8_0.gguf"));
  EXPECT_EQ(find_in_hub_cache("Org/Name", {"Q8_0", "q8_0"}, "", "main").value(), *other);
  EXPECT_THAT(resolve_checkpoint("Org/Name:Vl-Q*").error().message, HasSubstr("fits 2 models"));
}

TEST_F(GgufPullTest, AllPartsFromTheirFolder) {
  const auto place = pull("bf16");
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(*place, at("BF16/Vl-BF16-00001-of-00002.gguf") + "," + at("mmproj-Vl-f16.gguf"));
  EXPECT_EQ(read(at("BF16/Vl-BF16-00002-of-00002.gguf")), "the second half");
  EXPECT_EQ(resolve_checkpoint("Org/Name:BF16").value(), *place);
  fs::remove(at("BF16/Vl-BF16-00002-of-00002.gguf"));
  EXPECT_EQ(resolve_checkpoint("Org/Name:BF16").error().code, ErrorCode::kNotFound);
}

TEST_F(GgufPullTest, NoTowerWhereThereIsNoneOrNoneIsWanted) {
  settings_.gguf.text_alone = true;
  EXPECT_EQ(pull("Q8_0").value(), at("Vl-Q8_0.gguf"));
  EXPECT_THAT(snapshot(), ElementsAre("Vl-Q8_0.gguf"));
  settings_.gguf.text_alone = false;
  files_.erase("mmproj-Vl-f16.gguf");
  files_.erase("mmproj-Vl-Q8_0.gguf");
  EXPECT_EQ(pull("IQ4_XS").value(), at("Vl-IQ4_XS.gguf"));
}

TEST_F(GgufPullTest, SaysWhatThereIs) {
  const auto none = pull("Q5_K_M");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message,
              HasSubstr("Org/Name: no model in GGUF fits \"Q5_K_M\"; there are "
                        "BF16/Vl-BF16-00001-of-00002.gguf, Vl-IQ4_XS.gguf, Vl-Q4_K_M.gguf, "
                        "Vl-Q8_0.gguf"));
  const auto several = pull("Vl-*");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(several.error().message, HasSubstr("fits 4 models in GGUF; name one of BF16/"));
  EXPECT_FALSE(fs::exists(cache_ + "/models--Org--Name"));
}

// The tower comes first: a model that is found has the one that it needs. What broke off goes on.
TEST_F(GgufPullTest, GoesOnWhereItBrokeOffAndIsNotFoundBefore) {
  ASSERT_TRUE(pull("Q8_0"));
  fs::remove(at("mmproj-Vl-f16.gguf"));
  const std::string tower = to_hex(sha256(files_["mmproj-Vl-f16.gguf"]));
  fs::remove(blob(tower));
  settings_.attempts = 1;
  breaks_off_at_ = 5;
  EXPECT_EQ(pull("Q4_K_M").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(read(blob(tower + ".incomplete")), "a tow");
  EXPECT_EQ(resolve_checkpoint("Org/Name:Q4_K_M").error().code, ErrorCode::kNotFound);
  const std::string weights = to_hex(sha256(files_["Vl-Q4_K_M.gguf"]));
  ASSERT_FALSE(fs::exists(blob(weights)));
  seen();
  const auto place = pull("Q4_K_M");
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_THAT(seen(), Contains("store GET bytes=5-"));
  EXPECT_EQ(read(at("mmproj-Vl-f16.gguf")), "a tower in sixteen");

  fs::remove(at("Vl-Q4_K_M.gguf"));
  fs::remove(blob(weights));
  breaks_off_at_ = 70'000;
  EXPECT_FALSE(pull("Q4_K_M"));
  EXPECT_EQ(resolve_checkpoint("Org/Name:Q4_K_M").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(pull("Q4_K_M"));
  EXPECT_THAT(seen(), Contains("store GET bytes=70000-"));
  EXPECT_EQ(read(at("Vl-Q4_K_M.gguf")), files_["Vl-Q4_K_M.gguf"]);
}

// Where a repository has both, the checkpoint is its safetensors unless a pattern is given.
TEST_F(GgufPullTest, SafetensorsGoFirst) {
  files_["model.safetensors"] = "weights";
  EXPECT_EQ(pull("").value() + "/", at(""));
  EXPECT_THAT(snapshot(), ElementsAre("config.json", "model.safetensors"));
  EXPECT_EQ(pull("Q8_0").value(), at("Vl-Q8_0.gguf") + "," + at("mmproj-Vl-f16.gguf"));
  EXPECT_EQ(resolve_checkpoint("Org/Name").value() + "/", at(""));
}

}  // namespace
}  // namespace saccade::hub

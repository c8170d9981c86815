// How large an image becomes: min_pixels, max_pixels and detail, per server, request and image, as
// the counts of /tokenize and the usage of an answer tell it.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/json.h"
#include "base/text/base64.h"
#include "image/pixels.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

const std::string kGolden = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/odd_heads";
constexpr auto kSmall = R"(, "max_pixels": 9408)";  // a token is 28 x 28 pixels

// The golden checkpoint with room for larger images: 3136 to 1,100,000 pixels of its own.
class Checkpoint {
 public:
  Checkpoint() {
    char pattern[] = "/tmp/saccade-size-XXXXXX";
    path_ = mkdtemp(pattern);
    for (const auto& entry : fs::directory_iterator(kGolden)) {
      if (entry.is_regular_file()) fs::copy(entry.path(), path_ / entry.path().filename());
    }
    const fs::path file = path_ / "preprocessor_config.json";
    auto config = json::parse_file(file.string());
    config->as_object()["max_pixels"] = 1'100'000;
    std::ofstream(file) << boost::json::serialize(*config);
  }
  ~Checkpoint() { fs::remove_all(path_); }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string blank_url(int width, int height) {
  const auto png = encode_png(Pixels{
      width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))});
  return "data:image/png;base64," +
         base64_encode({reinterpret_cast<const char*>(png->data()), png->size()});
}

// One image part; `inner` are members beside "url", `outer` beside "image_url".
std::string image(int width, int height, const std::string& inner = "",
                  const std::string& outer = "") {
  return R"({"type": "image_url", "image_url": {"url": ")" + blank_url(width, height) + "\"" +
         inner + "}" + outer + "}";
}

std::string request(const std::string& parts, const std::string& members = "") {
  return R"({"max_tokens": 1, "messages": [{"role": "user", "content": [)" + parts +
         R"(, {"type": "text", "text": "?"}]}])" + members + "}";
}

class ImageSizes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    checkpoint_ = std::make_unique<Checkpoint>();
    server_ = std::make_unique<ServerProcess>(SACCADE_BINARY, flags({}));
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->stop(), 0) << server_->log();
    server_.reset();
    checkpoint_.reset();
  }
  static std::vector<std::string> flags(std::vector<std::string> more) {
    more.insert(more.begin(), {"serve", "--model", checkpoint_->path(), "--dtype", "float32"});
    return more;
  }

  static std::vector<std::int64_t> counts(const std::string& body, const ServerProcess& server) {
    const RawAnswer answer = exchange(server.port(), "POST", "/tokenize", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto tree = json::parse(answer.body);
    std::vector<std::int64_t> tokens;
    if (!tree || answer.status != 200) return tokens;
    for (const auto& count : tree->at("image_tokens").as_array())
      tokens.push_back(count.as_int64());
    // What is counted is what is there: <|image_pad|> is token 472.
    std::int64_t placeholders = 0;
    for (const auto& id : tree->at("tokens").as_array()) placeholders += id.as_int64() == 472;
    std::int64_t sum = 0;
    for (const std::int64_t count : tokens) sum += count;
    EXPECT_EQ(placeholders, sum) << answer.body;
    return tokens;
  }
  static std::int64_t count(const std::string& body) {
    const auto tokens = counts(body, *server_);
    EXPECT_EQ(tokens.size(), 1u);
    return tokens.empty() ? -1 : tokens.front();
  }

  static std::unique_ptr<Checkpoint> checkpoint_;
  static std::unique_ptr<ServerProcess> server_;
};
std::unique_ptr<Checkpoint> ImageSizes::checkpoint_;
std::unique_ptr<ServerProcess> ImageSizes::server_;

TEST_F(ImageSizes, TheCheckpointsLimitsHold) {
  EXPECT_EQ(count(request(image(1000, 1000))), 36 * 36);  // 1008 x 1008 pixels
  EXPECT_EQ(count(request(image(2000, 2000))), 37 * 37);  // 1036 x 1036
  EXPECT_EQ(count(request(image(10, 10))), 2 * 2);        // 56 x 56
}

TEST_F(ImageSizes, PerImage) {
  EXPECT_EQ(count(request(image(1000, 1000, kSmall))), 3 * 3);
  EXPECT_EQ(count(request(image(1000, 1000, "", kSmall))), 3 * 3);
  EXPECT_EQ(count(request(image(560, 280, R"(, "max_pixels": 39200)"))), 10 * 5);
  EXPECT_EQ(count(request(image(10, 10, R"(, "min_pixels": 7840)"))), 4 * 4);
}

TEST_F(ImageSizes, PerRequest) {
  const std::string large = image(1000, 1000);
  EXPECT_EQ(count(request(large, kSmall)), 3 * 3);
  EXPECT_EQ(count(request(large, R"(, "mm_processor_kwargs": {"max_pixels": 9408})")), 3 * 3);
  EXPECT_EQ(count(request(image(10, 10), R"(, "mm_processor_kwargs": {"min_pixels": 7840})")),
            4 * 4);
  // What an image says is nearer.
  EXPECT_EQ(count(request(image(1000, 1000, R"(, "max_pixels": 39200)"), kSmall)), 7 * 7);
}

TEST_F(ImageSizes, EachImageItsOwn) {
  EXPECT_EQ(counts(request(image(560, 560) + "," + image(560, 560, kSmall) + "," + image(560, 280)),
                   *server_),
            (std::vector<std::int64_t>{20 * 20, 3 * 3, 20 * 10}));
}

TEST_F(ImageSizes, DetailLowIsAtMost256Tokens) {
  const auto detail = [](const std::string& name) { return R"(, "detail": ")" + name + "\""; };
  EXPECT_EQ(count(request(image(1000, 1000, detail("high")))), 36 * 36);
  EXPECT_EQ(count(request(image(1000, 1000, detail("auto")))), 36 * 36);
  EXPECT_EQ(count(request(image(1000, 1000, detail("low")))), 16 * 16);
  const std::int64_t wide = count(request(image(1900, 300, detail("low"))));
  EXPECT_LE(wide, 256);
  EXPECT_GT(wide, 200);
  EXPECT_EQ(count(request(image(56, 56, detail("low")))), 2 * 2);  // small already
}

TEST_F(ImageSizes, TheServersOwnLimits) {
  const ServerProcess server(SACCADE_BINARY,
                             flags({"--mm-processor-kwargs", R"({"max_pixels": 9408})"}));
  EXPECT_EQ(counts(request(image(1000, 1000)), server), (std::vector<std::int64_t>{3 * 3}));
  EXPECT_EQ(counts(request(image(1000, 1000, R"(, "max_pixels": 39200)")), server),
            (std::vector<std::int64_t>{7 * 7}));
}

TEST_F(ImageSizes, ARequestIsNearerThanTheServer) {
  const ServerProcess server(SACCADE_BINARY,
                             flags({"--mm-processor-kwargs", R"({"max_pixels": 9408})"}));
  for (const std::string members :
       {R"(, "max_pixels": 39200)", R"(, "mm_processor_kwargs": {"max_pixels": 39200})",
        R"(, "mm_processor_kwargs": {"size": {"longest_edge": 39200}})"}) {
    EXPECT_EQ(counts(request(image(1000, 1000), members), server),
              (std::vector<std::int64_t>{7 * 7}))
        << members;
  }
}

// Families whose images come in tiles take the same bounds: tiles of 56 pixels and 4 tokens here,
// up to six and the whole image as one more.
TEST_F(ImageSizes, TilesTakeBoundsOfPixels) {
  const ServerProcess server(
      SACCADE_BINARY, {"serve", "--model", SACCADE_SOURCE_DIR "/tests/golden/internvl2/internlm2",
                       "--dtype", "float32"});
  const auto tiles = [&](const std::string& members) {
    const RawAnswer answer =
        exchange(server.port(), "POST", "/tokenize", request(image(300, 200), members));
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto tree = json::parse(answer.body);
    return answer.status == 200 ? tree->at("image_tokens").at(0).as_int64() / 4 : -1;
  };
  EXPECT_EQ(tiles(""), 7);
  EXPECT_EQ(tiles(R"(, "max_pixels": 6272)"), 3);
  EXPECT_EQ(tiles(R"(, "mm_processor_kwargs": {"max_pixels": 6272})"), 3);
  EXPECT_EQ(tiles(R"(, "mm_processor_kwargs": {"max_dynamic_patch": 2})"), 3);
  EXPECT_EQ(tiles(R"(, "max_pixels": 1)"), 1);
}

// Room is set aside at start for the checkpoint's largest image: limits go up to it.
TEST_F(ImageSizes, BeyondTheCheckpointIsRefusedWithBothNumbers) {
  const RawAnswer answer = exchange(server_->port(), "POST", "/tokenize",
                                    request(image(2000, 2000, R"(, "max_pixels": 4000000)")));
  EXPECT_EQ(answer.status, 413) << answer.body;
  for (const std::string word : {"image 0", "2000x2000", "limit", "max_pixels"})
    EXPECT_NE(answer.body.find(word), std::string::npos) << answer.body;
}

TEST_F(ImageSizes, AnswersUseWhatTokenizeCounts) {
  const std::string body = request(image(140, 56, kSmall) + "," + image(10, 10));
  std::int64_t sum = 0;
  for (const std::int64_t tokens : counts(body, *server_)) sum += tokens;
  const RawAnswer answer = exchange(server_->port(), "POST", "/v1/chat/completions", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto tree = json::parse(answer.body);
  EXPECT_EQ(tree->at("usage").at("prompt_tokens_details").at("image_tokens").as_int64(), sum);
}

TEST_F(ImageSizes, LimitsThatContradictAreRefused) {
  for (const std::string members :
       {R"(, "min_pixels": 0)", R"(, "max_pixels": -1)", R"(, "max_pixels": "many")",
        R"(, "detail": "huge")", R"(, "min_pixels": 9000, "max_pixels": 5000)"}) {
    const RawAnswer answer =
        exchange(server_->port(), "POST", "/tokenize", request(image(100, 100, members)));
    EXPECT_EQ(answer.status, 400) << members << answer.body;
  }
}

}  // namespace
}  // namespace saccade::test

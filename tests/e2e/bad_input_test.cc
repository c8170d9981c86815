// What clients and files should not send, against the real binary over real sockets: each gets the
// right status, and a message that names the thing, the value and the limit.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "base/base64.h"
#include "base/json.h"
#include "image/pixels.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

const std::string kCheckpoint =
    std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/odd_heads";

using Words = std::vector<std::string>;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    char pattern[] = "/tmp/saccade-bad-XXXXXX";
    path_ = mkdtemp(pattern);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string string() const { return path_.string(); }

 private:
  fs::path path_;
};

void expect_error(const RawAnswer& answer, int status, const Words& words) {
  EXPECT_EQ(answer.status, status) << answer.body;
  const auto tree = json::parse(answer.body);
  ASSERT_TRUE(tree && tree->is_object() && tree->get_object().contains("error")) << answer.body;
  const auto& error = tree->at("error");
  EXPECT_EQ(error.at("code").as_int64(), status);
  EXPECT_TRUE(error.at("type").is_string());
  const std::string message(error.at("message").as_string());
  for (const auto& word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
}

std::string with_image(const std::string& url) {
  return R"({"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": [)"
         R"({"type": "image_url", "image_url": {"url": ")" +
         url + R"("}}, {"type": "text", "text": "?"}]}]})";
}

std::string data_url(const std::string& bytes) {
  return "data:image/png;base64," + base64_encode(bytes);
}

Pixels noise(int width, int height) {
  Pixels pixels{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i)
    pixels.rgb.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  return pixels;
}

std::string text_of(const Result<std::vector<std::byte>>& bytes) {
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

class BadRequests : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<Folder>();
    fs::create_directory(*folder_ / "allowed");
    write_file(*folder_ / "secret.png", text_of(encode_png(noise(30, 30))));
    write_file(*folder_ / "allowed/fine.png", text_of(encode_png(noise(30, 30))));
    fs::create_symlink(*folder_ / "secret.png", *folder_ / "allowed/link.png");
    server_ = std::make_unique<ServerProcess>(
        SACCADE_BINARY,
        std::vector<std::string>{"serve", "--model", kCheckpoint, "--dtype", "float32",
                                 "--served-model-name", "tiny", "--max-model-len", "512",
                                 "--max-body-mib", "1", "--max-image-pixels", "1000000",
                                 "--limit-mm-per-prompt", "image=2", "--allowed-local-media-path",
                                 (*folder_ / "allowed").string()});
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->stop(), 0) << server_->log();
    server_.reset();
    folder_.reset();
  }

  static RawAnswer chat(const std::string& body) {
    return exchange(server_->port(), "POST", "/v1/chat/completions", body);
  }
  static std::string log() { return server_->log(); }

  static std::unique_ptr<Folder> folder_;
  static std::unique_ptr<ServerProcess> server_;
};
std::unique_ptr<Folder> BadRequests::folder_;
std::unique_ptr<ServerProcess> BadRequests::server_;

TEST_F(BadRequests, MalformedJson) {
  expect_error(chat(""), 400, {"JSON"});
  expect_error(chat("{\"messages\": ["), 400, {"JSON", "byte"});
  expect_error(chat("[]"), 400, {"an array", "object"});
  expect_error(chat("{} trailing"), 400, {"byte"});
  expect_error(chat("{\"messages\": \"\xFF\"}"), 400, {"byte"});
  expect_error(chat(std::string(5'000, '[')), 400, {"byte"});
}

TEST_F(BadRequests, WrongTypesAndValuesNameTheField) {
  const auto with = [](const std::string& members) {
    return R"({"messages": [{"role": "user", "content": "x"}], )" + members + "}";
  };
  expect_error(chat(R"({"messages": "hi"})"), 400, {"messages", "a string", "array"});
  expect_error(chat(R"({"messages": [{"role": "user", "content": 5}]})"), 400, {"messages[0]"});
  expect_error(chat(with(R"("temperature": "hot")")), 400, {"temperature", "a string"});
  expect_error(chat(with(R"("temperature": -1)")), 400, {"temperature", "-1"});
  expect_error(chat(with(R"("max_tokens": 1.5)")), 400, {"max_tokens"});
  expect_error(chat(with(R"("n": 100000)")), 400, {"'n'", "100000", "128"});
  expect_error(chat(with(R"("logprobs": true, "top_logprobs": 50)")), 400, {"50", "20"});
  expect_error(chat(with(R"("logit_bias": {"99999": 1})")), 400, {"logit_bias", "99999", "481"});
  expect_error(chat(with(R"("response_format": {"type": "json_object"})")), 400,
               {"response_format", "json_object"});
  expect_error(chat(with(R"("tools": [{"type": "function"}])")), 400, {"tools"});
  expect_error(exchange(server_->port(), "POST", "/v1/completions", R"({"prompt": [999999]})"), 400,
               {"999999", "481"});
  expect_error(exchange(server_->port(), "POST", "/tokenize", "{}"), 400, {"prompt", "messages"});
  expect_error(exchange(server_->port(), "POST", "/detokenize", R"({"tokens": [-1]})"), 400,
               {"-1", "vocabulary of 474"});
}

TEST_F(BadRequests, UnknownFieldsPassWithOneWarning) {
  const std::string body =
      R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "nosuch": 1})";
  EXPECT_EQ(chat(body).status, 200);
  EXPECT_EQ(chat(body).status, 200);
  const std::string text = log();
  const std::size_t first = text.find("'nosuch'");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("'nosuch'", first + 1), std::string::npos) << text;
}

TEST_F(BadRequests, UnknownModelsPathsAndMethods) {
  expect_error(chat(R"({"model": "gpt-9", "messages": [{"role": "user", "content": "x"}]})"), 404,
               {"gpt-9"});
  expect_error(exchange(server_->port(), "GET", "/v1/models/gpt-9", ""), 404, {"gpt-9"});
  expect_error(exchange(server_->port(), "GET", "/v1/nowhere", ""), 404, {"/v1/nowhere"});
  expect_error(exchange(server_->port(), "GET", "/v1/chat/completions", ""), 405,
               {"/v1/chat/completions", "GET"});
}

TEST_F(BadRequests, PromptTooLongSaysBothNumbers) {
  std::string ids = "1";
  for (int i = 1; i < 600; ++i) ids += ",1";
  expect_error(exchange(server_->port(), "POST", "/v1/completions", R"({"prompt": [)" + ids + "]}"),
               400, {"512", "600"});
  expect_error(exchange(server_->port(), "POST", "/v1/completions",
                        R"({"prompt": [1, 2, 3], "max_tokens": 510})"),
               400, {"510", "512", "3"});
}

TEST_F(BadRequests, BodyOverTheLimit) {
  expect_error(chat(std::string(3u << 20, ' ')), 413, {"1048576"});
}

TEST_F(BadRequests, ImagesThatAreNone) {
  expect_error(chat(with_image("data:image/png;base64,@@@@")), 422, {"image 0", "base64"});
  expect_error(chat(with_image("data:image/png;base64,QUJD")), 422, {"image 0"});
  expect_error(chat(with_image("data:image/png,plain")), 422, {"image 0", "base64"});
  const std::string jpeg = text_of(encode_jpeg(noise(64, 64), 90));
  EXPECT_EQ(chat(with_image(data_url(jpeg))).status, 200);
  expect_error(chat(with_image(data_url(jpeg.substr(0, jpeg.size() / 2)))), 422,
               {"image 0", "JPEG"});
  const std::string png = text_of(encode_png(noise(64, 64)));
  expect_error(chat(with_image(data_url(png.substr(0, png.size() / 2)))), 422, {"image 0", "PNG"});
  expect_error(chat(with_image("ftp://x/y.png")), 400, {"ftp://x/y.png"});
}

TEST_F(BadRequests, ImagesOverALimit) {
  std::string huge = text_of(encode_png(noise(8, 8)));
  for (const std::size_t at : {16u, 20u}) huge.replace(at, 4, std::string("\x00\x01\x86\xA0", 4));
  expect_error(chat(with_image(data_url(huge))), 413, {"image 0", "100000x100000", "65535"});
  const std::string large =
      text_of(encode_png(Pixels{2000, 600, std::vector<std::uint8_t>(3'600'000)}));
  expect_error(chat(with_image(data_url(large))), 413, {"image 0", "2000x600", "1000000"});
  const std::string part = R"({"type": "image_url", "image_url": "data:image/png;base64,"})";
  expect_error(chat(R"({"messages": [{"role": "user", "content": [)" + part + "," + part + "," +
                    part + "]}]}"),
               400, {"2", "3"});
}

TEST_F(BadRequests, FilesOutsideTheFolder) {
  const auto file = [](const std::string& path) { return chat(with_image("file://" + path)); };
  EXPECT_EQ(file((*folder_ / "allowed/fine.png").string()).status, 200);
  for (const std::string path :
       {"secret.png", "allowed/../secret.png", "allowed/link.png", "allowed/%2e%2e/secret.png"}) {
    expect_error(file(folder_->string() + "/" + path), 400,
                 {"image 0", path, "--allowed-local-media-path"});
  }
  expect_error(file("/etc/passwd"), 400, {"/etc/passwd", "--allowed-local-media-path"});
  expect_error(file((*folder_ / "allowed/none.png").string()), 422, {"none.png", "no such file"});
  expect_error(chat(with_image("http://127.0.0.1:1/x.png")), 400, {"--allowed-media-domains"});
}

// Answers every request with the same bytes.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer)
      : answer_(std::move(answer)), thread_([this] {
          while (!stopping_) {
            TcpSocket peer = listener_.accept(50);
            if (!peer.valid()) continue;
            peer.receive_until("\r\n\r\n");
            ++asked_;
            peer.send(answer_);
          }
        }) {}
  ~OneAnswer() {
    stopping_ = true;
    thread_.join();
  }
  std::string url(const std::string& host) const {
    return "http://" + host + ":" + std::to_string(listener_.port()) + "/x.png";
  }
  int asked() const { return asked_; }

 private:
  TcpListener listener_;
  std::string answer_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

std::string http_answer(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(BadMedia, PrivateAddressesAndRedirectsToThem) {
  const OneAnswer images(http_answer(text_of(encode_png(noise(20, 20)))));
  const OneAnswer redirect("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " +
                           images.url("127.0.0.1") + "\r\n\r\n");
  const std::vector<std::string> flags = {
      "serve",    "--model", kCheckpoint, "--served-model-name", "tiny", "--allowed-media-domains",
      "localhost"};
  {
    ServerProcess server(SACCADE_BINARY, flags);
    const auto chat = [&](const std::string& url) {
      return exchange(server.port(), "POST", "/v1/chat/completions", with_image(url));
    };
    expect_error(chat(images.url("localhost")), 400, {"image 0", "localhost", "private address"});
    expect_error(chat("http://10.0.0.1/x.png"), 400, {"10.0.0.1", "--allowed-media-domains"});
    expect_error(chat("http://localhost.evil.example/x.png"), 400, {"--allowed-media-domains"});
    EXPECT_EQ(images.asked(), 0);
    EXPECT_EQ(server.stop(), 0) << server.log();
  }
  std::vector<std::string> more = flags;
  more.emplace_back("--allow-private-media-addresses");
  ServerProcess server(SACCADE_BINARY, more);
  const auto chat = [&](const std::string& url) {
    return exchange(server.port(), "POST", "/v1/chat/completions", with_image(url));
  };
  EXPECT_EQ(chat(images.url("localhost")).status, 200);
  EXPECT_EQ(images.asked(), 1);
  // The redirect's own host is allowed, where it points is not.
  expect_error(chat(redirect.url("localhost")), 400, {"127.0.0.1", "--allowed-media-domains"});
  EXPECT_EQ(redirect.asked(), 1);
  EXPECT_EQ(images.asked(), 1);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(BadMedia, TheServersPixelLimitIsUnderPillows) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", kCheckpoint, "--served-model-name", "tiny"});
  std::string png = text_of(encode_png(noise(8, 8)));
  for (const std::size_t at : {16u, 20u}) png.replace(at, 4, std::string("\x00\x00\x23\x28", 4));
  expect_error(exchange(server.port(), "POST", "/v1/chat/completions", with_image(data_url(png))),
               413, {"image 0", "9000x9000", "67108864"});
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// --- checkpoints --------------------------------------------------------------------------------

// The golden checkpoint, taken apart so that a test can put it together wrongly.
class BadCheckpoint : public testing::Test {
 protected:
  BadCheckpoint() {
    for (const auto& entry : fs::directory_iterator(kCheckpoint)) {
      if (entry.is_regular_file()) fs::copy(entry.path(), folder_ / entry.path().filename());
    }
    const std::string file = read_file(folder_ / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    header_ = json::parse(std::string_view(file).substr(8, length))->as_object();
    data_ = file.substr(8 + length);
  }

  // The name of the tensor that begins (or ends) the data.
  std::string tensor_at(std::size_t offset, int end) const {
    for (const auto& member : header_) {
      if (member.key() == "__metadata__") continue;
      const auto& range = member.value().at("data_offsets").as_array();
      if (range[static_cast<std::size_t>(end)].as_int64() == static_cast<std::int64_t>(offset))
        return std::string(member.key());
    }
    return {};
  }
  std::int64_t begin_of(const std::string& tensor) const {
    return header_.at(tensor).at("data_offsets").as_array()[0].as_int64();
  }

  void expect_refused(const Words& words, std::uint64_t length_of_header = 0) {
    const std::string header = boost::json::serialize(header_);
    if (length_of_header == 0) length_of_header = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length_of_header, 8);
    write_file(folder_ / "model.safetensors", file + header + data_);
    const Ended ended = run_to_end(SACCADE_BINARY, {"serve", "--model", folder_.string()});
    EXPECT_EQ(ended.status, 1) << ended.output;
    for (const auto& word : words)
      EXPECT_NE(ended.output.find(word), std::string::npos) << word << " in: " << ended.output;
  }

  Folder folder_;
  json::object header_;
  std::string data_;
};

TEST_F(BadCheckpoint, Truncated) {
  const std::string last = tensor_at(data_.size(), 1);
  data_.resize(data_.size() - 1000);
  expect_refused({"model.safetensors", last, std::to_string(data_.size())});
}

TEST_F(BadCheckpoint, OverlappingOffsets) {
  const std::string last = tensor_at(data_.size(), 1);
  auto& range = header_.at(last).at("data_offsets").as_array();
  for (auto& offset : range) offset = offset.as_int64() - 16;
  expect_refused({"model.safetensors", last, "inside"});
}

TEST_F(BadCheckpoint, AbsurdSizes) {
  expect_refused({"model.safetensors", "4611686018427387904"}, std::uint64_t{1} << 62);
  const std::string last = tensor_at(data_.size(), 1);
  const json::object good = header_;
  header_.at(last).at("shape") = json::array{std::int64_t{1} << 40, std::int64_t{1} << 40};
  expect_refused({"model.safetensors", last, "1099511627776"});
  header_ = good;
  header_.at(last).at("data_offsets").as_array()[1] = std::int64_t{1} << 60;
  expect_refused({"model.safetensors", last, "1152921504606846976"});
}

TEST_F(BadCheckpoint, MissingTensor) {
  const std::string last = tensor_at(data_.size(), 1);
  data_.resize(static_cast<std::size_t>(begin_of(last)));
  header_.erase(last);
  expect_refused({"lacks 1 of", last});
}

TEST_F(BadCheckpoint, ExtraTensor) {
  const auto end = static_cast<std::int64_t>(data_.size());
  header_["model.layers.0.nonsense.weight"] =
      json::object{{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  data_ += std::string(4, '\0');
  expect_refused({"has 1 tensors", "model.layers.0.nonsense.weight"});
}

TEST_F(BadCheckpoint, OtherFormatsAreRefusedByName) {
  const auto refused = [](const std::string& model, const Words& words) {
    const Ended ended = run_to_end(SACCADE_BINARY, {"serve", "--model", model});
    EXPECT_EQ(ended.status, 1) << ended.output;
    for (const auto& word : words)
      EXPECT_NE(ended.output.find(word), std::string::npos) << word << " in: " << ended.output;
  };
  fs::remove(folder_ / "model.safetensors");
  write_file(folder_ / "model-q4.gguf", "GGUF");
  refused((folder_ / "model-q4.gguf").string(), {"model-q4.gguf", "GGUF", "safetensors"});
  refused(folder_.string(), {"model-q4.gguf", "GGUF", "safetensors"});
  fs::rename(folder_ / "model-q4.gguf", folder_ / "pytorch_model.bin");
  refused((folder_ / "pytorch_model.bin").string(), {"pytorch_model.bin", "pickle", "safetensors"});
  refused(folder_.string(), {"pytorch_model.bin", "pickle", "safetensors"});
  refused(folder_.string() + "/nowhere", {"nowhere", "no such directory"});
}

}  // namespace
}  // namespace saccade::test

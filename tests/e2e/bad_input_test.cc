// What clients and files should not send, against the real binary over real sockets: each gets the
// right status, and a message that names the thing, the value and the limit.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "base/json.h"
#include "base/text/base64.h"
#include "image/pixels.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

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

std::string bytes_of(const Result<std::vector<std::byte>>& bytes) {
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

class BadRequests : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryDirectory>();
    fs::create_directory(*folder_ / "allowed");
    write_file(*folder_ / "secret.png", bytes_of(encode_png(noise(30, 30))));
    write_file(*folder_ / "allowed/fine.png", bytes_of(encode_png(noise(30, 30))));
    fs::create_symlink(*folder_ / "secret.png", *folder_ / "allowed/link.png");
    server_ = std::make_unique<ServerProcess>(
        SACCADE_BINARY,
        std::vector<std::string>{"serve", "--model", kCheckpoint, "--dtype", "float32",
                                 "--served-model-name", "tiny", "--max-model-len", "512",
                                 "--max-body-mib", "1", "--max-image-pixels", "1000000",
                                 "--limit-mm-per-prompt", "image=2", "--enable-log-requests",
                                 "--allowed-local-media-path", *folder_ / "allowed"});
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

  static std::unique_ptr<TemporaryDirectory> folder_;
  static std::unique_ptr<ServerProcess> server_;
};
std::unique_ptr<TemporaryDirectory> BadRequests::folder_;
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
  expect_error(chat(with(R"("response_format": {"type": "yaml"})")), 400,
               {"response_format", "yaml", "json_schema"});
  expect_error(chat(with(R"("tools": [{"type": "function"}])")), 400, {"tools"});
  expect_error(exchange(server_->port(), "POST", "/v1/completions", R"({"prompt": [999999]})"), 400,
               {"999999", "481"});
  expect_error(exchange(server_->port(), "POST", "/tokenize", "{}"), 400, {"prompt", "messages"});
  expect_error(exchange(server_->port(), "POST", "/detokenize", R"({"tokens": [-1]})"), 400,
               {"-1", "vocabulary of 474"});
}

// An agent's history: what the assistant called is in the prompt where the template knows of it.
TEST_F(BadRequests, AssistantsThatOnlyCalledTools) {
  const std::string call =
      R"({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}})";
  for (const std::string content : {R"("content": null, )", R"("content": "", )", ""}) {
    const RawAnswer answer =
        chat(R"({"max_tokens": 1, "tools": [], "messages": [{"role": "user", "content": "x"},
                 {"role": "assistant", )" +
             content + R"("tool_calls": [)" + call + R"(]},
                 {"role": "tool", "tool_call_id": "1", "content": "42"}]})");
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
}

TEST_F(BadRequests, PenaltiesOfAnySizeAreAnswered) {
  for (const std::string penalty : {"1e-38", "1e-320", "1e300"}) {
    const RawAnswer answer = chat(R"({"messages": [{"role": "user", "content": "x"}],
        "max_tokens": 4, "temperature": 0, "repetition_penalty": )" +
                                  penalty + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
}

TEST_F(BadRequests, TokensByIdWhereAsked) {
  const RawAnswer answer = exchange(
      server_->port(), "POST", "/v1/completions",
      R"({"prompt": "x", "max_tokens": 1, "logprobs": 1, "return_tokens_as_token_ids": true})");
  EXPECT_NE(answer.body.find(R"("tokens":["token_id:)"), std::string::npos) << answer.body;
}

// Nothing that a request says can look like a line of the log, or speak to a terminal.
TEST_F(BadRequests, LogsCannotBeForged) {
  const std::string forged = R"(x\n2026-01-01 00:00:00.000 error forged\u001b[31m)";
  chat(R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, ")" + forged +
       R"(": 1, "request_id": ")" + forged + R"("})");
  const std::string text = log();
  EXPECT_NE(text.find("forged"), std::string::npos);
  EXPECT_EQ(text.find("\n2026-01-01"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

// A chunk a token, as clients count them: also where the token has no text.
TEST_F(BadRequests, StreamsHaveAChunkATokenWhateverItsText) {
  for (const std::string path : {"/v1/completions", "/v1/chat/completions"}) {
    const std::string what = path == "/v1/completions"
                                 ? R"("prompt": "x")"
                                 : R"("messages": [{"role": "user", "content": "x"}])";
    // Special tokens alone: their text is left out.
    const RawAnswer answer =
        exchange(server_->port(), "POST", path,
                 "{" + what + R"(, "stream": true, "stream_options": {"include_usage": true},
             "max_tokens": 40, "ignore_eos": true, "logit_bias": {"474": 100}, "temperature": 0})");
    ASSERT_EQ(answer.status, 200) << answer.body;
    int chunks = 0;
    int finished = 0;
    for (std::size_t at = answer.body.find("data: {"); at != std::string::npos;
         at = answer.body.find("data: {", at + 1)) {
      const std::size_t end = answer.body.find("\n\n", at);
      const auto tree = json::parse(std::string_view(answer.body).substr(at + 6, end - at - 6));
      ASSERT_TRUE(tree);
      const auto& choices = tree->at("choices").as_array();
      if (choices.empty()) {
        EXPECT_EQ(tree->at("usage").at("completion_tokens").as_int64(), 40);
        continue;
      }
      ++chunks;
      const auto& choice = choices[0].as_object();
      const json::value* text = choice.contains("delta")
                                    ? choice.at("delta").as_object().if_contains("content")
                                    : choice.if_contains("text");
      ASSERT_NE(text, nullptr) << answer.body.substr(at, end - at);
      EXPECT_TRUE(text->is_string());
      if (!choice.at("finish_reason").is_null()) ++finished;
    }
    EXPECT_EQ(chunks, 40) << answer.body.substr(0, 600);
    EXPECT_EQ(finished, 1);
  }
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
                        R"({"prompt": [1, 2, 3], "max_tokens": 513})"),
               400, {"513", "512"});
}

TEST_F(BadRequests, BodyOverTheLimit) {
  expect_error(chat(std::string(3u << 20, ' ')), 413, {"1048576"});
}

TEST_F(BadRequests, ImagesThatAreNone) {
  expect_error(chat(with_image("data:image/png;base64,@@@@")), 422, {"image 0", "base64"});
  expect_error(chat(with_image("data:image/png;base64,QUJD")), 422, {"image 0"});
  expect_error(chat(with_image("data:image/png,plain")), 422, {"image 0", "base64"});
  const std::string jpeg = bytes_of(encode_jpeg(noise(64, 64), 90));
  EXPECT_EQ(chat(with_image(data_url(jpeg))).status, 200);
  expect_error(chat(with_image(data_url(jpeg.substr(0, jpeg.size() / 2)))), 422,
               {"image 0", "JPEG"});
  const std::string png = bytes_of(encode_png(noise(64, 64)));
  expect_error(chat(with_image(data_url(png.substr(0, png.size() / 2)))), 422, {"image 0", "PNG"});
  expect_error(chat(with_image("ftp://x/y.png")), 400, {"ftp://x/y.png"});
}

TEST_F(BadRequests, ImagesOverALimit) {
  std::string huge = bytes_of(encode_png(noise(8, 8)));
  for (const std::size_t at : {16u, 20u}) huge.replace(at, 4, std::string("\x00\x01\x86\xA0", 4));
  expect_error(chat(with_image(data_url(huge))), 413, {"image 0", "100000x100000", "65535"});
  const std::string large =
      bytes_of(encode_png(Pixels{2000, 600, std::vector<std::uint8_t>(3'600'000)}));
  expect_error(chat(with_image(data_url(large))), 413, {"image 0", "2000x600", "1000000"});
  const std::string part = R"({"type": "image_url", "image_url": "data:image/png;base64,"})";
  expect_error(chat(R"({"messages": [{"role": "user", "content": [)" + part + "," + part + "," +
                    part + "]}]}"),
               400, {"2", "3"});
}

TEST_F(BadRequests, FilesOutsideTheFolder) {
  const auto file = [](const std::string& path) { return chat(with_image("file://" + path)); };
  EXPECT_EQ(file(*folder_ / "allowed/fine.png").status, 200);
  for (const std::string path :
       {"secret.png", "allowed/../secret.png", "allowed/link.png", "allowed/%2e%2e/secret.png"}) {
    expect_error(file(folder_->path() + "/" + path), 400,
                 {"image 0", path, "--allowed-local-media-path"});
  }
  expect_error(file("/etc/passwd"), 400, {"/etc/passwd", "--allowed-local-media-path"});
  expect_error(file(*folder_ / "allowed/none.png"), 422, {"none.png", "no such file"});
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
  const OneAnswer images(http_answer(bytes_of(encode_png(noise(20, 20)))));
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
  std::string png = bytes_of(encode_png(noise(8, 8)));
  for (const std::size_t at : {16u, 20u}) png.replace(at, 4, std::string("\x00\x00\x23\x28", 4));
  expect_error(exchange(server.port(), "POST", "/v1/chat/completions", with_image(data_url(png))),
               413, {"image 0", "9000x9000", "67108864"});
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// --- sizes ---

std::string repeated(int count, const std::string& item) {
  std::string text = item;
  for (int i = 1; i < count; ++i) text += "," + item;
  return text;
}

// What choices share is there once: 1,024 of them with 256 KB of stop strings each would be 256 MB
// for every copy.
TEST(HostileSizes, ManyChoicesOfOneRequestShareIt) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", kCheckpoint, "--dtype", "float32", "--max-model-len",
                        "512", "--kv-cache-bytes", "8MiB"},
                       {{"ASAN_OPTIONS", "quarantine_size_mb=1:detect_leaks=1"}});
  const auto complete = [&](const std::string& members) {
    return exchange(server.port(), "POST", "/v1/completions", "{" + members + "}");
  };
  const std::string lists = R"("stop":[)" + repeated(64, "\"" + std::string(4000, 'x') + "\"") +
                            R"(],"stop_token_ids":[)" + repeated(4000, "7") +
                            R"(],"logit_bias":{)" + R"("1":0.5,"2":0.5},"max_tokens":1)";
  EXPECT_EQ(complete(R"("prompt":"a","n":2,)" + lists).status, 200);
  const std::int64_t before = server.peak_resident_bytes();

  // As it was found: refused before anything is made of it.
  expect_error(complete(R"("n":128,"prompt":[)" + repeated(1024, R"("a")") + "]," + lists), 400,
               {"131072", "1024"});
  expect_error(
      complete(R"("prompt":"a","n":128,"stop_token_ids":[)" + repeated(100'000, "1") + "]"), 400,
      {"stop_token_ids", "100000", "4096"});
  // As many as may be: 1,024 choices, 4 KB each allowed for, and the request itself a few times.
  const RawAnswer most =
      complete(R"("n":128,"prompt":[)" + repeated(8, R"("a b c")") + "]," + lists);
  EXPECT_EQ(most.status, 200) << most.body.substr(0, 300);
  EXPECT_LT(server.peak_resident_bytes() - before, 64 << 20);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// More than may queue is refused as what it is, and not as a queue that is full: there is no use in
// asking again.
TEST(HostileSizes, ChoicesThatCannotQueueAreRefusedForGood) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kCheckpoint, "--dtype", "float32",
                                        "--max-waiting", "5"});
  const auto ask = [&](const std::string& path, const std::string& prompt, int n) {
    return exchange(server.port(), "POST", path,
                    "{" + prompt + R"(,"max_tokens":1,"n":)" + std::to_string(n) + "}");
  };
  const std::string chat = R"("messages":[{"role":"user","content":"a"}])";
  expect_error(ask("/v1/chat/completions", chat, 6), 400, {"6", "5"});
  EXPECT_EQ(ask("/v1/chat/completions", chat, 5).status, 200);
  expect_error(ask("/v1/completions", R"("prompt":["a","b"])", 3), 400, {"6", "5"});
  EXPECT_EQ(ask("/v1/completions", R"("prompt":["a","b"])", 2).status, 200);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// An answer repeats the prompt in each of its choices where that is asked for.
TEST(HostileSizes, PromptsThatAreEchoedInEachChoiceAreBounded) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kCheckpoint, "--dtype", "float32"});
  std::string text;
  while (text.size() < 4200) text += " picture";
  const auto complete = [&](int prompts, int n) {
    return exchange(server.port(), "POST", "/v1/completions",
                    R"({"echo":true,"max_tokens":1,"n":)" + std::to_string(n) + R"(,"prompt":[)" +
                        repeated(prompts, "\"" + text + "\"") + "]}");
  };
  expect_error(complete(8, 128), 400, {"echo", "4194304"});
  const RawAnswer some = complete(2, 2);
  EXPECT_EQ(some.status, 200) << some.body.substr(0, 300);
  EXPECT_GT(some.body.size(), 4 * text.size());
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// A text far over the context is refused by what has to be tokenised to know that, so it holds no
// worker: the messages name the limit and a count that is far from the whole's.
TEST(HostileSizes, TextsFarOverTheContextAreNotTokenisedWhole) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kCheckpoint, "--dtype", "float32",
                                        "--max-model-len", "512"});
  std::string text;
  while (text.size() < (std::size_t{8} << 20)) text += "some words and more of them ";
  for (const std::string path : {"/v1/completions", "/v1/chat/completions"}) {
    const std::string body =
        path == "/v1/completions"
            ? R"({"prompt": ")" + text + "\"}"
            : R"({"messages": [{"role": "user", "content": ")" + text + "\"}]}";
    const RawAnswer answer = exchange(server.port(), "POST", path, body);
    expect_error(answer, 400, {"512", "at least"});
  }
  // Blanks that a template strips, and that a tokenizer joins, are no reason to refuse.
  EXPECT_EQ(
      exchange(server.port(), "POST", "/v1/completions", R"({"prompt": "a b", "max_tokens": 1})")
          .status,
      200);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// --- clients ---

// A client in a loop of requests with as many choices as may be, beside one with 40 chats: each
// chat is answered, and before the first of the loop's requests, which has as much to say as all of
// them many times over.
TEST(HostileClients, ALoopOfManyChoicesStarvesNobody) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", kCheckpoint, "--dtype", "float32", "--max-model-len",
                        "512", "--max-num-seqs", "16", "--api-key", "hostile", "patient"});
  const auto ask = [&](const std::string& key, const std::string& path, const std::string& body) {
    return exchange(server.port(), "POST", path, body, -1, "Authorization: Bearer " + key + "\r\n")
        .status;
  };
  std::atomic<int> order = 0;
  std::atomic<int> first_hostile = 1 << 30;
  std::atomic<int> last_chat = 0;
  std::atomic<int> answered = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const int status = ask("hostile", "/v1/completions",
                               R"({"n": 128, "max_tokens": 100, "ignore_eos": true, "prompt": [)" +
                                   repeated(8, R"("a")") + "]}");
        if (stop) return;     // cut with the server
        if (status != 200) {  // 429: its queue is full
          EXPECT_EQ(status, 429);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          continue;
        }
        int none = 1 << 30;
        first_hostile.compare_exchange_strong(none, ++order);
      }
    });
  }
  // The hostile one is there first.
  for (int i = 0; i < 200; ++i) {
    const std::string page = exchange(server.port(), "GET", "/metrics", "").body;
    const std::size_t at = page.find("\nvllm:num_requests_waiting{");
    if (std::strtod(page.c_str() + page.find("} ", at) + 2, nullptr) > 900) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::vector<std::thread> chats;
  for (int i = 0; i < 40; ++i) {
    chats.emplace_back([&] {
      const int status =
          ask("patient", "/v1/chat/completions",
              R"({"max_tokens": 4, "messages": [{"role": "user", "content": "x"}]})");
      EXPECT_EQ(status, 200);
      if (status == 200) ++answered;
      const int at = ++order;
      for (int seen = last_chat; seen < at && !last_chat.compare_exchange_weak(seen, at);) {
      }
    });
  }
  for (auto& chat : chats) chat.join();
  stop = true;
  EXPECT_EQ(answered, 40);
  EXPECT_LT(last_chat, first_hostile);
  server.signal(SIGTERM);
  server.signal(SIGTERM);
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace saccade::test

// One large picture holds up nobody: the real binary decodes and encodes one for seconds, beside
// texts, and lets it be when nobody waits for it.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text/base64.h"
#include "image/formats.h"
#include "image/pixels.h"
#include "tests/support/picture_files.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

constexpr int kLargeSide = 3584;  // 65,536 patches

std::string body_of(std::string_view type, std::string_view file) {
  return R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": )"
         R"({"url": "data:image/)" +
         std::string(type) + ";base64," + base64_encode(file) + R"("}}]}]})";
}

std::string post_of(const std::string& body) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string png_of(int side) {
  Pixels pixels;
  pixels.width = pixels.height = side;
  pixels.rgb.resize(std::size_t{3} * static_cast<std::size_t>(side * side));
  for (std::size_t i = 0; i < pixels.rgb.size(); ++i)
    pixels.rgb[i] = static_cast<std::uint8_t>(i / 97);
  const auto png = encode_png(pixels);
  EXPECT_TRUE(png.has_value());
  return {reinterpret_cast<const char*>(png->data()), png->size()};
}

// A request waits for its picture, which has been decoded.
bool picture_is_encoded(const ServerProcess& server) {
  const std::string page = exchange(server.port(), "GET", "/metrics", "").body;
  const auto has = [&](const char* line) { return page.find(line) != std::string::npos; };
  return has(R"(by_reason{reason="encoder",engine="0",model_name="m"} 1)") &&
         has(R"(saccade:images_loading{engine="0",model_name="m"} 0)");
}

bool within(std::chrono::seconds most, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(LargePicture, TextsAreAnsweredBesideItAndItEndsWithItsClient) {
  const TemporaryDirectory folder;
  const std::string model = folder.path() + "/model";
  ASSERT_EQ(run_to_end(SACCADE_BINARY, {"model", "make-dummy", "--family", "qwen2-vl", "--size",
                                        "tiny", "--out", model})
                .status,
            0);
  ServerProcess server(SACCADE_BINARY,
                       {"serve", model, "--served-model-name", "m", "--max-model-len", "17000",
                        "--mm-processor-kwargs", R"({"max_pixels":12845056})"});
  TcpSocket client = TcpSocket::connect(server.port());
  ASSERT_TRUE(client.send(post_of(body_of("png", png_of(kLargeSide)))));
  ASSERT_TRUE(within(std::chrono::seconds(60), [&] { return picture_is_encoded(server); }))
      << server.log();
  // As many as come before the picture is encoded: all of them, where nothing is held up.
  int beside = 0;
  for (int i = 0; i < 5; ++i) {
    const RawAnswer answer = exchange(server.port(), "POST", "/v1/completions",
                                      R"({"prompt": "A text of number )" + std::to_string(i) +
                                          R"(", "max_tokens": 4, "ignore_eos": true})");
    EXPECT_EQ(answer.status, 200) << answer.body;
    if (picture_is_encoded(server)) ++beside;
  }
  EXPECT_GE(beside, 4);
  client.close();
  EXPECT_TRUE(within(std::chrono::seconds(10), [&] { return !picture_is_encoded(server); }));
  EXPECT_EQ(server.stop(), 0) << server.log();
}

using Seconds = std::chrono::duration<double>;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

// A small file that takes seconds to decode, on the only thread that decodes.
class LongDecode : public ::testing::Test {
 protected:
  LongDecode() {
    constexpr int kSides = 8192;  // as many pixels as an image may have
    const Pixels plain{
        kSides, kSides,
        std::vector<std::uint8_t>(std::size_t{3} * kSides * kSides, std::uint8_t{100})};
    file_ = saccade::test::progressive_jpeg(plain, 88);
    alone_ = seconds_of([this] {
      const auto pixels = decode_image(std::as_bytes(std::span(file_)));
      EXPECT_TRUE(pixels.has_value()) << pixels.error().message;
    });
    EXPECT_EQ(run_to_end(SACCADE_BINARY, {"model", "make-dummy", "--family", "qwen2-vl", "--size",
                                          "tiny", "--out", model_})
                  .status,
              0);
    server_ = std::make_unique<ServerProcess>(
        SACCADE_BINARY, std::vector<std::string>{"serve", model_, "--served-model-name", "m",
                                                 "--image-threads", "1", "--drain-seconds", "0"});
  }

  // Its client's connection, once it is being decoded.
  TcpSocket send() {
    TcpSocket client = TcpSocket::connect(server_->port());
    EXPECT_TRUE(client.send(post_of(body_of("jpeg", file_))));
    EXPECT_TRUE(within(std::chrono::seconds(60), [this] {
      return exchange(server_->port(), "GET", "/metrics", "")
                 .body.find(R"(saccade:images_decoded_total{engine="0",model_name="m"} 1)") !=
             std::string::npos;
    })) << server_->log();
    return client;
  }

  const TemporaryDirectory folder_;
  const std::string model_ = folder_.path() + "/model";
  std::string file_;
  double alone_ = 0;  // seconds
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(LongDecode, EndsWithItsClient) {
  send().close();
  const std::string small = body_of("png", png_of(56));
  const double next = seconds_of([&] {
    const RawAnswer answer = exchange(server_->port(), "POST", "/v1/chat/completions", small);
    EXPECT_EQ(answer.status, 200) << answer.body;
  });
  EXPECT_LT(next, alone_ * 2 / 3);
}

TEST_F(LongDecode, EndsWithTheServer) {
  const TcpSocket client = send();
  const double end = seconds_of([&] { EXPECT_EQ(server_->stop(), 0) << server_->log(); });
  EXPECT_LT(end, alone_ * 2 / 3);
}

}  // namespace
}  // namespace saccade::test

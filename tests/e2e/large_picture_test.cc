// One large picture holds up nobody: the real binary encodes one for seconds, beside texts.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/base64.h"
#include "image/formats.h"
#include "image/pixels.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

constexpr int kSide = 3584;  // 65,536 patches

std::string picture_request() {
  Pixels pixels;
  pixels.width = pixels.height = kSide;
  pixels.rgb.resize(std::size_t{3} * kSide * kSide);
  for (std::size_t i = 0; i < pixels.rgb.size(); ++i)
    pixels.rgb[i] = static_cast<std::uint8_t>(i / 97);
  const auto png = encode_png(pixels);
  EXPECT_TRUE(png.has_value());
  const std::string body =
      R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": )"
      R"({"url": "data:image/png;base64,)" +
      base64_encode({reinterpret_cast<const char*>(png->data()), png->size()}) + R"("}}]}]})";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
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
  ASSERT_TRUE(client.send(picture_request()));
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

}  // namespace
}  // namespace saccade::test

// What requests hold is bounded from their headers on, and who has no key holds nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/text/base64.h"
#include "image/pixels.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

constexpr std::int64_t kMib = 1 << 20;

std::string head_of(std::size_t length, const std::string& more = "") {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + more +
         "Content-Length: " + std::to_string(length) + "\r\n\r\n";
}

TEST(RequestMemory, WhoHasNoKeyIsNotListenedTo) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kCheckpoint, "--api-key", "secret"});
  const std::int64_t before = server.resident_bytes();
  std::vector<TcpSocket> strangers;
  const std::string piece(kMib, 'x');
  for (int i = 0; i < 20; ++i) {
    TcpSocket& stranger = strangers.emplace_back(TcpSocket::connect(server.port()));
    ASSERT_TRUE(stranger.send(head_of(60 * kMib)));
    // Not a byte of the body is on its way: the header alone is answered.
    EXPECT_EQ(stranger.receive_until("\r\n\r\n").substr(0, 12), "HTTP/1.1 401");
  }
  for (TcpSocket& stranger : strangers)
    for (int i = 0; i < 8; ++i) stranger.send(piece);  // read to be thrown away
  EXPECT_LT(server.resident_bytes() - before, 32 * kMib);
  EXPECT_EQ(exchange(server.port(), "POST", "/v1/chat/completions",
                     R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})", -1,
                     "Authorization: Bearer secret\r\n")
                .status,
            200);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(RequestMemory, UnfinishedBodiesCountAndAreGivenBack) {
  ServerProcess server(SACCADE_BINARY,
                       {"serve", "--model", kCheckpoint, "--max-preparing-bytes", "100MiB"});
  EXPECT_EQ(metric(server.port(), "saccade:request_bytes_limit"), 100.0 * kMib);
  {
    TcpSocket unfinished = TcpSocket::connect(server.port());
    ASSERT_TRUE(unfinished.send(head_of(60 * kMib) + "{"));
    while (metric(server.port(), "saccade:request_bytes") < 60.0 * kMib) {
    }
    TcpSocket refused = TcpSocket::connect(server.port());
    ASSERT_TRUE(refused.send(head_of(60 * kMib)));
    const std::string head = refused.receive_until("\r\n\r\n");
    EXPECT_EQ(head.substr(0, 12), "HTTP/1.1 503");
    EXPECT_NE(head.find("Retry-After"), std::string::npos);
    const std::string body = refused.receive();
    EXPECT_NE(body.find("--max-preparing-bytes"), std::string::npos) << body;
    // What fits goes on.
    EXPECT_EQ(exchange(server.port(), "POST", "/v1/chat/completions",
                       R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})")
                  .status,
              200);
  }
  while (metric(server.port(), "saccade:request_bytes") > 0) {
  }
  EXPECT_EQ(server.stop(), 0) << server.log();
}

std::string noisy_jpeg(int side, std::uint64_t seed) {
  Rng rng(seed);
  Pixels pixels{side, side, {}};
  for (int i = 0; i < side * side * 3; ++i)
    pixels.rgb.push_back(static_cast<std::uint8_t>(100 + rng.below(8)));
  const auto bytes = encode_jpeg(pixels, 75);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

TEST(RequestMemory, WaitingImagesAreHeldAsTheyCame) {
  constexpr int kRequests = 40;
  constexpr int kSide = 1024;
  char folder[] = "/tmp/saccade-memory-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  ASSERT_EQ(run_to_end(SACCADE_BINARY, {"model", "make-dummy", "--family", "qwen2-vl", "--size",
                                        "tiny", "--out", std::string(folder) + "/model"})
                .status,
            0);
  {
    // The sanitizer must not keep what has been freed.
    ServerProcess server(SACCADE_BINARY,
                         {"serve", "--model", std::string(folder) + "/model", "--max-pixel-bytes",
                          "16MiB", "--max-num-seqs", "4", "--kv-cache-bytes", "67108864"},
                         {{"ASAN_OPTIONS", "quarantine_size_mb=1"}});
    const std::int64_t before = server.resident_bytes();
    std::size_t sent = 0;
    std::vector<TcpSocket> clients;
    for (int i = 0; i < kRequests; ++i) {
      const std::string body =
          R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image_url", )"
          R"("image_url": {"url": "data:image/jpeg;base64,)" +
          base64_encode(noisy_jpeg(kSide, static_cast<std::uint64_t>(i))) + R"("}}]}]})";
      sent += body.size();
      clients.push_back(TcpSocket::connect(server.port()));
      ASSERT_TRUE(clients.back().send(head_of(body.size()) + body));
    }
    // Until all are the engine's, or answered.
    const auto has = [&](const std::string& name) { return metric(server.port(), name); };
    while (has("saccade:images_decoded_total") < 2 || has("saccade:requests_preparing") > 0 ||
           has("vllm:num_requests_waiting") + has("vllm:num_requests_running") +
                   has("saccade:images_encoded_total") <
               kRequests) {
    }
    EXPECT_LE(metric(server.port(), "saccade:pixel_bytes"), 16.0 * kMib);
    EXPECT_LE(metric(server.port(), "saccade:request_bytes"), static_cast<double>(sent));
    // As floats they were 26 MB each, a gigabyte together. Half of it is the sanitizer's.
    EXPECT_LT(server.resident_bytes() - before, 256 * kMib);
    clients.clear();
    while (metric(server.port(), "saccade:request_bytes") +
               metric(server.port(), "saccade:pixel_bytes") >
           0) {
    }
    EXPECT_EQ(server.stop(), 0) << server.log();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace saccade::test

// What a machine does: a log that nobody reads, no room on the disk or in memory, no descriptors, a
// clock that jumps. Survived, or refused with a message.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/json.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/tcp_socket.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

// The program under a shell line that spoils something first.
std::vector<std::string> spoiled(const std::string& line, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"-c", line, "sh", SACCADE_BINARY});
  return arguments;
}

int complete(std::uint16_t port) {
  return exchange(port, "POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 2})").status;
}

TEST(Faults, ALogThatNobodyReadsIsNoReasonToStop) {
  // What is written to the pipe's other end once its reader has gone is an error, not a signal.
  char pattern[] = "/tmp/saccade-faults-XXXXXX";
  const fs::path folder = mkdtemp(pattern);
  const std::string pipe = (folder / "log").string();
  ServerProcess server(
      "/bin/sh", spoiled("mkfifo " + pipe + "; sed -u 40q " + pipe + " >&2 & exec \"$@\" 2>" + pipe,
                         {"serve", "--model", kCheckpoint, "--enable-log-requests"}));
  for (int i = 0; i < 60; ++i) ASSERT_EQ(complete(server.port()), 200) << i;
  EXPECT_EQ(server.stop(), 0);
  fs::remove_all(folder);
}

TEST(Faults, NoRoomOnTheDiskIsSaid) {
  char pattern[] = "/tmp/saccade-faults-XXXXXX";
  const fs::path folder = mkdtemp(pattern);
  // A file may have 64 KiB: what goes beyond fails as on a full disk.
  const Ended ended =
      run_to_end("/bin/sh", spoiled(R"(trap "" XFSZ; ulimit -f 64; exec "$@")",
                                    {"model", "make-dummy", "--family", "qwen2-vl", "--size",
                                     "tiny", "--out", (folder / "model").string()}));
  EXPECT_NE(ended.status, 0) << ended.output;
  EXPECT_LT(ended.status, 128) << ended.output;  // an error, not a signal
  EXPECT_NE(ended.output.find("model.safetensors"), std::string::npos) << ended.output;
  fs::remove_all(folder);
}

TEST(Faults, ALogOnAFullDiskIsNoReasonToStop) {
  // 4 KiB of log fit (the unit is 512 bytes).
  ServerProcess server("/bin/sh",
                       spoiled(R"(trap "" XFSZ; ulimit -f 8; exec "$@")",
                               {"serve", "--model", kCheckpoint, "--enable-log-requests"}));
  for (int i = 0; i < 120; ++i) ASSERT_EQ(complete(server.port()), 200) << i;
  EXPECT_LE(server.log().size(), 4u << 10);
  EXPECT_GT(server.log().size(), 3u << 10);  // it did come to the end
  EXPECT_EQ(server.stop(), 0);
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

int status_of(TcpSocket& socket) {
  const std::string head = socket.receive_until("\r\n\r\n", 120'000);
  const std::size_t length = head.find("Content-Length: ");
  if (length == std::string::npos) return 0;
  socket.receive_bytes(std::stoul(head.substr(length + 16)), 120'000);
  return std::atoi(head.c_str() + 9);
}

std::string image_chat(const std::string& url) {
  return R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image_url",)"
         R"("image_url": {"url": ")" +
         url + R"("}}]}]})";
}

// Connections that are open go on, what needs another descriptor is refused, newcomers wait; and
// all is well again once there are some.
TEST(Faults, OutOfDescriptors) {
  if (SACCADE_SANITIZED)
    GTEST_SKIP() << "UBSan looks at memory through a pipe, and takes its absence for a fault";
  TcpListener host;
  const std::string images = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/images";
  ServerProcess server(
      "/bin/sh",
      spoiled(R"(ulimit -n 64; exec "$@")",
              {"serve", "--model", kCheckpoint, "--allowed-local-media-path", images,
               "--allowed-media-domains", "127.0.0.1", "--allow-private-media-addresses"}));
  TcpSocket first = TcpSocket::connect(server.port());
  const std::string text = post("/v1/completions", R"({"prompt": "a", "max_tokens": 2})");
  ASSERT_TRUE(first.send(text));
  ASSERT_EQ(status_of(first), 200);
  std::vector<TcpSocket> idle;
  for (int i = 0; i < 120; ++i) idle.push_back(TcpSocket::connect(server.port()));
  while (server.log().find("Too many open files") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const auto& [url, at_least] :
       {std::pair("file://" + images + "/small.png", 422),
        std::pair("http://127.0.0.1:" + std::to_string(host.port()) + "/x.png", 422)}) {
    ASSERT_TRUE(first.send(post("/v1/chat/completions", image_chat(url))));
    EXPECT_GE(status_of(first), at_least) << url;
    ASSERT_TRUE(first.send(text));
    EXPECT_EQ(status_of(first), 200);
  }
  TcpSocket late = TcpSocket::connect(server.port());
  ASSERT_TRUE(late.send(text));
  idle.clear();
  EXPECT_EQ(status_of(late), 200);
  ASSERT_TRUE(
      first.send(post("/v1/chat/completions", image_chat("file://" + images + "/small.png"))));
  EXPECT_EQ(status_of(first), 200);
  first.close();
  late.close();
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(Faults, TooFewDescriptorsToStartAreSaid) {
  if (SACCADE_SANITIZED)
    GTEST_SKIP() << "UBSan looks at memory through a pipe, and takes its absence for a fault";
  const Ended ended = run_to_end(
      "/bin/sh", spoiled(R"(ulimit -n 6; exec "$@")", {"serve", "--model", kCheckpoint}));
  EXPECT_EQ(ended.status, 1) << ended.output;
  EXPECT_NE(ended.output.find("Too many open files"), std::string::npos) << ended.output;
}

// Deadlines, waits and metrics go by the monotonic clock: with a wall clock that jumps by years
// with every look they are as ever, and only what says the time of day is nonsense.
TEST(Faults, AClockThatJumps) {
  TcpListener host;  // images of it never come
  ServerProcess server(
      SACCADE_BINARY,
      {"serve", "--model", kCheckpoint, "--allowed-media-domains", "127.0.0.1",
       "--allow-private-media-addresses", "--media-timeout", "2"},
      {{"LD_PRELOAD", SACCADE_JUMPING_CLOCK}, {"ASAN_OPTIONS", "verify_asan_link_order=0"}});
  bool jumped = false;
  for (int i = 0; i < 12; ++i) {
    const RawAnswer answer =
        exchange(server.port(), "POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 4})");
    ASSERT_EQ(answer.status, 200) << answer.body;
    const auto tree = json::parse(answer.body);
    ASSERT_TRUE(tree);
    constexpr std::int64_t kMonth = 2'600'000;
    jumped = jumped || std::abs(tree->at("created").as_int64() - std::time(nullptr)) > kMonth;
  }
  EXPECT_TRUE(jumped);
  const RawAnswer stalled =
      exchange(server.port(), "POST", "/v1/chat/completions",
               image_chat("http://127.0.0.1:" + std::to_string(host.port()) + "/x.png"));
  EXPECT_NE(stalled.body.find("no image within 2000 ms"), std::string::npos) << stalled.body;
  const std::string page = exchange(server.port(), "GET", "/metrics", "").body;
  for (const std::string name :
       {"vllm:e2e_request_latency_seconds_sum", "vllm:request_queue_time_seconds_sum",
        "vllm:time_to_first_token_seconds_sum"}) {
    const std::size_t at = page.find("\n" + name + "{");
    ASSERT_NE(at, std::string::npos) << name;
    const double sum = std::strtod(page.c_str() + page.find("} ", at) + 2, nullptr);
    EXPECT_GE(sum, 0) << name;
    EXPECT_LT(sum, 3600) << name;
  }
  EXPECT_EQ(server.stop(), 0) << server.log();
  EXPECT_EQ(server.log().find("wall clock"), std::string::npos) << server.log();
}

}  // namespace
}  // namespace saccade::test

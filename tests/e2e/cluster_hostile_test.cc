// Strangers at an encoder's door, and ends that are asked for: nobody else notices, and nothing is
// left.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "tests/e2e/cluster_setup.h"
#include "tests/support/fault_relay.h"
#include "tests/support/http2_peer.h"

namespace saccade::test {
namespace {

// Sends bytes and reads until the other side closes, or for two seconds. -1: it did not close.
int shout(std::uint16_t port, const std::string& bytes, bool wait) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<std::size_t>(n);
  }
  timeval limit{wait ? 10 : 0, wait ? 0 : 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char buffer[4096];
  int closed = -1;
  while (true) {
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n > 0) continue;
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) closed = 0;
    break;
  }
  close(fd);
  return closed;
}

TEST(ClusterDoor, WhoSpeaksSomethingElseIsLetGo) {
  EncoderRole encoder;
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(encoder.address(), {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  const std::uint16_t port = encoder.cluster_port();
  EXPECT_EQ(shout(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", true), 0);
  EXPECT_EQ(shout(port, "", true), 0);  // says nothing
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  Rng rng(7);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = i % 2 == 0 ? preface : "";
    const std::size_t length = rng.below(4096);
    for (std::size_t k = 0; k < length; ++k) bytes += static_cast<char>(rng.below(256));
    shout(port, bytes, false);
  }
  // A frame that claims 16 MiB, and settings that are none.
  shout(port, preface + std::string("\xff\xff\xff\x00\x00\x00\x00\x00\x01", 9), false);
  shout(port,
        preface + std::string("\x00\x00\x06\x04\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff", 15),
        false);
  const std::string body = chat({noise(1)});
  EXPECT_EQ(ask(server, body), ask(solo, body));
  expect_nothing_left_at(encoder.process());
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

// A call of one of the service's methods as gRPC writes it, its messages and frames anything, and
// in one of three a bit wrong.
std::string any_call(Rng& rng) {
  constexpr std::uint32_t kStream = 1;
  const char* const methods[] = {"Hello", "Watch", "Encode", "Encode", "None"};
  std::string head = header(":method", "POST") + header(":scheme", "http") +
                     header(":path", std::string("/saccade.cluster.v1.Encoder/") +
                                         methods[rng.below(std::size(methods))]) +
                     header(":authority", "x") + header("te", "trailers") +
                     header("content-type", "application/grpc");
  if (rng.below(8) == 0) head += any_bytes(rng, rng.below(20));
  std::string bytes = frame(Http2Frame::kSettings, 0, 0, "") +
                      frame(Http2Frame::kHeaders, kEndHeaders, kStream, head);
  for (std::uint64_t left = rng.below(5); left > 0; --left) {
    const int ends = rng.below(4) == 0 ? kEndStream : 0;
    switch (rng.below(7)) {
      case 0:  // an Ask, of which the first fields are read
        bytes +=
            frame(Http2Frame::kData, ends, kStream,
                  grpc_message("\x0a\x0f\x0a\x04peer\x11" + any_bytes(rng, sizeof(std::uint64_t))));
        break;
      case 1:
        bytes += frame(Http2Frame::kData, ends, kStream, grpc_message(any_bytes(rng, 30)));
        break;
      case 2:
        bytes += frame(Http2Frame::kData, ends, kStream, any_bytes(rng, 30));
        break;
      case 3:
      case 4:
      case 5:
        bytes += any_control(rng, kStream);
        break;
      default:
        bytes += frame(Http2Frame::kHeaders, kEndHeaders | ends, kStream, header("a", "b"));
    }
  }
  if (rng.below(3) == 0) flip_a_bit(rng, bytes);
  return bytes;
}

TEST(ClusterDoor, AnyCallLeavesAnEncoder) {
  EncoderRole encoder;
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  Rng rng(8);
  for (int i = 0; i < 1'000; ++i) {
    shout(encoder.cluster_port(), preface + any_call(rng), false);
    ASSERT_TRUE(encoder.process().running()) << "behind call " << i;
  }
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(encoder.address(), {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  const std::string body = chat({noise(2)});
  EXPECT_EQ(ask(server, body), ask(solo, body));
  expect_nothing_left_at(encoder.process());
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

// What another program at an encoder's address may answer. An end without grpc-status took the
// server with it where gRPC tries again by itself.
TEST(ClusterDoor, AnEncoderThatIsNoneCostsNoAnswer) {
  const auto whole = [](std::uint32_t stream, int flags) {
    return frame(Http2Frame::kHeaders, kEndHeaders | flags, stream, grpc_head());
  };
  const auto trailers = [](std::uint32_t stream, std::string_view name, std::string_view value) {
    return frame(Http2Frame::kHeaders, kEndHeaders | kEndStream, stream, header(name, value));
  };
  const std::string no_error = big_endian(0, 4);
  const std::vector<std::function<std::string(std::uint32_t)>> answers = {
      [&](std::uint32_t stream) { return whole(stream, kEndStream); },
      [&](std::uint32_t stream) { return whole(stream, 0) + trailers(stream, "x-a", "b"); },
      [&](std::uint32_t stream) { return whole(stream, 0) + trailers(stream, "grpc-status", "x"); },
      [&](std::uint32_t stream) {
        return whole(stream, 0) + frame(Http2Frame::kData, kEndStream, stream, "");
      },
      [&](std::uint32_t stream) {
        return whole(stream, 0) + frame(Http2Frame::kReset, 0, stream, no_error);
      },
      [&](std::uint32_t stream) {
        return whole(stream, kEndStream) + frame(Http2Frame::kReset, 0, stream, no_error);
      },
      [&](std::uint32_t stream) {
        return frame(Http2Frame::kHeaders, kEndHeaders | kEndStream, stream, "\x88");
      }};
  EncoderRole encoder;
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i);
    Http2Peer peer([&](std::uint32_t stream, std::string_view) { return answers[i](stream); });
    ServerProcess server(SACCADE_BINARY,
                         serve(kCheckpoint, pd(peer.address() + "," + encoder.address(),
                                               {"--encoder-fallback", "refuse"})));
    ASSERT_TRUE(eventually([&] { return peer.answered() > 1 || !server.running(); }));
    wait_until_connected(server);
    ASSERT_TRUE(server.running());
    const std::string body = chat({noise(80 + i), noise(90 + i)});
    EXPECT_EQ(ask(server, body), ask(solo, body));
    EXPECT_EQ(server.stop(), 0) << server.log();
  }
}

TEST(ClusterDoor, ClientsThatLeaveTakeTheirImagesWithThem) {
  EncoderRole encoder;
  FaultRelay relay(encoder.cluster_port());
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(relay.address(), {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  for (const std::int64_t held : {0, 100, 1'000}) {
    relay.set({.stall_after = relay.passed_back() + held});
    // The client sends its request, and closes without reading.
    const std::string body = chat({noise(50 + static_cast<std::uint64_t>(held))});
    const std::string request =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    shout(server.port(), request, false);
    relay.set({});
  }
  expect_nothing_left(server);
  expect_nothing_left_at(encoder.process());
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// So slowly that an image is on its way for half a minute: as long as a test needs to stop
// somebody.
constexpr std::int64_t kCrawl = 10'000;
std::string large_image(std::uint64_t seed) { return noise(seed, 320, 320); }  // 300 kB

void expect_to_end(const ServerProcess& process) {
  process.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] {
    return process.log().find("shutting down: 1 answers are running") != std::string::npos;
  })) << process.log();
}

TEST(ClusterDoor, AServerThatIsStoppedFinishesWhatIsOpen) {
  EncoderRole encoder;
  FaultRelay relay(encoder.cluster_port());
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(relay.address(), {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  const std::string body = chat({large_image(60)});
  const auto expected = ask(solo, body);
  relay.set({.bytes_a_second = kCrawl});
  std::vector<std::int64_t> answer;
  std::thread client([&] { answer = ask(server, body); });
  EXPECT_TRUE(eventually([&] { return metric(server, "saccade:exchange_open_images") == 1; }));
  expect_to_end(server);
  EXPECT_FALSE(server.ended());
  relay.set({});
  client.join();
  EXPECT_EQ(answer, expected);
  EXPECT_EQ(server.wait_at_most(120), 0) << server.log();
  expect_nothing_left_at(encoder.process());
}

TEST(ClusterDoor, AnEncoderThatIsStoppedFinishesWhatIsOpen) {
  EncoderRole encoder;
  FaultRelay relay(encoder.cluster_port());
  EncoderRole other;
  FaultRelay way_to_other(other.cluster_port());
  way_to_other.set({.refuse = true});  // what is open has nowhere else to go
  ServerProcess solo(SACCADE_BINARY, serve(kCheckpoint));
  ServerProcess server(SACCADE_BINARY,
                       serve(kCheckpoint, pd(relay.address() + "," + way_to_other.address(),
                                             {"--encoder-fallback", "refuse"})));
  wait_until_connected(server);
  const std::string body = chat({large_image(70)});
  const auto expected = ask(solo, body);
  relay.set({.bytes_a_second = kCrawl});
  std::vector<std::int64_t> answer;
  std::thread client([&] { answer = ask(server, body); });
  EXPECT_TRUE(eventually([&] { return metric(encoder.process(), "saccade:lent_calls") == 1; }));
  expect_to_end(encoder.process());
  EXPECT_FALSE(encoder.process().ended());
  relay.set({});
  client.join();
  EXPECT_EQ(answer, expected);
  EXPECT_EQ(encoder.process().wait_at_most(120), 0) << encoder.process().log();
  way_to_other.set({});
  wait_until_connected(server);
  const std::string next = chat({noise(80), noise(81)});
  EXPECT_EQ(ask(server, next), ask(solo, next));
  expect_nothing_left(server);
}

TEST(ClusterDoor, AServerThatIsKilledLeavesNothingAtTheEncoder) {
  EncoderRole encoder;
  FaultRelay relay(encoder.cluster_port());
  for (const std::int64_t held : {0, 300, 5'000}) {
    relay.set({});
    ServerProcess server(SACCADE_BINARY,
                         serve(kCheckpoint, pd(relay.address(), {"--encoder-fallback", "refuse"})));
    wait_until_connected(server);
    relay.set({.stall_after = relay.passed_back() + held});
    std::thread client([&] {
      exchange(server.port(), "POST", "/v1/chat/completions",
               chat({noise(90 + static_cast<std::uint64_t>(held))}));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server.signal(SIGKILL);
    client.join();
    relay.cut_all();
    expect_nothing_left_at(encoder.process());
  }
  EXPECT_EQ(encoder.process().stop(), 0) << encoder.process().log();
}

}  // namespace
}  // namespace saccade::test

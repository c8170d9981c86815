// A whole connection of the HTTP server: any bytes in; out come complete responses, no more than
// there were requests, then the end, and nothing is left behind.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "net/client/response_parser.h"
#include "net/server/server_connection.h"

namespace {

using namespace saccade::net;
using namespace std::chrono_literals;

// What the handler was asked, in order.
struct Asked {
  std::mutex mutex;
  std::vector<std::string> methods;
  bool cut = false;  // a stream was dropped, so the last answer has no end
};

void answer(Asked& asked, const HttpRequest& request, const Responder& responder) {
  {
    const std::lock_guard lock(asked.mutex);
    asked.methods.push_back(request.method);
    asked.cut = asked.cut || request.path == "/cut";
  }
  CHECK(request.body.size() <= 4096, "a body of {}", request.body.size());
  if (request.path == "/drop") return;
  if (request.path == "/stream" || request.path == "/cut") {
    responder.start_stream({{"X-Query", request.query}});
    responder.write("data: " + std::to_string(request.body.size()) + "\n\n");
    if (request.path == "/stream") responder.end_stream();
    return;
  }
  HttpResponse response;
  response.status = request.path == "/404" ? 404 : 200;
  response.body = request.method + " " + request.path + " " + request.body;
  response.headers = {{"X-Echo", std::string(request.header("x-echo"))}};
  responder.respond(std::move(response));
}

struct Server {
  std::shared_ptr<ServerContext> context = std::make_shared<ServerContext>();
  std::shared_ptr<IoThread> thread = std::make_shared<IoThread>();
  Asked asked;

  Server() {
    saccade::log::set_level(saccade::log::Level::kError);
    context->settings.max_header_bytes = 2048;
    context->settings.max_body_bytes = 4096;
    context->handler = [this](const HttpRequest& request, const Responder& responder) {
      answer(asked, request, responder);
    };
  }
  ~Server() { thread->stop(); }

  // Sends all of `bytes`, stops sending, and gives all that comes back.
  std::string exchange(std::string_view bytes) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    boost::asio::ip::tcp::socket socket(thread->context());
    socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
    auto connection = std::make_shared<ServerConnection>(
        context, thread, plain_transport(std::move(socket)), "fuzz:1");
    thread->post([connection = std::move(connection)] { connection->start(); });

    const int fd = ends[1];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    std::string received;
    bool sending = true;
    while (true) {
      if (sending && bytes.empty()) {
        shutdown(fd, SHUT_WR);
        sending = false;
      }
      pollfd wait{fd, static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0};
      // Longer than every time limit of the server, and than a busy machine stands still.
      const int ready = poll(&wait, 1, 120'000);
      if (ready < 0 && errno == EINTR) continue;  // the fuzzer looks at its clock by a signal
      CHECK(ready > 0, "the connection hangs after {} bytes", received.size());
      if ((wait.revents & POLLOUT) != 0) {
        const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
        if (sent < 0) sending = false;
      }
      if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        char buffer[4096];
        const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        received.append(buffer, static_cast<std::size_t>(got));
      }
    }
    ::close(fd);
    std::unique_lock lock(context->mutex);
    CHECK(context->closed_one.wait_for(lock, 120s, [this] { return context->open == 0; }),
          "{} connections are left", context->open);
    return received;
  }
};

class Ignore final : public ResponseSink {
 public:
  int status = 0;
  bool on_head(int head_status, std::vector<std::pair<std::string, std::string>>&&) override {
    status = head_status;
    return true;
  }
  bool on_body(std::string_view) override { return true; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Server server;
  {
    const std::lock_guard lock(server.asked.mutex);
    server.asked.methods.clear();
    server.asked.cut = false;
  }
  const std::string received =
      server.exchange(std::string_view(reinterpret_cast<const char*>(data), size));
  std::string_view rest = received;
  std::size_t responses = 0;
  // A body that was asked for and did not come ends the connection without an answer.
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  while (!rest.empty() && rest != kContinue) {
    const bool head =
        responses < server.asked.methods.size() && server.asked.methods[responses] == "HEAD";
    ResponseParser parser;
    parser.reset(head);
    Ignore sink;
    auto state = parser.feed(rest, sink);
    if (state == ResponseParser::State::kMore) {
      state = parser.finish();
      if (server.asked.cut) return 0;
    }
    CHECK(state == ResponseParser::State::kDone, "response {} of {} is not whole: {}", responses,
          server.asked.methods.size(), parser.failure());
    CHECK(sink.status >= 200 && sink.status < 600, "status {}", sink.status);
    rest.remove_prefix(parser.consumed());
    ++responses;
  }
  // One for each request, and at most one more that says why the connection ends.
  CHECK(responses <= server.asked.methods.size() + 1, "{} responses to {} requests", responses,
        server.asked.methods.size());
  CHECK(responses >= server.asked.methods.size() || server.asked.cut, "{} responses to {} requests",
        responses, server.asked.methods.size());
  return 0;
}

// Fetching media: each scheme, each rule, against a local HTTP server that can misbehave.
#include "serve/media/media_fetcher.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "base/text/base64.h"
#include "serve/media/http_media.h"
#include "serve/media/media_reference.h"
#include "serve/media/private_address.h"
#include "tests/support/tcp_socket.h"

namespace saccade::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

const std::atomic<bool> kGoOn{false};

// All of them at once; the first failure is the answer.
HttpDownloads::Files download(const MediaSettings& settings, std::vector<std::string> urls,
                              const std::atomic<bool>& cancelled = kGoOn,
                              MediaKind kind = MediaKind::kImage) {
  HttpDownloads downloads(settings);
  DownloadOrder order;
  order.max_bytes = 1u << 20;
  order.cancelled = [&cancelled] { return cancelled.load(); };
  for (std::string& url : urls) order.items.push_back({std::move(url), {}, kind});
  std::promise<HttpDownloads::Files> files;
  downloads.start(std::move(order),
                  [&](HttpDownloads::Files done) { files.set_value(std::move(done)); });
  return files.get_future().get();
}

Result<std::string> fetch(const MediaSettings& settings, const std::string& reference,
                          const std::atomic<bool>& cancelled = kGoOn,
                          MediaKind kind = MediaKind::kImage) {
  if (!is_remote_media(reference)) return read_media(reference, settings, cancelled, kind);
  TRY(const std::vector<std::string> files, download(settings, {reference}, cancelled, kind));
  return files.at(0);
}

void expect_error(const Result<std::string>& result, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(result.has_value()) << result->substr(0, 100);
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(part));
}

// --- a server that says what it is told to ------------------------------------------------------

class ScriptedServer {
 public:
  // Sends what it likes to the socket for one request; the socket is closed afterwards.
  using Answer = std::function<void(int socket)>;

  ScriptedServer() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    stopping_ = true;
    thread_.join();
    close(listener_);
  }

  void on(const std::string& path, Answer answer) { answers_[path] = std::move(answer); }
  void on(const std::string& path, const std::string& text) {
    on(path, [text](int socket) { send(socket, text.data(), text.size(), MSG_NOSIGNAL); });
  }
  std::string url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(port_) + path;
  }
  int requests() const { return requests_; }
  bool stopping() const { return stopping_; }

 private:
  void serve() {
    while (!stopping_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t count = recv(peer, buffer, sizeof(buffer), 0);
        if (count <= 0) break;
        request.append(buffer, static_cast<std::size_t>(count));
      }
      ++requests_;
      const std::size_t from = request.find(' ') + 1;
      const auto answer = answers_.find(request.substr(from, request.find(' ', from) - from));
      if (answer != answers_.end()) answer->second(peer);
      close(peer);
    }
  }

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::map<std::string, Answer> answers_;  // set before the first request
  std::atomic<bool> stopping_{false};
  std::atomic<int> requests_{0};
  std::thread thread_;
};

std::string ok(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

std::string redirect(const std::string& to) {
  return "HTTP/1.1 302 Found\r\nLocation: " + to +
         "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
}

MediaSettings local_http() {
  MediaSettings settings;
  settings.allowed_domains = {"127.0.0.1"};
  settings.allow_private_addresses = true;
  settings.connect_timeout = std::chrono::milliseconds(30'000);
  settings.total_timeout = std::chrono::milliseconds(60'000);
  return settings;
}

// --- data: --------------------------------------------------------------------------------------

TEST(DataUrl, Decodes) {
  const std::string bytes("\x89PNG\0\xff", 6);
  EXPECT_EQ(fetch({}, "data:image/png;base64," + base64_encode(bytes)).value(), bytes);
  EXPECT_EQ(fetch({}, "DATA:;base64,").value(), "");
}

TEST(DataUrl, IsReadAsClientsWriteIt) {
  for (const char* written : {"data:image/png;BASE64,Zm9v", "data:image/png; base64,Zm9v",
                              "data:image/png;base64,Zm\r\n9v\n", "data:image/png;base64,Zm9%76"})
    EXPECT_EQ(fetch({}, written).value(), "foo") << written;
  EXPECT_EQ(fetch({}, "data:image/png;base64,Zg").value(), "f");
  EXPECT_EQ(fetch({}, "data:;base64,-_%2B/").value(), "\xfb\xff\xbf");
}

TEST(DataUrl, RefusesBadOnesByName) {
  expect_error(fetch({}, "data:image/png;base64,Zm9*"), ErrorCode::kUndecodable,
               "data:image/png;base64,... (26 characters): base64: '*' at offset 3");
  expect_error(fetch({}, "data:image/png,abc"), ErrorCode::kUndecodable, "base64");
  expect_error(fetch({}, "data:image/png;base64"), ErrorCode::kUndecodable, "base64");
}

TEST(DataUrl, HoldsTheSizeLimit) {
  MediaSettings settings;
  settings.max_bytes = 100;
  const auto url = [](std::size_t bytes) {
    return "data:image/png;base64," + base64_encode(std::string(bytes, 'x'));
  };
  for (const std::size_t bytes : {98, 99, 100})
    EXPECT_TRUE(fetch(settings, url(bytes)).has_value());
  for (const std::size_t bytes : {101, 102, 103, 5'000})
    expect_error(fetch(settings, url(bytes)), ErrorCode::kTooLarge, "limit 100");
}

TEST(DataUrl, VideoFilesHaveALimitOfTheirOwn) {
  MediaSettings settings;
  settings.max_bytes = 100;
  settings.max_video_bytes = 200;
  const auto url = [](std::size_t bytes) {
    return "data:video/mp4;base64," + base64_encode(std::string(bytes, 'x'));
  };
  EXPECT_TRUE(fetch(settings, url(200), kGoOn, MediaKind::kVideoFile));
  for (const std::size_t bytes : {201, 203, 5'000})
    expect_error(fetch(settings, url(bytes), kGoOn, MediaKind::kVideoFile), ErrorCode::kTooLarge,
                 "limit 200 (--max-video-bytes)");
  expect_error(fetch(settings, url(200)), ErrorCode::kTooLarge,
               "the image has about 201 bytes, limit 100");
}

// --- file:// ------------------------------------------------------------------------------------

class LocalFiles : public ::testing::Test {
 protected:
  LocalFiles() {
    root_ = fs::path(::testing::TempDir()) / ("media_" + std::to_string(getpid()));
    fs::create_directories(root_ / "allowed/sub");
    fs::create_directories(root_ / "allowed2");
    write("allowed/a b.png", "inside");
    write("allowed/sub/c.png", "deeper");
    write("secret.png", "outside");
    write("allowed2/d.png", "sibling");
    fs::create_symlink(root_ / "secret.png", root_ / "allowed/link.png");
    fs::create_symlink(root_ / "allowed/sub", root_ / "allowed/within");
    fs::create_symlink(root_, root_ / "allowed/up");
    fs::create_symlink(root_ / "allowed", root_ / "alias");
    settings_.allowed_local_path = root_ / "allowed";
  }
  ~LocalFiles() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name) << text;
  }
  Result<std::string> read(const std::string& name) const {
    return fetch(settings_, "file://" + (root_ / name).string());
  }

  fs::path root_;
  MediaSettings settings_;
};

TEST_F(LocalFiles, ReadsInsideTheFolder) {
  EXPECT_EQ(read("allowed/a%20b.png").value(), "inside");
  EXPECT_EQ(read("allowed/a b.png").value(), "inside");
  EXPECT_EQ(read("allowed/sub/../sub/c.png").value(), "deeper");
  EXPECT_EQ(read("allowed/within/c.png").value(), "deeper");
  EXPECT_EQ(fetch(settings_, "file://localhost" + (root_ / "allowed/sub/c.png").string()).value(),
            "deeper");
  settings_.allowed_local_path = root_ / "alias";
  EXPECT_EQ(read("allowed/sub/c.png").value(), "deeper");
}

TEST_F(LocalFiles, OutsideIsOneAnswerWhetherItExistsOrNot) {
  for (const char* name : {"secret.png", "nothing.png", "allowed/../secret.png",
                           "allowed/../nothing.png", "allowed/link.png", "allowed/up/secret.png",
                           "allowed/up/nothing.png", "allowed/up/no/such.png", "allowed2/d.png",
                           "allowed2/e.png", "allowed/%2e%2e/secret.png"}) {
    const Result<std::string> result = read(name);
    ASSERT_FALSE(result.has_value()) << name;
    EXPECT_EQ(result.error().code, ErrorCode::kDenied) << result.error().message;
    EXPECT_THAT(result.error().message,
                HasSubstr("not under the folder of --allowed-local-media-path"));
    EXPECT_THAT(result.error().message, Not(HasSubstr("such file")));
  }
  expect_error(fetch(settings_, "file:///etc/passwd"), ErrorCode::kDenied, "not under the folder");
}

TEST_F(LocalFiles, SaysWhatIsWrongInside) {
  expect_error(read("allowed/none.png"), ErrorCode::kUndecodable, "no such file");
  expect_error(read("allowed/sub"), ErrorCode::kUndecodable, "not a regular file");
  mkfifo((root_ / "allowed/pipe").c_str(), 0600);
  expect_error(read("allowed/pipe"), ErrorCode::kUndecodable, "not a regular file");
  settings_.max_bytes = 5;
  expect_error(read("allowed/a b.png"), ErrorCode::kTooLarge, "6 bytes, limit 5");
  settings_.max_video_bytes = 4;
  expect_error(read_media("file://" + (root_ / "allowed/a b.png").string(), settings_, kGoOn,
                          MediaKind::kVideoFile),
               ErrorCode::kTooLarge, "6 bytes, limit 4 (--max-video-bytes)");
  expect_error(fetch({}, "file:///x.png"), ErrorCode::kDenied, "--allowed-local-media-path");
  expect_error(fetch(settings_, "file://host/x.png"), ErrorCode::kInvalid, "file:///PATH");
  expect_error(fetch(settings_, "file:///x%00.png"), ErrorCode::kInvalid, "file:///PATH");
  expect_error(fetch(settings_, "file:///" + std::string(100'000, '/')), ErrorCode::kInvalid,
               "file:///PATH");
}

// --- http:// ------------------------------------------------------------------------------------

TEST(HttpMedia, FetchesFromAnAllowedDomain) {
  ScriptedServer server;
  server.on("/a.png", ok("pixels"));
  server.on("/chunked", std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                    "3\r\npix\r\n3\r\nels\r\n0\r\n\r\n"));
  EXPECT_EQ(fetch(local_http(), server.url("/a.png")).value(), "pixels");
  EXPECT_EQ(fetch(local_http(), server.url("/chunked")).value(), "pixels");
}

TEST(HttpMedia, OffByDefaultAndOnlyAllowedDomains) {
  ScriptedServer server;
  server.on("/a.png", ok("pixels"));
  expect_error(fetch({}, server.url("/a.png")), ErrorCode::kDenied, "--allowed-media-domains");
  MediaSettings settings = local_http();
  settings.allowed_domains = {"example.org", "0.0.1"};  // a suffix is a subdomain only at a dot
  expect_error(fetch(settings, server.url("/a.png")), ErrorCode::kDenied, "127.0.0.1");
  expect_error(fetch(settings, "http://notexample.org/"), ErrorCode::kDenied, "notexample.org");
  expect_error(fetch(settings, "http://example.org@evil.test/"), ErrorCode::kDenied, "evil.test");
  expect_error(fetch(settings, "http://2130706433/"), ErrorCode::kDenied, "127.0.0.1");
  expect_error(fetch(settings, "http://exa mple.org/"), ErrorCode::kInvalid, "not a URL");
  EXPECT_EQ(server.requests(), 0);
}

TEST(HttpMedia, PrivateAddressesAreRefusedWhenConnecting) {
  ScriptedServer server;
  server.on("/a.png", ok("pixels"));
  MediaSettings settings = local_http();
  settings.allow_private_addresses = false;
  settings.allowed_domains = {"127.0.0.1", "localhost"};
  expect_error(fetch(settings, server.url("/a.png")), ErrorCode::kDenied,
               "127.0.0.1 is a private address");
  expect_error(fetch(settings, server.url("/a.png", "LOCALHOST")), ErrorCode::kDenied,
               "is a private address");
  EXPECT_EQ(server.requests(), 0);
}

// A proxy of the environment counts where the operator says so; what may be fetched stays the same.
TEST(HttpMedia, ProxiesOfTheEnvironment) {
  ScriptedServer proxy;
  proxy.on("http://pictures.test/a.png", ok("by proxy"));
  proxy.on("http://pictures.test/moved", redirect("http://other.test/a.png"));
  proxy.on("http://10.1.2.3/a.png", ok("inside"));
  setenv("HTTP_PROXY", proxy.url("").c_str(), 1);
  MediaSettings settings = local_http();
  settings.allowed_domains = {"pictures.test", "10.1.2.3", "127.0.0.1"};
  settings.allow_private_addresses = false;
  EXPECT_FALSE(fetch(settings, "http://pictures.test/a.png"));  // there is no such host
  settings.environment_proxies = true;
  EXPECT_EQ(fetch(settings, "http://pictures.test/a.png").value_or(""), "by proxy");
  expect_error(fetch(settings, "http://elsewhere.test/a.png"), ErrorCode::kDenied,
               "domain elsewhere.test is not allowed");
  expect_error(fetch(settings, "http://pictures.test/moved"), ErrorCode::kDenied,
               "domain other.test is not allowed");
  expect_error(fetch(settings, "http://10.1.2.3/a.png"), ErrorCode::kDenied,
               "10.1.2.3 is a private address");
  settings.allow_private_addresses = true;
  EXPECT_EQ(fetch(settings, "http://10.1.2.3/a.png").value_or(""), "inside");
  setenv("NO_PROXY", "127.0.0.1", 1);
  ScriptedServer server;
  server.on("/a.png", ok("itself"));
  EXPECT_EQ(fetch(settings, server.url("/a.png")).value_or(""), "itself");
  unsetenv("HTTP_PROXY");
  unsetenv("NO_PROXY");
}

TEST(HttpMedia, EveryRedirectIsChecked) {
  ScriptedServer server;
  server.on("/a.png", ok("pixels"));
  server.on("/once", redirect("/a.png"));
  server.on("/away", redirect("http://elsewhere.test/a.png"));
  server.on("/file", redirect("file:///etc/passwd"));
  server.on("/loop", redirect("/loop"));
  EXPECT_EQ(fetch(local_http(), server.url("/once")).value(), "pixels");
  expect_error(fetch(local_http(), server.url("/away")), ErrorCode::kDenied, "elsewhere.test");
  expect_error(fetch(local_http(), server.url("/file")), ErrorCode::kDenied, "not http or https");
  const int before = server.requests();
  expect_error(fetch(local_http(), server.url("/loop")), ErrorCode::kUndecodable,
               "over 3 redirects");
  EXPECT_EQ(server.requests() - before, 4);
}

TEST(HttpMedia, SizesAreLimitedAnnouncedOrNot) {
  ScriptedServer server;
  MediaSettings settings = local_http();
  settings.max_bytes = 1'000;
  server.on("/fits", ok(std::string(1'000, 'x')));
  server.on("/announced", std::string("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nx"));
  server.on("/endless", [&server](int socket) {
    const std::string head = "HTTP/1.1 200 OK\r\n\r\n" + std::string(100, 'x');
    send(socket, head.data(), head.size(), MSG_NOSIGNAL);
    const std::string more(1 << 16, 'x');
    while (!server.stopping() && send(socket, more.data(), more.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  EXPECT_EQ(fetch(settings, server.url("/fits"))->size(), 1'000u);
  expect_error(fetch(settings, server.url("/announced")), ErrorCode::kTooLarge, "over 1000 bytes");
  expect_error(fetch(settings, server.url("/endless")), ErrorCode::kTooLarge, "over 1000 bytes");
}

TEST(HttpMedia, VideoFilesHaveALimitOfTheirOwn) {
  ScriptedServer server;
  MediaSettings settings = local_http();
  settings.max_bytes = 1'000;
  settings.max_video_bytes = 2'000;
  server.on("/fits", ok(std::string(2'000, 'x')));
  server.on("/over", ok(std::string(2'001, 'x')));
  EXPECT_EQ(fetch(settings, server.url("/fits"), kGoOn, MediaKind::kVideoFile)->size(), 2'000u);
  expect_error(fetch(settings, server.url("/over"), kGoOn, MediaKind::kVideoFile),
               ErrorCode::kTooLarge, "the video is over 2000 bytes (--max-video-bytes)");
  expect_error(fetch(settings, server.url("/fits")), ErrorCode::kTooLarge,
               "the image is over 1000 bytes");
}

TEST(HttpMedia, SaysWhatTheServerDid) {
  ScriptedServer server;
  server.on("/gone", std::string("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"));
  server.on("/cut", std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
  expect_error(fetch(local_http(), server.url("/gone")), ErrorCode::kUndecodable, "status 404");
  expect_error(fetch(local_http(), server.url("/cut")), ErrorCode::kUndecodable,
               "cannot be fetched");
  expect_error(fetch(local_http(), "http://127.0.0.1:1/"), ErrorCode::kUndecodable,
               "cannot be fetched");
}

TEST(HttpMedia, SlowServersTimeOutAndCancellingEndsTheWait) {
  ScriptedServer server;
  server.on("/slow", [&server](int) {
    while (!server.stopping()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  MediaSettings settings = local_http();
  std::atomic<bool> cancelled{false};
  std::thread cancel([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancelled = true;
  });
  expect_error(fetch(settings, server.url("/slow"), cancelled), ErrorCode::kCancelled, "cancelled");
  cancel.join();
  // The one server thread is still in /slow: this request gets no answer at all.
  settings.total_timeout = std::chrono::milliseconds(200);
  expect_error(fetch(settings, server.url("/slow")), ErrorCode::kTimeout, "within 200 ms");
}

// A server that answers nobody until as many peers as expected have asked.
class Gathering {
 public:
  explicit Gathering(std::size_t peers) : thread_([this, peers] { run(peers); }) {}
  ~Gathering() { thread_.join(); }
  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(listener_.port()) + "/" +
           std::to_string(listener_.port());
  }

 private:
  void run(std::size_t peers) {
    std::vector<test::TcpSocket> waiting;
    while (waiting.size() < peers) {
      test::TcpSocket peer = listener_.accept();
      if (!peer.valid()) return;  // they did not come side by side
      peer.receive_until("\r\n\r\n");
      waiting.push_back(std::move(peer));
    }
    for (std::size_t i = 0; i < peers; ++i) waiting[i].send(ok(std::to_string(i)));
  }

  test::TcpListener listener_;
  std::thread thread_;
};

TEST(HttpMedia, ARequestsMediaComeSideBySide) {
  const Gathering one(20);
  const Gathering other(20);
  std::vector<std::string> urls(20, one.url());
  urls.insert(urls.end(), 20, other.url());
  const auto files = download(local_http(), urls);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(std::set<std::string>(files->begin(), files->begin() + 20).size(), 20u);
  EXPECT_EQ(std::set<std::string>(files->begin() + 20, files->end()).size(), 20u);
}

TEST(HttpMedia, OneFailureEndsTheRest) {
  ScriptedServer server;
  server.on("/gone", std::string("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"));
  test::TcpListener silent;  // takes connections and says nothing
  MediaSettings settings = local_http();
  settings.total_timeout = std::chrono::hours(1);
  const std::string slow = "http://127.0.0.1:" + std::to_string(silent.port()) + "/";
  const auto files = download(settings, {slow, server.url("/gone"), slow});
  ASSERT_FALSE(files.has_value());
  EXPECT_THAT(files.error().message, HasSubstr("status 404"));
}

TEST(HttpMedia, OneTimeLimitAndOneSizeForAll) {
  ScriptedServer server;
  server.on("/big", ok(std::string(600u << 10, 'x')));
  const auto large = download(local_http(), {server.url("/big"), server.url("/big")});
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(large.error().message, HasSubstr("1048576 bytes"));

  test::TcpListener silent;
  MediaSettings settings = local_http();
  settings.total_timeout = std::chrono::milliseconds(150);
  const std::string slow = "http://127.0.0.1:" + std::to_string(silent.port()) + "/";
  const auto late = download(settings, std::vector<std::string>(64, slow));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
}

TEST(HttpMedia, WhatIsUnfinishedAtTheEndIsAnswered) {
  test::TcpListener silent;
  std::promise<HttpDownloads::Files> files;
  {
    HttpDownloads downloads(local_http());
    const std::string slow = "http://127.0.0.1:" + std::to_string(silent.port()) + "/";
    downloads.start({{{slow, "image 0"}}, 100, {}, {}},
                    [&](HttpDownloads::Files done) { files.set_value(std::move(done)); });
    downloads.stop();
    bool refused = false;
    downloads.start({{{slow, "image 0"}}, 100, {}, {}},
                    [&](const HttpDownloads::Files& done) { refused = !done; });
    EXPECT_TRUE(refused);
  }
  EXPECT_EQ(files.get_future().get().error().code, ErrorCode::kUnavailable);
}

TEST(MediaFetcher, OtherSchemesAreRefused) {
  for (const char* reference : {"", "cat.png", "ftp://example.org/a.png", "gopher://127.0.0.1/",
                                "/etc/passwd", "javascript:alert(1)"}) {
    expect_error(fetch(local_http(), reference), ErrorCode::kInvalid, "data:, file:// or http(s)");
  }
  const std::atomic<bool> cancelled{true};
  expect_error(fetch(local_http(), "data:;base64,", cancelled), ErrorCode::kCancelled, "cancelled");
}

TEST(MediaFetcher, LongReferencesAreShortenedInMessages) {
  EXPECT_EQ(shortened("http://short/"), "http://short/");
  EXPECT_LT(shortened("http://" + std::string(10'000, 'x')).size(), 120u);
  EXPECT_LT(shortened("data:" + std::string(10'000, 'x')).size(), 120u);
}

// --- addresses ----------------------------------------------------------------------------------

bool is_private(const std::string& text) {
  sockaddr_storage storage{};
  if (text.find(':') == std::string::npos) {
    auto& in = reinterpret_cast<sockaddr_in&>(storage);
    in.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &in.sin_addr), 1) << text;
  } else {
    auto& in = reinterpret_cast<sockaddr_in6&>(storage);
    in.sin6_family = AF_INET6;
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &in.sin6_addr), 1) << text;
  }
  const auto& address = reinterpret_cast<const sockaddr&>(storage);
  EXPECT_EQ(address_text(address, sizeof(storage)), text);
  return is_private_address(address, sizeof(storage));
}

TEST(PrivateAddress, KnowsTheRanges) {
  for (const char* address : {"127.0.0.1",
                              "127.255.0.9",
                              "10.1.2.3",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.168.1.1",
                              "169.254.169.254",
                              "100.64.0.1",
                              "100.127.255.255",
                              "0.0.0.0",
                              "255.255.255.255",
                              "224.0.0.1",
                              "240.0.0.1",
                              "198.19.0.1",
                              "::",
                              "::1",
                              "fe80::1",
                              "fc00::1",
                              "fdff::1",
                              "ff02::1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "64:ff9b::a00:1",
                              "2002:7f00:1::",
                              "2001:db8::1",
                              "2001::1",
                              "fec0::1"}) {
    EXPECT_TRUE(is_private(address)) << address;
  }
  for (const char* address :
       {"8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1",
        "169.253.0.1", "192.167.1.1", "223.255.255.255", "11.0.0.1", "2606:4700::1111",
        "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2001:4860:4860::8888"}) {
    EXPECT_FALSE(is_private(address)) << address;
  }
  sockaddr unknown{};
  unknown.sa_family = AF_UNIX;
  EXPECT_TRUE(is_private_address(unknown, sizeof(unknown)));
}

}  // namespace
}  // namespace saccade::serve

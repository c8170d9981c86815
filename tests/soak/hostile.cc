#include "tests/soak/hostile.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <chrono>
#include <thread>

#include "base/json.h"
#include "base/text/base64.h"
#include "tests/support/tcp_socket.h"

namespace saccade::soak {
namespace {

using test::TcpSocket;
using Wrong = std::optional<std::string>;

constexpr int kAnswerMs = 600'000;  // the machine may have much else to do

std::string repeated(int count, const std::string& item, const std::string& between = ",") {
  std::string text = item;
  for (int i = 1; i < count; ++i) text += between + item;
  return text;
}

std::string chat_with(const std::string& more) {
  return R"({"max_tokens":2,"messages":[{"role":"user","content":"x"}])" + more + "}";
}

std::string image_chat(const std::string& url, int count = 1) {
  return R"({"max_tokens":2,"messages":[{"role":"user","content":[)" +
         repeated(count, R"({"type":"image_url","image_url":{"url":")" + url + R"("}})") + "]}]}";
}

// A PNG's first bytes that promise 100,000 x 100,000 pixels.
std::string vast_png() {
  return std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\x01\x86\xa0\0\x01\x86\xa0\x08\x02\0\0\0",
                     29) +
         "\xff\xff\xff\xff";
}

void add_bodies(std::vector<HostileRequest>& all) {
  const auto chat = [&all](const std::string& name, const std::string& body, std::set<int> ok) {
    all.push_back({name, "POST", "/v1/chat/completions", body, std::move(ok)});
  };
  const auto complete = [&all](const std::string& name, const std::string& body, std::set<int> ok) {
    all.push_back({name, "POST", "/v1/completions", body, std::move(ok)});
  };
  chat("no JSON", "{\"messages\": [", {400});
  chat("deep JSON", std::string(100'000, '['), {400});
  chat("bytes that are no text", "{\"messages\": \"\xff\xfe\"}", {400});
  chat("wrong types", R"({"messages": {"role": 7}, "temperature": []})", {400});
  chat("many choices", chat_with(R"(,"n":100000)"), {400});
  chat("numbers out of range", chat_with(R"(,"temperature":1e400,"top_p":-3)"), {400});
  chat("a penalty of nothing", chat_with(R"(,"repetition_penalty":1e-320,"temperature":0)"), {200});
  chat("a bias for every token",
       chat_with(R"(,"logit_bias":{)" +
                 [] {
                   std::string text;
                   for (int i = 0; i < 20'000; ++i)
                     text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":100";
                   return text;
                 }() +
                 "}"),
       {400});
  chat("a template of its own",
       chat_with(R"(,"chat_template":"{% for i in range(9999999) %}x{% endfor %}")"), {400});
  chat("a megabyte of text",
       R"({"messages":[{"role":"user","content":")" + repeated(150'000, "words", " ") + "\"}]}",
       {400});
  chat("an unknown model", chat_with(R"(,"model":"gpt-9")"), {404});
  chat("a forged log", chat_with(R"(,"request_id":"x\n2026 error forged\u001b[31m")"), {200, 400});
  complete("a hundred thousand choices",
           R"({"prompt":[)" + repeated(1024, R"("a")") + R"(],"n":128,"stop":[)" +
               repeated(64, "\"" + std::string(4000, 'x') + "\"") + "]}",
           {400});
  complete("many choices with long stops",
           R"({"prompt":[)" + repeated(4, R"("a")") + R"(],"n":64,"max_tokens":3,"stop":[)" +
               repeated(64, "\"" + std::string(4000, 'x') + "\"") + "]}",
           {200});
  complete("stop tokens without end",
           R"({"prompt":"a","stop_token_ids":[)" + repeated(100'000, "1") + "]}", {400});
  complete("tokens that are none", R"({"prompt":[999999,-1]})", {400});
  complete("too many tokens", R"({"prompt":[)" + repeated(5000, "5") + "]}", {400});
}

void add_images(std::vector<HostileRequest>& all, const std::string& host) {
  const auto chat = [&all](const std::string& name, const std::string& body, std::set<int> ok) {
    all.push_back({name, "POST", "/v1/chat/completions", body, std::move(ok)});
  };
  chat("base64 that is none", image_chat("data:image/png;base64,@@@@"), {422});
  chat("an image that is none", image_chat("data:image/png;base64,QUJD"), {422});
  chat("vast dimensions", image_chat("data:image/png;base64," + base64_encode(vast_png())),
       {413, 422});
  chat("a file of the system", image_chat("file:///etc/passwd"), {400});
  chat("a private address", image_chat("http://169.254.169.254/latest/meta-data"), {400});
  chat("too many images", image_chat("data:image/png;base64,QUJD", 4000), {400, 413, 422});
  chat("a host that stalls", image_chat(host + "/stall"), {422});
  chat("eight images that stall", image_chat(host + "/stall", 8), {422});
  chat("an image without end", image_chat(host + "/endless"), {413, 422});
  chat("a torn image", image_chat(host + "/torn"), {422});
  chat("an image that is not there", image_chat(host + "/none"), {422});
  chat("redirects in a circle", image_chat(host + "/round"), {400, 422});
}

}  // namespace

std::vector<HostileRequest> hostile_requests(const std::string& image_host) {
  std::vector<HostileRequest> all;
  add_bodies(all);
  add_images(all, image_host);
  all.push_back({"no key", "POST", "/v1/chat/completions", chat_with(""), {401}, false});
  all.push_back({"a path that is none", "GET", "/../../etc/passwd", "", {400, 404}});
  all.push_back(
      {"a method that is none", "BREW", "/v1/chat/completions", "", {400, 404, 405, 501}});
  all.push_back({"tokens to text", "POST", "/detokenize", R"({"tokens":[-1]})", {400}});
  return all;
}

namespace {

TcpSocket connected(std::uint16_t port) {
  TcpSocket socket = TcpSocket::connect(port);
  const timeval patience{kAnswerMs / 1000, 0};
  if (socket.valid()) setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  return socket;
}

std::string post(const std::string& key, std::size_t length, const std::string& more = "") {
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{}"
      "Content-Length: {}\r\n\r\n",
      key, more, length);
}

Wrong expect_status(TcpSocket& socket, const std::string& sent, const std::string& status) {
  if (!socket.valid()) return "no connection";
  socket.send(sent);
  const std::string head = socket.receive_until("\r\n\r\n", kAnswerMs);
  if (head.starts_with("HTTP/1.1 " + status)) return {};
  return fmt::format("'{}' where {} was due", head.substr(0, 60), status);
}

Wrong garbage(std::uint16_t port, const std::string&, Rng& rng) {
  TcpSocket socket = connected(port);
  std::string bytes(200 + rng.below(3000), '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
  socket.send(bytes + "\r\n\r\n");
  if (!socket.valid() || socket.receive_all(kAnswerMs).starts_with("HTTP/1.1 4")) return {};
  return "garbage was not refused";
}

Wrong header_without_end(std::uint16_t port, const std::string&, Rng&) {
  TcpSocket socket = connected(port);
  return expect_status(socket, "GET / HTTP/1.1\r\nX: " + std::string(200'000, 'x'), "431");
}

Wrong two_lengths(std::uint16_t port, const std::string& key, Rng&) {
  TcpSocket socket = connected(port);
  return expect_status(socket, post(key, 5, "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", "400");
}

Wrong body_never_finished(std::uint16_t port, const std::string& key, Rng& rng) {
  TcpSocket socket = connected(port);
  socket.send(post(key, 30 << 20) + std::string(rng.below(200'000), '{'));
  std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(3000)));
  return {};
}

Wrong drip_then_leave(std::uint16_t port, const std::string& key, Rng& rng) {
  TcpSocket socket = connected(port);
  for (const char byte : post(key, 10).substr(0, 20 + rng.below(60))) {
    if (!socket.send({&byte, 1})) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  return {};
}

Wrong reset_in_a_stream(std::uint16_t port, const std::string& key, Rng& rng) {
  TcpSocket socket = connected(port);
  const std::string body =
      chat_with(R"(,"stream":true,"ignore_eos":true,"max_completion_tokens":200)");
  socket.send(post(key, body.size()) + body);
  socket.receive(kAnswerMs, 1 + rng.below(2000));
  socket.reset();
  return {};
}

Wrong leave_behind_more_requests(std::uint16_t port, const std::string& key, Rng&) {
  TcpSocket socket = connected(port);
  const std::string body = chat_with(R"(,"ignore_eos":true,"n":16,"max_completion_tokens":200)");
  std::string all;
  for (int i = 0; i < 12; ++i) all += post(key, body.size()) + body + "\r\n";
  socket.send(all);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return {};
}

// A half-closed sender is owed its answer.
Wrong stop_sending(std::uint16_t port, const std::string& key, Rng&) {
  TcpSocket socket = connected(port);
  const std::string body = chat_with("");
  const std::string sent = post(key, body.size()) + body;
  if (!socket.valid()) return "no connection";
  socket.send(sent);
  socket.shutdown_send();
  std::string head = socket.receive_until("\r\n\r\n", kAnswerMs);
  if (head.starts_with("HTTP/1.1 102"))  // by which the server sees whether anybody is there
    head = socket.receive_until("\r\n\r\n", kAnswerMs);
  if (head.starts_with("HTTP/1.1 200")) return {};
  return fmt::format("'{}' to a sender that stopped sending", head.substr(0, 60));
}

Wrong speak_tls(std::uint16_t port, const std::string&, Rng&) {
  TcpSocket socket = connected(port);
  socket.send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
              std::string(400, '\x7f') + "\r\n\r\n");
  socket.receive(kAnswerMs);
  return {};
}

// Asks for much and reads nothing of it.
Wrong never_read(std::uint16_t port, const std::string& key, Rng& rng) {
  TcpSocket socket = TcpSocket::connect(port, 2048);
  const std::string body =
      chat_with(R"(,"stream":true,"n":8,"ignore_eos":true,"max_completion_tokens":400)");
  if (socket.valid()) socket.send(post(key, body.size()) + body);
  std::this_thread::sleep_for(std::chrono::milliseconds(500 + rng.below(4000)));
  return {};
}

Wrong connect_only(std::uint16_t port, const std::string&, Rng& rng) {
  std::vector<TcpSocket> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(TcpSocket::connect(port));
  std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(2000)));
  return {};
}

}  // namespace

const std::vector<HostileConnection>& hostile_connections() {
  static const std::vector<HostileConnection> all = {
      {"garbage", garbage},
      {"a header without end", header_without_end},
      {"two lengths", two_lengths},
      {"a body that is never finished", body_never_finished},
      {"a header drop by drop", drip_then_leave},
      {"a reset in a stream", reset_in_a_stream},
      {"leaving behind more requests", leave_behind_more_requests},
      {"a sender that stops sending", stop_sending},
      {"TLS to a plain port", speak_tls},
      {"a stream that is never read", never_read},
      {"connections without a word", connect_only},
  };
  return all;
}

}  // namespace saccade::soak

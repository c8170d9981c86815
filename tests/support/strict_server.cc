#include "tests/support/strict_server.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "base/json.h"

namespace saccade::test {

struct StrictServer::Request {
  std::string method;
  std::string path;
  std::string line;                                 // without its end
  std::multimap<std::string, std::string> headers;  // names in lower case
  std::string body;
  json::object fields;  // of the body

  // The header's values, joined: two of a kind match nothing that is asked for.
  std::string header(const std::string& name) const {
    std::string all;
    const auto [begin, end] = headers.equal_range(name);
    for (auto it = begin; it != end; ++it) all += (all.empty() ? "" : "\n") + it->second;
    return all;
  }
};

namespace {

bool all_digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// RFC 9110's token.
bool is_field_name(const std::string& name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != kMarks.npos;
  });
}

std::string whole(int status, const std::string& type, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) + " Strict\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// What has to be right before a body is read; empty when it is. `line` and headers are parsed here.
struct Objection {
  int status = 0;
  std::string what;
};

template <typename Request>
Objection parse_head(const std::string& head, Request& request) {
  std::size_t at = head.find("\r\n");
  request.line = head.substr(0, at);
  const std::size_t one = request.line.find(' ');
  const std::size_t two = request.line.find(' ', one + 1);
  if (two == std::string::npos || request.line.substr(two) != " HTTP/1.1")
    return {400, "not a request line of HTTP/1.1"};
  request.method = request.line.substr(0, one);
  request.path = request.line.substr(one + 1, two - one - 1);
  if (!request.path.starts_with('/')) return {400, "the target is not a path"};
  for (at += 2; at + 2 < head.size();) {
    const std::size_t end = head.find("\r\n", at);
    const std::string line = head.substr(at, end - at);
    at = end + 2;
    const std::size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    if (colon == std::string::npos || !is_field_name(name)) return {400, "header: " + line};
    if (line.find_first_of("\r\n") != std::string::npos) return {400, "a bare CR or LF: " + line};
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t value = line.find_first_not_of(' ', colon + 1);
    request.headers.emplace(name, value == std::string::npos ? "" : line.substr(value));
  }
  return {};
}

template <typename Request>
Objection check_head(const Request& request, std::uint16_t port) {
  const std::string port_text = ":" + std::to_string(port);
  const std::string host = request.header("host");
  if (host != "127.0.0.1" + port_text && host != "localhost" + port_text)
    return {400, "Host: " + host};
  if (request.header("user-agent").empty()) return {403, "no User-Agent"};
  const std::string accept = request.header("accept");
  if (accept.find("*/*") == accept.npos && accept.find("application/json") == accept.npos)
    return {406, "Accept: " + accept};
  if (!request.header("transfer-encoding").empty())
    return {501, "Transfer-Encoding: " + request.header("transfer-encoding")};
  if (!request.header("expect").empty()) return {417, "Expect: " + request.header("expect")};
  const std::string length = request.header("content-length");
  if (request.method == "GET")
    return length.empty() || length == "0" ? Objection{} : Objection{400, "a GET with a body"};
  if (request.method != "POST") return {405, "method " + request.method};
  if (!all_digits(length)) return {411, "Content-Length: " + length};
  const std::string type = request.header("content-type");
  const bool json = type == "application/json" || type.starts_with("application/json;");
  if (length != "0" && !json) return {415, "Content-Type: " + type};
  return {};
}

}  // namespace

StrictServer::StrictServer(int tokens) : tokens_(tokens), thread_([this] { run(); }) {}

StrictServer::~StrictServer() {
  stopping_ = true;
  thread_.join();
  for (std::thread& peer : peers_) peer.join();
}

std::vector<std::string> StrictServer::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

void StrictServer::run() {
  while (!stopping_) {
    TcpSocket peer = listener_.accept(50);
    if (peer.valid()) peers_.emplace_back([this, p = std::move(peer)]() mutable { serve(p); });
  }
}

// A refused connection is closed, as nothing behind the error can be trusted.
void StrictServer::serve(TcpSocket& peer) {
  while (!stopping_) {
    std::string head = peer.receive_until("\r\n\r\n", 100);
    if (head.empty()) {
      if (peer.at_end(0)) return;
      continue;
    }
    while (!head.ends_with("\r\n\r\n")) {
      const std::string more = peer.receive_until("\r\n\r\n");
      if (more.empty()) return;
      head += more;
    }
    Request request;
    Objection objection = parse_head(head, request);
    if (objection.status == 0) objection = check_head(request, port());
    if (objection.status == 0 && request.method == "POST") {
      ++posts_;
      const std::size_t length = std::stoull(request.header("content-length"));
      request.body = peer.receive_bytes(length);
      const auto tree = json::parse(request.body.empty() ? "{}" : request.body);
      if (request.body.size() != length)
        objection = {400, "the body is shorter than Content-Length"};
      else if (!tree || !tree->is_object())
        objection = {400, "the body is no JSON object"};
      else
        request.fields = tree->get_object();
    }
    if (objection.status != 0) {
      peer.send(refuse(objection.status, objection.what, request));
      return;
    }
    if (!peer.send(answer(request))) return;
  }
}

std::string StrictServer::refuse(int status, const std::string& what, const Request& request) {
  const std::lock_guard lock(mutex_);
  refusals_.push_back(std::to_string(status) + " " + request.line + ": " + what);
  return whole(status, "application/json",
               R"({"error":{"message":"strict: refused","code":)" + std::to_string(status) + "}}");
}

std::string StrictServer::answer(const Request& request) {
  const std::string path = request.path.substr(0, request.path.find('?'));
  if (request.method == "GET") {
    if (path == "/health") return whole(200, "text/plain", "");
    if (path == "/v1/models")
      return whole(200, "application/json",
                   R"({"object":"list","data":[{"id":"strict","object":"model",)"
                   R"("max_model_len":2200}]})");
    return whole(404, "application/json", R"({"error":{"message":"Not Found","code":404}})");
  }
  if (path.starts_with("/reset_")) return whole(200, "text/plain", "");
  const json::value* const model = json::find(request.fields, "model");
  if (path.starts_with("/v1/") && (model == nullptr || *model != json::value("strict")))
    return refuse(404, "the model is not 'strict'", request);
  if (path == "/v1/embeddings") {
    const json::value* const input = json::find(request.fields, "input");
    if (input == nullptr || !input->is_array()) return refuse(400, "no input", request);
    std::string rows;
    for (std::size_t i = 0; i < input->get_array().size(); ++i)
      rows += (i > 0 ? "," : "") + std::string(R"({"object":"embedding","index":)") +
              std::to_string(i) + R"(,"embedding":[1.0,0.5]})";
    return whole(200, "application/json", R"({"object":"list","data":[)" + rows + "]}");
  }
  const bool chat = path == "/v1/chat/completions";
  if (!chat && path != "/v1/completions")
    return whole(404, "application/json", R"({"error":{"message":"Not Found","code":404}})");
  const char* const subject = chat ? "messages" : "prompt";
  if (json::find(request.fields, subject) == nullptr)
    return refuse(400, std::string("no ") + subject, request);
  return completion(request);
}

std::string StrictServer::completion(const Request& request) const {
  const bool chat = request.path.starts_with("/v1/chat");
  const json::value* const stream = json::find(request.fields, "stream");
  const std::string count = std::to_string(tokens_);
  const std::string usage = R"("usage":{"prompt_tokens":7,"completion_tokens":)" + count +
                            R"(,"total_tokens":)" + std::to_string(7 + tokens_) + "}";
  std::string text;
  for (int i = 0; i < tokens_; ++i) text += " tok";
  if (stream == nullptr || *stream != json::value(true)) {
    const std::string said = chat ? R"("message":{"role":"assistant","content":")" + text + "\"}"
                                  : R"("text":")" + text + "\"";
    return whole(200, "application/json",
                 R"({"id":"s","choices":[{"index":0,)" + said + R"(,"finish_reason":"length"}],)" +
                     usage + "}");
  }
  std::string events;
  for (int i = 0; i < tokens_; ++i) {
    const std::string said = chat ? R"("delta":{"content":" tok"})" : R"("text":" tok")";
    const std::string reason = i + 1 == tokens_ ? "\"length\"" : "null";
    events += R"(data: {"id":"s","choices":[{"index":0,)" + said + R"(,"finish_reason":)" + reason +
              "}]}\n\n";
  }
  events += R"(data: {"id":"s","choices":[],)" + usage + "}\n\ndata: [DONE]\n\n";
  return whole(200, "text/event-stream", events);
}

}  // namespace saccade::test

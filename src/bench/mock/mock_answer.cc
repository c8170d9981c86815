// Answers as vLLM words them.
#include "bench/mock/mock_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace saccade::bench {
namespace {

constexpr std::string_view kToken = " tok";
constexpr std::string_view kChatEvent = "chat.completion.chunk";
constexpr int kMaxCachedBurst = 4096;
constexpr std::uint64_t kBytesPerToken = 4;

// Past `"name":` and blanks, or an empty view.
std::string_view member_text(std::string_view body, std::string_view name) {
  const std::string quoted = fmt::format("\"{}\"", name);
  const void* found = memmem(body.data(), body.size(), quoted.data(), quoted.size());
  if (found == nullptr) return {};
  const auto at = static_cast<std::size_t>(static_cast<const char*>(found) - body.data());
  std::string_view rest = body.substr(at + quoted.size());
  const auto skip = [&](std::string_view chars) {
    rest.remove_prefix(std::min(rest.find_first_not_of(chars), rest.size()));
  };
  skip(" \t\r\n");
  if (!rest.starts_with(':')) return {};
  rest.remove_prefix(1);
  skip(" \t\r\n");
  return rest;
}

// Of an answer, or of an event of one, up to its choices.
std::string beginning(bool chat, std::string_view chat_object, std::string_view model) {
  return fmt::format(
      R"({{"id":"{}-mock","object":"{}","created":1700000000,"model":"{}","choices":[)",
      chat ? "chatcmpl" : "cmpl", chat ? chat_object : "text_completion", model);
}

void append_chunk(std::string& out, std::string_view data) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace

void read_body_fields(std::string_view body, MockRequest& request) {
  request.stream = member_text(body, "stream").starts_with("true");
  request.include_usage = member_text(body, "include_usage").starts_with("true");
  request.continuous_usage = member_text(body, "continuous_usage_stats").starts_with("true");
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    const std::string_view digits = member_text(body, name);
    std::size_t used = 0;
    int tokens = 0;
    constexpr std::size_t kMaxDigits = 8;
    while (used < digits.size() && used < kMaxDigits && digits[used] >= '0' &&
           digits[used] <= '9') {
      tokens = tokens * 10 + (digits[used++] - '0');
    }
    if (used > 0) request.max_tokens = tokens;
  }
}

MockText::MockText(const MockSettings& settings)
    : settings_(settings),
      stream_head_(
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
          "Transfer-Encoding: chunked\r\n\r\n") {}

std::string MockText::usage(const MockRequest& request, int tokens) const {
  const std::uint64_t prompt = request.body_bytes / kBytesPerToken;
  return fmt::format(
      R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},"prompt_tokens_details":null}})",
      prompt, prompt + static_cast<std::uint64_t>(tokens), tokens);
}

std::string MockText::event(bool chat, int tokens, bool last, std::string_view usage_json) const {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += kToken;
  const std::string_view reason = last && settings_.finish_reason ? "\"length\"" : "null";
  std::string out = "data: " + beginning(chat, kChatEvent, settings_.model);
  out += fmt::format(
      fmt::runtime(
          chat ? R"({{"index":0,"delta":{{"content":"{}"}},"logprobs":null,"finish_reason":{}}}])"
               : R"({{"index":0,"text":"{}","logprobs":null,"finish_reason":{}}}])"),
      text, reason);
  if (!usage_json.empty()) out.append(",\"usage\":").append(usage_json);
  out += "}\n\n";
  return out;
}

std::string_view MockText::burst(bool chat, int count) {
  std::vector<std::string>& cache = bursts_[chat ? 1 : 0];
  // All longer ones share a place behind those that are kept.
  const auto slot = static_cast<std::size_t>(std::min(count, kMaxCachedBurst + 1));
  if (cache.size() <= slot) cache.resize(slot + 1);
  std::string& text = cache[slot];
  if (!text.empty() && count <= kMaxCachedBurst) return text;
  std::string events;
  const std::string one = event(chat, settings_.tokens_per_event, false, {});
  for (int i = 0; i < count; ++i) events += one;
  text.clear();
  append_chunk(text, events);
  return text;
}

std::string MockText::counted_burst(const MockRequest& request, int first, int count) const {
  std::string events;
  for (int i = 0; i < count; ++i) {
    events += event(request.chat, settings_.tokens_per_event, false,
                    usage(request, (first + i + 1) * settings_.tokens_per_event));
  }
  std::string out;
  append_chunk(out, events);
  return out;
}

std::string MockText::role_event() const {
  std::string out;
  append_chunk(out, "data: " + beginning(true, kChatEvent, settings_.model) +
                        R"({"index":0,"delta":{"role":"assistant","content":""},)"
                        R"("logprobs":null,"finish_reason":null}]})"
                        "\n\n");
  return out;
}

std::string MockText::tail(const MockRequest& request, int tokens) const {
  const int per_event = settings_.tokens_per_event;
  const int in_last = tokens == 0 ? 0 : (tokens - 1) % per_event + 1;
  const std::string counts =
      request.include_usage || request.continuous_usage ? usage(request, tokens) : std::string();
  std::string events =
      event(request.chat, in_last, true, request.continuous_usage ? std::string_view(counts) : "");
  if (request.include_usage) {
    events += "data: " + beginning(request.chat, kChatEvent, settings_.model) +
              "],\"usage\":" + counts + "}\n\n";
  }
  if (settings_.done) events += "data: [DONE]\n\n";
  std::string out;
  append_chunk(out, events);
  out += "0\r\n\r\n";
  return out;
}

std::string MockText::error_tail() const {
  std::string out;
  append_chunk(out,
               "data: {\"error\":{\"message\":\"programmed failure\",\"type\":"
               "\"InternalServerError\",\"param\":null,\"code\":500}}\n\n");
  out += "0\r\n\r\n";
  return out;
}

std::string MockText::json_answer(const MockRequest& request, int tokens) const {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += kToken;
  std::string body = beginning(request.chat, "chat.completion", settings_.model);
  body += fmt::format(
      fmt::runtime(request.chat ? R"({{"index":0,"message":{{"role":"assistant","content":"{}"}},)"
                                : R"({{"index":0,"text":"{}",)"),
      text);
  body += fmt::format(R"("logprobs":null,"finish_reason":{}}}],"usage":{}}})",
                      settings_.finish_reason ? "\"length\"" : "null", usage(request, tokens));
  return http_answer(200, "application/json", body);
}

std::string MockText::models() const {
  return http_answer(
      200, "application/json",
      fmt::format(
          R"({{"object":"list","data":[{{"id":"{0}","object":"model","created":1700000000,"owned_by":"saccade","root":"{0}","parent":null,"max_model_len":{1}}}]}})",
          settings_.model, settings_.max_model_len));
}

std::string http_answer(int status, std::string_view content_type, std::string_view body) {
  return fmt::format("HTTP/1.1 {} Mock\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", status,
                     content_type, body.size(), body);
}

}  // namespace saccade::bench

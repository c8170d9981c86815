// Beast's parser does the syntax; this file decides what a request may be. The only user of Beast.
#include "net/server/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <exception>

#include "base/text/ascii.h"
#include "net/http_text.h"

namespace saccade::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

std::string lower_case(string_view text) { return ascii::lower({text.data(), text.size()}); }

// Whoever stands in front may read such a line as a header of its own, or not at all.
bool has_folded_line(std::string_view header) {
  return header.find("\n ") != std::string_view::npos ||
         header.find("\n\t") != std::string_view::npos;
}

// What stands for the host in "http://host/path?query"; absent: the target is of another form.
std::optional<std::string_view> host_of_target(std::string_view target) {
  const std::size_t scheme = target.find("://");
  const bool is_scheme =
      scheme != std::string_view::npos && scheme > 0 &&
      std::ranges::all_of(target.substr(0, scheme), [](char c) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return letter || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
      });
  if (!is_scheme) return std::nullopt;
  const std::string_view rest = target.substr(scheme + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

}  // namespace

std::string origin_form(std::string_view target) {
  const auto host = host_of_target(target);
  if (!host) return std::string(target);
  const auto begin = static_cast<std::size_t>(host->data() - target.data()) + host->size();
  const std::string_view rest = target.substr(begin);
  return (rest.starts_with('/') ? "" : "/") + std::string(rest);
}

// The callbacks of Beast's parser, writing into an HttpRequest. A body string grows with what has
// arrived, not with what Content-Length promises, unless it is told to.
class RequestParser::Fields final : public http::basic_parser<true> {
 public:
  HttpRequest request;
  bool header_done = false;
  bool expects_continue = false;
  int version = 11;

  // Why the head says no message that can be read safely, which Beast lets pass: it ignores codings
  // that it does not know, and with them a body, which would be taken for the next request.
  struct Refusal {
    int status = 0;  // 0: there is none
    std::string why;
  };
  Refusal refusal() const {
    if (hosts_ > 1) return {400, fmt::format("{} Host headers, one is possible", hosts_)};
    if (hosts_ == 0 && version >= 11) return {400, "a request of HTTP/1.1 without a Host header"};
    if (authority_ && authority_->empty()) return {400, "the request's target names no host"};
    if (!codings_) return {};
    if (version < 11) return {400, "Transfer-Encoding in a request of HTTP/1.0"};
    std::string_view left = *codings_;
    bool chunked = false;
    while (true) {
      const std::size_t comma = left.find(',');
      const std::string_view coding = trimmed(left.substr(0, comma));
      if (chunked)
        return {400, fmt::format("Transfer-Encoding '{}': chunked is possible once, as the last",
                                 codings_->substr(0, 64))};
      chunked = coding == "chunked";
      if (!chunked)
        return {501, fmt::format("Transfer-Encoding '{}' is not supported; chunked is",
                                 coding.substr(0, 64))};
      if (comma == std::string_view::npos) return {};
      left.remove_prefix(comma + 1);
    }
  }

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int http_version,
                       error_code&) override {
    request.method.assign(method.data(), method.size());
    request.target.assign(target.data(), target.size());
    version = http_version;
    split_target();
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field name, string_view name_text, string_view value,
                     error_code&) override {
    if (header_done) return;  // a trailer
    if (name == http::field::expect) expects_continue = lower_case(value) == "100-continue";
    if (name == http::field::host) {
      ++hosts_;
      if (authority_) value = {authority_->data(), authority_->size()};
    }
    if (name == http::field::transfer_encoding)
      codings_ = codings_ ? *codings_ + "," + lower_case(value) : lower_case(value);
    request.headers.emplace_back(lower_case(name_text), std::string(value.data(), value.size()));
  }
  void on_header_impl(error_code&) override {
    header_done = true;
    if (authority_ && hosts_ == 0) request.headers.emplace_back("host", *authority_);
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  // Of a target in absolute form the host goes over the Host header (RFC 9112 3.2.2): whoever
  // decides by the host decides by what was asked.
  void split_target() {
    if (const auto host = host_of_target(request.target)) authority_ = *host;
    const std::string path_and_query = origin_form(request.target);
    std::string_view rest = path_and_query;
    rest = rest.substr(0, rest.find('#'));
    const std::size_t question = rest.find('?');
    if (question != std::string_view::npos) request.query = rest.substr(question + 1);
    request.path = percent_decode(rest.substr(0, question));
  }

  int hosts_ = 0;
  std::optional<std::string> authority_;  // of a target in absolute form
  std::optional<std::string> codings_;    // of all Transfer-Encoding headers, in lower case
};

RequestParser::RequestParser(std::size_t max_header_bytes, std::size_t max_body_bytes)
    : fields_(std::make_unique<Fields>()),
      max_header_bytes_(max_header_bytes),
      max_body_bytes_(max_body_bytes) {
  constexpr std::size_t kBeastLimit = 0xffff'0000;
  fields_->header_limit(static_cast<std::uint32_t>(std::min(max_header_bytes, kBeastLimit)));
  fields_->body_limit(max_body_bytes);
}

RequestParser::~RequestParser() = default;

bool RequestParser::keep_alive() const { return fields_->keep_alive(); }
bool RequestParser::http_1_0() const { return fields_->version == 10; }
bool RequestParser::expects_continue() const { return fields_->expects_continue; }
const HttpRequest& RequestParser::request() const { return fields_->request; }
bool RequestParser::has_body() const {
  return fields_->chunked() || fields_->content_length().value_or(0) > 0;
}
std::optional<std::uint64_t> RequestParser::content_length() const {
  const auto length = fields_->content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}
bool RequestParser::reserve_body(std::size_t bytes) {
  try {
    fields_->request.body.reserve(bytes);
  } catch (const std::exception&) {  // std::bad_alloc, or more than a string may ever have
    return false;
  }
  return true;
}
HttpRequest RequestParser::take_request() { return std::move(fields_->request); }

RequestParser::Step RequestParser::fail(int status, std::string why) {
  refusal_status_ = status;
  refusal_ = std::move(why);
  return {Progress::kFailed, 0};
}

RequestParser::Step RequestParser::feed(std::string_view bytes) {
  std::size_t consumed = 0;
  // RFC 9112 2.2: blank lines before the request line are to be ignored.
  while (!fields_->got_some() && consumed < bytes.size() &&
         (bytes[consumed] == '\r' || bytes[consumed] == '\n')) {
    ++consumed;
  }
  // Not eager: each put() takes one element (header, piece of body, chunk header) or asks for more.
  while (true) {
    if (fields_->is_header_done() && !header_reported_) {
      header_reported_ = true;
      if (auto refusal = fields_->refusal(); refusal.status != 0)
        return fail(refusal.status, std::move(refusal.why));
      return {Progress::kHeaderDone, consumed};
    }
    if (fields_->is_done()) return {Progress::kDone, consumed};
    if (consumed == bytes.size()) return {Progress::kNeedMore, consumed};

    const std::string_view rest = bytes.substr(consumed);
    const bool in_header = !fields_->is_header_done();
    error_code error;
    const std::size_t taken =
        fields_->put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    consumed += taken;
    if (in_header && has_folded_line(rest.substr(0, taken)))
      return fail(400, "a header goes on in a second line, which RFC 9112 5.2 has no longer");
    if (error == http::error::need_more) {
      // Inside a body only a chunk's header line needs more than it was given.
      if (bytes.size() - consumed > max_header_bytes_) {
        return fail(400, fmt::format("a chunk header is over {} bytes", max_header_bytes_));
      }
      return {Progress::kNeedMore, consumed};
    }
    if (error == http::error::body_limit) {
      return fail(413,
                  fmt::format("the request body is over the limit of {} bytes", max_body_bytes_));
    }
    if (error == http::error::header_limit) {
      return fail(
          431, fmt::format("the request header is over the limit of {} bytes", max_header_bytes_));
    }
    if (error) return fail(400, fmt::format("malformed HTTP request: {}", error.message()));
  }
}

}  // namespace saccade::net

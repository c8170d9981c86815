// The parser reads straight down: head, then whichever body the head announced.
#include "net/client/response_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/ascii.h"
#include "net/http_text.h"

namespace saccade::net {
namespace {

constexpr int kMaxInterimResponses = 32;
constexpr std::size_t kMaxChunkLine = 4096;
constexpr std::size_t kMaxChunkDigits = 15;

using ascii::is_digit;

// RFC 9110 5.6.2.
bool is_token_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  return ascii::lower(a) == lower;
}

// Whether a comma-separated list has the word.
bool list_has(std::string_view list, std::string_view lower_word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (equals_ignoring_case(trimmed(list.substr(0, comma)), lower_word)) return true;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return false;
}

std::string_view strip_cr(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Past the blank line that ends the head, or npos. `from`: where to begin looking.
std::size_t end_of_head(std::string_view text, std::size_t from) {
  while (true) {
    const std::size_t lf = text.find('\n', from);
    if (lf == std::string_view::npos) return lf;
    if (lf + 1 < text.size() && text[lf + 1] == '\n') return lf + 2;
    if (lf + 2 < text.size() && text[lf + 1] == '\r' && text[lf + 2] == '\n') return lf + 3;
    from = lf + 1;
  }
}

}  // namespace

void ResponseParser::reset(bool no_body) {
  part_ = Part::kHead;
  no_body_ = no_body;
  started_ = false;
  stopped_ = false;
  interim_responses_ = 0;
  consumed_ = 0;
  trailer_bytes_ = 0;
  held_.clear();
  held_spent_ = false;
  failure_.clear();
}

bool ResponseParser::fail(std::string why) {
  failure_ = std::move(why);
  return false;
}

ResponseParser::State ResponseParser::feed(std::string_view bytes, ResponseSink& sink) {
  if (!failure_.empty()) return State::kFailed;
  if (!bytes.empty()) started_ = true;
  std::string_view rest = bytes;
  bool going = true;
  while (going && part_ != Part::kDone && !rest.empty()) {
    switch (part_) {
      case Part::kHead:
        going = take_head(rest, sink);
        break;
      case Part::kLengthBody:
        going = take_counted(rest, Part::kDone, sink);
        break;
      case Part::kBodyUntilEnd:
        going = sink.on_body(rest);
        stopped_ = !going;
        rest = {};
        break;
      case Part::kChunkSize:
        going = take_chunk_size(rest);
        break;
      case Part::kChunkData:
        going = take_counted(rest, Part::kChunkEnd, sink);
        break;
      case Part::kChunkEnd: {
        std::string_view line;
        if (!take_line(rest, line)) {
          going = failure_.empty();
        } else if (!line.empty()) {
          going = fail("malformed HTTP response: a chunk is longer than its size");
        } else {
          part_ = Part::kChunkSize;
        }
        break;
      }
      case Part::kTrailer:
        going = take_trailer(rest);
        break;
      case Part::kDone:
        break;
    }
  }
  consumed_ = bytes.size() - rest.size();
  if (!failure_.empty()) return State::kFailed;
  if (stopped_) return State::kStopped;
  return part_ == Part::kDone ? State::kDone : State::kMore;
}

ResponseParser::State ResponseParser::finish() {
  if (!failure_.empty()) return State::kFailed;
  if (part_ == Part::kBodyUntilEnd) part_ = Part::kDone;
  if (part_ == Part::kDone) return State::kDone;
  fail(part_ == Part::kHead ? "the connection was closed before a complete response header"
                            : "the connection was closed before the end of the body");
  return State::kFailed;
}

bool ResponseParser::take_head(std::string_view& rest, ResponseSink& sink) {
  if (held_.empty()) {
    const std::size_t end = end_of_head(rest, 0);
    if (end != std::string_view::npos && end <= max_head_bytes_) {  // the usual case: no copy
      const std::string_view head = rest.substr(0, end);
      rest.remove_prefix(end);
      return parse_head(head, sink);
    }
  }
  // The end may be split too: three bytes back. Never look at more than the limit allows.
  const std::size_t old_size = held_.size();
  const std::size_t room = max_head_bytes_ - std::min(old_size, max_head_bytes_);
  held_ += rest.substr(0, room);
  const std::size_t end = end_of_head(held_, old_size < 3 ? 0 : old_size - 3);
  if (end == std::string_view::npos) {
    if (rest.size() >= room) {
      return fail(
          fmt::format("malformed HTTP response: the header is over {} bytes", max_head_bytes_));
    }
    rest = {};
    return true;
  }
  rest.remove_prefix(end - old_size);
  const std::string head = std::exchange(held_, {}).substr(0, end);
  return parse_head(head, sink);
}

bool ResponseParser::parse_head(std::string_view head, ResponseSink& sink) {
  const std::size_t line_end = head.find('\n');
  const std::string_view line = strip_cr(head.substr(0, line_end));
  const bool plausible = line.size() >= 12 && line.starts_with("HTTP/1.") && is_digit(line[7]) &&
                         line[8] == ' ' && is_digit(line[9]) && is_digit(line[10]) &&
                         is_digit(line[11]) && (line.size() == 12 || line[12] == ' ');
  const int status =
      plausible ? (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0') : 0;
  if (status < 100) {
    return fail(fmt::format("not an HTTP/1 response: it begins with \"{}\"",
                            line.substr(0, std::min<std::size_t>(line.size(), 40))));
  }
  keep_alive_ = line[7] != '0';
  chunked_ = false;
  has_length_ = false;
  until_end_ = false;
  Headers headers;
  if (!parse_headers(head.substr(line_end + 1), headers)) return false;
  if (status < 200) {
    if (status == 101) return fail("the server switched protocols, which nobody asked for");
    if (++interim_responses_ > kMaxInterimResponses) {
      return fail(fmt::format("over {} interim responses", kMaxInterimResponses));
    }
    return true;  // the final response follows
  }
  if (!choose_body(status)) return false;
  stopped_ = !sink.on_head(status, std::move(headers));
  return !stopped_;
}

bool ResponseParser::parse_headers(std::string_view lines, Headers& headers) {
  while (true) {
    const std::size_t end = lines.find('\n');
    const std::string_view line = strip_cr(lines.substr(0, end));
    lines.remove_prefix(end + 1);
    if (line.empty()) return true;
    if ((line.front() == ' ' || line.front() == '\t') && !headers.empty()) {  // obs-fold
      headers.back().second += ' ';
      headers.back().second += trimmed(line);
      continue;
    }
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    if (colon == std::string_view::npos || name.empty() ||
        !std::all_of(name.begin(), name.end(), is_token_char)) {
      return fail(fmt::format("malformed HTTP response: header line \"{}\"",
                              line.substr(0, std::min<std::size_t>(line.size(), 40))));
    }
    const std::string_view value = trimmed(line.substr(colon + 1));
    std::string lower = ascii::lower(name);
    if (!note_header(lower, value)) return false;
    headers.emplace_back(std::move(lower), value);
  }
}

// The three headers that frame a message.
bool ResponseParser::note_header(std::string_view name, std::string_view value) {
  if (name == "content-length") {
    std::uint64_t length = 0;
    constexpr std::size_t kMaxDigits = 18;
    if (value.empty() || value.size() > kMaxDigits ||
        !std::all_of(value.begin(), value.end(), is_digit)) {
      return fail("malformed HTTP response: Content-Length is not a number");
    }
    for (const char c : value) length = length * 10 + static_cast<std::uint64_t>(c - '0');
    if (has_length_ && length != length_) {
      return fail("malformed HTTP response: two values of Content-Length");
    }
    has_length_ = true;
    length_ = length;
  } else if (name == "transfer-encoding") {
    if (chunked_ || !equals_ignoring_case(value, "chunked")) {
      return fail("HTTP response with a transfer encoding other than chunked");
    }
    chunked_ = true;
  } else if (name == "connection") {
    if (list_has(value, "close")) keep_alive_ = false;
    if (list_has(value, "keep-alive")) keep_alive_ = true;
  }
  return true;
}

bool ResponseParser::choose_body(int status) {
  if (no_body_ || status == 204 || status == 304) {
    part_ = Part::kDone;
  } else if (chunked_) {
    // Both: a response split by an attacker looks like this (RFC 9112 6.3).
    if (has_length_) return fail("HTTP response with Content-Length and Transfer-Encoding");
    part_ = Part::kChunkSize;
  } else if (has_length_) {
    remaining_ = length_;
    part_ = length_ > 0 ? Part::kLengthBody : Part::kDone;
  } else {
    until_end_ = true;
    part_ = Part::kBodyUntilEnd;
  }
  return true;
}

bool ResponseParser::take_counted(std::string_view& rest, Part next, ResponseSink& sink) {
  const std::size_t size = std::min<std::uint64_t>(remaining_, rest.size());
  const std::string_view piece = rest.substr(0, size);
  rest.remove_prefix(size);
  remaining_ -= size;
  if (remaining_ == 0) part_ = next;
  stopped_ = !sink.on_body(piece);
  return !stopped_;
}

bool ResponseParser::take_line(std::string_view& rest, std::string_view& line) {
  if (std::exchange(held_spent_, false)) held_.clear();
  const std::size_t lf = rest.find('\n');
  const std::string_view piece = rest.substr(0, lf);
  if (held_.size() + piece.size() > kMaxChunkLine) {
    return fail(
        fmt::format("malformed HTTP response: a chunk line is over {} bytes", kMaxChunkLine));
  }
  if (lf == std::string_view::npos) {
    held_ += piece;
    rest = {};
    return false;
  }
  rest.remove_prefix(lf + 1);
  if (held_.empty()) {
    line = strip_cr(piece);
  } else {
    held_ += piece;
    held_spent_ = true;
    line = strip_cr(held_);
  }
  return true;
}

bool ResponseParser::take_chunk_size(std::string_view& rest) {
  std::string_view line;
  if (!take_line(rest, line)) return failure_.empty();
  std::uint64_t size = 0;
  std::size_t digits = 0;
  for (; digits < line.size(); ++digits) {
    const char c = ascii::lower(line[digits]);
    if (is_digit(c)) {
      size = size * 16 + static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      size = size * 16 + static_cast<std::uint64_t>(c - 'a' + 10);
    } else {
      break;
    }
    if (digits >= kMaxChunkDigits) break;
  }
  const std::string_view after = trimmed(line.substr(digits));
  if (digits == 0 || digits > kMaxChunkDigits || (!after.empty() && after.front() != ';')) {
    return fail("malformed HTTP response: a chunk's size is not a number");
  }
  remaining_ = size;
  part_ = size > 0 ? Part::kChunkData : Part::kTrailer;
  return true;
}

bool ResponseParser::take_trailer(std::string_view& rest) {
  std::string_view line;
  if (!take_line(rest, line)) return failure_.empty();
  trailer_bytes_ += line.size();
  if (trailer_bytes_ > max_head_bytes_) {
    return fail("malformed HTTP response: the trailer is too long");
  }
  if (line.empty()) part_ = Part::kDone;
  return true;
}

}  // namespace saccade::net

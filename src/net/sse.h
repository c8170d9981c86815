// Server-sent events from bytes that arrive in any pieces.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace saccade::net {

// Calls on_data once per event with the joined `data:` payload (no copy when the event lies in one
// chunk; the view is valid during the call). Accepts LF, CRLF and CR line ends, a missing blank
// after the colon, comments, a leading byte order mark, and any split of the bytes. Fields other
// than `data` are skipped. One thread.
class SseScanner {
 public:
  explicit SseScanner(std::size_t max_event_bytes = 16u << 20)
      : max_event_bytes_(max_event_bytes) {}

  // false: an event is over the limit; the scanner is then unusable. on_data(std::string_view).
  template <typename OnData>
  bool feed(std::string_view bytes, OnData&& on_data);

  // The stream has ended. The standard drops an event without its blank line; servers that forget
  // it after `data: [DONE]` exist, so an event whose lines are complete is given. false: the bytes
  // ended inside a line, which is dropped.
  template <typename OnData>
  bool finish(OnData&& on_data);

  // Comment lines seen so far (keep-alive pings).
  std::size_t comments() const { return comments_; }

 private:
  // The lines of one chunk. Each of the two line ends is searched for once, not once a line: a
  // stream of CR-ended lines would otherwise cost the square of its length.
  class Lines {
   public:
    explicit Lines(std::string_view bytes)
        : at_(bytes.data()), end_(at_ + bytes.size()), lf_(find('\n')), cr_(find('\r')) {}
    // The next line that ends in this chunk, without its end.
    bool next(std::string_view& line, bool& skip_lf) {
      if (skip_lf && at_ != end_) {
        if (*at_ == '\n') advance(at_ + 1);
        skip_lf = false;
      }
      const char* const stop = lf_ < cr_ ? lf_ : cr_;
      if (stop == end_) return false;
      line = {at_, static_cast<std::size_t>(stop - at_)};
      skip_lf = *stop == '\r';
      advance(stop + 1);
      return true;
    }
    std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }

   private:
    const char* find(char c) const {
      if (at_ == end_) return end_;
      const void* found = std::memchr(at_, c, static_cast<std::size_t>(end_ - at_));
      return found != nullptr ? static_cast<const char*>(found) : end_;
    }
    void advance(const char* to) {
      at_ = to;
      if (lf_ < at_) lf_ = find('\n');
      if (cr_ < at_) cr_ = find('\r');
    }
    const char* at_;
    const char* end_;
    const char* lf_;
    const char* cr_;
  };

  // One line without its end. `in_chunk`: the bytes stay where they are until the chunk's end.
  template <typename OnData>
  bool take_line(std::string_view line, bool in_chunk, OnData& on_data);
  bool take_data(std::string_view value, bool in_chunk);
  void hold_data();  // copies data that lies in a chunk about to go away
  // A byte order mark does not count, whether the line comes whole or in pieces.
  bool line_too_long(std::size_t size) const {
    return size > max_event_bytes_ + kPrefixBytes + (first_line_ ? kMark.size() : 0);
  }

  static constexpr std::size_t kPrefixBytes = 6;  // "data: "
  static constexpr std::string_view kMark = "\xef\xbb\xbf";

  std::size_t max_event_bytes_;
  std::size_t comments_ = 0;
  bool first_line_ = true;
  bool skip_lf_ = false;   // the last byte was CR: an LF right behind belongs to it
  std::string line_;       // the beginning of a line whose end has not come
  bool has_data_ = false;  // the event has at least one data line
  bool data_in_chunk_ = false;
  std::string_view in_chunk_;  // payload of one line that lies in the chunk being fed
  std::string data_;           // payload otherwise, lines joined
};

template <typename OnData>
bool SseScanner::feed(std::string_view bytes, OnData&& on_data) {
  Lines lines(bytes);
  std::string_view line;
  if (!line_.empty()) {
    const bool ended = lines.next(line, skip_lf_);
    if (!ended) line = bytes;
    if (line_too_long(line_.size() + line.size())) return false;
    line_ += line;
    if (!ended) return true;
    const bool taken = take_line(line_, false, on_data);
    line_.clear();
    if (!taken) return false;
  }
  while (lines.next(line, skip_lf_)) {
    if (!take_line(line, true, on_data)) return false;
  }
  hold_data();
  if (line_too_long(lines.rest().size())) return false;
  line_ = lines.rest();
  return true;
}

template <typename OnData>
bool SseScanner::finish(OnData&& on_data) {
  const bool whole = line_.empty();
  if (whole) take_line({}, false, on_data);
  line_.clear();
  return whole;
}

template <typename OnData>
bool SseScanner::take_line(std::string_view line, bool in_chunk, OnData& on_data) {
  if (first_line_) {
    first_line_ = false;
    if (line.starts_with(kMark)) line.remove_prefix(kMark.size());
  }
  if (line.empty()) {
    if (has_data_) {
      has_data_ = false;
      on_data(data_in_chunk_ ? in_chunk_ : std::string_view(data_));
      data_in_chunk_ = false;
      data_.clear();
    }
    return true;
  }
  if (line_too_long(line.size())) return false;
  if (line.front() == ':') {
    ++comments_;
    return true;
  }
  if (!line.starts_with("data")) return true;
  if (line.size() == 4) return take_data({}, in_chunk);
  if (line[4] != ':') return true;
  line.remove_prefix(line.size() > 5 && line[5] == ' ' ? 6 : 5);
  return take_data(line, in_chunk);
}

inline bool SseScanner::take_data(std::string_view value, bool in_chunk) {
  if (!has_data_) {
    if (value.size() > max_event_bytes_) return false;
    has_data_ = true;
    data_in_chunk_ = in_chunk;
    if (in_chunk) {
      in_chunk_ = value;
    } else {
      data_ = value;
    }
    return true;
  }
  hold_data();
  if (data_.size() + 1 + value.size() > max_event_bytes_) return false;
  data_ += '\n';
  data_ += value;
  return true;
}

inline void SseScanner::hold_data() {
  if (!data_in_chunk_) return;
  data_ = in_chunk_;
  data_in_chunk_ = false;
}

}  // namespace saccade::net

// Server-sent events from bytes that arrive in any pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace saccade::net {

// Calls on_data once per event with the joined `data:` payload (no copy when the event lies in one
// chunk). Accepts LF, CRLF and CR line ends, a missing blank after the colon, comments, and any
// split of the bytes. Lines over the limit end the scan with false. One thread.
class SseScanner {
 public:
  explicit SseScanner(std::size_t max_event_bytes = 16u << 20)
      : max_event_bytes_(max_event_bytes) {}

  // false: an event is over the limit; the scanner is then unusable.
  template <typename OnData>
  bool feed(std::string_view bytes, OnData&& on_data);
  // Comment lines seen so far (keep-alive pings).
  std::size_t comments() const { return comments_; }

 private:
  std::size_t max_event_bytes_;
  std::size_t comments_ = 0;
  std::string held_;
};

}  // namespace saccade::net

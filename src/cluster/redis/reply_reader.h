// Replies out of the bytes that a server sends, within bounds: hiredis reads, this decides how much
// of it there may be. One that is over them, or is none, ends the reading for good.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "cluster/store/store_link.h"

namespace saccade::cluster {

// One thread.
class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // Of all replies from here on, together: bytes of their texts, and of what is not yet a whole
  // one.
  void allow(std::size_t bytes);
  // kCorrupt: it is no reply; kTooLarge: more than is allowed.
  Result<void> feed(std::string_view bytes);
  // The next whole one, if there is one.
  Result<std::optional<StoreReply>> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade::cluster

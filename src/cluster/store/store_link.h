// A key-value server that speaks RESP (Redis, Valkey), as what decides sees it: commands go out
// together, replies or one error come back. How they travel is cluster/redis/'s business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::cluster {

struct StoreReply {
  enum class Kind : std::uint8_t { kNothing, kText, kNumber, kList, kError };
  Kind kind = Kind::kNothing;
  std::string text;  // of kText and kError
  std::int64_t number = 0;
  std::vector<StoreReply> list;
};

struct StoreCommand {
  std::vector<std::string> words;
  std::span<const std::byte> value;  // one more word, where there is one; of the batch's `held`
};

struct StoreBatch {
  std::vector<StoreCommand> commands;
  std::shared_ptr<const void> held;
  Nanos limit = 0;            // from now; connecting and signing in are part of it
  std::size_t max_bytes = 0;  // of all replies; over it the server is not listened to
};

// One connection. Batches are done one after another.
class StoreLink {
 public:
  virtual ~StoreLink() = default;
  // `done` is called once, on the thread the link was made for and never from within run(): with a
  // reply for each command, or with why there are none (kTimeout: the limit; kCorrupt: what came is
  // no reply; kDenied: not signed in; kUnavailable: no connection).
  using Done = std::function<void(Result<std::vector<StoreReply>>)>;
  virtual void run(StoreBatch batch, Done done) = 0;
  // No `done` is called after it. Any thread but the link's own.
  virtual void stop() = 0;
};

// Why a command failed, as few words: the first of an error reply ("LOADING", "READONLY", "OOM"),
// or an error's name. For metrics: a fixed list, the rest is "other".
std::string reason_of(const Error& error);
std::string reason_of_reply(const std::string& error_text);

// What went wrong with a batch: that it has no replies, or the first of them that is an error.
// Absent: nothing.
struct StoreFailure {
  std::string reason;
  std::string why;
};
std::optional<StoreFailure> failure_of(const Result<std::vector<StoreReply>>& replies);

}  // namespace saccade::cluster

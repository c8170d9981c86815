// Where an encoder takes orders: admits what there is room for, encodes each image once for all who
// ask, hands the rows to those who are still there, and keeps them while there is room.
//
//   ask -> refused, or accepted -> [media] -> encoding -> rows, or refused
//
// Room for the media and for the rows is reserved before either exists, so that an encoder under
// any load refuses, and never grows. On Clock and Timers alone; knows no transport.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_budget.h"
#include "base/result.h"
#include "cluster/messages.h"
#include "cluster/row_cache.h"
#include "cluster/timers.h"

namespace saccade::cluster {

using CallId = std::uint64_t;  // of one attempt, among all requesters; never used twice

// What an order says before its media come.
struct OrderHead {
  std::string requester;     // Greeting::node of who asks
  std::uint64_t epoch = 0;   // whom it means: Greeting::epoch
  std::uint64_t stream = 0;  // the requester's number of it
  std::string fingerprint;
  std::string numerics;
  bool any_numerics = false;
  Digest key{};
  std::string recipe;
  std::string layout_key;
  std::int64_t rows = 0;
  std::vector<std::uint64_t> file_bytes;  // of the media
  Nanos left = 0;                         // time that the rows are of use; 0: no limit
};

// The way back to requesters. Calls do not wait and do not call back.
class RequesterLink {
 public:
  virtual ~RequesterLink() = default;
  virtual void accepted(CallId call, const Accepted& accepted) = 0;
  virtual void refused(CallId call, Refusal refusal, Nanos retry_after,
                       const std::string& text) = 0;
  // All that is left of the call: the rows are sent as the requester has room for them, then
  // done().
  virtual void send(CallId call, std::shared_ptr<const MadeRows> rows, const RowsEnd& end) = 0;
};

// What encodes. Answers come afterwards, never from within a call.
class ImageMaker {
 public:
  virtual ~ImageMaker() = default;
  struct Job {
    Digest key{};
    std::string recipe;
    std::string layout_key;
    std::int64_t rows = 0;
    std::vector<std::string> files;
    std::shared_ptr<const void> held;  // the files' room: let go with them
  };
  struct Made {
    std::vector<std::byte> bytes;
    Nanos queued = 0;
    Nanos encoded = 0;
  };
  // made() or failed() of the desk will be called for it, also after let_go().
  virtual void make(Job job) = 0;
  virtual void let_go(const Digest& key) = 0;  // nobody waits for it any more
  virtual EncodeCost cost() const = 0;
};

struct DeskSettings {
  Greeting self;
  std::int64_t max_rows = 0;                             // of one image
  std::size_t row_bytes = std::size_t{256} << 20;        // of all rows: being made, sent, kept
  std::size_t media_bytes = std::size_t{256} << 20;      // of all media
  std::size_t max_media_bytes = std::size_t{256} << 20;  // of one order
  std::size_t max_files = 64;                            // of one order
  std::size_t max_calls = 1024;
  Nanos lease = 30 * kSecond;       // that rows are held for a requester who does not take them
  Nanos media_time = 30 * kSecond;  // for the media to come, once asked for
  // Hears of rows that have been made; may be empty. `count`: how many.
  std::function<void(const Digest& key, std::int64_t count,
                     const std::shared_ptr<const MadeRows>& rows)>
      made;
};

struct DeskStats {
  std::uint64_t orders = 0;
  std::uint64_t cached = 0;                      // answered with rows that were there
  std::uint64_t joined = 0;                      // waited for an encode that another had asked for
  std::uint64_t made = 0;                        // encodes that ended well
  std::uint64_t let_go = 0;                      // encodes that nobody waited for any more
  std::uint64_t sent = 0;                        // calls that got their rows
  std::map<std::string, std::uint64_t> refused;  // by name_of(Refusal)
};

// One thread.
class EncoderDesk {
 public:
  EncoderDesk(const Clock& clock, Timers& timers, ImageMaker& maker, RequesterLink& link,
              DeskSettings settings);
  ~EncoderDesk();

  // --- from the link ---
  void ask(CallId call, const OrderHead& head);
  void media(CallId call, std::string_view bytes);  // the next ones
  void media_end(CallId call);
  void done(CallId call);  // the rows have been sent
  void gone(CallId call);  // cancelled, or the connection is: nothing more is sent

  // --- from the maker ---
  void made(const Digest& key, ImageMaker::Made rows);
  void failed(const Digest& key, const Error& error);

  void drain();  // refuses from now on; what is open goes on
  Report report(const std::string& requester) const;

  const DeskStats& stats() const { return stats_; }
  std::size_t calls() const { return calls_.size(); }
  std::size_t images() const { return images_.size(); }
  std::size_t media_bytes() const { return media_.used(); }
  const RowCache& cache() const { return cache_; }

 private:
  enum class Stage : std::uint8_t { kMedia, kWaiting, kSending };
  struct Call {
    OrderHead head;
    Stage stage = Stage::kMedia;
    std::vector<std::string> files;
    std::shared_ptr<ByteReservation> room;
    TimerId timer = 0;
  };
  struct Image {  // being made, or about to be; without calls it has been let go
    std::set<CallId> calls;
    std::int64_t rows = 0;
    Nanos begun = 0;
    ByteReservation room;
  };

  void refuse(CallId call, Refusal refusal, const std::string& text, Nanos retry_after = 0);
  bool admissible(CallId id, const OrderHead& head);
  void send(CallId call, const std::shared_ptr<const MadeRows>& rows, Nanos queued, Nanos encoded);
  void expire(CallId call, Nanos at, Refusal refusal, const char* text);
  void leave(const Digest& key, CallId call);
  double backlog_ms() const;

  const Clock& clock_;
  Timers& timers_;
  ImageMaker& maker_;
  RequesterLink& link_;
  const DeskSettings settings_;
  RowCache cache_;
  ByteBudget media_;
  std::unordered_map<CallId, Call> calls_;
  std::unordered_map<Digest, Image, DigestHash> images_;
  std::unordered_map<std::string, std::uint64_t> last_seen_;  // streams, by requester
  bool draining_ = false;
  DeskStats stats_;
};

}  // namespace saccade::cluster

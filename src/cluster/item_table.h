// Images on their way to rows, when more than one process can encode: one item a key, whoever
// wants it. The table asks encoders, starts encodes here, and takes the first good answer; it
// never loses an item: each ends in rows or in one error, whatever encoders and networks do.
//
//   want -> asked -> accepted -> receiving -> ready
//             |         |            |
//             +---------+------------+--> the next candidate, beside it or instead of it
//
// An attempt is known by encoder, the encoder's boot epoch and a stream number that is
// never used again. An answer to any other is stale: counted, and dropped. Several attempts of an
// item may run at once; the first that has its rows ends the others. When one of those was complete
// too, the two digests are compared: unequal rows are a fault of somebody, and the encoder is not
// asked again.
//
// On Clock and Timers alone, so that a test can turn them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_budget.h"
#include "base/result.h"
#include "base/rng.h"
#include "cluster/encoder_pool.h"
#include "cluster/messages.h"
#include "cluster/timers.h"

namespace saccade::cluster {

using Ticket = std::uint64_t;  // of one wanting; a key that is wanted again has another

// The way to encoders. Calls do not wait, and answers come to the table afterwards, never from
// within a call. After cancel() answers of the attempt may still come.
class EncoderLink {
 public:
  virtual ~EncoderLink() = default;
  // `left`: time that the rows are of use; 0: no limit. What the order's media point at lives until
  // the attempt has ended.
  virtual void ask(const AttemptId& attempt, const Order& order, Nanos left) = 0;
  // There is room: the rows may come, into these pages.
  virtual void receive(const AttemptId& attempt, std::shared_ptr<RowPages> into) = 0;
  virtual void cancel(const AttemptId& attempt) = 0;
};

// What this process can do by itself, as of now.
struct LocalLoad {
  bool possible = false;  // there is a tower, and it is allowed
  Nanos backlog = 0;
  EncodeCost cost;
};

// The process that wants rows.
class RowsConsumer {
 public:
  virtual ~RowsConsumer() = default;
  virtual LocalLoad local() const = 0;
  // made_here() or failed_here() will say how it went, unless the item has ended before. `beside`:
  // an encoder is at it too, and the rows' digest is wanted, to compare.
  virtual void encode_here(const Digest& key, Ticket ticket, bool beside) = 0;
  virtual void deliver(const Digest& key, Ticket ticket, Rows rows) = 0;
  virtual void fail(const Digest& key, Ticket ticket, const Error& error) = 0;
  // Rows of this order that `encoder` made: compare them with an encode of one's own.
  virtual void verify(const Order& order, Rows rows, const AttemptId& of) = 0;
};

struct ItemSettings {
  bool fallback = true;                                // encodes here when encoders fail
  std::size_t receive_bytes = std::size_t{256} << 20;  // of rows on their way
  double verify_share = 0;                             // of remote items that are encoded here too
  Nanos accept_time = 2 * kSecond;                     // from the attempt to its acceptance
  Nanos progress_time = 2 * kSecond;   // between chunks, and between an encoder's reports
  Nanos least_patience = 2 * kSecond;  // before an accepted item is called late
  double patience = 3;                 // times what was predicted
  Nanos abandon_time = 10 * kSecond;   // that an attempt is left running when others began instead
  Nanos refuse_time = 10 * kSecond;    // without fallback: how long room is waited for
  std::uint64_t hedge_burst = 8;       // hedges before their share counts
  double hedge_share = 0.1;            // most items that are hedged because they are late
};

// kStore: the table never hears of those.
enum class Source : std::uint8_t { kLocal, kRemote, kCached, kHedge, kStore };
constexpr std::size_t kSources = 5;
std::string_view name_of(Source source);

// Why attempts failed.
enum class Failure : std::uint8_t {
  kLost,     // the connection, or the encoder
  kLate,     // no sign of life for too long
  kRefused,  // said so, and it is its fault
  kBusy,     // said so, and it is not
  kBadMedia,
  kDigest,     // the rows are not those that were announced
  kNotFinite,  // the rows have NaN or infinities
  kShape,      // the rows are not as many as were asked for
};
constexpr std::size_t kFailures = 8;
std::string_view name_of(Failure failure);

struct ItemStats {
  std::array<std::uint64_t, kSources> items{};  // ready, by where the rows came from
  std::array<std::uint64_t, kFailures> failures{};
  std::uint64_t wanted = 0;
  std::uint64_t unwanted = 0;    // let go before they were ready
  std::uint64_t failed = 0;      // ended in an error
  std::uint64_t stale = 0;       // answers to what nobody asks any more
  std::uint64_t mismatches = 0;  // rows of one image that differ
  std::uint64_t hedges = 0;      // second attempts beside one that was late
  std::uint64_t away = 0;        // attempts at another encoder than where the image belongs
  std::uint64_t hedge_wins = 0;  // of them, those that were first
  std::uint64_t verified = 0;
};

// One thread.
class ItemTable {
 public:
  ItemTable(const Clock& clock, Timers& timers, Rng& rng, EncoderPool& pool, EncoderLink& link,
            RowsConsumer& consumer, ItemSettings settings);
  ~ItemTable();

  // --- from the process that wants rows ---
  // `deadline`: when the rows are of no more use; 0: none. A key that is wanted already
  // goes on under the new ticket, from the beginning.
  void want(Ticket ticket, Order order, Nanos deadline);
  void unwant(const Digest& key, Ticket ticket);
  // `digest`: of the rows, if it was wanted.
  void made_here(const Digest& key, Ticket ticket, std::optional<Digest> digest);
  void failed_here(const Digest& key, Ticket ticket, const Error& error);
  void verified(const AttemptId& of, bool equal);

  // --- from the link ---
  void connected(int encoder, const Greeting& greeting);
  void disconnected(int encoder, const std::string& why);
  void reported(int encoder, const Report& report);
  void accepted(const AttemptId& attempt, const Accepted& accepted);
  // Rows of so many bytes are ready to come.
  void offered(const AttemptId& attempt, std::uint64_t bytes);
  void progressed(const AttemptId& attempt);
  // All rows are in the pages. `computed`: their digest; `finite`: no NaN, no infinity.
  void received(const AttemptId& attempt, const RowsEnd& end, const Digest& computed, bool finite);
  void refused(const AttemptId& attempt, Refusal refusal, Nanos retry_after,
               const std::string& text);
  void lost(const AttemptId& attempt, const std::string& why);

  const ItemStats& stats() const { return stats_; }
  bool wants(const Digest& key) const { return items_.contains(key); }
  std::size_t items() const { return items_.size(); }
  std::size_t attempts() const { return attempts_.size(); }
  std::size_t receiving_bytes() const { return budget_.used(); }

 private:
  enum class Stage : std::uint8_t { kAsked, kAccepted, kStarved, kReceiving };
  struct Attempt {
    Digest key{};
    Stage stage = Stage::kAsked;
    Nanos asked_at = 0;
    Nanos heard_at = 0;
    bool hedge = false;
    bool overdue = false;  // another has been started because of it
    bool cached = false;
    std::uint64_t offered = 0;  // bytes
    std::shared_ptr<RowPages> pages;
    TimerId timer = 0;
  };
  enum class Local : std::uint8_t { kIdle, kRunning, kFailed };
  struct Item {
    Ticket ticket = 0;
    Order order;
    Nanos wanted_at = 0;
    Nanos deadline = 0;
    Local local = Local::kIdle;
    bool local_hedge = false;
    std::vector<AttemptId> attempts;  // that run
    std::vector<int> tried;           // encoders not to be asked again for it
    std::vector<int> busy;            // of them, those that may be when some time has passed
    bool bad_media = false;           // an encoder says that the image is none
    Error trouble{ErrorCode::kUnavailable, "no encoder can be reached", {}};  // the last failure
    TimerId late = 0;
    TimerId retry = 0;
  };
  // What is remembered of an item for a while, to compare what comes after.
  struct Ready {
    AttemptId attempt;
    std::optional<Digest> digest;  // of the rows that were delivered
    std::string source;
  };
  using Items = std::unordered_map<Digest, Item, DigestHash>;

  // False: nobody is left to begin with it.
  bool start_next(Item& item, bool hedge);
  void try_next(Item& item);
  void ask(Item& item, const EncoderPool::Choice& choice, bool hedge);
  void start_here(Item& item, bool hedge);
  bool runs(const Item& item) const {
    return !item.attempts.empty() || item.local == Local::kRunning;
  }
  // Runs, and is not late everywhere.
  bool is_on_its_way(const Item& item) const;
  void arm_late(Item& item, Nanos predicted);
  void item_late(const Digest& key);
  void attempt_overdue(const AttemptId& id);
  void watch(const AttemptId& id, Attempt& attempt, Nanos limit);
  void silent(int encoder);
  TimerId& silence_of(int encoder);
  void feed_starved();
  void end_attempt(const AttemptId& id, Outcome outcome);
  void attempt_failed(const AttemptId& id, Failure failure, Outcome outcome,
                      const std::string& why);
  void ready(Item& item, Source source, const AttemptId* winner, std::optional<Digest> digest);
  void give_up(Item& item, const Error& error);
  bool may_wait(const Item& item) const;
  void wait_for_room(Item& item, Nanos retry_after);
  void erase(const Digest& key);
  Item* current(const Digest& key, Ticket ticket);
  Attempt* current(const AttemptId& id);
  void report_mismatch(const AttemptId& of, const std::string& other);
  std::string describe(const AttemptId& id) const;

  const Clock& clock_;
  Timers& timers_;
  Rng& rng_;
  EncoderPool& pool_;
  EncoderLink& link_;
  RowsConsumer& consumer_;
  const ItemSettings settings_;
  ByteBudget budget_;
  Items items_;
  std::map<AttemptId, Attempt> attempts_;
  std::deque<AttemptId> starved_;  // wait for room to receive
  TimerId starved_timer_ = 0;
  std::deque<Ready> losers_;      // attempts that were ended because another was first
  std::vector<TimerId> silence_;  // by encoder
  ItemStats stats_;
};

}  // namespace saccade::cluster

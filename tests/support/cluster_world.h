// A cluster in one thread and in virtual time: the real item tables and encoder desks, joined by a
// network that delays, cuts and spoils as a seed says. Processes stop, go on, die and come back.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "cluster/encoder_desk.h"
#include "cluster/item_table.h"

namespace saccade::cluster::test {

constexpr std::uint64_t kRowBytes = 8;
constexpr Nanos kHeartbeat = 500 * kMillisecond;

enum class Spoil : std::uint8_t { kNothing, kBit, kNan, kWrongRows };

// What the rows of an image are.
std::vector<std::byte> true_rows(const Digest& key, std::int64_t rows);

class World;

// An encoder process: its desk and what makes rows for it, in one boot.
class EncoderProcess final : public ImageMaker, public RequesterLink {
 public:
  EncoderProcess(World& world, int index, std::uint64_t epoch);

  void make(Job job) override;
  void let_go(const Digest& key) override { unwanted_.push_back(key); }
  EncodeCost cost() const override { return {1, 0.1 * slowness, 0}; }

  void accepted(CallId call, const Accepted& accepted) override;
  void refused(CallId call, Refusal refusal, Nanos retry_after, const std::string& text) override;
  void send(CallId call, std::shared_ptr<const MadeRows> rows, const RowsEnd& end) override;

  World& world;
  const int index;
  const std::uint64_t epoch;
  TimerQueue timers;
  bool stopped = false;
  double slowness = 1;
  bool breaks = false;                      // its encodes fail
  bool poisoned = false;                    // its rows are wrong, and it does not know
  std::vector<std::function<void()>> held;  // what came while it was stopped
  std::unique_ptr<EncoderDesk> desk;

 private:
  void next();
  std::vector<Job> queue_;
  bool running_ = false;
  std::vector<Digest> unwanted_;
};

// A process that wants rows.
class ConsumerProcess final : public EncoderLink, public RowsConsumer {
 public:
  ConsumerProcess(World& world, int index, const ItemSettings& settings, bool tower);

  void want(std::uint64_t image, std::int64_t rows, Nanos deadline, bool undecodable);
  void unwant(Digest key);

  void ask(const AttemptId& attempt, const Order& order, Nanos left) override;
  void receive(const AttemptId& attempt, std::shared_ptr<RowPages> into) override;
  void cancel(const AttemptId& attempt) override;

  LocalLoad local() const override { return {tower, 0, {2, 0.2, 0}}; }
  void encode_here(const Digest& key, Ticket ticket, bool beside) override;
  void deliver(const Digest& key, Ticket ticket, Rows rows) override;
  void fail(const Digest& key, Ticket ticket, const Error& error) override;
  void verify(const Order& order, Rows rows, const AttemptId& of) override;

  struct Wanted {
    Ticket ticket = 0;
    std::int64_t rows = 0;
    Nanos since = 0;
    bool undecodable = false;
  };
  World& world;
  const int index;
  const bool tower;
  TimerQueue timers;
  Rng rng;
  std::unique_ptr<EncoderPool> pool;
  std::unique_ptr<ItemTable> table;
  std::map<Digest, Wanted> wanted;  // and not ended
  std::uint64_t delivered = 0;
  std::uint64_t wrong = 0;  // delivered, and not what they should be
  std::vector<Error> errors;
  Nanos longest = 0;

 private:
  void end(const Digest& key, Ticket ticket);
  Ticket last_ticket_ = 0;
};

class World {
 public:
  World(std::uint64_t seed, int encoders, int consumers, const ItemSettings& settings,
        bool tower = true);
  ~World();

  Nanos now() const { return clock.now(); }
  // Runs what is due until `instant`.
  void run_until(Nanos instant);

  void kill(int encoder);
  void boot(int encoder);
  void stop(int encoder);
  void resume(int encoder);
  void cut(int consumer, int encoder);  // the connection; it comes back by itself
  void forget_calls();                  // what the network itself still holds

  // One call of a consumer to an encoder's boot.
  struct Call {
    int consumer = 0;
    AttemptId attempt;
    Order order;
    std::shared_ptr<RowPages> pages;
    std::shared_ptr<const MadeRows> rows;
    RowsEnd end;
    bool open = true;
    Nanos last_there = 0;  // when the last message arrives, each way: they keep their order
    Nanos last_back = 0;
  };
  void to_encoder(CallId call, std::function<void(EncoderProcess&)> message);
  void to_consumer(CallId call, std::function<void(ConsumerProcess&)> message);
  void transfer(CallId call);
  Call* find(const AttemptId& attempt, int consumer, CallId& id);
  Nanos delay();

  VirtualClock clock;
  TimerQueue network;
  Rng rng;
  ItemSettings settings;
  DeskSettings desk;
  double spoil_share = 0;  // of transfers
  bool slow_network = false;
  std::vector<std::unique_ptr<EncoderProcess>> encoders;  // null: dead
  std::vector<std::unique_ptr<ConsumerProcess>> consumers;
  std::map<CallId, Call> calls;
  std::map<std::pair<int, int>, std::uint64_t>
      links;  // consumer, encoder: generation; absent: down
  Greeting greeting(int encoder) const;

 private:
  void connect(int consumer, int encoder);
  void heartbeat(int consumer, int encoder, std::uint64_t generation);
  void lose(int consumer, int encoder);
  std::uint64_t last_epoch_ = 100;
  std::uint64_t last_link_ = 0;
  CallId last_call_ = 0;
  std::uint64_t made_calls_ = 0;
  friend class ConsumerProcess;
};

}  // namespace saccade::cluster::test

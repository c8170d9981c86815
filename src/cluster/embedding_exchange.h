// The exchange of a process that serves: the engine's wishes on one side, an item table and a way
// to encoders on the other, a thread between them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cluster/event_thread.h"
#include "cluster/item_table.h"
#include "cluster/own_encodes.h"
#include "cluster/store/row_finder.h"
#include "engine/images/image_exchange.h"

namespace saccade::cluster {

// A way to encoders that runs by itself: what it hears it posts to the thread it was made for.
class RunningLink : public EncoderLink {
 public:
  // Nothing is posted after it.
  virtual void stop() = 0;
  // Another encoder, of this number in the pool; and one that is not there any more, nor connected.
  // On the thread it was made for.
  virtual void add(int encoder, const std::string& address) = 0;
  virtual void remove(int encoder) = 0;
};

// An encoder that was found, not given.
struct FoundEncoder {
  std::string address;
  std::string fingerprint;  // of its tower, as it is said to be
};

struct ExchangeSettings {
  Greeting self;
  std::vector<std::string> encoders;  // addresses
  bool strict_numerics = true;
  bool tower = true;  // this process can encode
  // It does so where no encoder can, and not because it would be done sooner.
  bool encoders_first = false;
  ItemSettings items;
  std::uint64_t seed = 0;
  RowFinder* finder = nullptr;     // asked first, where there is one; outlives the exchange
  std::size_t max_encoders = 256;  // given and found
};

struct ExchangeStats {
  ItemStats items;
  std::size_t open = 0;
  std::size_t receiving_bytes = 0;
  struct Encoder {
    std::string name;
    std::string state;
    double backlog_ms = 0;
    std::int64_t open = 0;
  };
  std::vector<Encoder> encoders;
};

class EmbeddingExchange final : public ImageExchange, private RowsConsumer {
 public:
  // The table is there when the thread does its first job.
  using MakeLink =
      std::function<std::unique_ptr<RunningLink>(EventThread& thread, EmbeddingExchange& exchange)>;
  EmbeddingExchange(const Clock& clock, ExchangeSettings settings, const MakeLink& make_link);
  ~EmbeddingExchange() override;
  // No news after it, and what the engine still asks is dropped. By the thread that made it.
  void stop();

  // The table, for the link to tell what it hears; on the thread given to MakeLink.
  ItemTable& table() { return *table_; }

  // Any thread. All encoders that a registry has: new ones are asked too, those that are neither
  // there nor connected any more are forgotten. Those of the settings stay.
  void found(std::vector<FoundEncoder> encoders);

  // ImageExchange, engine thread.
  void set_wake(std::function<void()> wake) override { wake_ = std::move(wake); }
  void want(WantedImage image) override;
  void unwant(const Digest& key, std::uint64_t ticket) override;
  void made_here(const Digest& key, std::uint64_t ticket, std::optional<Digest> digest) override;
  void failed_here(const Digest& key, std::uint64_t ticket, const Error& error) override;
  void compared(const Digest& key, std::optional<Digest> digest) override;
  void measured(const EncodeCost& cost) override;
  std::vector<ImageNews> take() override;

  // Any thread.
  ExchangeStats stats();

 private:
  LocalLoad local() const override;
  void encode_here(const Digest& key, Ticket ticket, bool beside) override;
  void deliver(const Digest& key, Ticket ticket, Rows rows) override;
  void fail(const Digest& key, Ticket ticket, const Error& error) override;
  void verify(const Order& order, Rows rows, const AttemptId& of) override;
  void make_alone(const Digest& key, Ticket ticket);
  void add_news(ImageNews news);
  void take_found(const std::vector<FoundEncoder>& encoders);
  void look(Ticket ticket, Order order);
  void looked(const Digest& key, std::uint64_t search, std::optional<FoundRows> found);
  Nanos cost_elsewhere(const Order& order) const;
  void end_here(const Digest& key);

  const Clock& clock_;
  const ExchangeSettings settings_;
  bool stopped_ = false;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<ImageNews> news_;  // guarded by mutex_

  // The exchange's thread from here on.
  Rng rng_;
  EncoderPool pool_;
  OwnEncodes own_;
  std::unordered_set<Digest, DigestHash> unread_;  // of what is wanted, the reduced copies
  std::unordered_set<Digest, DigestHash>
      alone_;  // being made here, and no item of the table any more
  struct Comparison {
    AttemptId of;
    Digest theirs{};
    Digest name{};
    std::string maker;  // of rows out of the store; empty: an encoder sent them
  };
  void compare(const Order& order, Comparison with);
  std::unordered_map<Digest, Comparison, DigestHash> comparisons_;
  std::uint64_t last_comparison_ = 0;
  struct Search {  // of rows in the store
    std::uint64_t id = 0;
    Ticket ticket = 0;
    Order order;
  };
  std::unordered_map<Digest, Search, DigestHash> searches_;
  std::uint64_t last_search_ = 0;
  ItemStats stored_;  // of images that the table has not heard of
  std::unique_ptr<EventThread> thread_;
  std::unique_ptr<RunningLink> link_;
  std::unique_ptr<ItemTable> table_;
};

}  // namespace saccade::cluster

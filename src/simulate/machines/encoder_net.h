// The network between PDs and encoders: delay and bandwidth, no loss. Sizes are counted in
// embedding rows, so that no bytes have to be copied.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cluster/encoder_desk.h"
#include "cluster/item_table.h"
#include "simulate/event_loop.h"

namespace saccade::simulate {

struct NetworkCost {
  Nanos delay = 100 * kMicrosecond;  // one way
  double bytes_per_second = 1.25e9;  // of a machine, each direction
};

// Names that all machines of a cluster agree on.
cluster::Greeting greeting_of(int encoder);
constexpr std::string_view kTower = "simulated tower";

class EncoderNet {
 public:
  static constexpr Nanos kReportEvery = 250 * kMillisecond;  // as the server of encoders reports

  EncoderNet(EventLoop& loop, const NetworkCost& cost, std::int64_t row_bytes)
      : loop_(loop), cost_(cost), row_bytes_(row_bytes) {}

  // Who is there: desks and tables outlive the net. In the order of their numbers.
  void add_encoder(cluster::EncoderDesk& desk);
  int add_requester(cluster::ItemTable& table);
  int encoders() const { return static_cast<int>(desks_.size()); }
  void start();  // everybody is connected, reports begin

  // --- from requesters ---
  void ask(int requester, const cluster::AttemptId& attempt, const cluster::Order& order,
           Nanos left);
  void receive(int requester, const cluster::AttemptId& attempt);
  void cancel(int requester, const cluster::AttemptId& attempt);

  // --- from encoders ---
  void accepted(cluster::CallId call, const cluster::Accepted& accepted);
  void refused(cluster::CallId call, cluster::Refusal refusal, Nanos retry_after,
               const std::string& text);
  void send(cluster::CallId call, const cluster::RowsEnd& end);

  std::size_t calls() const { return calls_.size(); }

 private:
  struct Call {
    int requester = 0;
    cluster::AttemptId attempt;
    std::int64_t rows = 0;
    std::size_t media = 0;  // units
    cluster::RowsEnd end;
    Nanos there = 0;  // when the last message arrives, each way: they keep their order
    Nanos back = 0;
  };
  using Key = std::tuple<int, cluster::AttemptId>;
  struct Way {
    Nanos Call::* arrives;
    std::vector<Nanos> free;  // [encoders] when its link is through with what it has
  };
  void carry(Way& way, cluster::CallId id, std::size_t units, std::function<void(Call&)> message);
  void forget(cluster::CallId id);
  void report();
  Nanos transfer(std::size_t units) const;
  cluster::EncoderDesk& desk(const Call& call) {
    return *desks_[static_cast<std::size_t>(call.attempt.encoder)];
  }
  cluster::ItemTable& table(const Call& call) {
    return *tables_[static_cast<std::size_t>(call.requester)];
  }

  EventLoop& loop_;
  NetworkCost cost_;
  std::int64_t row_bytes_;
  std::vector<cluster::EncoderDesk*> desks_;
  std::vector<cluster::ItemTable*> tables_;
  Way to_encoders_{&Call::there, {}};
  Way to_requesters_{&Call::back, {}};
  std::unordered_map<cluster::CallId, Call> calls_;
  std::map<Key, cluster::CallId> ids_;
  cluster::CallId last_ = 0;
};

}  // namespace saccade::simulate

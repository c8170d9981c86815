// A machine that encodes for others: the production desk and encoder queue, over a tower that takes
// its time.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "cluster/encoder_desk.h"
#include "engine/images/encoder_queue.h"
#include "simulate/machines/encoder_net.h"
#include "simulate/machines/simulated_tower.h"

namespace saccade::simulate {

struct EncoderMachineSettings {
  CostModel costs;
  EncoderLimits limits;
  std::size_t row_budget = 0;    // rows: being made, sent, kept
  std::size_t media_budget = 0;  // in rows' bytes
  std::uint64_t seed = 0;
};

class EncoderMachine final : public cluster::ImageMaker, public cluster::RequesterLink {
 public:
  static Result<std::unique_ptr<EncoderMachine>> create(int index,
                                                        const EncoderMachineSettings& settings,
                                                        EventLoop& loop, EncoderNet& net,
                                                        Device& device);

  cluster::EncoderDesk& desk() { return *desk_; }
  const EncoderStats& stats() const { return queue_->stats(); }
  double busy_seconds() const { return busy_seconds_; }
  bool idle() const { return queue_->idle() && jobs_.empty(); }

  void make(Job job) override;
  void let_go(const Digest& key) override;
  EncodeCost cost() const override { return queue_->cost(); }
  void accepted(cluster::CallId call, const cluster::Accepted& said) override {
    net_.accepted(call, said);
  }
  void refused(cluster::CallId call, cluster::Refusal refusal, Nanos retry_after,
               const std::string& text) override {
    net_.refused(call, refusal, retry_after, text);
  }
  void send(cluster::CallId call, std::shared_ptr<const cluster::MadeRows>,
            const cluster::RowsEnd& end) override {
    net_.send(call, end);
  }

 private:
  EncoderMachine(const EncoderMachineSettings& settings, EventLoop& loop, EncoderNet& net);
  void wake();
  void advance();
  void publish();

  EventLoop& loop_;
  EncoderNet& net_;
  MachineClock clock_;
  SimulatedTower tower_;
  std::unique_ptr<EncoderQueue> queue_;
  std::unique_ptr<cluster::EncoderDesk> desk_;
  struct Made {
    Nanos since = 0;
    std::int64_t rows = 0;
  };
  std::unordered_map<Digest, Made, DigestHash> jobs_;  // wanted
  std::vector<Digest> made_;                           // by the stage in hand
  Nanos begun_ = 0;                                    // the batch in hand
  bool running_ = false;
  double busy_seconds_ = 0;
};

}  // namespace saccade::simulate

// A network whose ranks stand on the devices of a team (ops/team/team_device.h): one to whoever
// runs it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/model.h"
#include "ops/team/team_device.h"

namespace saccade {

// shape() is a rank's: layers have its share of the key and value heads, weight_bytes and
// scratch_bytes() are what it has on its device, and so is what a plan of memory comes to. The
// tower is whole on every rank, and each encodes for itself: the same bits, and nothing is sent.
// Takes no adapters. A forward or a stage after which a rank has failed throws RanksFailed.
class TeamNetwork final : public Network {
 public:
  // networks: rank r's, loaded onto its device, is element r. `device` outlives this.
  TeamNetwork(TeamDevice& device, std::vector<std::unique_ptr<Network>> networks);
  ~TeamNetwork() override;

  Result<void> reserve(Device& device, const Capacity& capacity) override;
  std::size_t scratch_bytes() const override { return networks_.front()->scratch_bytes(); }
  // `stream`: of the team. The tap sees the first rank's values.
  void forward(Stream& stream, const Batch& batch, const Tap& tap = {}) override;
  void more_logits(Stream& stream, DeviceInts rows, View logits) override;
  std::unique_ptr<EncodeRun> begin_encode(Stream& stream,
                                          std::span<const PreparedImage* const> images,
                                          std::span<const View> out, const Tap& tap = {}) override;

 private:
  Network& rank(int rank) { return *networks_[static_cast<std::size_t>(rank)]; }

  TeamDevice& device_;
  std::vector<std::unique_ptr<Network>> networks_;
};

// All ranks load at once, `load(rank)` each. The error is the first rank's that has one.
Result<Model> make_team_model(TeamDevice& device,
                              const std::function<Result<Model>(int rank)>& load);

}  // namespace saccade

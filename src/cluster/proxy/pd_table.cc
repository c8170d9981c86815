#include "cluster/proxy/pd_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/hash.h"

namespace saccade::cluster {

PdTable::PdTable(std::vector<std::string> names) {
  for (std::string& name : names) pds_.emplace_back().name = std::move(name);
}

std::size_t PdTable::present() const {
  return pds_.size() -
         static_cast<std::size_t>(std::ranges::count(pds_, PdState::kGone, &Pd::state));
}

std::size_t PdTable::add(std::string name) {
  auto place = std::ranges::find_if(
      pds_, [](const Pd& pd) { return pd.state == PdState::kGone && pd.requests == 0; });
  if (place == pds_.end()) place = pds_.emplace(pds_.end());
  *place = {};
  place->name = std::move(name);
  return static_cast<std::size_t>(place - pds_.begin());
}

void PdTable::remove(std::size_t pd) { pds_[pd].state = PdState::kGone; }

std::optional<std::size_t> PdTable::choose(const PdRequest& request,
                                           const std::vector<bool>& tried) const {
  const auto possible = [&](std::size_t i) {
    return pds_[i].state == PdState::kUsable && !(i < tried.size() && tried[i]);
  };
  // Rendezvous hashing: when a server leaves, only what was its own moves.
  std::optional<std::size_t> home;
  std::uint64_t highest = 0;
  for (std::size_t i = 0; request.affinity != 0 && i < pds_.size(); ++i) {
    const std::uint64_t draw = hash64(pds_[i].name, request.affinity);
    if (!possible(i) || (home && draw <= highest)) continue;
    home = i;
    highest = draw;
  }
  // Who refuses has little to do, and would be given everything.
  const auto cost = [&](std::size_t i) {
    return std::tuple(pds_[i].reluctant, pds_[i].work - (home == i ? request.prompt : 0),
                      home != i);
  };
  std::optional<std::size_t> best;
  const std::size_t first = request.affinity == 0 ? turn_++ : 0;
  for (std::size_t k = 0; k < pds_.size(); ++k) {
    const std::size_t i = (first + k) % pds_.size();
    if (!possible(i)) continue;
    if (!best || cost(i) < cost(*best)) best = i;
  }
  return best;
}

void PdTable::given(std::size_t pd, const PdRequest& request) {
  pds_[pd].work += request.work;
  ++pds_[pd].requests;
  ++pds_[pd].given;
}

void PdTable::done(std::size_t pd, const PdRequest& request) {
  pds_[pd].work -= request.work;
  --pds_[pd].requests;
}

void PdTable::answered(std::size_t pd) { pds_[pd].failures_in_a_row = 0; }

void PdTable::refused(std::size_t pd) { pds_[pd].reluctant = true; }

void PdTable::failed(std::size_t pd) {
  Pd& of = pds_[pd];
  ++of.failures;
  of.answers_in_a_row = 0;
  if (of.state == PdState::kGone) return;
  if (++of.failures_in_a_row >= kFailuresUntilOut) of.state = PdState::kOut;
}

void PdTable::probed(std::size_t pd, bool answers, bool draining) {
  Pd& of = pds_[pd];
  if (of.state == PdState::kGone) return;
  if (!answers) return failed(pd);
  if (of.state == PdState::kOut && ++of.answers_in_a_row < kAnswersUntilIn) return;
  of.failures_in_a_row = 0;
  of.answers_in_a_row = 0;
  of.reluctant = false;
  of.state = draining ? PdState::kDraining : PdState::kUsable;
}

std::size_t PdTable::usable() const {
  return static_cast<std::size_t>(std::ranges::count(pds_, PdState::kUsable, &Pd::state));
}

}  // namespace saccade::cluster

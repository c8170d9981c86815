#include "ops/team/team_device.h"

#include <algorithm>
#include <utility>

#include "ops/team/team_parts.h"

namespace saccade {

TeamWeight::TeamWeight(RankTeam& team, std::vector<std::unique_ptr<PackedWeight>> weights)
    : PackedWeight(weights.front()->out(), weights.front()->in()),
      team_(team),
      weights_(std::move(weights)) {}

// All ranks' at once: a device may wait for its work, and that for the other ranks'.
TeamWeight::~TeamWeight() {
  static_cast<void>(
      team_.try_run([this](int rank) { weights_[static_cast<std::size_t>(rank)].reset(); }));
}

TeamDevice::TeamDevice(std::vector<std::unique_ptr<Device>> devices,
                       std::vector<std::unique_ptr<Collective>> collectives,
                       std::chrono::milliseconds patience)
    : devices_(std::move(devices)), team_(std::move(collectives), patience) {
  CHECK(std::ssize(devices_) == team_.size(), "{} devices, {} ranks", devices_.size(),
        team_.size());
  for (const auto& device : devices_)
    CHECK(device->name() == first().name() && device->space() == first().space() &&
              device->activation_dtype() == first().activation_dtype(),
          "ranks on {} and {}", first().description(), device->description());
  for (std::size_t i = 0; i < kLanes; ++i)
    lanes_.push_back(std::make_unique<TeamStream>(*this, static_cast<Lane>(i)));
}

TeamDevice::~TeamDevice() { settle(); }

void TeamDevice::settle() {
  static_cast<void>(team_.try_run([this](int rank) { this->rank(rank).synchronize(); }));
}

std::string TeamDevice::description() const {
  return fmt::format("{}, on each of {} ranks", first().description(), devices_.size());
}

Result<Buffer> TeamDevice::allocate(std::size_t bytes, Space space) {
  if (space == Space::kHost) return allocate_for_downloads(bytes);
  const auto pieces = std::make_shared<std::vector<Buffer>>(devices_.size());
  std::vector<Result<void>> went(devices_.size());
  team_.run([&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    auto made = devices_[at]->allocate(bytes, space);
    if (made)
      (*pieces)[at] = *std::move(made);
    else
      went[at] = fail(std::move(made).error());
  });
  for (Result<void>& each : went) TRY_DO(std::move(each));
  if (bytes == 0) return Buffer();
  std::vector<const std::byte*> at;
  for (const Buffer& piece : *pieces) at.push_back(piece.data());
  places_.add(std::move(at), bytes);
  return Buffer(
      pieces->front().data(), bytes,
      [this, pieces](std::byte* data, std::size_t) {
        places_.remove(data);
        static_cast<void>(
            team_.try_run([&](int rank) { (*pieces)[static_cast<std::size_t>(rank)].reset(); }));
      },
      pieces->front().space());
}

// The first rank's. A device may wait for its work as it frees them, and that for the other ranks'.
Result<Buffer> TeamDevice::allocate_for_downloads(std::size_t bytes) {
  TRY(Buffer made, first().allocate(bytes, Space::kHost));
  const auto held = std::make_shared<Buffer>(std::move(made));
  return Buffer(
      held->data(), bytes,
      [this, held](std::byte*, std::size_t) {
        settle();
        held->reset();
      },
      held->space());
}

std::int64_t TeamDevice::free_bytes() const {
  std::int64_t least = first().free_bytes();
  for (const auto& device : devices_) least = std::min(least, device->free_bytes());
  return space() == Space::kHost ? least / std::ssize(devices_) : least;
}

std::int64_t TeamDevice::total_bytes() const {
  std::int64_t least = first().total_bytes();
  for (const auto& device : devices_) least = std::min(least, device->total_bytes());
  return least;
}

std::unique_ptr<PackedWeight> TeamDevice::pack(std::span<const StoredMatrix> parts, DType compute) {
  std::vector<std::unique_ptr<PackedWeight>> weights(devices_.size());
  team_.run([&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    weights[at] = devices_[at]->pack(parts, compute);
  });
  return std::make_unique<TeamWeight>(team_, std::move(weights));
}

std::unique_ptr<TokenCounts> TeamDevice::count_tokens(std::span<const std::int32_t> prompt) {
  auto counts = std::make_unique<TeamCounts>();
  for (const auto& device : devices_) counts->of_ranks.push_back(device->count_tokens(prompt));
  return counts;
}

}  // namespace saccade

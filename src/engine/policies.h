// What an engine is told to do one way or another, with the names of flags.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/named_values.h"
#include "memory/kv_policy.h"

namespace saccade {

// What becomes of encoded images (images/image_planner.h).
enum class EncoderCache : std::uint8_t { kOff, kStore, kOverlay };

inline constexpr std::array<Named<EncoderCache>, 3> kEncoderCaches{
    {{"off", EncoderCache::kOff},
     {"store", EncoderCache::kStore},
     {"overlay", EncoderCache::kOverlay}}};

constexpr std::string_view name_of(EncoderCache cache) { return name_in(kEncoderCaches, cache); }

// Who goes first: who came first, or who says so.
enum class SchedulingPolicy : std::uint8_t { kFcfs, kPriority };

inline constexpr std::array<Named<SchedulingPolicy>, 2> kSchedulingPolicies{
    {{"fcfs", SchedulingPolicy::kFcfs}, {"priority", SchedulingPolicy::kPriority}}};

constexpr std::string_view name_of(SchedulingPolicy policy) {
  return name_in(kSchedulingPolicies, policy);
}

// Clients share the engine, or all requests are as of one.
enum class Fairness : std::uint8_t { kClient, kNone };

inline constexpr std::array<Named<Fairness>, 2> kFairness{
    {{"client", Fairness::kClient}, {"none", Fairness::kNone}}};

}  // namespace saccade

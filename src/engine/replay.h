// Requests replayed against the allocator alone: integers, no model, no clock. One step is what the
// scheduler would do: running sequences first, chunked prefill within a token budget, preemption of
// the last one where pages run out. All requests wait from the start, so the pool is under load
// until the last one has begun.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memory/accounting.h"
#include "memory/kv_allocator.h"

namespace saccade {

struct ReplayRequest {
  std::int64_t text_tokens = 0;    // of the prompt, at least 1
  std::int64_t image_tokens = 0;   // before the text, or cross-attended where the model does that
  std::int64_t output_tokens = 1;  // at least 1
  // Names of the text's blocks of kReplayBlock tokens, as Mooncake's traces have them; shorter than
  // the text: the rest is shared with nobody.
  std::span<const std::int64_t> prefix;
};

constexpr std::int64_t kReplayBlock = 512;

struct ReplaySettings {
  KvSettings kv;
  std::int64_t max_batched_tokens = 2048;  // of a step
  std::int64_t sample_every = 32;          // steps between two exact measurements
};

struct ReplayReport {
  std::string plan;  // PagePlan::describe
  std::int64_t steps = 0;
  std::int64_t finished = 0;
  std::int64_t refused = 0;  // can never fit
  std::uint64_t preemptions = 0;
  std::int64_t prompt_tokens = 0;      // of what has finished
  std::int64_t hit_tokens = 0;         // of them, found in the prefix cache
  std::int64_t recomputed_tokens = 0;  // computed again after a preemption
  double mean_running = 0;             // under load
  std::int64_t peak_running = 0;
  std::int64_t samples = 0;
  MemoryUse mean;  // bytes, over the samples taken while requests waited for room
  std::vector<MemoryUse> samples_taken;  // at most kReplaySeries, evenly spread

  // Of the bytes that running sequences hold, the share that none of them will read: waste weighted
  // by bytes and time.
  double waste() const;
};

constexpr std::size_t kReplaySeries = 512;

// Errors are KvAllocator::create's.
Result<ReplayReport> replay(std::span<const LayerSpec> layers,
                            std::span<const ReplayRequest> requests,
                            const ReplaySettings& settings);

}  // namespace saccade

// Settings of an engine, resolved once at start (engine_plan.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/drafting/speculation.h"
#include "engine/policies.h"

namespace saccade {

class CacheObserver;
class Network;

struct EngineSettings {
  std::int64_t max_batched_tokens = 2048;  // token budget of a step
  std::int64_t max_sequences = 64;         // running at once
  std::int64_t max_model_len = 0;          // 0: the checkpoint's, as far as the cache holds one
  std::int64_t block_size = 16;            // tokens a KV block
  std::size_t kv_cache_bytes = 0;          // 0: a share of free memory, said at start
  // Of a device's own memory, for weights, activations, keys and values together.
  double device_memory_utilization = 0.9;
  // Where the device makes graphs (Device::makes_graphs()): the rows that steps of decode are
  // padded to, ascending; empty: usual_graph_rows(). `eager`: none is.
  std::vector<std::int64_t> graph_rows;
  bool eager = false;
  // Submitted and not yet running, of one client; over it submit() is kExhausted, and so it is over
  // kClientsWaiting times as many of all clients together.
  std::int64_t max_waiting = 1024;
  static constexpr std::int64_t kClientsWaiting = 4;
  // Most prompt tokens a request gets in one step; 0: no limit.
  std::int64_t long_prefill_threshold = 0;
  bool prefix_caching = true;
  // Of models with layers that keep a state: tokens between the states that are kept, so that
  // later requests may go on from there; rounded up to whole blocks. With prefix_caching only.
  std::int64_t state_interval = 512;
  KvPolicy kv_policy = KvPolicy::kJenga;
  EncoderCache encoder_cache = EncoderCache::kStore;
  std::size_t encoder_cache_bytes = std::size_t{256} << 20;
  // Pixels between decoding and encoding, all images together. Images that are wanted and have no
  // room wait as they came, compressed.
  std::size_t max_pixel_bytes = std::size_t{256} << 20;
  int pixel_threads = 2;                      // that decode and resize
  std::int64_t encoder_batch_patches = 4096;  // patch rows of several images encoded together
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  std::int64_t priority_aging = 1000;  // steps of waiting that one unit of priority is worth
  Fairness fairness = Fairness::kClient;
  double tpot_target_ms = 0;  // 0: none
  // Without a target: minimum share of a step's time reserved for decoding while prefills run,
  // below 1 (a step's prefill still gets StepBudget::kPiece); 0: prefill is not limited.
  double decode_share = 0;
  static constexpr double kServingDecodeShare = 0.2;  // of servers, whose clients wait for tokens
  int max_logprobs = 20;  // most likely tokens that a request may ask for
  // 2: the next step is planned while one runs. 0: 2 where the device computes beside the host,
  // else 1.
  int steps_in_flight = 0;
  SpeculationSettings speculation;  // draft tokens
  // The model that `speculation.draft` names, loaded on the engine's device. Outlives the engine.
  Network* draft = nullptr;
  std::int64_t max_loras = 0;  // adapters of one step; 0: requests have none
  std::int64_t max_lora_rank = 16;
  std::uint64_t seed = 0;                   // for requests that bring none
  CacheObserver* cache_observer = nullptr;  // engine thread; null: nobody. Outlives the engine

  // Else all requests are as of one client.
  bool fair() const { return fairness == Fairness::kClient; }
  // Draft tokens of a step, all sequences together: where many run, drafting does not pay.
  std::int64_t draft_rows() const {
    constexpr std::int64_t kMost = 64;
    const std::int64_t each = speculation.max_tokens;
    return std::min(each * max_sequences, std::max(each, kMost));
  }
};

}  // namespace saccade

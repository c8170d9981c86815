// The engine: one thread that owns scheduler, KV pages, caches and the forward. submit() and
// cancel() are for any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/drafting/speculation.h"
#include "engine/engine_stats.h"
#include "engine/policies.h"
#include "engine/request.h"
#include "model/network.h"

namespace saccade {

class CacheObserver;
class ImageExchange;
class LentImages;

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
  // Without a target, the least part of a step's time that is theirs who decode while prompts are
  // computed, below 1; 0: prompts have what they need.
  double decode_share = 0;
  static constexpr double kServingDecodeShare = 0.2;  // of servers, whose clients wait for tokens
  int max_logprobs = 20;  // most likely tokens that a request may ask for
  // 2: the next step is planned while one runs. 0: 2 where the device computes beside the host,
  // else 1.
  int steps_in_flight = 0;
  SpeculationSettings speculation;  // tokens guessed ahead
  // The model that `speculation.draft` names, loaded on the engine's device. Outlives the engine.
  Network* draft = nullptr;
  std::int64_t max_loras = 0;  // adapters of one step; 0: requests have none
  std::int64_t max_lora_rank = 16;
  std::uint64_t seed = 0;                   // for requests that bring none
  CacheObserver* cache_observer = nullptr;  // engine thread; null: nobody. Outlives the engine
};

// What is run before an engine serves, so that kernels are loaded, memory is taken and graphs are
// made before anybody waits for it: a long prompt, the kinds of sampling, an image, and decode of
// each number of rows that steps are padded to.
struct WarmUp {
  std::function<Result<Request>(std::int64_t tokens)> text;  // a prompt of so many tokens
  std::function<Result<Request>()> image;                    // a prompt with one; null: none
  double seconds = 60;  // after which the rest is left to serving
};

// What an engine is set up with besides its settings.
struct EngineSurroundings {
  // Where other processes may encode; null: this one does. Outlives the engine.
  ImageExchange* images = nullptr;
  // False: the network has been loaded without its tower, and all images come from `images`.
  bool tower = true;
  // Null: what serving needs is made while serving. Nothing of it is counted or kept.
  const WarmUp* warm_up = nullptr;
};

class Engine {
 public:
  // The network must have been loaded on `device`. Errors name the setting that cannot hold.
  static Result<std::unique_ptr<Engine>> create(const EngineSettings& settings, Network& network,
                                                Device& device, const Clock& clock,
                                                const EngineSurroundings& in = {});
  virtual ~Engine() = default;

  // kExhausted: inbox full. kInvalid: can never fit (both numbers in the message). The sink is
  // called from step().
  virtual Result<RequestId> submit(Request request, Sink sink) = 0;
  virtual void cancel(RequestId id) = 0;

  // One turn: drain the inbox and cancellations, plan, encode, forward, sample, commit, deliver.
  // False: nothing to do. Tests call it by hand; run() calls it on the engine thread until stop(),
  // sleeping while there is nothing to do. What a step throws, run() throws on, once everybody has
  // been told (kUnavailable) and new requests are refused: half a step cannot be gone on from.
  virtual bool step() = 0;
  virtual void run() = 0;
  virtual void stop() = 0;

  // Called on the engine thread after each step, for one post per I/O thread.
  virtual void set_after_step(std::function<void()> callback) = 0;

  virtual const EngineSettings& settings() const = 0;  // as resolved
  // Patch rows of the largest image that submit() takes; 0: of a model that sees none.
  virtual std::int64_t max_image_patches() const = 0;
  // For those who have images encoded here and nothing else; null without a tower.
  virtual LentImages* lent() = 0;
  virtual EngineStats stats() const = 0;  // any thread; as of the last step
  virtual bool reset_prefix_cache() = 0;  // false while requests run
  virtual void reset_mm_cache() = 0;
};

}  // namespace saccade

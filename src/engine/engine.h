// The engine: one thread that owns scheduler, KV pages, caches and the forward. submit() and
// cancel() are for any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine_settings.h"
#include "engine/engine_stats.h"
#include "engine/request.h"
#include "model/network.h"

namespace saccade {

class ImageExchange;
class LentImages;

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
  // Encodes images of other processes; null without a tower.
  virtual LentImages* lent() = 0;
  virtual EngineStats stats() const = 0;  // any thread; as of the last step
  virtual bool reset_prefix_cache() = 0;  // false while requests run
  virtual void reset_mm_cache() = 0;
};

}  // namespace saccade

// The engine of a sentence encoder: one thread that owns the forward. Requests wait in order of
// arrival; a step takes as many sequences as fit, whichever requests they belong to.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "engine/request.h"
#include "model/sentence_encoder.h"

namespace saccade {

struct EmbeddingSettings {
  std::int64_t max_tokens = 0;                // of a sequence; 0, and more: the model's most
  std::int64_t max_batched_tokens = 2048;     // of a step; at least the longest sequence
  std::int64_t max_sequences = 256;           // of a step
  std::int64_t max_waiting = 1024;            // requests not yet answered; one more is kExhausted
  std::int64_t max_waiting_tokens = 1 << 24;  // of those requests (64 MiB of ids), likewise
};

struct EmbeddingStats {
  std::int64_t running = 0;         // sequences in this step
  std::int64_t waiting = 0;         // sequences behind it
  std::int64_t requests = 0;        // not yet answered
  std::int64_t request_tokens = 0;  // of all their sequences
  std::uint64_t sequences = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t rejections = 0;
};

class EmbeddingEngine {
 public:
  // One row of `dimensions` values an input. Called once on the engine thread, unless cancelled.
  using Sink = std::function<void(std::vector<float> rows)>;

  // The encoder must have been loaded on `device`.
  static Result<std::unique_ptr<EmbeddingEngine>> create(EmbeddingSettings settings,
                                                         SentenceEncoder& encoder, Device& device);

  // Any thread. kInvalid: an input without tokens, with too many, or with an unknown id.
  // kUnavailable: after stop(), or a step that threw.
  Result<RequestId> submit(std::vector<std::vector<TokenId>> inputs, Sink sink);
  void cancel(RequestId id);
  EmbeddingStats stats() const;
  const EmbeddingSettings& settings() const { return settings_; }

  // One turn: take what came, compute one batch, deliver what is complete. False: nothing to do.
  // run() does so on the calling thread until stop().
  bool step();
  void run();
  void stop();

 private:
  struct Job {
    RequestId id = 0;
    std::vector<std::vector<TokenId>> inputs;
    Sink sink;
    std::int64_t tokens = 0;  // of all inputs
    std::size_t taken = 0;    // inputs that have been in a step
    std::vector<float> rows;
  };
  struct Part {  // an input in this step
    Job* job = nullptr;
    std::size_t input = 0;
  };

  EmbeddingEngine(EmbeddingSettings settings, SentenceEncoder& encoder, Device& device)
      : settings_(settings), encoder_(encoder), stream_(device.lane(Lane::kStep)) {}

  Result<void> validate(const std::vector<std::vector<TokenId>>& inputs) const;
  Result<void> find_room(std::int64_t tokens);
  void leave(const Job& job);
  void run_until_stopped();
  void drain();
  std::vector<Part> next_batch();
  void compute(const std::vector<Part>& batch);
  void deliver();

  const EmbeddingSettings settings_;
  SentenceEncoder& encoder_;
  Stream& stream_;
  std::deque<std::unique_ptr<Job>> jobs_;  // engine thread, as are the next three
  std::vector<TokenId> ids_;
  std::vector<std::int32_t> begins_;
  Buffer out_;  // [max_sequences, dimensions] on the device
  Buffer readback_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<Job>> arrivals_;  // guarded by mutex_, as is what follows
  std::vector<RequestId> cancellations_;
  RequestId next_id_ = 1;
  bool stopping_ = false;
  EmbeddingStats stats_;
};

}  // namespace saccade

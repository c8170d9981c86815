// Images on their way to embeddings. Decode never waits for one: the engine calls advance() between
// steps, and each call does one stage (patches, one layer, the merger) of one batch. Where a device
// computes during the call a stage is cut: a call does a piece of it, as large as the time that it
// may take, which is learnt from the pieces before it. Where a device computes beside the host, and
// nobody paces stages, a batch is submitted at once and asked for later.
//
// Images wanted by several sequences are encoded once. Those that nobody wants any more are let go:
// waiting ones at once, a batch when none of its images is wanted. Small images share a batch, up
// to a cap on patch rows and on the time that one stage is predicted to take.
//
// No client's images wait for all of another's: each gets an equal part of the encoder while
// several want it, in patch rows (start-time fair queueing: Goyal, Vin, Cheng 1996), and all of it
// otherwise. Other processes that have images encoded here are together one client. A batch that
// has begun is not put aside.
//
// A batch that fails is done again an image at a time, so that one image's failure is its own.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "engine/admission/cost_fit.h"
#include "engine/images/embedding_check.h"
#include "engine/images/encode_cost.h"
#include "engine/images/piece_rates.h"
#include "engine/request.h"
#include "model/network.h"

namespace saccade {

struct EncoderLimits {
  std::int64_t batch_patches = 4096;  // rows of a batch of more than one image
  std::int64_t max_patches = 0;       // rows of one image: what the model has reserved
  std::int64_t max_rows = 0;          // embedding rows of one image
  double stage_seconds = 0;           // of a stage of more than one image, predicted; 0: no limit
  double piece_seconds = 0.05;        // of a piece, where stages can be cut
};

struct EncoderStats {
  std::uint64_t runs = 0;
  std::uint64_t images = 0;
  std::uint64_t rows = 0;
  std::uint64_t let_go = 0;  // images that nobody wanted any more
  std::uint64_t failed = 0;  // images that were given up
  double busy_seconds = 0;   // of stages, or of whole batches on a device beside the host
  std::uint64_t pieces = 0;  // calls that did some of a stage
  double longest_piece = 0;  // seconds
};

// Who has an image encoded: a client of this process, or other processes.
struct EncodeOrigin {
  bool others = false;
  ClientId client = 0;
  auto operator<=>(const EncodeOrigin&) const = default;
};

// Engine thread.
class EncoderQueue {
 public:
  struct Hooks {
    // An image is done: its rows, valid during the call.
    std::function<void(const Digest& key, View rows)> publish;
    // There will be no rows of an image, and why.
    std::function<void(const Digest& key, const Error& error)> failed;
    // Whether anybody still wants the key.
    std::function<bool(const Digest& key)> wanted;
  };

  static Result<std::unique_ptr<EncoderQueue>> create(Network& network, Device& device,
                                                      const EncoderLimits& limits,
                                                      const Clock& clock, Hooks hooks);

  ~EncoderQueue();

  // Does nothing for a key that is queued or being encoded.
  void push(const Digest& key, std::shared_ptr<const PreparedImage> image,
            EncodeOrigin origin = {});
  bool contains(const Digest& key) const { return keys_.contains(key); }  // queued, or in the run
  // Lets go of what nobody wants any more; a run is stopped, and given up if it is still unwanted
  // at the next call, since a preempted sequence may want it back. True if there was something.
  // Once a step.
  bool prune();
  // One stage of the run in progress, or of a new one; where stages are cut, as much of it as takes
  // so many seconds at the most, and no longer than the limits say. True when that has ended a run,
  // well or not. Not while idle(). False, and nothing done, while waits().
  bool advance(double seconds = std::numeric_limits<double>::infinity());
  // All of the run has been submitted, and the device is at it.
  bool waits() const { return submitted_ && !done_.passed(); }
  // What advance() is predicted to take; 0 while nothing is known, or idle.
  double stage_seconds() const;

  // Nothing is to be encoded.
  bool idle() const { return run_ ? unwanted_ : queue_.empty(); }
  bool running() const { return run_ != nullptr; }
  std::int64_t waiting() const { return static_cast<std::int64_t>(queue_.size()); }
  const EncoderStats& stats() const { return stats_; }
  // Of one image from its beginning to its rows, with whatever ran between its stages.
  EncodeCost cost() const;

  // A batch begins, a batch is done: for the times that requests carry.
  struct Event {
    std::vector<Digest> keys;
    Nanos queued = 0;  // of the oldest
    Nanos begin = 0;
    Nanos end = 0;  // 0: has begun
  };
  void set_observer(std::function<void(const Event&)> observer) { observer_ = std::move(observer); }

 private:
  struct Job {
    Digest key{};
    std::shared_ptr<const PreparedImage> image;
    Nanos queued = 0;
    double start = 0;    // when its turn comes: patch rows of its origin before it
    bool alone = false;  // its batch has failed
  };
  EncoderQueue(Network& network, Device& device, const EncoderLimits& limits, const Clock& clock,
               Hooks hooks, Buffer scratch, EmbeddingCheck check);
  // Images of the next batch: how many of the queue's first ones.
  std::size_t next_batch() const;
  void begin_batch();
  Result<Piece> advance_run(double seconds);
  bool advance_stage(double seconds);
  bool advance_whole();
  void finish_batch();
  void fail_batch(const Error& error);
  void give_up(const Digest& key, const Error& error);
  void end_run();

  Network& network_;
  Stream& stream_;
  EncoderLimits limits_;
  const Clock& clock_;
  Hooks hooks_;
  std::function<void(const Event&)> observer_;
  Buffer scratch_;  // [max rows, hidden] of embedding_dtype
  std::int64_t scratch_rows_;
  EmbeddingCheck check_;
  bool computes_in_call_;  // the device
  bool whole_;             // batches are submitted at once
  std::deque<Job> queue_;  // by `start`
  double begun_ = 0;       // `start` of the last that has begun
  // Where the next image of each origin starts, at the earliest, where that is behind begun_.
  std::map<EncodeOrigin, double> next_;
  std::unordered_set<Digest, DigestHash> keys_;  // queued or in the run
  std::vector<Job> batch_;
  std::vector<const PreparedImage*> batch_images_;
  std::vector<View> batch_rows_;
  std::unique_ptr<EncodeRun> run_;
  std::int64_t stages_done_ = 0;  // of the run
  double stage_took_ = 0;         // seconds of the stage in progress
  std::int64_t pieces_of_run_ = 0;
  double seconds_of_run_ = 0;
  bool cut_ = false;  // stages of the last run could be cut
  PieceRates rates_;
  bool submitted_ = false;  // all of it,
  saccade::Event done_;     // up to here
  bool unwanted_ = false;   // the run, at the last prune()
  Event event_;
  Nanos free_since_ = 0;           // when the last run ended
  CostFit stage_time_;             // of one layer: the first and the last stage take less
  CostFit run_time_;               // of a run, milliseconds, by its embedding rows
  std::int64_t max_measured_ = 0;  // patches
  EncoderStats stats_;
};

// Patch rows of an image, as the encoder counts them.
std::int64_t patch_rows(const ImageLayout& layout);

}  // namespace saccade

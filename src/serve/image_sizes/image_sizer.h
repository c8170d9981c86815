// Gives the images of a request their sizes, once, before anything is named after them: by the
// published rule, or by the level and the request's own deadline. Counts the work that the engine
// has taken and not done, which is what both are decided by.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "cluster/sizes/level_controller.h"
#include "cluster/sizes/request_clip.h"
#include "cluster/sizes/seed_size_rule.h"
#include "engine/engine_stats.h"
#include "engine/request.h"
#include "model/prompts/processor.h"
#include "serve/image_sizes/image_size_settings.h"

namespace saccade::serve {

// What a request still asks of the engine. Counts as long as somebody holds it.
struct PendingWork {
  PendingWork(std::vector<std::int64_t> encodes, std::int64_t prompt)
      : encode_tokens(std::move(encodes)), prompt_tokens(prompt), progress(encode_tokens.size()) {}
  const std::vector<std::int64_t> encode_tokens;  // of each of Request::images; 0: stored already
  std::atomic<std::int64_t> prompt_tokens;
  RequestProgress progress;
};

// A layout, and the controls that lead to it, here and in another process.
struct LaidOut {
  ImageLayout layout;
  ImageControls controls;
};

// One image: as large as its client's bounds leave it, and then as large as it becomes; `controls`
// are those that lead to `layout`.
struct ImageToSize {
  ImageControls controls;
  Digest content{};
  bool high_detail = false;
  ImageLayout layout;
  std::optional<LaidOut> copy = std::nullopt;  // made: what encoders are asked for instead
};

struct SizingRequest {
  Nanos arrival = 0;
  double rate = 0;               // arrived()'s
  std::optional<Nanos> target;   // its own; absent: the server's
  std::int64_t text_tokens = 0;  // about
  std::string_view cache_salt;
  std::vector<std::int64_t> other_encodes;  // groups of videos, which keep their sizes
};

struct SizedRequest {
  std::shared_ptr<PendingWork> work;
  std::int64_t native_tokens = 0;  // of the images
  std::int64_t applied_tokens = 0;
  Nanos predicted = 0;           // time to first token; 0: nobody predicts
  std::int64_t retry_after = 0;  // seconds, when it is refused
  // One image's tokens as applied over what they were; 1 without images.
  double scale() const {
    return native_tokens > 0
               ? static_cast<double>(applied_tokens) / static_cast<double>(native_tokens)
               : 1.0;
  }
};

// For the metrics page.
struct ImageSizeStats {
  double level = 0;
  std::int64_t cap = 0;
  cluster::StageWaits waits;
  double encode_factor = 1;
  double prefill_factor = 1;
  std::map<std::int64_t, std::uint64_t> images_by_rung;  // by the rung that a size is up to
  std::uint64_t reduced = 0;                             // images
  std::uint64_t late = 0;     // requests that were let in though they will be late
  std::uint64_t refused = 0;  // requests
};

// Any thread.
class ImageSizer {
 public:
  // `costs` are of one token at least for kDynamic. stored_tokens: rows of images that the engine
  // keeps.
  ImageSizer(const ImageSizeSettings& settings, const Processor& processor,
             const cluster::StageCosts& costs, std::int64_t stored_tokens, const Clock& clock);

  // A request has come, with images or without: requests a second, as the published rule counts.
  double arrived();
  // Lays the images out anew. kUnavailable, with retry_after, for what would be too late and is to
  // be refused; kInvalid for bounds that contradict each other.
  Result<void> size(std::span<ImageToSize> images, const SizingRequest& request,
                    SizedRequest& sized);

  // The request goes to the engine, with a prompt of so many tokens.
  void submitted(PendingWork& work, std::int64_t prompt_tokens);
  // What the engine has done since the last call: how fast it is.
  void observe(const EngineStats& stats);
  // A period has passed.
  void tick();
  Nanos period() const { return level_.period(); }
  ImageSizeStats stats() const;

 private:
  // The bound under which an image was laid out, so that it can be again.
  struct Bound {
    std::int64_t tokens = 0;  // that came of it
    std::optional<std::int64_t> max_tokens;
  };
  struct Stored {
    Digest key{};
    std::vector<Bound> sizes;
  };

  Result<void> by_budget(std::span<ImageToSize> images, std::int64_t budget);
  std::int64_t budget(double rate) const;
  Result<void> by_level(std::span<ImageToSize> images, const SizingRequest& request,
                        SizedRequest& sized, std::vector<bool>& stored);
  Result<LaidOut> lay_out(const ImageToSize& image, std::optional<std::int64_t> max_tokens) const;
  static void take(ImageToSize& image, LaidOut laid);
  Result<void> shrink(ImageToSize& image, std::int64_t most) const;
  Result<cluster::SizeAsk> ask(const ImageToSize& image, const Stored* stored) const;
  void forget_done();
  cluster::StageWaits waits() const;
  const Stored* stored(const Digest& key) const;
  void remember(const Digest& key, const Bound& bound);
  void count(const ImageToSize& image, std::int64_t native);

  const ImageSizeSettings settings_;
  const Processor& processor_;
  const Clock& clock_;
  const std::int64_t stored_tokens_;
  mutable std::mutex mutex_;  // guards everything below
  cluster::LevelController level_;
  cluster::StageCosts costs_;
  cluster::SpeedCorrection encode_speed_;
  cluster::SpeedCorrection prefill_speed_;
  cluster::SeedRate rate_;
  std::vector<std::weak_ptr<PendingWork>> work_;
  std::list<Stored> recent_;  // images that have been sized: the last one first
  std::unordered_map<Digest, std::list<Stored>::iterator, DigestHash> recent_by_key_;
  std::int64_t recent_tokens_ = 0;
  double mean_prompt_ = 0;
  struct Seen {
    std::uint64_t images = 0;
    std::uint64_t rows = 0;
    double encoder_busy = 0;
    std::uint64_t prefill_tokens = 0;
    double prefill_busy = 0;
  } seen_;
  ImageSizeStats stats_;
};

// The rungs that images of this model can have: halves of the largest by two steps, or tile counts.
cluster::SizeLadder ladder_of(const Processor& processor, std::int64_t floor);

}  // namespace saccade::serve

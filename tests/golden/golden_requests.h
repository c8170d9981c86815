// A checkpoint's goldens as requests of the engine, and running them all.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "engine/local_engine.h"
#include "model/solo_run.h"
#include "ops/readback.h"
#include "tests/golden/family_golden.h"

namespace saccade::test {

inline const std::vector<std::string> kGoldenCases = {"text", "one_image", "three_images",
                                                      "multi_turn"};
// Of checkpoints without a tower.
inline const std::vector<std::string> kTextCases = {"text", "multi_turn", "long"};
// Of families that take videos.
inline const std::vector<std::string> kVideoCases = {"video_one_frame", "video_odd", "video_even",
                                                     "video_mixed", "video_turns"};

inline constexpr std::array kPolicies = {KvPolicy::kJenga, KvPolicy::kMaxPage, KvPolicy::kStatic,
                                         KvPolicy::kPaged};
inline constexpr std::array kCaches = {EncoderCache::kOff, EncoderCache::kStore,
                                       EncoderCache::kOverlay};

// A checkpoint's goldens as requests.
class GoldenRequests {
 public:
  explicit GoldenRequests(const std::string& checkpoint,
                          const std::vector<std::string>& cases = kGoldenCases,
                          std::unique_ptr<Device> device = engine_device(""),
                          const LoadOptions& options = {.compute = DType::kF32, .kv = {}})
      : directory_(golden_folder(checkpoint)), cases_(cases), device_(std::move(device)) {
    log::set_level(log::Level::kError);
    model_ = load(directory_, *device_, options);
    tokenizer_ = *load_tokenizer(directory_);
    for (const std::string& name : cases_) {
      goldens_.push_back(*read_golden(directory_ + "/golden/" + name + ".safetensors"));
    }
  }

  Device& device() { return *device_; }
  Network& network() { return *model_->network; }
  const Golden& golden(std::size_t which) const { return goldens_[which % goldens_.size()]; }
  std::size_t count() const { return goldens_.size(); }
  const std::string& name(std::size_t which) const { return cases_[which % cases_.size()]; }

  // Requests from here on answer with as many tokens, where their goldens end sooner.
  void answer_up_to(std::int64_t tokens) { least_tokens_ = tokens; }

  Request request(std::size_t which) { return request(golden(which)); }
  Request request(const Golden& from) {
    Request request;
    auto media = prepare_golden_media(*model_->processor, from);
    EXPECT_TRUE(media) << media.error().message;
    std::vector<RequestImage> images;
    for (std::size_t i = 0; i < media->prepared.size(); ++i) {
      RequestImage& image = images.emplace_back();
      image.content = sha256(media->names[i]);
      image.layout = media->prepared[i].layout;
      image.source = std::make_shared<ReadyImage>(std::move(media->prepared[i]));
    }
    auto prompt =
        model_->processor->build_prompt(*tokenizer_, from.rendered, media->layouts, false);
    EXPECT_TRUE(prompt) << prompt.error().message;
    request.prompt = *std::move(prompt);
    for (const ImageSpan& span : request.prompt->images) {
      images[static_cast<std::size_t>(span.index)].span = span;
    }
    request.images = std::move(images);
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens =
        std::max(least_tokens_, static_cast<std::int64_t>(from.greedy.size()));
    return request;
  }

  // What the sequence says without an engine, and the logits that its first token is chosen by.
  struct Solo {
    std::vector<TokenId> tokens;
    std::vector<float> logits;
  };
  Solo solo(std::size_t which) {
    const Golden& from = golden(which);
    const Request asked = request(which);
    const auto media = prepare_golden_media(*model_->processor, from);
    EXPECT_TRUE(media) << media.error().message;
    const auto count = static_cast<std::int64_t>(from.greedy.size());
    auto run = SoloRun::create(network(), device(), *asked.prompt, media->prepared, count);
    EXPECT_TRUE(run) << run.error().message;
    Buffer staging;
    const View logits = *readable(device().lane(Lane::kStep), (*run)->prefill(), staging);
    Solo solo{{}, {logits.row<float>(0), logits.row<float>(0) + logits.cols()}};
    solo.tokens = (*run)->greedy(count);
    return solo;
  }

 private:
  std::string directory_;
  std::vector<std::string> cases_;
  std::int64_t least_tokens_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<Golden> goldens_;
};

inline EngineSettings settings_of(std::int64_t chunk) {
  EngineSettings settings;
  settings.max_batched_tokens = chunk;
  settings.max_sequences = std::min<std::int64_t>(chunk, 8);
  settings.block_size = 16;
  settings.kv_cache_bytes = std::size_t{16} << 20;
  settings.encoder_cache_bytes = std::size_t{1} << 20;
  return settings;
}

// What steps and stages take decides when an image comes and what gives way to what: by this clock
// anything, and the same again for the same seed. Of one engine.
class ErraticClock final : public Clock {
 public:
  explicit ErraticClock(std::uint64_t seed) : rng_(seed) {}
  Nanos now() const override {
    now_ += static_cast<Nanos>(kMicrosecond << rng_.below(16));
    return now_;
  }

 private:
  mutable Rng rng_;
  mutable Nanos now_ = 0;
};

// An embedding row lies in the place of its token's keys and values in the full layers.
inline bool overlay_fits(const ModelShape& shape) {
  if (shape.cross_attends()) return false;  // an image is one token
  std::int64_t values = 0;
  for (const LayerShape& layer : shape.layers)
    if (layer.kind == LayerKind::kFull) values += 2 * layer.kv_heads * layer.head_dim;
  return values >= shape.embedding_width();
}

// Sends `count` requests, `together` at a time, and steps until all have ended. `request(i)` makes
// the i-th, `hear(i, delta)` hears what comes of it, `stepped()` of each step. False: one was
// refused.
template <typename MakeRequest, typename Hear>
bool keep_running(
    Engine& engine, std::size_t count, std::size_t together, const MakeRequest& request,
    const Hear& hear, const std::function<void()>& stepped = [] {}) {
  std::size_t unfinished = 0;
  for (std::size_t next = 0; next < count || unfinished > 0;) {
    while (next < count && unfinished < together) {
      auto id = engine.submit(request(next), [&, next](RequestId, Delta&& delta,
                                                       const RequestUsage&, const RequestTimes&) {
        hear(next, delta);
        if (delta.finish != FinishReason::kNone) --unfinished;
      });
      EXPECT_TRUE(id) << id.error().message;
      if (!id) return false;
      ++unfinished;
      ++next;
    }
    if (!engine.step()) break;
    stepped();
  }
  EXPECT_EQ(unfinished, 0u);
  EXPECT_EQ(static_cast<const LocalEngine&>(engine).parts().kv->usage(), 0);
  return true;
}

struct GoldenRun {
  std::vector<std::vector<TokenId>> answers;  // of round 0, then of round 1, ...
  EngineStats stats;
};

// `rounds` times all goldens, `together` at a time.
inline GoldenRun run_goldens(GoldenRequests& from, const EngineSettings& settings,
                             std::size_t together, std::size_t rounds = 1,
                             const Clock& clock = SteadyClock()) {
  const std::size_t count = rounds * from.count();
  GoldenRun run{std::vector<std::vector<TokenId>>(count), {}};
  auto engine = Engine::create(settings, from.network(), from.device(), clock);
  EXPECT_TRUE(engine) << engine.error().message;
  if (!engine) return run;
  const auto hear = [&](std::size_t i, const Delta& delta) {
    run.answers[i].insert(run.answers[i].end(), delta.tokens.begin(), delta.tokens.end());
  };
  if (keep_running(**engine, count, together, [&](std::size_t i) { return from.request(i); }, hear))
    run.stats = (*engine)->stats();
  return run;
}

inline EngineStats expect_goldens(GoldenRequests& from, const EngineSettings& settings,
                                  std::size_t together, std::size_t rounds = 1,
                                  const Clock& clock = SteadyClock()) {
  GoldenRun run = run_goldens(from, settings, together, rounds, clock);
  for (std::size_t i = 0; i < run.answers.size(); ++i)
    EXPECT_EQ(run.answers[i], from.golden(i).greedy) << from.name(i);
  return run.stats;
}

}  // namespace saccade::test

// The goldens through the engine: whatever the chunk budget, batch, policy and caches, and with
// forced preemption, every request gets the tokens that transformers gives.
#include <set>

#include "base/log.h"
#include "engine/local_engine.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using testing::golden_folder;

const std::vector<std::string> kCases = {"text", "one_image", "three_images", "multi_turn"};

// A checkpoint's goldens as requests.
class GoldenRequests {
 public:
  explicit GoldenRequests(const std::string& checkpoint)
      : directory_(golden_folder("qwen2_vl/" + checkpoint)) {
    log::set_level(log::Level::kError);
    backend_ = *make_cpu_backend(2);
    model_ = testing::load(directory_, *backend_);
    tokenizer_ = *load_tokenizer(directory_);
    for (const std::string& name : kCases) {
      goldens_.push_back(*read_golden(directory_ + "/golden/" + name + ".safetensors"));
    }
  }

  Backend& backend() { return *backend_; }
  Model& model() { return *model_; }
  const Golden& golden(std::size_t which) const { return goldens_[which % goldens_.size()]; }
  std::size_t count() const { return goldens_.size(); }

  Request request(std::size_t which) {
    const Golden& from = golden(which);
    Request request;
    auto images = prepare_golden_images(*model_, from);
    EXPECT_TRUE(images) << images.error().message;
    std::vector<ImageLayout> layouts;
    for (std::size_t i = 0; i < images->size(); ++i) {
      layouts.push_back((*images)[i].layout);
      RequestImage& image = request.images.emplace_back();
      image.content = sha256(from.images[i].source);
      image.prepared = std::make_shared<const PreparedImage>(std::move((*images)[i]));
    }
    auto prompt = model_->build_prompt(*tokenizer_, from.rendered, layouts, false);
    EXPECT_TRUE(prompt) << prompt.error().message;
    request.prompt = *std::move(prompt);
    for (const ImageSpan& span : request.prompt.images) {
      request.images[static_cast<std::size_t>(span.index)].span = span;
    }
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = static_cast<std::int64_t>(from.greedy.size());
    return request;
  }

 private:
  std::string directory_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<Golden> goldens_;
};

EngineSettings settings_of(std::int64_t chunk) {
  EngineSettings settings;
  settings.max_batched_tokens = chunk;
  settings.max_sequences = std::min<std::int64_t>(chunk, 8);
  settings.block_size = 16;
  settings.kv_cache_bytes = std::size_t{16} << 20;
  settings.encoder_cache_bytes = std::size_t{1} << 20;
  return settings;
}

// `rounds` times all goldens, `together` at a time.
EngineStats expect_goldens(GoldenRequests& from, const EngineSettings& settings,
                           std::size_t together, std::size_t rounds = 1) {
  const SteadyClock clock;
  auto engine = Engine::create(settings, from.model(), from.backend(), clock);
  EXPECT_TRUE(engine) << engine.error().message;
  if (!engine) return {};
  const std::size_t count = rounds * from.count();
  std::vector<std::vector<TokenId>> answers(count);
  std::size_t unfinished = 0;
  for (std::size_t next = 0; next < count || unfinished > 0;) {
    while (next < count && unfinished < together) {
      auto id = (*engine)->submit(
          from.request(next),
          [&, next](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
            answers[next].insert(answers[next].end(), delta.tokens.begin(), delta.tokens.end());
            if (delta.finish != FinishReason::kNone) --unfinished;
          });
      EXPECT_TRUE(id) << id.error().message;
      if (!id) return {};
      ++unfinished;
      ++next;
    }
    if (!(*engine)->step()) break;
  }
  EXPECT_EQ(unfinished, 0u);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(answers[i], from.golden(i).greedy) << kCases[i % kCases.size()];
  }
  const auto& local = static_cast<const LocalEngine&>(**engine);
  EXPECT_EQ(local.parts().kv->usage(), 0);
  return (*engine)->stats();
}

class EngineGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineGolden, AnyChunkBatchAndEncoderCache) {
  GoldenRequests from(GetParam());
  for (const std::int64_t chunk : {16, 64, 1000}) {
    for (const char* cache : {"off", "store", "overlay"}) {
      for (const std::size_t together : {1, 8}) {
        SCOPED_TRACE(std::string(cache) + " chunk " + std::to_string(chunk) + " batch " +
                     std::to_string(together));
        EngineSettings settings = settings_of(chunk);
        settings.encoder_cache = cache;
        expect_goldens(from, settings, together, together == 1 ? 1 : 2);
      }
    }
  }
}

TEST_P(EngineGolden, AnyPolicyAndPrefixCache) {
  GoldenRequests from(GetParam());
  for (const char* policy : {"jenga", "maxpage", "static", "paged"}) {
    for (const bool prefix_caching : {false, true}) {
      SCOPED_TRACE(std::string(policy) + (prefix_caching ? " caching" : ""));
      EngineSettings settings = settings_of(64);
      settings.kv_policy = policy;
      settings.prefix_caching = prefix_caching;
      const EngineStats stats = expect_goldens(from, settings, 4, 2);
      EXPECT_EQ(stats.prefix_cache_hits > 0, prefix_caching);
    }
  }
}

TEST_P(EngineGolden, PreemptedAnswersAreTheSame) {
  GoldenRequests from(GetParam());
  for (const char* policy : {"jenga", "paged"}) {
    for (const char* cache : {"off", "store", "overlay"}) {
      SCOPED_TRACE(std::string(policy) + " " + cache);
      EngineSettings settings = settings_of(100);
      settings.kv_policy = policy;
      settings.encoder_cache = cache;
      settings.prefix_caching = false;
      // Room for the longest golden alone, and little more.
      std::size_t longest_golden = 0;
      for (std::size_t i = 0; i < from.count(); ++i) {
        longest_golden =
            std::max(longest_golden, from.golden(i).ids.size() + from.golden(i).greedy.size());
      }
      const auto longest = static_cast<std::int64_t>(longest_golden) + 1;
      settings.max_model_len = longest;
      const LayerShape& layer = from.model().shape().layers.front();
      settings.kv_cache_bytes =
          static_cast<std::size_t>((longest + 64) * 2 * layer.kv_heads * layer.head_dim * 4 *
                                   static_cast<std::int64_t>(from.model().shape().layers.size()));
      const EngineStats stats = expect_goldens(from, settings, 8, 2);
      EXPECT_GT(stats.num_preemptions, 0u);
      EXPECT_GT(stats.prompt_tokens_recomputed, 0u);
    }
  }
}

// What the modes promise about encoder runs.
TEST_P(EngineGolden, ImagesAreEncodedAsOftenAsTheModeSays) {
  GoldenRequests from(GetParam());
  const auto images_encoded = [&](const char* cache, bool prefix_caching, std::size_t rounds) {
    EngineSettings settings = settings_of(16);
    settings.max_sequences = 1;
    settings.encoder_cache = cache;
    settings.prefix_caching = prefix_caching;
    return expect_goldens(from, settings, 1, rounds).images_encoded;
  };
  std::set<std::string> distinct;
  std::uint64_t asked = 0;
  std::uint64_t chunks = 0;  // of 16 tokens that touch an image
  for (std::size_t i = 0; i < from.count(); ++i) {
    for (const GoldenImage& image : from.golden(i).images) distinct.insert(image.source);
    const Request request = from.request(i);
    asked += request.images.size();
    for (const ImageSpan& span : request.prompt.images) {
      chunks +=
          static_cast<std::uint64_t>((span.begin + span.tokens - 1) / 16 - span.begin / 16 + 1);
    }
  }
  EXPECT_EQ(images_encoded("store", false, 1), distinct.size());
  EXPECT_EQ(images_encoded("store", false, 2), distinct.size());
  EXPECT_EQ(images_encoded("overlay", false, 1), asked);
  EXPECT_EQ(images_encoded("overlay", false, 2), 2 * asked);
  EXPECT_EQ(images_encoded("overlay", true, 2), asked);  // the second time a prefix hit covers all
  // Chunks end where the next image is not there yet, so no chunk has more than one new image.
  EXPECT_GE(images_encoded("off", false, 1), chunks);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineGolden, ::testing::Values("odd_heads", "mixed_window"),
                         [](const auto& checkpoint) { return std::string(checkpoint.param); });

}  // namespace
}  // namespace saccade

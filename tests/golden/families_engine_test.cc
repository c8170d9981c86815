// Every family's goldens through the engine: chunk budgets, batches and preemption give equal
// tokens. (engine_test.cc tries every policy and cache on one family.)
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using testing::expect_goldens;
using testing::GoldenRequests;
using testing::settings_of;

class FamiliesEngine : public ::testing::TestWithParam<const char*> {};

std::int64_t longest_of(const GoldenRequests& from) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < from.count(); ++i)
    longest = std::max(longest, from.golden(i).ids.size() + from.golden(i).greedy.size());
  return static_cast<std::int64_t>(longest) + 1;
}

// A prefix that attends both ways takes one step: the smallest budget is what holds the longest.
EngineSettings settings_for(GoldenRequests& from, std::int64_t chunk) {
  EngineSettings settings = settings_of(chunk);
  for (std::size_t i = 0; i < from.count(); ++i)
    settings.max_batched_tokens =
        std::max(settings.max_batched_tokens,
                 from.request(i).prompt.bidirectional_prefix + settings.max_sequences - 1);
  return settings;
}

TEST_P(FamiliesEngine, AnyChunkAndBatch) {
  GoldenRequests from(GetParam());
  for (const std::int64_t chunk : {16, 64, 1000}) {
    for (const std::size_t together : {1, 8}) {
      SCOPED_TRACE("chunk " + std::to_string(chunk) + " batch " + std::to_string(together));
      expect_goldens(from, settings_for(from, chunk), together, together == 1 ? 1 : 2);
    }
  }
}

// An embedding row lies in the place of its token's keys and values in the full layers.
bool overlay_fits(const ModelShape& shape) {
  std::int64_t values = 0;
  for (const LayerShape& layer : shape.layers)
    if (layer.kind == LayerKind::kFull) values += 2 * layer.kv_heads * layer.head_dim;
  return values >= shape.embedding_width();
}

TEST_P(FamiliesEngine, PreemptedAnswersAreTheSame) {
  GoldenRequests from(GetParam());
  for (const std::string cache : {"off", "store", "overlay"}) {
    SCOPED_TRACE(cache);
    if (cache == "overlay" && !overlay_fits(from.model().shape())) continue;
    EngineSettings settings = settings_for(from, 100);
    settings.encoder_cache = cache;
    settings.prefix_caching = false;
    settings.max_model_len = longest_of(from);
    std::int64_t token_bytes = 0;
    for (const LayerShape& layer : from.model().shape().layers)
      token_bytes += 2 * layer.kv_heads * layer.head_dim * 4;
    // Room for the longest golden alone, and little more.
    settings.kv_cache_bytes = static_cast<std::size_t>((settings.max_model_len + 64) * token_bytes);
    const EngineStats stats = expect_goldens(from, settings, 8, 2);
    // Without a cache a prompt waits for its images before every chunk, and may leave the others
    // room.
    if (cache != "off") {
      EXPECT_GT(stats.num_preemptions, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, FamiliesEngine,
    ::testing::Values("qwen2_5_vl/odd_heads", "qwen2_5_vl/wide_window", "llava_onevision/newlines",
                      "llava_onevision/scaled", "internvl2/internlm2", "internvl2/big_tower",
                      "internvl2/current", "paligemma/first", "paligemma/second", "phi_3_vision/su",
                      "phi_3_vision/longrope", "smolvlm2/thirds", "smolvlm2/halves",
                      "qwen3_vl/odd_heads", "qwen3_vl/wide_rows"),
    [](const auto& checkpoint) {
      std::string name = checkpoint.param;
      std::ranges::replace(name, '/', '_');
      return name;
    });

}  // namespace
}  // namespace saccade

// The allocator under every policy, with mixed layer kinds, against what its pages would hold.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/property/kv_world.h"
#include "tests/support/choices.h"

namespace saccade {
namespace {

// SACCADE_SOAK_STEPS lengthens the random walks: 1000000 before a release.
std::int64_t soak_steps(std::int64_t usual) {
  const char* text = std::getenv("SACCADE_SOAK_STEPS");
  return text == nullptr ? usual : std::strtoll(text, nullptr, 10);
}

LayerSpec full(std::int64_t heads = 1) { return {CacheKind::kFull, 0, heads, 2, 0, 2, 0}; }
LayerSpec window(std::int64_t tokens) { return {CacheKind::kSlidingWindow, tokens, 1, 2, 0, 2, 0}; }
LayerSpec cross() { return {CacheKind::kCrossAttention, 0, 1, 2, 0, 2, 0}; }
LayerSpec state(std::int64_t bytes) { return {CacheKind::kState, 0, 0, 0, 0, 2, bytes}; }
LayerSpec vision() { return {CacheKind::kVisionEmbedding, 0, 0, 0, 6, 2, 0}; }

struct Mix {
  const char* name;
  std::vector<LayerSpec> layers;
};

std::vector<Mix> mixes() {
  return {{"full", {full(), full()}},
          {"window", {window(5), window(5)}},
          {"full_window", {full(), window(5), window(5)}},
          {"two_windows", {full(), window(3), window(9), window(9)}},
          {"wide_full_window", {full(3), window(6), window(6)}},
          {"full_state", {full(), state(48), state(48)}},
          {"full_state_odd", {full(), full(), state(56)}},
          {"full_window_state", {full(), window(6), window(6), state(72)}},
          {"full_cross", {full(), full(), full(), cross()}},
          {"full_vision", {full(), full(), vision()}}};
}

Digest identity_of(std::int64_t image) {
  Digest digest{};
  digest[0] = static_cast<std::uint8_t>(image);
  return digest;
}

bool has(const std::vector<LayerSpec>& layers, CacheKind kind) {
  for (const LayerSpec& layer : layers) {
    if (layer.kind == kind) return true;
  }
  return false;
}

// Few tokens, few images, few salts: contents share prefixes often.
KvScript make_script(Choices& choices, const std::vector<LayerSpec>& layers, bool prefix_caching) {
  KvScript script;
  const std::int64_t length = choices.between(1, 40);
  const std::int64_t family = choices.pick(3);
  const std::int64_t fork = choices.pick(40);
  for (std::int64_t t = 0; t < length; ++t) {
    script.tokens.push_back(static_cast<std::int32_t>(t < fork ? family : choices.pick(2) + 10));
  }
  script.prompt_tokens = choices.between(1, length);
  if (choices.coin()) {
    std::int64_t begin = choices.pick(8);
    while (begin + 2 <= script.prompt_tokens && choices.pick(3) > 0) {
      const std::int64_t tokens = std::min(script.prompt_tokens - begin, choices.between(1, 10));
      const std::int64_t first_row = choices.pick(4) == 0 ? 3 : 0;
      script.images.push_back({begin, tokens, first_row, identity_of(choices.pick(2))});
      for (std::int64_t t = begin; t < begin + tokens; ++t) {
        script.tokens[static_cast<std::size_t>(t)] = 99;
      }
      begin += tokens + choices.pick(3);
    }
  }
  if (has(layers, CacheKind::kCrossAttention) && choices.coin()) {
    script.encoder_images.push_back({0, choices.between(1, 9), 0, identity_of(choices.pick(2))});
  }
  // Or each image of the text has its rows there, from a block's beginning or right after the last.
  if (has(layers, CacheKind::kCrossAttention) && !script.images.empty() && choices.coin()) {
    script.encoder_images.clear();
    script.written_with_tokens = true;
    std::int64_t begin = 0;
    for (const PrefixImage& image : script.images) {
      const std::int64_t rows = choices.between(1, 9);
      script.encoder_images.push_back({begin, rows, 0, image.identity});
      begin += choices.coin() ? rows : (rows + 3) / 4 * 4;
    }
  }
  if (choices.pick(4) == 0) script.salt = "tenant";
  if (prefix_caching && choices.pick(6) == 0) {
    script.bidirectional_prefix = choices.between(1, script.prompt_tokens);
  }
  return script;
}

void step(KvWorld& world, Choices& choices, const std::vector<LayerSpec>& layers,
          const KvSettings& settings) {
  auto& running = world.running();
  const auto some = [&] {
    return static_cast<std::size_t>(choices.pick(static_cast<std::int64_t>(running.size())));
  };
  const std::int64_t action = choices.pick(12);
  if (running.empty() || action < 3) {
    world.start(make_script(choices, layers, settings.prefix_caching), 8);
  } else if (action < 10) {
    const std::size_t which = some();
    const std::int64_t reserve = choices.pick(5) == 0 ? 30 : 0;
    const KvWorld::Sequence& of = *running[which];
    const bool decodes = of.kv->computed() >= of.script.prompt_tokens;
    const bool guesses = decodes && !has(layers, CacheKind::kState) && choices.coin();
    const bool fits = guesses ? world.guess(*running[which], choices.pick(9), choices.pick(9))
                              : world.advance(*running[which], choices.between(1, 8), reserve);
    const auto& sequence = *running[which];
    const bool done =
        sequence.kv->computed() == static_cast<std::int64_t>(sequence.script.tokens.size());
    // No room: the last one gives way, as the scheduler has it.
    if (!fits) world.finish(running.size() - 1);
    if (fits && done) world.finish(which);
  } else if (action == 10) {
    world.finish(some());
  } else if (choices.pick(20) == 0) {
    world.allocator().reset_prefix_cache();
  }
}

class KvAllocatorProperty : public testing::TestWithParam<std::tuple<std::size_t, KvPolicy, bool>> {
};

TEST_P(KvAllocatorProperty, RandomWalk) {
  const auto [mix, policy, prefix_caching] = GetParam();
  const std::vector<LayerSpec> layers = mixes()[mix].layers;
  const std::int64_t steps = soak_steps(4000) / 4;
  for (const std::int64_t pool : {700, 1500, 6000, 20000}) {
    KvSettings settings;
    settings.plan = {policy, 4, 8, 6, 12, 256};
    settings.pool_bytes = pool;
    settings.prefix_caching = prefix_caching;
    if (!KvAllocator::create(layers, settings)) continue;
    Choices choices = Choices::random(static_cast<std::uint64_t>(pool) + 17 * mix);
    KvWorld world(layers, settings);
    for (std::int64_t i = 0; i < steps; ++i) {
      step(world, choices, layers, settings);
      if (i % 16 == 0 || steps <= 1000) world.check();
      if (testing::Test::HasFailure()) FAIL() << "step " << i << ", pool " << pool;
    }
    while (!world.running().empty()) world.finish(0);
    world.expect_all_free();
  }
}

std::string walk_name(const testing::TestParamInfo<std::tuple<std::size_t, KvPolicy, bool>>& info) {
  const auto& [mix, policy, prefix_caching] = info.param;
  return std::string(mixes()[mix].name) + "_" + std::string(name_of(policy)) +
         (prefix_caching ? "_caching" : "_plain");
}

INSTANTIATE_TEST_SUITE_P(Mixes, KvAllocatorProperty,
                         testing::Combine(testing::Range(std::size_t{0}, mixes().size()),
                                          testing::Values(KvPolicy::kJenga, KvPolicy::kMaxPage,
                                                          KvPolicy::kStatic, KvPolicy::kPaged),
                                          testing::Bool()),
                         walk_name);

// Of two that compute the same at once, the slow one has its second image's rows still to write
// when the quick one's text goes past them: who comes then finds the quick one's.
TEST(KvAllocatorAcross, RowsThatAreNotWrittenAreNotFound) {
  KvSettings settings;
  settings.plan.policy = KvPolicy::kJenga;
  settings.plan.block_tokens = 4;
  settings.pool_bytes = 1 << 20;
  KvWorld world({full(), cross()}, settings);
  KvScript script;
  script.tokens = {1, 99, 1, 1, 1, 1, 99, 1, 1, 1, 1, 1, 1};
  script.images = {{1, 1, 0, identity_of(1)}, {6, 1, 0, identity_of(2)}};
  script.encoder_images = {{0, 8, 0, identity_of(1)}, {8, 8, 0, identity_of(2)}};
  script.written_with_tokens = true;
  script.prompt_tokens = std::ssize(script.tokens);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(world.start(script, 16), Admission::kNow);
  ASSERT_TRUE(world.advance(*world.running()[0], 4));
  ASSERT_TRUE(world.advance(*world.running()[1], 13));
  ASSERT_EQ(world.start(script, 16), Admission::kNow);
  EXPECT_EQ(world.running()[2]->hit, 12);
  for (int i : {0, 2})
    ASSERT_TRUE(world.advance(*world.running()[static_cast<std::size_t>(i)], 13));
  world.check();
  while (!world.running().empty()) world.finish(0);
  world.expect_all_free();
}

// Whatever order three short sequences come, grow and go in, on a pool too small for all of them.
void every_order(const std::vector<LayerSpec>& layers, KvPolicy policy, std::int64_t pool) {
  KvSettings settings;
  settings.plan = {policy, 2, 4, 2, 4, 256};
  settings.pool_bytes = pool;
  settings.watermark = 0;
  Choices choices = Choices::exhaustive();
  std::int64_t runs = 0;
  while (choices.next()) {
    ++runs;
    KvWorld world(layers, settings);
    int started = 0;
    for (int turn = 0; turn < 8; ++turn) {
      const auto running = static_cast<std::int64_t>(world.running().size());
      const std::int64_t may_start = started < 3 ? 2 : 0;
      if (running + may_start == 0) break;
      const std::int64_t action = choices.pick(may_start + 2 * running);
      if (action < may_start) {
        KvScript script;
        script.tokens = action == 0 ? std::vector<std::int32_t>{1, 1, 1, 1, 2}
                                    : std::vector<std::int32_t>{1, 1, 1, 3, 3};
        if (action == 1) script.images = {{2, 1, 0, identity_of(1)}};
        script.prompt_tokens = 4;
        world.start(std::move(script), 3);
        ++started;
      } else if (action < may_start + running) {
        world.advance(*world.running()[static_cast<std::size_t>(action - may_start)], 3);
      } else {
        world.finish(static_cast<std::size_t>(action - may_start - running));
      }
      world.check();
    }
    while (!world.running().empty()) world.finish(0);
    world.expect_all_free();
    if (testing::Test::HasFailure()) FAIL() << "run " << runs;
  }
  EXPECT_GT(runs, 1000);
}

TEST(KvAllocatorExhaustive, FullAndWindow) {
  every_order({full(), window(3), window(3)}, KvPolicy::kJenga, 6 * 16);
}

TEST(KvAllocatorExhaustive, DifferentPages) {
  every_order({full(2), window(3)}, KvPolicy::kJenga, 4 * 32);
}

TEST(KvAllocatorExhaustive, FullAndState) {
  every_order({full(), state(24)}, KvPolicy::kJenga, 3 * 48);
}

TEST(KvAllocatorExhaustive, Static) {
  every_order({full(), window(3), window(3)}, KvPolicy::kStatic, 10 * 16);
}

}  // namespace
}  // namespace saccade

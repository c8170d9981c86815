// Same tokens whatever the engine does: chunks, batches, preemption, caches, cancellations. Each
// scenario runs at random and is compared with every request's answer when it runs alone.
#include "tests/property/engine_world.h"

namespace saccade {
namespace {

TEST(EngineProperty, FullAttention) { scenarios({}, 60); }

TEST(EngineProperty, MixedWindows) {
  FakeModelOptions options;
  options.layers = {window(9), full(), window(9), window(9)};
  scenarios(options, 60);
}

TEST(EngineProperty, DifferentPages) {
  FakeModelOptions options;
  options.layers = {{LayerKind::kFull, 0, 3, 8}, window(6), {LayerKind::kSlidingWindow, 14, 2, 8}};
  scenarios(options, 60);
}

TEST(EngineProperty, BidirectionalPrefixes) {
  FakeModelOptions options;
  options.layers = {full(), full(), window(12)};
  scenarios(options, 60, Sight::kPrefix);
}

TEST(EngineProperty, ImagesSeenWhole) {
  FakeModelOptions options;
  options.layers = {window(12), full(), window(12)};
  scenarios(options, 60, Sight::kImages);
}

// Images in a group of their own, whose keys are written with their tokens and found again by
// content.
TEST(EngineProperty, ImagesAttendedAcross) {
  FakeModelOptions options;
  options.layers = {full(), across(), full(), across()};
  scenarios(options, 60, Sight::kAcross);
}

TEST(EngineProperty, ImagesAttendedAcrossInPagesOfAnotherSize) {
  FakeModelOptions options;
  options.layers = {full(), {LayerKind::kCrossAttention, 0, 3, 8}, window(7)};
  scenarios(options, 60, Sight::kAcross);
}

// States are one page of a size of their own, and go on from what is kept of another sequence.
TEST(EngineProperty, States) {
  FakeModelOptions options;
  options.layers = {state(24), full(), state(24), state(24)};
  scenarios(options, 60);
}

TEST(EngineProperty, StatesBesideWindowsInPagesOfAnotherSize) {
  FakeModelOptions options;
  options.layers = {full(), state(300), window(7), state(11), full()};
  scenarios(options, 60);
}

// What guessed tokens write into a state cannot be taken back.
TEST(EngineProperty, StatesRefuseSpeculation) {
  EngineSettings settings = roomy();
  settings.speculation.max_tokens = 2;
  FakeModelOptions options;
  options.layers = {full(), state(24)};
  FakeModel model(options);
  VirtualClock clock;
  const auto device = engine_device("reference");
  const auto engine = Engine::create(settings, model, *device, clock);
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().message.find("keeps a state"), std::string::npos)
      << engine.error().message;
}

// Between clients: who comes gets its share of the places in the next step, whoever holds them,
// and nobody's answer changes by it.
TEST(EngineProperty, AClientThatComesGetsItsShareAtOnce) {
  log::set_level(log::Level::kError);
  for (const bool fair : {true, false}) {
    EngineSettings settings = roomy();
    settings.max_sequences = 8;
    settings.fairness = fair ? Fairness::kClient : Fairness::kNone;
    const FakeModelOptions options;
    Bench bench(settings, options);
    ASSERT_TRUE(bench.good());
    Script greedy{{10, 11, 12, 10}, {}, {}, {}};
    greedy.sampling.temperature = 0;
    greedy.sampling.ignore_eos = true;
    greedy.sampling.max_tokens = 40;
    greedy.client = 1;
    Script chat = greedy;
    chat.ids = {12, 11, 10};
    chat.sampling.max_tokens = 4;
    chat.client = 2;
    for (int i = 0; i < 24; ++i) bench.submit(greedy);
    for (int i = 0; i < 10; ++i) bench.step();
    std::vector<RequestId> chats;
    for (int i = 0; i < 6; ++i) {
      if (fair) chats.push_back(bench.submit(chat));
    }
    if (!fair) {
      EXPECT_EQ(bench.engine().scheduler().queue().active(), 1);
      continue;
    }
    bench.step();
    EXPECT_EQ(bench.engine().scheduler().queue().running_of(2), 4);
    EXPECT_EQ(bench.engine().scheduler().queue().running_of(1), 4);
    const auto chats_left = [&] {
      return std::ranges::count_if(chats, [&](RequestId id) {
        return bench.requests().at(id).finish == FinishReason::kNone;
      });
    };
    int steps = 0;
    while (chats_left() > 0 && steps < 100) {
      bench.step();
      ++steps;
    }
    EXPECT_LE(steps, 12);  // two turns of four tokens
    EXPECT_EQ(bench.unfinished(), 24);
    bench.run_out();
    const auto expected_greedy = alone(greedy, options).tokens;
    const auto expected_chat = alone(chat, options).tokens;
    for (const auto& [id, got] : bench.requests())
      ASSERT_EQ(got.tokens, got.script.client == 1 ? expected_greedy : expected_chat) << id;
  }
}

// The same where places are plenty and pages are scarce: who holds them all has to give way too.
TEST(EngineProperty, AClientThatComesGetsPagesToo) {
  log::set_level(log::Level::kError);
  EngineSettings settings = roomy();
  settings.max_sequences = 64;
  settings.max_model_len = 120;
  const FakeModelOptions options;
  Script greedy{{10, 11, 12, 10}, {}, {}, {}};
  greedy.sampling.temperature = 0;
  greedy.sampling.ignore_eos = true;
  greedy.sampling.max_tokens = 100;
  greedy.client = 1;
  Script chat = greedy;
  for (int i = 0; i < 20; ++i) chat.ids.push_back(12 + i % 3);
  chat.sampling.max_tokens = 8;
  chat.client = 2;
  const auto steps_for_chats = [&](std::size_t kv_cache_bytes) {
    settings.kv_cache_bytes = kv_cache_bytes;
    Bench bench(settings, options);
    EXPECT_TRUE(bench.good());
    for (int i = 0; i < 40; ++i) bench.submit(greedy);
    for (int i = 0; i < 20; ++i) bench.step();
    std::vector<RequestId> chats;
    for (int i = 0; i < 12; ++i) chats.push_back(bench.submit(chat));
    int steps = 0;
    const auto left = [&] {
      return std::ranges::any_of(chats, [&](RequestId id) {
        return bench.requests().at(id).finish == FinishReason::kNone;
      });
    };
    for (; left() && steps < 3000; ++steps) bench.step();
    return steps;
  };
  const int with_room = steps_for_chats(std::size_t{4} << 20);
  for (const std::size_t scarce : {std::size_t{128} << 10, std::size_t{64} << 10})
    EXPECT_LE(steps_for_chats(scarce), 5 * with_room) << scarce;
}

}  // namespace
}  // namespace saccade

// Layers that keep a state, on the CUDA device: whole models in the engine give transformers'
// tokens whatever it cuts, batches, keeps, lets go and begins anew, with two steps in flight. (What
// tests/golden/states_engine_test.cc does on the CPU, with less of each; decode as graphs is in
// graphs_test.cc.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cuda/device_under_test.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

// The goldens' prompts, and the first tokens of their answers: on the emulator a token takes long.
class StatesOnCuda : public ::testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 12;

  void SetUp() override {
    if (const auto device = cuda::make_device_under_test(DType::kF32); !device)
      GTEST_SKIP() << device.error().message;
  }
  static std::unique_ptr<test::GoldenRequests> open(const char* checkpoint,
                                                    const std::vector<std::string>& cases,
                                                    const LoadOptions& options = {
                                                        .compute = DType::kF32, .kv = {}}) {
    auto device = cuda::make_device_under_test(DType::kF32, 7);
    CHECK(device.has_value(), "{}", device.error().message);
    return std::make_unique<test::GoldenRequests>(checkpoint, cases, *std::move(device), options);
  }

  struct Run {
    std::vector<std::vector<TokenId>> answers;
    EngineStats stats;
  };
  // `count` requests at once, the golden prompts in turn, each of a few tokens more than the one
  // before; and again when all are done, in `rounds`.
  static Run run(test::GoldenRequests& from, const EngineSettings& settings, std::size_t count,
                 std::size_t rounds = 1, std::int64_t tokens = kTokens) {
    Run run{std::vector<std::vector<TokenId>>(count * rounds), {}};
    const SteadyClock clock;
    auto engine = Engine::create(settings, from.network(), from.device(), clock);
    EXPECT_TRUE(engine) << engine.error().message;
    if (!engine) return run;
    for (std::size_t round = 0; round < rounds; ++round) {
      std::size_t unfinished = 0;
      for (std::size_t i = 0; i < count; ++i) {
        Request request = from.request(i % from.count());
        request.sampling.max_tokens = tokens + static_cast<std::int64_t>(i);
        const auto id = (*engine)->submit(std::move(request), [&, at = round * count + i](
                                                                  RequestId, Delta&& delta,
                                                                  const RequestUsage&,
                                                                  const RequestTimes&) {
          run.answers[at].insert(run.answers[at].end(), delta.tokens.begin(), delta.tokens.end());
          if (delta.finish != FinishReason::kNone) --unfinished;
        });
        EXPECT_TRUE(id) << id.error().message;
        if (id) ++unfinished;
      }
      while (unfinished > 0 && (*engine)->step()) {
      }
      EXPECT_EQ(unfinished, 0u);
    }
    run.stats = (*engine)->stats();
    return run;
  }
  static void expect_goldens(const test::GoldenRequests& from, const Run& run, std::size_t count,
                             std::int64_t tokens = kTokens) {
    for (std::size_t i = 0; i < run.answers.size(); ++i) {
      const auto& golden = from.golden(i % count).greedy;
      const std::vector<TokenId> want(
          golden.begin(), golden.begin() + tokens + static_cast<std::ptrdiff_t>(i % count));
      EXPECT_EQ(run.answers[i], want) << from.name(i % count) << ", answer " << i;
    }
  }
};

TEST_F(StatesOnCuda, AnyChunkAndBatch) {
  const auto from = open("qwen3_5/odd_heads", {"text"});
  for (const auto& [chunk, together] : {std::pair{7, 4}, std::pair{64, 1}}) {
    SCOPED_TRACE(fmt::format("chunk {}, {} together", chunk, together));
    EngineSettings settings = test::settings_of(chunk);
    settings.steps_in_flight = together == 1 ? 1 : 2;
    const auto count = static_cast<std::size_t>(together);
    expect_goldens(*from, run(*from, settings, count), count);
  }
}

// Behind images, too: of Qwen3.5's tower and of MiniCPM-V's.
TEST_F(StatesOnCuda, BehindImages) {
  for (const char* const checkpoint : {"qwen3_5_vl/odd_heads", "minicpmv/fine"}) {
    SCOPED_TRACE(checkpoint);
    const auto from = open(checkpoint, {"one_image"});
    EngineSettings settings = test::settings_of(64);
    settings.steps_in_flight = 2;
    expect_goldens(*from, run(*from, settings, 2), 2);
  }
}

// A second round goes on from states that were kept, which are copied before they are written on.
TEST_F(StatesOnCuda, LaterRoundsGoOnFromKeptStates) {
  for (const char* const checkpoint : {"qwen3_5/stretched", "qwen3_5_vl/odd_heads"}) {
    SCOPED_TRACE(checkpoint);
    const auto from = open(checkpoint, {"text"});
    EngineSettings settings = test::settings_of(64);
    settings.state_interval = 16;
    settings.steps_in_flight = 2;
    settings.max_sequences = 1;
    const Run once = run(*from, settings, 1);
    const Run twice = run(*from, settings, 1, 2);
    expect_goldens(*from, once, 1);
    expect_goldens(*from, twice, 1);
    const auto prompt = static_cast<std::uint64_t>(from->golden(0).ids.size());
    EXPECT_EQ(twice.stats.prefix_cache_hits - once.stats.prefix_cache_hits, (prompt - 1) / 16 * 16);
    EXPECT_GE(prompt, 17u);
  }
}

// Whoever loses its page begins anew, or at a state that was kept.
TEST_F(StatesOnCuda, AnswersAreTheSameAfterPreemption) {
  const auto from = open("qwen3_5/stretched", {"text"});
  for (const bool prefixes : {false, true}) {
    SCOPED_TRACE(prefixes ? "states are kept" : "no state is kept");
    EngineSettings settings = test::settings_of(100);
    settings.prefix_caching = prefixes;
    settings.block_size = 4;
    settings.state_interval = 48;
    settings.steps_in_flight = 2;
    settings.max_model_len =
        static_cast<std::int64_t>(from->golden(0).ids.size() + from->golden(0).greedy.size()) + 1;
    // The smallest cache, to a sixteenth, that holds one of them, and more from there on.
    const SteadyClock clock;
    for (settings.kv_cache_bytes = std::size_t{16} << 10;
         !Engine::create(settings, from->network(), from->device(), clock);
         settings.kv_cache_bytes += settings.kv_cache_bytes / 16) {
    }
    const std::size_t least = settings.kv_cache_bytes;
    std::uint64_t preempted = 0;
    for (const std::size_t eighths : {2, 5, 8, 12, 16, 24}) {
      if (preempted > 0) break;
      settings.kv_cache_bytes = least + least * eighths / 8;
      const Run pressed = run(*from, settings, 4, 1, 40);
      expect_goldens(*from, pressed, 4, 40);
      preempted += pressed.stats.num_preemptions;
    }
    EXPECT_GT(preempted, 0u);
  }
}

// As Int8Golden.StatesOfBytesAreNearTheNumbers of tests/golden/int8_test.cc, and within its bound:
// all rows of a layer together, against the same device's numbers.
TEST_F(StatesOnCuda, InBytesLayersAreNearTheNumbers) {
  LoadOptions bytes{.compute = DType::kF32, .kv = {}};
  bytes.text_layers = DType::kI8;
  const auto layers_of = [](const LoadOptions& options) {
    const auto device = *cuda::make_device_under_test(DType::kF32, 3);
    const std::string folder = test::golden_folder("qwen3_5/odd_heads");
    const auto model = test::load(folder, *device, options);
    const auto golden = read_golden(folder + "/golden/text.safetensors");
    std::vector<std::vector<float>> layers;
    Buffer staging;
    const Tap tap = [&](std::string_view name, View value) {
      if (!name.starts_with("text.layer.")) return;
      const View rows = *readable(device->lane(Lane::kStep), value, staging);
      std::vector<float>& into = layers.emplace_back();
      for (std::int64_t row = 0; row < rows.rows(); ++row)
        into.insert(into.end(), rows.row<float>(row), rows.row<float>(row) + rows.cols());
    };
    auto run = SoloRun::create(*model->network, *device,
                               *model->processor->wrap_tokens(golden->ids), {}, 1);
    EXPECT_TRUE(run) << run.error().message;
    if (run) (*run)->prefill(0, 1, tap);
    return layers;
  };
  const auto numbers = layers_of({.compute = DType::kF32, .kv = {}});
  const auto rounded = layers_of(bytes);
  ASSERT_EQ(numbers.size(), 5u);
  ASSERT_EQ(rounded.size(), numbers.size());
  for (std::size_t layer = 0; layer < numbers.size(); ++layer) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < numbers[layer].size(); ++i) {
      difference += std::pow(double{rounded[layer][i]} - double{numbers[layer][i]}, 2);
      size += std::pow(double{numbers[layer][i]}, 2);
    }
    EXPECT_LT(std::sqrt(difference / size), 0.06 * static_cast<double>(layer + 1)) << layer;
    EXPECT_GT(std::sqrt(difference / size), 1e-3) << layer;
  }
}

// In bytes a row's numbers are its own, too.
TEST_F(StatesOnCuda, InBytesAnyChunkAndBatch) {
  LoadOptions bytes{.compute = DType::kF32, .kv = {}};
  bytes.text_layers = DType::kI8;
  const auto from = open("qwen3_5/odd_heads", {"text"}, bytes);
  const Run alone = run(*from, test::settings_of(1000), 1);
  EngineSettings settings = test::settings_of(7);
  settings.steps_in_flight = 2;
  settings.state_interval = 48;
  const Run together = run(*from, settings, 3);
  for (const std::vector<TokenId>& answer : together.answers)
    EXPECT_TRUE(
        std::ranges::equal(alone.answers[0], std::span(answer).first(alone.answers[0].size())));
}

}  // namespace
}  // namespace saccade

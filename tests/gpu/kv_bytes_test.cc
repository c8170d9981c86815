// Keys and values in bytes (--kv-cache-dtype int8, fp8) on the CUDA device: in f32 the tokens are
// those that the CPU says with the same kind of cache, also with preemption and with tokens guessed
// ahead; in bf16 chunks make no difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "engine/admission/kv_pool.h"
#include "ops/cuda/device_under_test.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::GoldenRequests;
using test::run_goldens;
using test::settings_of;

struct Bytes {
  const char* checkpoint;
  std::vector<std::string> cases;
};

// Full attention; windows and soft caps; images; layers that attend to images.
const std::vector<Bytes> kByteCheckpoints = {{"qwen2/odd_heads", {"text"}},
                                             {"gemma3/text", {"text"}},
                                             {"qwen2_vl/odd_heads", {"one_image"}},
                                             {"mllama/quarters", {"one_image"}}};

class CudaKvBytes : public ::testing::TestWithParam<std::tuple<Bytes, DType>> {
 protected:
  void SetUp() override {
    if (const auto device = cuda::make_device_under_test(DType::kF32); !device)
      GTEST_SKIP() << device.error().message;
  }
  static std::string_view checkpoint() { return std::get<0>(GetParam()).checkpoint; }
  static DType cache() { return std::get<1>(GetParam()); }
  static GoldenRequests requests(std::unique_ptr<Device> device, DType compute) {
    const Bytes& of = std::get<0>(GetParam());
    return GoldenRequests(of.checkpoint, of.cases, std::move(device),
                          {.compute = compute, .kv = cache()});
  }
  static GoldenRequests under_test(DType activations, std::uint64_t seed) {
    auto device = cuda::make_device_under_test(activations, seed);
    CHECK(device.has_value(), "{}", device.error().message);
    return requests(*std::move(device), activations);
  }
  static EngineSettings in_chunks(GoldenRequests& from, std::int64_t chunk) {
    EngineSettings settings = settings_of(chunk);
    settings.steps_in_flight = 2;
    settings.max_batched_tokens =
        std::max(settings.max_batched_tokens,
                 least_step_tokens(*from.request(0).prompt) + settings.max_sequences - 1);
    return settings;
  }
};

TEST_P(CudaKvBytes, TokensAreTheCpus) {
  GoldenRequests cpu = requests(engine_device(""), DType::kF32);
  GoldenRequests from = under_test(DType::kF32, 5);
  EXPECT_EQ(from.network().shape().cache_dtype, cache());
  const GoldenRequests::Solo want = cpu.solo(0);
  const GoldenRequests::Solo alone = from.solo(0);
  EXPECT_EQ(alone.tokens, want.tokens);
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < want.logits.size(); ++i) {
    largest = std::max<double>(largest, std::abs(want.logits[i]));
    error = std::max<double>(error, std::abs(want.logits[i] - alone.logits[i]));
  }
  // A number that the two round apart becomes another code now and then: by a step.
  EXPECT_LT(error, 2e-2 * largest);
  RecordProperty("logits", fmt::format("{} of {}", error, largest));
  const auto run = run_goldens(from, in_chunks(from, 64), 2, 2);
  for (const auto& answer : run.answers) EXPECT_EQ(answer, want.tokens);
}

// On tensor cores, bit for bit: the logits of a prompt in one piece and in chunks.
TEST_P(CudaKvBytes, InBf16ChunksMakeNoDifference) {
  if (cuda::kUnderTestIsEmulated && checkpoint() != "qwen2/odd_heads")
    GTEST_SKIP() << "tensor cores take long on the emulator: one family does there";
  GoldenRequests from = under_test(DType::kBf16, 8);
  const Request request = from.request(0);
  if (!request.images->empty()) GTEST_SKIP() << "text is cut anywhere";
  const auto run = [&](std::int64_t chunk) {
    auto solo = SoloRun::create(from.network(), from.device(), *request.prompt, {}, 3);
    CHECK(solo.has_value(), "{}", solo.error().message);
    Buffer staging;
    const View logits =
        *readable(from.device().lane(Lane::kStep), (*solo)->prefill(chunk), staging);
    std::vector<float> row(logits.row<float>(0), logits.row<float>(0) + logits.cols());
    return std::pair(std::move(row), (*solo)->greedy(3));
  };
  const auto whole = run(1000);
  EXPECT_EQ(run(7), whole);
}

// A pool for one sequence and a little more: others lose their pages and are computed anew.
TEST_P(CudaKvBytes, PreemptedAnswersAreTheSame) {
  if (cuda::kUnderTestIsEmulated && checkpoint() != "gemma3/text")
    GTEST_SKIP() << "one family does on the emulator: the one with windows";
  GoldenRequests from = under_test(DType::kF32, 9);
  const std::vector<TokenId> alone = from.solo(0).tokens;
  EngineSettings settings = in_chunks(from, 64);
  settings.block_size = 4;
  settings.prefix_caching = false;
  std::int64_t token_bytes = 0;
  for (const LayerSpec& layer : layer_specs(from.network().shape()))
    token_bytes += layer.token_bytes();
  const Golden& golden = from.golden(0);
  const std::int64_t longest = std::ssize(golden.ids) + std::ssize(golden.greedy) + 1;
  settings.max_model_len = longest;
  settings.kv_cache_bytes =
      static_cast<std::size_t>((2 * std::ssize(golden.ids) + 24) * token_bytes);
  const SteadyClock clock;
  while (!Engine::create(settings, from.network(), from.device(), clock) &&
         settings.kv_cache_bytes < std::size_t{1} << 28)
    settings.kv_cache_bytes += settings.kv_cache_bytes / 8;
  const auto run = run_goldens(from, settings, 3, 3);
  for (const auto& answer : run.answers) EXPECT_EQ(answer, alone);
  EXPECT_GT(run.stats.num_preemptions, 0u);
}

TEST_P(CudaKvBytes, TokensGuessedAhead) {
  if (cuda::kUnderTestIsEmulated && checkpoint() != "qwen2/odd_heads")
    GTEST_SKIP() << "one family does on the emulator";
  GoldenRequests from = under_test(DType::kF32, 10);
  EngineSettings settings = in_chunks(from, 64);
  settings.speculation = {.max_tokens = 3, .shortest = 1, .longest = 3};
  const std::vector<TokenId> alone = from.solo(0).tokens;
  const auto run = run_goldens(from, settings, 2, 2);
  for (const auto& answer : run.answers) EXPECT_EQ(answer, alone);
  EXPECT_GT(run.stats.spec_decode_num_draft_tokens, 0u);
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Bytes, DType>>& info) {
  std::string name = std::string(std::get<0>(info.param).checkpoint) + "_" +
                     std::string(saccade::name_of(std::get<1>(info.param)));
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaKvBytes,
                         ::testing::Combine(::testing::ValuesIn(kByteCheckpoints),
                                            ::testing::Values(DType::kI8, DType::kE4m3)),
                         name_of_case);

// Embeddings lie in the places of keys and values until these are there; the codes' scales are not
// among those places.
TEST(CudaKvBytesOverlay, EmbeddingsLieWhereCodesWillBe) {
  if (cuda::kUnderTestIsEmulated) GTEST_SKIP() << "a tower in bf16 takes minutes on the emulator";
  for (const DType cache : {DType::kI8, DType::kE4m3}) {
    auto device = cuda::make_device_under_test(DType::kBf16, 6);
    if (!device) GTEST_SKIP() << device.error().message;
    GoldenRequests from("qwen2_vl/odd_heads", {"one_image"}, *std::move(device),
                        {.compute = DType::kBf16, .kv = cache});
    const std::vector<TokenId> alone = from.solo(0).tokens;
    EngineSettings settings = settings_of(64);
    settings.encoder_cache = EncoderCache::kOverlay;
    const auto run = run_goldens(from, settings, 2, 2);
    for (const auto& answer : run.answers) EXPECT_EQ(answer, alone);
  }
}

}  // namespace
}  // namespace saccade

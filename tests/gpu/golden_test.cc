// Whole models on the CUDA device against transformers, in f32, the arithmetic that goldens are of:
// every family on a GPU; on the emulator, whose streams run late and whose memory is closed to the
// host, some of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "model/solo_run.h"
#include "ops/cuda/device_under_test.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

using test::golden_folder;

struct Checkpoint {
  const char* name;
  bool images = false;
  bool emulated = false;  // on the emulator too
};

const std::vector<Checkpoint> kCheckpoints = {
    {"qwen2/odd_heads", false, true},
    {"qwen2/mixed_window", false, true},
    {"llama3/scaled", false, true},
    {"llama3/plain"},
    {"qwen3/odd_heads"},
    {"gemma3/text", false, true},
    {"qwen2_vl/odd_heads", true, true},
    {"qwen2_vl/mixed_window", true},
    {"qwen2_5_vl/odd_heads", true},
    {"qwen2_5_vl/wide_window", true},
    {"qwen3_vl/odd_heads", true},
    {"llava_onevision/newlines", true},
    {"internvl2/internlm2", true, true},
    {"internvl3/hf35", true},
    {"paligemma/second", true},
    {"phi_3_vision/longrope", true},
    {"smolvlm2/halves", true},
    {"gemma3/pooled", true},
    {"qwen3_moe/every_layer", false, true},
    {"qwen3_moe/some_layers"},
    {"qwen3_vl_moe/every_layer", true},
    {"qwen3_vl_moe/some_layers", true, true},
    {"glm4v/odd_heads", true, true},
    {"qwen3_5/odd_heads", false, true},
    {"qwen3_5/stretched", false, true},
    {"qwen3_5_vl/odd_heads", true, true},
    {"qwen3_5_vl/wide_rows", true},
    {"minicpmv/slices", true},
    {"minicpmv/plain", true, true},
    {"minicpmv/fine", true, true},
    {"quantised/gptq_order", false, true},
    {"quantised/awq_vision", true},
    {"quantised/awq_row"},
    {"quantised/fp8_block", true, true},
    {"quantised/fp8_channel"},
};

std::string parameter_name(const Checkpoint& checkpoint) {
  std::string name = checkpoint.name;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::unique_ptr<Device> device_under_test(DType activations, std::uint64_t seed = 1) {
  auto device = cuda::make_device_under_test(activations, seed);
  CHECK(device.has_value(), "{}", device.error().message);
  return std::move(*device);
}

class CudaGolden : public ::testing::TestWithParam<Checkpoint> {
 protected:
  void SetUp() override {
    if (cuda::kUnderTestIsEmulated && !GetParam().emulated)
      GTEST_SKIP() << GetParam().name << " runs on a GPU alone: the emulator takes long";
    if (const auto device = cuda::make_device_under_test(DType::kF32); !device)
      GTEST_SKIP() << device.error().message;
  }
  std::string folder() const { return golden_folder(GetParam().name); }
  std::vector<std::string> goldens() const {
    if (!GetParam().images) return {"text"};
    if (cuda::kUnderTestIsEmulated) return {"one_image"};
    return {"text", "one_image"};
  }
};

TEST_P(CudaGolden, EveryStageAgrees) {
  const auto device = device_under_test(DType::kF32, 3);
  const auto model = test::load(folder(), *device);
  ASSERT_NE(model, nullptr);
  for (const std::string& golden : goldens())
    test::expect_golden(*model, *device, folder(), golden);
}

// In f32 they are transformers'. In bf16 a token may differ where two are nearly as likely: how
// many are the same before the first that is not goes into the results.
TEST_P(CudaGolden, GreedyTokensInChunks) {
  const auto golden = read_golden(folder() + "/golden/text.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  const std::size_t count =
      std::min<std::size_t>(golden->greedy.size(), cuda::kUnderTestIsEmulated ? 4 : 32);
  const std::vector<TokenId> want(golden->greedy.begin(),
                                  golden->greedy.begin() + static_cast<std::ptrdiff_t>(count));
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    const auto device = device_under_test(activations, 9);
    const auto model = test::load(folder(), *device, {.compute = activations, .kv = {}});
    ASSERT_NE(model, nullptr);
    const auto tokenizer = load_tokenizer(folder());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    auto prompt = model->processor->build_prompt(**tokenizer, golden->rendered, {}, false);
    ASSERT_TRUE(prompt) << prompt.error().message;
    auto run = SoloRun::create(*model->network, *device, *std::move(prompt), {},
                               static_cast<std::int64_t>(count));
    ASSERT_TRUE(run) << run.error().message;
    (*run)->prefill(7);
    const std::vector<TokenId> got = (*run)->greedy(static_cast<std::int64_t>(count));
    if (activations == DType::kF32) {
      EXPECT_EQ(got, want);
    } else {
      const auto same = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
      RecordProperty("greedy_bf16_same", static_cast<int>(same));
      RecordProperty("greedy_bf16_of", static_cast<int>(count));
    }
  }
}

// Steps in flight, chunks and batches over the device's own streams.
TEST_P(CudaGolden, TheEngineSaysTheSame) {
  if (cuda::kUnderTestIsEmulated && std::string_view(GetParam().name) != "qwen2_vl/odd_heads" &&
      std::string_view(GetParam().name) != "qwen2/odd_heads")
    GTEST_SKIP() << "one family of text and one with images do on the emulator";
  test::GoldenRequests from(GetParam().name, goldens(), device_under_test(DType::kF32, 5));
  EngineSettings settings = test::settings_of(64);
  settings.steps_in_flight = 2;
  const test::GoldenRun run = test::run_goldens(from, settings, 2, 2);
  for (std::size_t i = 0; i < run.answers.size(); ++i)
    EXPECT_EQ(run.answers[i], from.golden(i).greedy) << from.name(i);
}

// --load-format dummy: what the device makes of nothing is what the CPU makes.
TEST(CudaMadeWeights, GiveTheCpusAnswer) {
  if (const auto device = cuda::make_device_under_test(DType::kF32); !device)
    GTEST_SKIP() << device.error().message;
  const std::string folder = golden_folder("qwen2_vl/odd_heads");
  const auto greedy = [&](Device& device) -> std::vector<TokenId> {
    const auto model =
        test::load(folder, device, {.compute = DType::kF32, .kv = {}, .random_weights = true});
    CHECK(model != nullptr, "{}", folder);
    Prompt prompt;
    prompt.ids = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38};
    prompt.positions.assign(static_cast<std::size_t>(model->shape().position_axes), {});
    for (auto& axis : prompt.positions)
      for (std::int32_t i = 0; i < 10; ++i) axis.push_back(i);
    auto run = SoloRun::create(*model->network, device, std::move(prompt), {}, 4);
    CHECK(run.has_value(), "{}", run.error().message);
    (*run)->prefill();
    return (*run)->greedy(4);
  };
  const auto device = device_under_test(DType::kF32, 4);
  EXPECT_EQ(greedy(*device), greedy(**make_cpu_device(kDeviceThreads)));
}

// Text layers in bytes, within the bound of tests/golden/int8_test.cc and far from equal: bytes
// were multiplied.
TEST(CudaBytes, EveryStageIsNearTheNumbers) {
  const auto device = cuda::make_device_under_test(DType::kF32, 4);
  if (!device) GTEST_SKIP() << device.error().message;
  const std::string folder = golden_folder("qwen2_vl/odd_heads");
  LoadOptions options;
  options.compute = DType::kF32;
  options.text_layers = DType::kI8;
  const auto model = test::load(folder, **device, options);
  ASSERT_NE(model, nullptr);
  const auto tokenizer = load_tokenizer(folder);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto golden = read_golden(folder + "/golden/text.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  const auto report = compare_with_golden(*model, **device, **tokenizer, *golden);
  ASSERT_TRUE(report) << report.error().message;
  for (const StageResult& stage : report->stages) {
    SCOPED_TRACE(stage.name);
    const bool text = stage.name.starts_with("text.layer") || stage.name == "logits";
    if (stage.exact || !text) continue;
    EXPECT_LT(stage.error, 0.13);
    EXPECT_GT(stage.error, 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CudaGolden, ::testing::ValuesIn(kCheckpoints),
                         [](const auto& each) { return parameter_name(each.param); });

}  // namespace
}  // namespace saccade

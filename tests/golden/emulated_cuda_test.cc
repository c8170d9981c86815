// Whole models on the CUDA device, on the emulator: its streams run late, its memory is closed to
// the host, and every stage agrees with transformers' as on the CPU's devices. In f32, the
// arithmetic that goldens are of.
#include <gtest/gtest.h>

#include "model/solo_run.h"
#include "ops/cuda/emulated_device.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using testing::golden_folder;

struct Golden {
  const char* checkpoint;
  const char* name;
};

TEST(EmulatedCuda, EveryStageAgrees) {
  std::uint64_t seed = 1;
  for (const Golden& golden :
       {Golden{"qwen2/odd_heads", "text"}, Golden{"qwen2/mixed_window", "text"},
        Golden{"llama3/scaled", "text"}, Golden{"gemma3/text", "text"},
        Golden{"qwen2_vl/odd_heads", "one_image"}, Golden{"internvl2/internlm2", "one_image"}}) {
    SCOPED_TRACE(golden.checkpoint);
    const auto device = make_emulated_cuda_device({.late = true, .seed = seed++});
    const auto model = testing::load(golden_folder(golden.checkpoint), *device);
    ASSERT_NE(model, nullptr);
    testing::expect_golden(*model, *device, golden_folder(golden.checkpoint), golden.name);
  }
}

// In bf16 a token may differ where two are nearly as likely; here none does.
TEST(EmulatedCuda, GreedyTokensInChunks) {
  const std::string checkpoint = golden_folder("qwen2/odd_heads");
  const auto golden = read_golden(checkpoint + "/golden/text.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    const auto device = make_emulated_cuda_device({.late = true, .seed = 9}, activations);
    const auto model = testing::load(checkpoint, *device, {.compute = activations, .kv = {}});
    ASSERT_NE(model, nullptr);
    auto run = SoloRun::create(*model->network, *device,
                               model->processor->wrap_tokens(golden->ids).value(), {}, 4);
    ASSERT_TRUE(run) << run.error().message;
    (*run)->prefill(7);
    EXPECT_EQ((*run)->greedy(4),
              std::vector<TokenId>(golden->greedy.begin(), golden->greedy.begin() + 4))
        << name_of(activations);
  }
}

}  // namespace
}  // namespace saccade

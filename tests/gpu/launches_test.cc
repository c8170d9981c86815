// How many kernels a step of decode is: each costs a GPU some microseconds, however little it does.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/device_under_test.h"
#include "ops/cuda/emulator/emulator.h"
#include "tests/golden/golden_requests.h"

namespace saccade {
namespace {

constexpr int kLayers = 28;  // of Qwen2-VL-2B and 7B
// Of a step but its layers: embeddings, angles, the last norm of the rows that give a token, the
// head, and what chooses.
constexpr std::uint64_t kAround = 6;

// A checkpoint's folder with a configuration of kLayers layers; its weights are made up.
std::string deep_folder(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  const fs::path from = test::golden_folder(checkpoint);
  const fs::path to = fs::path(::testing::TempDir()) / ("launches_" + checkpoint);
  fs::remove_all(to);
  fs::create_directories(to);
  for (const char* const name : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(from / name, to / name);
  std::ifstream in(from / "config.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::string key = "\"num_hidden_layers\": ";
  const std::size_t at = text.find(key);
  CHECK(at != std::string::npos, "{} without {}", checkpoint, key);
  text.replace(at + key.size(), text.find(',', at) - at - key.size(), std::to_string(kLayers));
  std::ofstream(to / "config.json") << text;
  return to;
}

// Kernels of one step in bf16 that decodes one sequence, after a prompt of so many tokens, whose
// keys are cut every `split_tokens`.
std::uint64_t launches_of_a_step(const std::string& folder, std::int32_t prompt_tokens,
                                 std::int32_t split_tokens) {
  const auto until = [&](std::int64_t tokens) -> std::uint64_t {
    const auto device = cuda::make_device_under_test(DType::kBf16, 3);
    CHECK(device.has_value(), "{}", device.error().message);
    const auto model =
        test::load(folder, **device, {.compute = DType::kBf16, .kv = {}, .random_weights = true});
    CHECK(model != nullptr, "{}", folder);
    static_cast<cuda::CudaStream&>((*device)->lane(Lane::kStep)).split_keys_at(split_tokens);
    Prompt prompt;
    for (std::int32_t i = 0; i < prompt_tokens; ++i) prompt.ids.push_back(3 + i);
    prompt.positions.assign(static_cast<std::size_t>(model->shape().position_axes), {});
    for (auto& axis : prompt.positions)
      for (std::int32_t i = 0; i < prompt_tokens; ++i) axis.push_back(i);
    auto run = SoloRun::create(*model->network, **device, std::move(prompt), {}, tokens);
    CHECK(run.has_value(), "{}", run.error().message);
    (*run)->prefill();
    (*device)->synchronize();
    const std::uint64_t before = emulator::launches();
    EXPECT_EQ((*run)->greedy(tokens).size(), static_cast<std::size_t>(tokens));
    (*device)->synchronize();
    return emulator::launches() - before;
  };
  return until(3) - until(2);
}

// A layer's are six: the products of queries, keys and values and of the MLP's inputs with their
// norms, what lies between the former and attention, attention, and two products. Nothing is
// launched for norms of heads (Qwen3) and for keys that several blocks share.
TEST(Launches, OfAStepOfDecode) {
  for (const std::string checkpoint : {"qwen2/odd_heads", "qwen3/odd_heads"}) {
    SCOPED_TRACE(checkpoint);
    const std::string folder = deep_folder(checkpoint);
    EXPECT_EQ(launches_of_a_step(folder, 5, 256), kLayers * 6 + kAround);
    EXPECT_EQ(launches_of_a_step(folder, 66, 64), kLayers * 6 + kAround);
  }
}

}  // namespace
}  // namespace saccade

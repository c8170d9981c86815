// Adapters of tests/golden/lora, and checkpoints with an adapter's products in their matrices.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/adapters/lora_adapter.h"
#include "tests/golden/family_golden.h"

namespace saccade::test {

// What tools/goldens/lora.py made for a checkpoint.
struct AdapterGoldens {
  std::string checkpoint;
  std::string name;
  std::vector<std::string> cases;
  std::string folder() const {
    return golden_folder("lora/" + checkpoint.substr(0, checkpoint.find('/')) + "/" + name);
  }
};
inline const std::vector<AdapterGoldens> kAdapterGoldens = {
    {"llama3/scaled", "attention", {"text", "multi_turn"}},
    {"llama3/scaled", "every", {"text", "multi_turn"}},
    {"llama3/scaled", "expression", {"text", "multi_turn"}},
    {"llama3/scaled", "one_layer", {"text", "multi_turn"}},
    {"qwen2_vl/odd_heads", "language", {"text", "one_image"}},
    {"qwen2_vl/odd_heads", "attention", {"text", "three_images"}},
    {"gemma3/text", "every", {"text", "multi_turn"}},
    {"qwen3_5/odd_heads", "states", {"text", "multi_turn"}},
    {"qwen3_5/odd_heads", "gates", {"text", "multi_turn"}},
    {"mllama/quarters", "cross", {"text", "one_image", "three_images"}},
    {"mllama/quarters", "language", {"one_image", "multi_turn"}}};

inline std::shared_ptr<const LoraAdapter> load_adapter(const Network& network,
                                                       const std::string& folder,
                                                       const std::string& name = "adapter",
                                                       std::int64_t max_rank = 16) {
  auto adapter = LoraAdapter::load({name, folder, 1, max_rank}, network.lora_targets());
  EXPECT_TRUE(adapter) << adapter.error().message;
  return adapter ? *adapter : nullptr;
}

// A folder with an adapter, float32.
struct AdapterTensor {
  std::string name;  // of the file
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
inline void write_adapter(const std::string& folder, const std::string& config,
                          const std::vector<AdapterTensor>& tensors) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/adapter_config.json") << config;
  std::vector<SafetensorsPlan> plan;
  std::string data;
  for (const AdapterTensor& tensor : tensors) {
    plan.push_back({tensor.name, DType::kF32, tensor.shape});
    data.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
  }
  std::ofstream(folder + "/adapter_model.safetensors", std::ios::binary)
      << make_safetensors_header(plan, {}) << data;
}

// One that is random, for all that the network takes; `seed` chooses it.
inline std::vector<AdapterTensor> random_adapter(const Network& network, std::int64_t rank,
                                                 std::uint64_t seed,
                                                 const std::string& prefix = "model.") {
  Rng rng(seed);
  std::vector<AdapterTensor> tensors;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols, double gain) {
    AdapterTensor tensor{name, {rows, cols}, {}};
    for (std::int64_t i = 0; i < rows * cols; ++i)
      tensor.values.push_back(static_cast<float>((2 * rng.uniform() - 1) * gain));
    tensors.push_back(std::move(tensor));
  };
  for (const LoraTarget& target : network.lora_targets()) {
    const std::string name = "base_model.model." + prefix + target.module;
    add(name + ".lora_A.weight", rank, target.in, 2 / std::sqrt(static_cast<double>(target.in)));
    add(name + ".lora_B.weight", target.out, rank, 1 / std::sqrt(static_cast<double>(rank)));
  }
  return tensors;
}

inline std::string plain_config(std::int64_t rank, double alpha) {
  return fmt::format(
      R"({{"peft_type": "LORA", "r": {}, "lora_alpha": {}, "target_modules": "all-linear"}})", rank,
      alpha);
}

}  // namespace saccade::test

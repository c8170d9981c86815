// Memory while weights are loaded: what is kept of them, and the file's pages of one stacked
// matrix.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/checkpoint/safetensors.h"
#include "model/families.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kInner = 8192;
constexpr std::int64_t kVocab = 256;

constexpr std::string_view kConfig = R"({"architectures": ["Qwen2ForCausalLM"],
 "model_type": "qwen2", "eos_token_id": 1, "hidden_act": "silu", "hidden_size": 1024,
 "intermediate_size": 8192, "num_hidden_layers": 1, "num_attention_heads": 8,
 "num_key_value_heads": 8, "max_position_embeddings": 128, "rms_norm_eps": 1e-06,
 "rope_theta": 10000.0, "tie_word_embeddings": true, "torch_dtype": "float16", "vocab_size": 256,
 "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm",
  "zero_point": true}})";

// One layer of four-bit matrices whose numbers are 117 MB in float32. All zeros.
void write_checkpoint(const std::string& directory) {
  std::vector<SafetensorsPlan> plan;
  std::size_t bytes = 0;
  const auto add = [&](const std::string& name, DType type, std::vector<std::int64_t> shape) {
    std::size_t count = size_of(type);
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    bytes += count;
    plan.push_back({name, type, std::move(shape)});
  };
  const auto add_matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".qweight", DType::kI32, {in, out / 8});
    add(name + ".qzeros", DType::kI32, {in / 128, out / 8});
    add(name + ".scales", DType::kF16, {in / 128, out});
  };
  add("model.embed_tokens.weight", DType::kF16, {kVocab, kHidden});
  add("model.norm.weight", DType::kF16, {kHidden});
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
    add(layer + norm + ".weight", DType::kF16, {kHidden});
  for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
    add_matrix(layer + "self_attn." + part, kHidden, kHidden);
    add(layer + "self_attn." + part + ".bias", DType::kF16, {kHidden});
  }
  add_matrix(layer + "self_attn.o_proj", kHidden, kHidden);
  add_matrix(layer + "mlp.gate_proj", kInner, kHidden);
  add_matrix(layer + "mlp.up_proj", kInner, kHidden);
  add_matrix(layer + "mlp.down_proj", kHidden, kInner);

  fs::remove_all(directory);
  fs::create_directories(directory);
  std::ofstream(directory + "/config.json") << kConfig;
  std::ofstream(directory + "/model.safetensors", std::ios::binary)
      << make_safetensors_header(plan, {}) << std::string(bytes, '\0');
}

// A line of /proc/self/status, in bytes.
std::int64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return -1;
}

struct Taken {
  std::int64_t kept = 0;  // the weights
  std::int64_t peak = 0;  // above what there was before, while they were loaded
};

// Nothing: this machine does not tell.
std::optional<Taken> load_so(const std::string& name, const LoadOptions& options) {
  const std::string directory = ::testing::TempDir() + "/saccade_load_memory_" + name;
  write_checkpoint(directory);
  const auto device = make_cpu_device(2).value();
  const auto checkpoint = open_checkpoint(directory);
  CHECK(checkpoint.has_value(), "{}", checkpoint.error().message);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const std::int64_t before = status("VmRSS");
  if (before < 0 || status("VmHWM") > before + (8 << 20)) return std::nullopt;

  const auto model = load_model(*checkpoint, *device, options);
  const std::int64_t peak = status("VmHWM") - before;
  fs::remove_all(directory);
  CHECK(model.has_value(), "{}", model.error().message);
  const auto kept = static_cast<std::int64_t>(model->shape().weight_bytes);
  std::printf("%s: kept %.1f MB, peak %.1f MB\n", name.c_str(), static_cast<double>(kept) / 1e6,
              static_cast<double>(peak) / 1e6);
  return Taken{kept, peak};
}

LoadOptions in_floats() {
  LoadOptions options;
  options.compute = DType::kF32;
  return options;
}

// Codes, scales and zeros of gate and up are 9 MB; as numbers they would be 67 MB once more.
TEST(LoadMemory, IsThatOfTheResultAndOfOneStoredMatrix) {
  LoadOptions options = in_floats();
  options.dequantize = true;
  const auto taken = load_so("numbers", options);
  if (!taken) GTEST_SKIP() << "no peak to be had";
  EXPECT_GT(taken->kept, 110 << 20);
  EXPECT_LT(taken->peak, taken->kept + (24 << 20));
}

TEST(LoadMemory, IsThatOfTheCodesThatAreKept) {
  const auto taken = load_so("codes", in_floats());
  if (!taken) GTEST_SKIP() << "no peak to be had";
  EXPECT_LT(taken->kept, 17 << 20);
  EXPECT_LT(taken->peak, taken->kept + (24 << 20));
}

// Rounded to bytes while it is read: a few rows of numbers a thread, no second matrix.
TEST(LoadMemory, IsThatOfTheBytesTheyAreRoundedTo) {
  LoadOptions options = in_floats();
  options.text_layers = DType::kI8;
  const auto taken = load_so("bytes", options);
  if (!taken) GTEST_SKIP() << "no peak to be had";
  EXPECT_LT(taken->kept, 33 << 20);
  EXPECT_LT(taken->peak, taken->kept + (24 << 20));
}

}  // namespace
}  // namespace saccade

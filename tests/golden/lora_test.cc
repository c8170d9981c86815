// Adapters against PEFT (tools/goldens/lora.py), stage by stage on every device; and, of every
// family, against the checkpoint with the adapter's products added to its matrices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/solo_run.h"
#include "tests/golden/lora_golden.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::AdapterGoldens;
using test::AdapterTensor;
using test::golden_folder;
using test::load_adapter;

class LoraGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(LoraGolden, EveryStageAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const AdapterGoldens& each : test::kAdapterGoldens) {
    SCOPED_TRACE(each.folder());
    const auto model = test::load(golden_folder(each.checkpoint), *device);
    const auto tokenizer = load_tokenizer(golden_folder(each.checkpoint));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto adapter = load_adapter(*model->network, each.folder());
    ASSERT_NE(adapter, nullptr);
    for (const std::string& name : each.cases) {
      const auto golden = read_golden(each.folder() + "/golden/" + name + ".safetensors");
      ASSERT_TRUE(golden) << golden.error().message;
      const auto report = compare_with_golden(*model, *device, **tokenizer, *golden, adapter.get());
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_GT(report->stages.size(), 6u);
      if (const StageResult* stage = report->first_divergence(test::kTolerance))
        ADD_FAILURE() << name << ": first divergence at " << stage->name << ", error "
                      << stage->error << ", row " << stage->worst_row << " " << stage->note;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LoraGolden, ::testing::ValuesIn(test::f32_device_names()),
                         [](const auto& device) { return device.param; });

// --- merged ---

const AdapterTensor& tensor_of(const std::vector<AdapterTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &AdapterTensor::name);
  EXPECT_NE(found, tensors.end()) << name;
  return *found;
}

// W of one tensor, with scale * B A added where the adapter has such a module.
std::vector<float> merged_values(const SafetensorsFile& file, const SafetensorsEntry& entry,
                                 const std::vector<AdapterTensor>& adapter, double scale) {
  const StoredValues numbers{safetensors_dtype(entry.dtype).value(), file.bytes(entry)};
  std::int64_t count = 1;
  for (const std::int64_t extent : entry.shape) count *= extent;
  StoredMatrix row;
  row.stored_out = row.out_end = 1;
  row.stored_in = row.in_end = row.stride = count;
  row.codes = numbers;
  std::vector<float> values(static_cast<std::size_t>(count));
  StoredMatrixReader(row).read(0, 1, 0, count, values.data(), count);
  if (!entry.name.ends_with(".weight")) return values;
  const std::string module = entry.name.substr(0, entry.name.size() - 7);
  const auto name = lora_module_name(module);
  const std::string prefix = "base_model.model.model." + std::string(name.value_or(""));
  const auto has = std::ranges::find(adapter, prefix + ".lora_A.weight", &AdapterTensor::name);
  if (!name || has == adapter.end()) return values;
  const AdapterTensor& down = *has;
  const std::string up_name = prefix + ".lora_B.weight";
  const AdapterTensor& up = tensor_of(adapter, up_name);
  const auto in = static_cast<std::size_t>(down.shape[1]);
  const auto rank = static_cast<std::size_t>(down.shape[0]);
  for (std::size_t o = 0; o < static_cast<std::size_t>(up.shape[0]); ++o) {
    for (std::size_t i = 0; i < in; ++i) {
      double sum = 0;
      for (std::size_t r = 0; r < rank; ++r)
        sum += double{up.values[o * rank + r]} * double{down.values[r * in + i]};
      values[o * in + i] = static_cast<float>(double{values[o * in + i]} + scale * sum);
    }
  }
  return values;
}

void write_merged(const std::string& from, const std::string& to,
                  const std::vector<AdapterTensor>& adapter, double scale) {
  fs::remove_all(to);
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && !name.starts_with("model"))
      fs::copy(entry.path(), fs::path(to) / name);
  }
  std::vector<SafetensorsPlan> plan;
  std::string data;
  const auto files = find_weight_files(from);
  ASSERT_TRUE(files) << files.error().message;
  for (const std::string& path : files->paths) {
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    for (const SafetensorsEntry& entry : file->tensors()) {
      const std::vector<float> values = merged_values(*file, entry, adapter, scale);
      plan.push_back({entry.name, DType::kF32, entry.shape});
      data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    }
  }
  std::ofstream(to + "/model.safetensors", std::ios::binary)
      << make_safetensors_header(plan, {}) << data;
}

struct Traced {
  std::vector<std::vector<float>> layers;
  std::vector<TokenId> tokens;
};

Traced trace(const Model& model, Device& device, const Tokenizer& tokenizer, const Golden& golden,
             const LoraAdapter* adapter) {
  Traced traced;
  const Tap tap = [&](std::string_view name, View value) {
    if (!name.starts_with("text.layer.")) return;
    std::vector<float>& rows = traced.layers.emplace_back();
    for (std::int64_t row = 0; row < value.rows(); ++row)
      rows.insert(rows.end(), value.row<float>(row), value.row<float>(row) + value.cols());
  };
  const auto media = prepare_golden_media(*model.processor, golden);
  EXPECT_TRUE(media) << media.error().message;
  auto prompt = media->layouts.empty() ? model.processor->wrap_tokens(golden.ids)
                                       : model.processor->build_prompt(tokenizer, golden.rendered,
                                                                       media->layouts, false);
  EXPECT_TRUE(prompt) << prompt.error().message;
  auto run = SoloRun::create(*model.network, device, *prompt, media->prepared, 8, {{}, adapter});
  EXPECT_TRUE(run) << run.error().message;
  (*run)->prefill(0, 1, tap);
  traced.tokens = (*run)->greedy(8);
  return traced;
}

double largest_error(const std::vector<float>& got, const std::vector<float>& wanted) {
  double difference = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference = std::max(difference, std::abs(double{got[i]} - double{wanted[i]}));
    magnitude = std::max(magnitude, std::abs(double{wanted[i]}));
  }
  return difference / magnitude;
}

class LoraMerged : public ::testing::TestWithParam<const char*> {};

TEST_P(LoraMerged, IsTheCheckpointWithItsProductsAdded) {
  const std::string from = golden_folder(GetParam());
  const auto device = *make_cpu_device(kDeviceThreads, "");
  const auto model = test::load(from, *device);
  ASSERT_NE(model, nullptr);
  constexpr std::int64_t kRank = 3;
  const auto tensors = test::random_adapter(*model->network, kRank, 5);
  ASSERT_GE(tensors.size(), 8u);
  const std::string work = ::testing::TempDir() + "/saccade_lora_merged";
  test::write_adapter(work + "_adapter", test::plain_config(kRank, 4.5), tensors);
  const auto adapter = load_adapter(*model->network, work + "_adapter");
  ASSERT_NE(adapter, nullptr);
  ASSERT_NO_FATAL_FAILURE(write_merged(from, work, tensors, 1.5));
  const auto merged = test::load(work, *device);
  ASSERT_NE(merged, nullptr);

  // Some layers are for images alone.
  const bool crosses = model->processor->shape().cross_attends();
  const auto golden =
      read_golden(from + (crosses ? "/golden/three_images" : "/golden/text") + ".safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  const auto tokenizer = load_tokenizer(from);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const Traced got = trace(*model, *device, **tokenizer, *golden, adapter.get());
  const Traced wanted = trace(*merged, *device, **tokenizer, *golden, nullptr);
  const Traced without = trace(*model, *device, **tokenizer, *golden, nullptr);
  ASSERT_EQ(got.layers.size(), wanted.layers.size());
  for (std::size_t layer = 0; layer < wanted.layers.size(); ++layer) {
    EXPECT_LT(largest_error(got.layers[layer], wanted.layers[layer]), 1e-4) << layer;
    EXPECT_GT(largest_error(got.layers[layer], without.layers[layer]), 1e-2) << layer;
  }
  EXPECT_EQ(got.tokens, wanted.tokens);
  fs::remove_all(work);
  fs::remove_all(work + "_adapter");
}

INSTANTIATE_TEST_SUITE_P(
    Families, LoraMerged,
    ::testing::Values("internvl2/internlm2", "internvl2/phi3", "internvl2/current",
                      "phi_3_vision/longrope", "qwen2/odd_heads", "qwen2_vl/mixed_window",
                      "qwen2_5_vl/odd_heads", "qwen3/odd_heads", "qwen3_vl/odd_heads",
                      "qwen3_moe/some_layers", "qwen3_vl_moe/some_layers", "mistral/windowed",
                      "mistral3/squares", "pixtral/rows", "paligemma/first", "gemma3/pooled",
                      "smolvlm2/thirds", "llava_onevision/scaled", "internvl3/own35",
                      "glm4v/odd_heads", "qwen3_5/odd_heads", "qwen3_5/stretched",
                      "qwen3_5_vl/wide_rows", "minicpmv/slices", "mllama/quarters",
                      "mllama/thirds"),
    [](const auto& family) {
      std::string name = family.param;
      std::ranges::replace(name, '/', '_');
      return name;
    });

// A model in bytes has its adapters in floats beside it, on every device alike: what differs is
// which code a number that lies between two becomes.
TEST(LoraInBytes, IsOnAllDevicesTheSame) {
  const auto device = *make_cpu_device(kDeviceThreads, "");
  const auto reference = make_reference_device();
  LoadOptions options{.compute = DType::kF32, .kv = {}};
  options.text_layers = DType::kI8;
  const AdapterGoldens& each = test::kAdapterGoldens[1];
  const auto golden = read_golden(each.folder() + "/golden/text.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  const auto tokenizer = load_tokenizer(golden_folder(each.checkpoint));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto traced = [&](Device& on, bool adapted) {
    const auto model = test::load(golden_folder(each.checkpoint), on, options);
    const auto adapter = load_adapter(*model->network, each.folder());
    return trace(*model, on, **tokenizer, *golden, adapted ? adapter.get() : nullptr);
  };
  const Traced got = traced(*device, true);
  const Traced wanted = traced(*reference, true);
  const Traced plain = traced(*device, false);
  ASSERT_EQ(wanted.layers.size(), 3u);
  for (std::size_t layer = 0; layer < wanted.layers.size(); ++layer) {
    EXPECT_LT(largest_error(got.layers[layer], wanted.layers[layer]), 0.02) << layer;
    EXPECT_GT(largest_error(got.layers[layer], plain.layers[layer]), 0.2) << layer;
  }
}

}  // namespace
}  // namespace saccade

// What the golden tests of families share: every device of this machine, and a checkpoint in its
// other form.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "model/checkpoint/safetensors.h"
#include "model/checkpoint/weights.h"
#include "model/families.h"
#include "model/golden.h"
#include "ops/device.h"
#include "tests/support/deferred_device.h"

namespace saccade::test {

constexpr double kTolerance = 1e-4;  // largest difference over largest magnitude, per row

inline std::string golden_folder(const std::string& family) {
  return SACCADE_SOURCE_DIR "/tests/golden/" + family;
}

// "reference", each instruction set that this machine has, and the best of them run late.
inline std::unique_ptr<Device> make_device(const std::string& name) {
  if (name == "reference") return make_reference_device();
  if (name == "deferred") return make_deferred_device("");
  auto device = make_cpu_device(kDeviceThreads, name);
  return device ? *std::move(device) : nullptr;
}
inline std::vector<std::string> device_names() {
  return {"reference", "portable", "neon", "dotprod", "avx2",    "avxvnni",
          "avx512",    "vnni",     "bf16", "amx",     "deferred"};
}

// Those whose kernels of f32 differ: from avx512 on these are one table, and what comes after it
// multiplies bf16, bytes and codes. "deferred" is the best of them in any case.
inline std::vector<std::string> f32_device_names() {
  return {"reference", "portable", "avx2", "avx512", "deferred"};
}

inline std::unique_ptr<Model> load(const std::string& directory, Device& device,
                                   const LoadOptions& options = {.compute = DType::kF32,
                                                                 .kv = {}}) {
  auto checkpoint = open_checkpoint(directory);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  if (!checkpoint) return nullptr;
  auto model = load_model(*checkpoint, device, options);
  EXPECT_TRUE(model) << model.error().message;
  return model ? std::make_unique<Model>(*std::move(model)) : nullptr;
}

// What the tower is given of a golden's images and videos.
inline Result<std::vector<PreparedImage>> prepare_golden_images(const Processor& processor,
                                                                const Golden& golden) {
  TRY(GoldenMedia media, prepare_golden_media(processor, golden));
  return std::move(media.prepared);
}

// Writes the checkpoint under the names and the configuration of other_form/ into `to`.
inline void write_other_form(const std::string& directory, const std::string& to) {
  namespace fs = std::filesystem;
  fs::remove_all(to);
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && !name.starts_with("model") && name != "config.json")
      fs::copy(entry.path(), fs::path(to) / name);
  }
  fs::copy(directory + "/other_form/config.json", to + "/config.json");
  const auto names = json::parse_file(directory + "/other_form/names.json");
  ASSERT_TRUE(names) << names.error().message;
  const auto files = find_weight_files(directory);
  ASSERT_TRUE(files) << files.error().message;

  std::vector<SafetensorsPlan> plan;
  std::string data;
  for (const std::string& path : files->paths) {
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    for (const auto& member : names->get_object()) {
      const SafetensorsEntry* entry = file->find(std::string(member.value().get_string()));
      if (entry == nullptr) continue;
      plan.push_back(
          {std::string(member.key()), safetensors_dtype(entry->dtype).value(), entry->shape});
      const auto bytes = file->bytes(*entry);
      data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  ASSERT_EQ(plan.size(), names->get_object().size());
  std::ofstream(to + "/model.safetensors", std::ios::binary)
      << make_safetensors_header(plan, {}) << data;
}

// Every stage of one golden within kTolerance on this device; the first that is not is named.
inline void expect_golden(const Model& model, Device& device, const std::string& checkpoint,
                          const std::string& golden_name) {
  const auto tokenizer = load_tokenizer(checkpoint);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto golden = read_golden(checkpoint + "/golden/" + golden_name + ".safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  const auto report = compare_with_golden(model, device, **tokenizer, *golden);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->stages.size(), 6u);
  if (const StageResult* stage = report->first_divergence(kTolerance); stage != nullptr)
    ADD_FAILURE() << golden_name << " on " << device.description() << ": first divergence at "
                  << stage->name << ", error " << stage->error << ", row " << stage->worst_row
                  << " " << stage->note;
}

}  // namespace saccade::test

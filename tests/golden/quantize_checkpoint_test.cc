// Checkpoints that `saccade model quantize` writes: what they answer is what their sources answer
// when they are rounded at load, and their bytes are what compressed-tensors reads them as.
#include "model/quantization/quantize_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/hash.h"
#include "model/solo_run.h"
#include "ops/readback.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;
using ::testing::HasSubstr;

LoadOptions rounded_at_load(int bits) {
  LoadOptions options;
  if (bits == 8)
    options.text_layers = DType::kI8;
  else
    options.four_bit_text = true;
  return options;
}

class QuantizeCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/saccade_quantize_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  QuantizeOptions options(int bits) const {
    QuantizeOptions options;
    options.directory = root_ + "/out";
    options.bits = bits;
    return options;
  }
  Result<QuantizeOutcome> quantize(const std::string& from, const QuantizeOptions& options) {
    const auto checkpoint = open_checkpoint(from);
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return quantize_checkpoint(*checkpoint, options, pool_);
  }
  std::string quantize_error(const std::string& from, const QuantizeOptions& options) {
    const auto outcome = quantize(from, options);
    return outcome ? "" : outcome.error().message;
  }
  std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) names.insert(entry.path().filename());
    return names;
  }

  ThreadPool pool_{2};
  std::string root_;
};

// Logits of a made-up text, all rows, and the 16 tokens after it.
struct QuantisedAnswer {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  std::size_t weight_bytes = 0;

  bool operator==(const QuantisedAnswer&) const = default;
};

QuantisedAnswer quantised_answer_of(const std::string& directory, Device& device,
                                    const LoadOptions& options) {
  const auto model = test::load(directory, device, options);
  if (model == nullptr) return {};
  Prompt prompt;
  const auto tokenizer = load_tokenizer(directory);
  EXPECT_TRUE(tokenizer);
  auto made =
      model->processor->build_prompt(**tokenizer, "The sky above the port was 7 x 91", {}, false);
  EXPECT_TRUE(made) << made.error().message;
  auto run = SoloRun::create(*model->network, device, *std::move(made), {}, 16);
  EXPECT_TRUE(run) << run.error().message;
  QuantisedAnswer answer;
  answer.weight_bytes = model->shape().weight_bytes;
  Buffer staging;
  const View logits = *readable(device.lane(Lane::kStep), (*run)->prefill(0, 4), staging);
  for (std::int64_t row = 0; row < logits.rows(); ++row)
    answer.logits.insert(answer.logits.end(), logits.row<float>(row),
                         logits.row<float>(row) + logits.cols());
  answer.tokens = (*run)->greedy(16);
  return answer;
}

// Queries, keys and values apart, in one tensor, by key head, with biases and without; widths that
// groups of 32 do not divide; attention to images; experts, a tensor each; names of the hub's and
// of transformers' own.
TEST_F(QuantizeCheckpoint, AnswersAsItsSourceRoundedAtLoad) {
  const auto device = make_cpu_device(kDeviceThreads).value();
  for (const char* name :
       {"qwen2_vl/odd_heads", "qwen2/mixed_window", "qwen3/odd_heads", "qwen3_moe/every_layer",
        "phi_3_vision/su", "internvl2/internlm2", "internvl2/current", "smolvlm2/fifths",
        "llama3/scaled", "mllama/quarters", "gemma3/pooled", "mistral3/squares"}) {
    for (const int bits : {4, 8}) {
      SCOPED_TRACE(fmt::format("{} in {} bits", name, bits));
      QuantizeOptions written = options(bits);
      const auto outcome = quantize(golden_folder(name), written);
      if (bits == 4 && std::string_view(name) == "qwen2/mixed_window") {  // 72, 72 and 88 inputs
        ASSERT_FALSE(outcome);
        EXPECT_THAT(outcome.error().message, HasSubstr("has a multiple of 32 inputs"));
        continue;
      }
      ASSERT_TRUE(outcome) << outcome.error().message;
      EXPECT_GT(outcome->matrices, 0U);
      EXPECT_LT(outcome->bytes_after, outcome->bytes_before);
      const QuantisedAnswer wanted =
          quantised_answer_of(golden_folder(name), *device, rounded_at_load(bits));
      const QuantisedAnswer given = quantised_answer_of(written.directory, *device, {});
      ASSERT_FALSE(wanted.tokens.empty());
      EXPECT_TRUE(given.logits == wanted.logits);
      EXPECT_EQ(given.tokens, wanted.tokens);
      EXPECT_EQ(given.weight_bytes, wanted.weight_bytes);
      // Told apart from the numbers at all.
      EXPECT_FALSE(quantised_answer_of(golden_folder(name), *device, {}).logits == given.logits);
      fs::remove_all(written.directory);
    }
  }
}

TEST_F(QuantizeCheckpoint, WritesTheHeadInBytesWhereItIsAMatrixOfItsOwn) {
  const auto device = make_cpu_device(kDeviceThreads).value();
  QuantizeOptions written = options(8);
  written.head = true;
  std::size_t done = 0;  // what was said last
  std::size_t all = 0;
  written.progress = [&](std::size_t so_far, std::size_t total) {
    EXPECT_GT(so_far, done);
    done = so_far;
    all = total;
  };
  const std::string source = golden_folder("qwen2/mixed_window");
  ASSERT_EQ(quantize_error(source, written), "");
  EXPECT_EQ(done, all);
  EXPECT_GT(all, 0U);
  LoadOptions rounded = rounded_at_load(8);
  rounded.head = DType::kI8;
  const QuantisedAnswer given = quantised_answer_of(written.directory, *device, {});
  EXPECT_TRUE(given == quantised_answer_of(source, *device, rounded));
  EXPECT_FALSE(given.logits == quantised_answer_of(source, *device, rounded_at_load(8)).logits);

  fs::remove_all(written.directory);
  EXPECT_THAT(quantize_error(golden_folder("qwen2_vl/odd_heads"), written),
              HasSubstr("the head is the embedding"));
  written.bits = 4;
  EXPECT_THAT(quantize_error(source, written), HasSubstr("a head in bytes"));
}

// The smallest shards, and names and other files as they were.
TEST_F(QuantizeCheckpoint, KeepsNamesFilesAndNumbersInSmallShards) {
  QuantizeOptions written = options(4);
  written.shard_bytes = 100'000;
  const std::string source = golden_folder("qwen2_vl/odd_heads");
  const auto outcome = quantize(source, written);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_GT(outcome->left, 0U);  // 112 inputs
  const auto files = find_weight_files(written.directory);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_GT(files->paths.size(), 3U);
  EXPECT_EQ(entries(), std::set<std::string>{"out"});

  std::map<std::string, std::string> before;
  const auto bytes_of = [](const SafetensorsFile& file, const SafetensorsEntry& entry) {
    const auto bytes = file.bytes(entry);
    return entry.dtype + shape_text(entry.shape) +
           std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto source_files = find_weight_files(source);
  ASSERT_TRUE(source_files);
  for (const std::string& path : source_files->paths) {
    const auto file = SafetensorsFile::open(path);
    for (const SafetensorsEntry& entry : file->tensors())
      before[entry.name] = bytes_of(*file, entry);
  }
  std::size_t same = 0;
  std::set<std::string> packed;
  for (const std::string& path : files->paths) {
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    for (const SafetensorsEntry& entry : file->tensors()) {
      const auto found = before.find(entry.name);
      if (found != before.end()) {
        EXPECT_EQ(bytes_of(*file, entry), found->second) << entry.name;
        ++same;
      } else if (entry.name.ends_with(".weight_packed")) {
        packed.insert(entry.name.substr(0, entry.name.size() - std::strlen("_packed")));
      }
    }
  }
  EXPECT_EQ(same + packed.size(), before.size());
  EXPECT_EQ(packed.size(), outcome->matrices);
  for (const std::string& name : packed) EXPECT_TRUE(before.contains(name)) << name;
  EXPECT_TRUE(packed.contains("model.layers.0.self_attn.q_proj.weight"));

  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || name.starts_with("model")) continue;
    const auto size = fs::file_size(fs::path(written.directory) / name);
    if (name == "config.json")
      EXPECT_GT(size, entry.file_size());
    else
      EXPECT_EQ(size, entry.file_size()) << name;
  }
}

TEST_F(QuantizeCheckpoint, RefusesByNameAndLeavesNothing) {
  EXPECT_THAT(quantize_error(golden_folder("qwen3_vl_moe/every_layer"), options(4)),
              HasSubstr("layers.0.mlp.experts.gate_up_proj\" has the matrices of all experts"));
  EXPECT_THAT(quantize_error(golden_folder("quantised/awq_row"), options(4)),
              HasSubstr("quantised already: AWQ"));
  EXPECT_NE(quantize_error(golden_folder("minilm/mean_short"), options(4)), "");
  QuantizeOptions nowhere = options(4);
  nowhere.directory = root_ + "/none/out";
  EXPECT_THAT(quantize_error(golden_folder("qwen2/odd_heads"), nowhere), HasSubstr("No such file"));
  QuantizeOptions inside = options(4);
  inside.directory = golden_folder("qwen2/odd_heads") + "/golden/out";
  EXPECT_THAT(quantize_error(golden_folder("qwen2/odd_heads"), inside), HasSubstr("is inside"));
  EXPECT_TRUE(entries().empty());

  fs::create_directories(root_ + "/out");
  std::ofstream(root_ + "/out/mine") << "x";
  EXPECT_THAT(quantize_error(golden_folder("qwen2/odd_heads"), options(4)),
              HasSubstr("is there and not empty"));
  EXPECT_EQ(fs::file_size(root_ + "/out/mine"), 1U);
  fs::remove(root_ + "/out/mine");
  QuantizeOptions slashed = options(4);
  slashed.directory += "/";
  EXPECT_EQ(quantize_error(golden_folder("qwen2/odd_heads"), slashed), "");
}

TEST_F(QuantizeCheckpoint, InterruptedLeavesNothing) {
  for (const int tensors : {0, 1, 20}) {
    QuantizeOptions stopped = options(4);
    int asked = 0;
    stopped.stopped = [&] { return asked++ == tensors; };
    const auto outcome = quantize(golden_folder("qwen2/odd_heads"), stopped);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled);
    EXPECT_TRUE(entries().empty());
  }
}

// What compressed-tensors reads the very same files as (tools/goldens/compressed.py): the digest of
// each matrix's numbers in float32.
TEST_F(QuantizeCheckpoint, IsReadByCompressedTensorsAsByUs) {
  const auto golden = json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/compressed.json");
  ASSERT_TRUE(golden) << golden.error().message;
  std::size_t matrices = 0;
  for (const auto& each : golden->at("checkpoints").as_array()) {
    const std::string source(each.at("source").as_string());
    QuantizeOptions written = options(static_cast<int>(each.at("bits").as_int64()));
    SCOPED_TRACE(fmt::format("{} in {} bits", source, written.bits));
    const auto outcome = quantize(golden_folder(source), written);
    ASSERT_TRUE(outcome) << outcome.error().message;
    const auto checkpoint = open_checkpoint(written.directory);
    const auto quantization = parse_quantization(checkpoint->config);
    ASSERT_TRUE(quantization) << quantization.error().message;
    auto weights = Weights::open(written.directory, {}, *quantization);
    ASSERT_TRUE(weights) << weights.error().message;
    const json::object& digests = each.at("matrices").as_object();
    EXPECT_EQ(digests.size(), outcome->matrices);
    for (const auto& member : digests) {
      const View numbers = weights->take(std::string(member.key()) + ".weight");
      Sha256 digest;
      digest.update(std::span(reinterpret_cast<const std::byte*>(numbers.row<float>(0)),
                              static_cast<std::size_t>(numbers.rows() * numbers.cols()) * 4));
      EXPECT_EQ(to_hex(digest.finish()), member.value().as_string()) << member.key();
      ++matrices;
    }
    fs::remove_all(written.directory);
  }
  EXPECT_GT(matrices, 40U);
}

}  // namespace
}  // namespace saccade

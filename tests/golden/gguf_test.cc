// GGUF files that tools/goldens/gguf_files.py made of checkpoints here: every tensor is the
// checkpoint's, but for what quantising it cost, and what a model answers from one is, bit for bit,
// what the checkpoint answers with such weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "model/checkpoint/mapped_file.h"
#include "model/checkpoint/tensor_names.h"
#include "model/gguf/gguf_header.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/solo_run.h"
#include "ops/formats/block_codes.h"
#include "ops/readback.h"
#include "tests/golden/family_golden.h"
#include "text/templates/chat_template.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;
using ::testing::HasSubstr;

// As the script's list has them: of a larger checkpoint the first layers.
struct Case {
  const char* name;
  const char* checkpoint;
  std::int64_t layers;
  std::int64_t tower_layers;  // 0: text alone
  double loss;                // largest of an element, over the largest of its tensor
  bool same_rope = true;      // frequencies bit for bit
};
const std::vector<Case> kGgufCases = {
    {"qwen2_bf16", "qwen2/odd_heads", 1, 0, 1.0 / 256},
    {"qwen2_q8_0", "qwen2/odd_heads", 1, 0, 0.01},
    {"qwen3_f16", "qwen3/odd_heads", 1, 0, 1.0 / 2048},
    {"qwen3_moe", "qwen3_moe/some_layers", 2, 0, 0},
    {"llama3_scaled", "llama3/scaled", 1, 0, 0, false},
    {"llama3_q4_0", "llama3/scaled", 2, 0, 0.125, false},
    {"qwen2_vl", "qwen2_vl/odd_heads", 2, 1, 0.1},
    {"qwen2_5_vl", "qwen2_5_vl/odd_heads", 1, 2, 0.01},
    {"qwen3_vl", "qwen3_vl/odd_heads", 2, 1, 0.1},
    {"qwen3_vl_moe", "qwen3_vl_moe/every_layer", 2, 3, 0.01},
    {"gemma3", "gemma3/classes", 2, 2, 1e-4},
    {"smolvlm2", "smolvlm2/fifths", 2, 2, 0},
    {"pixtral", "pixtral/rows", 1, 1, 0.1},
    {"mistral3", "mistral3/ninths", 2, 2, 0},
    {"llava_onevision", "llava_onevision/newlines", 3, 3, 1e-6},
    {"qwen3_5_vl", "qwen3_5_vl/odd_heads", 4, 2, 0.01},
    {"minicpmv", "minicpmv/slices", 4, 3, 1e-6},
    {"internvl3", "internvl3/hf3", 2, 2, 0},
};

std::string gguf_of(const Case& of) { return golden_folder(std::string("gguf/") + of.name); }

bool is_tower(std::string_view name) {
  for (const std::string_view part :
       {"visual.", "vision_tower.", "vision_model.", "projector.", "image_newline", "merger."})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

// The number of the layer that a tensor is of; -1: of none.
std::int64_t layer_of(std::string_view name) {
  for (const std::string_view before : {"layers.", "blocks.", "layer.", "merger_list."}) {
    const std::size_t at = name.find(before);
    if (at == std::string_view::npos) continue;
    const char digit = name[at + before.size()];
    if (digit >= '0' && digit <= '9') return digit - '0';
  }
  return -1;
}

void keep_below(json::object& section, const char* name, std::int64_t limit) {
  json::value* const list = section.if_contains(name);
  if (list == nullptr || !list->is_array()) return;
  json::array kept;
  for (const json::value& each : list->get_array())
    if (each.to_number<std::int64_t>() < limit) kept.push_back(each);
  *list = std::move(kept);
}

// config.json of as many layers.
json::object reduced(json::object config, const Case& of) {
  json::value* const nested = config.if_contains("text_config");
  json::object& text = nested == nullptr ? config : nested->as_object();
  text["num_hidden_layers"] = of.layers;
  // Of no file with images, and nothing in a GGUF of the Llama architecture says it.
  const std::string_view checkpoint = of.checkpoint;
  if (checkpoint.starts_with("mistral3") || checkpoint.starts_with("pixtral"))
    text["sliding_window"] = nullptr;
  keep_below(text, "mlp_only_layers", of.layers);
  if (json::value* const types = text.if_contains("layer_types"))
    types->as_array().resize(static_cast<std::size_t>(of.layers));
  if (json::value* const section = config.if_contains("vision_config")) {
    json::object& vision = section->as_object();
    for (const char* const name : {"depth", "num_hidden_layers"})
      if (vision.contains(name)) vision[name] = of.tower_layers;
    keep_below(vision, "deepstack_visual_indexes", of.tower_layers);
    keep_below(vision, "fullatt_block_indexes", of.tower_layers);
  }
  return config;
}

std::vector<float> floats_of(View view) {
  std::vector<float> values;
  for (std::int64_t row = 0; row < view.rows(); ++row) {
    for (std::int64_t col = 0; col < view.cols(); ++col) {
      if (view.dtype() == DType::kF32) values.push_back(view.row<float>(row)[col]);
      if (view.dtype() == DType::kBf16) values.push_back(to_float(view.row<Bf16>(row)[col]));
      if (view.dtype() == DType::kF16) values.push_back(to_float(view.row<F16>(row)[col]));
    }
  }
  return values;
}

// [experts, a, b] to [experts, b, a].
std::vector<float> turned(const std::vector<float>& from, const std::vector<std::int64_t>& shape) {
  std::vector<float> to(from.size());
  for (std::int64_t e = 0; e < shape[0]; ++e)
    for (std::int64_t a = 0; a < shape[1]; ++a)
      for (std::int64_t b = 0; b < shape[2]; ++b)
        to[static_cast<std::size_t>((e * shape[1] + a) * shape[2] + b)] =
            from[static_cast<std::size_t>((e * shape[2] + b) * shape[1] + a)];
  return to;
}

class Gguf : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/saccade_gguf_" + GetParam().name;
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  // The checkpoint, cut to the case's layers, with the weights that the GGUF has. Says which
  // tensors differ by more than the case allows.
  void write_with_its_weights() {
    const Case& of = GetParam();
    const std::string from = golden_folder(of.checkpoint);
    for (const auto& entry : fs::directory_iterator(from)) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file() && !name.starts_with("model") && name != "config.json")
        fs::copy(entry.path(), fs::path(root_) / name);
    }
    const auto original = open_checkpoint(from);
    ASSERT_TRUE(original) << original.error().message;
    std::ofstream(root_ + "/config.json") << boost::json::serialize(reduced(original->config, of));
    const auto family = family_of(original->config);
    ASSERT_TRUE(family) << family.error().message;
    auto given = Weights::open(gguf_of(of), (*family)->aliases);
    ASSERT_TRUE(given) << given.error().message;
    auto wanted = Weights::open(from, (*family)->aliases);
    ASSERT_TRUE(wanted) << wanted.error().message;

    std::vector<SafetensorsPlan> plan;
    std::string data;
    const auto files = find_weight_files(from);
    ASSERT_TRUE(files);
    for (const std::string& path : files->paths) {
      const auto file = SafetensorsFile::open(path);
      ASSERT_TRUE(file);
      for (const SafetensorsEntry& entry : file->tensors()) {
        if (layer_of(entry.name) >= (is_tower(entry.name) ? of.tower_layers : of.layers)) continue;
        if (is_tower(entry.name) && of.tower_layers == 0) continue;
        const std::string name = canonical_name(entry.name, (*family)->aliases);
        ASSERT_TRUE(given->has(name)) << name;
        std::vector<float> values = floats_of(given->take(name));
        const std::vector<float> true_values = floats_of(wanted->take(name));
        ASSERT_EQ(values.size(), true_values.size()) << name;
        const bool experts = name.find("experts.gate_up_proj") != std::string::npos ||
                             name.find("experts.down_proj") != std::string::npos;
        if (experts && entry.shape.size() == 3) values = turned(values, entry.shape);
        // llama.cpp's converter for LLaVA leaves it out, and the tower does not run it.
        const bool idle = std::string_view(of.name) == "llava_onevision" &&
                          name.find("post_layernorm") != std::string::npos;
        if (!idle) compare(name, values, true_values);
        plan.push_back({entry.name, DType::kF32, entry.shape});
        data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      }
    }
    std::ofstream(root_ + "/model.safetensors", std::ios::binary)
        << make_safetensors_header(plan, {}) << data;
  }

  void compare(const std::string& name, const std::vector<float>& values,
               const std::vector<float>& wanted) {
    double most = 0;
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(wanted[i])));
      error = std::max(error, std::abs(static_cast<double>(values[i]) - wanted[i]));
    }
    EXPECT_LE(error, GetParam().loss * most) << name << " of " << most;
  }

  std::string root_;
};

// Logits of every token, and sixteen tokens after them.
struct GgufAnswer {
  std::vector<TokenId> ids;
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  std::size_t weight_bytes = 0;
};

LoadOptions as_numbers() {
  LoadOptions options{.compute = DType::kF32, .kv = {}};
  options.dequantize = true;
  return options;
}

// Of a made-up text, or of the golden's text and images.
GgufAnswer gguf_answer_of(const std::string& place, Device& device, const Golden* golden,
                          const LoadOptions& options = as_numbers()) {
  GgufAnswer answer;
  const auto checkpoint = open_checkpoint(place);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  if (!checkpoint) return answer;
  auto model = load_model(*checkpoint, device, options);
  EXPECT_TRUE(model) << model.error().message;
  const auto tokenizer = load_tokenizer(checkpoint->files);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  if (!model || !tokenizer) return answer;
  answer.weight_bytes = model->network->shape().weight_bytes;
  std::vector<PreparedImage> images;
  std::vector<ImageLayout> layouts;
  std::string text = "The sky above the port was 7 x 91, caf\u00e9";
  if (golden != nullptr) {
    auto prepared = test::prepare_golden_images(*model->processor, *golden);
    EXPECT_TRUE(prepared) << prepared.error().message;
    if (!prepared) return answer;
    images = *std::move(prepared);
    text = golden->rendered;
  }
  for (const PreparedImage& image : images) layouts.push_back(image.layout);
  auto prompt = model->processor->build_prompt(**tokenizer, text, layouts, false);
  EXPECT_TRUE(prompt) << prompt.error().message;
  if (!prompt) return answer;
  answer.ids = prompt->ids;
  const auto rows = static_cast<std::int64_t>(prompt->ids.size());
  auto run = SoloRun::create(*model->network, device, *std::move(prompt), images, 16);
  EXPECT_TRUE(run) << run.error().message;
  if (!run) return answer;
  Buffer staging;
  const View logits = *readable(device.lane(Lane::kStep), (*run)->prefill(0, rows), staging);
  answer.logits = floats_of(logits);
  answer.tokens = (*run)->greedy(16);
  return answer;
}

void expect_same(const GgufAnswer& given, const GgufAnswer& wanted, bool exactly) {
  ASSERT_FALSE(wanted.tokens.empty());
  EXPECT_EQ(given.ids, wanted.ids);
  EXPECT_EQ(given.tokens, wanted.tokens);
  ASSERT_EQ(given.logits.size(), wanted.logits.size());
  if (exactly) {
    EXPECT_TRUE(given.logits == wanted.logits);
    return;
  }
  for (std::size_t i = 0; i < wanted.logits.size(); ++i)
    ASSERT_NEAR(given.logits[i], wanted.logits[i], 1e-4F) << i;
}

TEST_P(Gguf, AnswersAsItsCheckpointWithSuchWeights) {
  const Case& of = GetParam();
  ASSERT_NO_FATAL_FAILURE(write_with_its_weights());
  const auto device = make_cpu_device(kDeviceThreads).value();
  {
    SCOPED_TRACE("text");
    expect_same(gguf_answer_of(gguf_of(of), *device, nullptr),
                gguf_answer_of(root_, *device, nullptr), of.same_rope);
  }
  if (of.tower_layers == 0) return;
  const auto golden = read_golden(golden_folder(of.checkpoint) + "/golden/one_image.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  {
    SCOPED_TRACE("an image");
    expect_same(gguf_answer_of(gguf_of(of), *device, &*golden),
                gguf_answer_of(root_, *device, &*golden), of.same_rope);
  }
}

// Texts alone, of a file whose model sees images too.
TEST_P(Gguf, ItsTextNeedsNoProjector) {
  const Case& of = GetParam();
  if (of.tower_layers == 0) GTEST_SKIP() << "it has none";
  const auto device = make_cpu_device(kDeviceThreads).value();
  const GgufAnswer alone = gguf_answer_of(gguf_of(of) + "/model.gguf", *device, nullptr);
  expect_same(alone, gguf_answer_of(gguf_of(of), *device, nullptr), true);
}

// The small files that a template and a sampler are made from.
TEST_P(Gguf, HasItsTemplateAndEnds) {
  const Case& of = GetParam();
  const auto given = open_checkpoint(gguf_of(of));
  const auto wanted = open_checkpoint(golden_folder(of.checkpoint));
  ASSERT_TRUE(given && wanted);
  const auto shipped = load_chat_template(wanted->files);
  const auto here = load_chat_template(given->files);
  ASSERT_EQ(here.has_value(), shipped.has_value());
  if (shipped) {
    EXPECT_EQ(here->source, shipped->source);
    for (const char* const token : {"bos_token", "eos_token"})
      if (shipped->variables.contains(token) && here->variables.contains(token)) {
        EXPECT_EQ(here->variables.at(token), shipped->variables.at(token));
      }
  }
  const auto ends = eos_tokens(*given);
  ASSERT_TRUE(ends);
  EXPECT_FALSE(ends->empty());
}

INSTANTIATE_TEST_SUITE_P(Files, Gguf, ::testing::ValuesIn(kGgufCases),
                         [](const auto& each) { return std::string(each.param.name); });

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

// As a CPU serves them: what is in blocks becomes bytes, Q4_0 stays codes of four bits, and what is
// in no blocks stays numbers.
TEST(GgufFiles, BlocksBecomeBytesAndFourBitsStay) {
  const auto device = make_cpu_device(kDeviceThreads).value();
  const LoadOptions numbers{.compute = DType::kF32, .kv = {}};
  LoadOptions small = numbers;
  small.int8_rows = Int8Rows::kBeforeBlocks;
  LoadOptions codes = numbers;
  codes.int8_rows = Int8Rows::kBeforeFourBits;
  const auto answer = [&](const char* name, const LoadOptions& options) {
    return gguf_answer_of(golden_folder(std::string("gguf/") + name), *device, nullptr, options);
  };
  expect_same(answer("llama3_q4_0", small), answer("llama3_q4_0", codes), true);
  expect_same(answer("qwen3_f16", small), answer("qwen3_f16", numbers), true);
  for (const char* const name : {"qwen2_q8_0", "pixtral", "qwen3_vl"}) {
    SCOPED_TRACE(name);
    const GgufAnswer bytes = answer(name, small);
    const GgufAnswer exact = answer(name, numbers);
    EXPECT_LT(bytes.weight_bytes, exact.weight_bytes);
    ASSERT_EQ(bytes.logits.size(), exact.logits.size());
    std::vector<float> lost = exact.logits;
    for (std::size_t i = 0; i < lost.size(); ++i) lost[i] -= bytes.logits[i];
    EXPECT_GT(largest(lost), 0);
    EXPECT_LT(largest(lost), 0.05 * largest(exact.logits));
  }
}

// What is there whole and not quantised gives what transformers gives.
TEST(GgufFiles, WholeOnesAgreeWithTheReference) {
  const auto device = make_cpu_device(kDeviceThreads).value();
  for (const auto& [name, checkpoint] : {std::pair{"smolvlm2", "smolvlm2/fifths"},
                                         {"llava_onevision", "llava_onevision/newlines"},
                                         {"minicpmv", "minicpmv/slices"},
                                         {"internvl3", "internvl3/hf3"}}) {
    SCOPED_TRACE(name);
    const std::string folder = golden_folder(std::string("gguf/") + name);
    const auto model = test::load(folder, *device);
    ASSERT_NE(model, nullptr);
    const auto tokenizer = load_tokenizer(open_checkpoint(folder)->files);
    ASSERT_TRUE(tokenizer);
    for (const char* const each : {"text", "one_image", "three_images"}) {
      const auto golden =
          read_golden(golden_folder(checkpoint) + "/golden/" + each + ".safetensors");
      if (!golden) continue;
      const auto report = compare_with_golden(*model, *device, **tokenizer, *golden);
      ASSERT_TRUE(report) << report.error().message;
      const StageResult* const stage = report->first_divergence(test::kTolerance);
      EXPECT_EQ(stage, nullptr) << each << ": " << (stage == nullptr ? "" : stage->name);
    }
  }
}

// Codes of four bits that are kept, beside the same as numbers.
TEST(GgufFiles, KeptCodesAnswerAsDequantised) {
  const auto device = make_cpu_device(kDeviceThreads).value();
  const std::string place = golden_folder("gguf/llama3_q4_0");
  const auto checkpoint = open_checkpoint(place);
  ASSERT_TRUE(checkpoint);
  const auto tokenizer = load_tokenizer(checkpoint->files);
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::size_t> bytes;
  for (const bool dequantize : {false, true}) {
    LoadOptions options{.compute = DType::kF32, .kv = {}};
    options.dequantize = dequantize;
    const auto model = load_model(*checkpoint, *device, options);
    ASSERT_TRUE(model) << model.error().message;
    bytes.push_back(model->shape().weight_bytes);
    auto prompt = model->processor->build_prompt(**tokenizer, "The sky above the port", {}, false);
    auto run = SoloRun::create(*model->network, *device, *std::move(prompt), {}, 16);
    ASSERT_TRUE(run);
    (*run)->prefill();
    tokens.push_back((*run)->greedy(16));
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_LT(bytes[0], bytes[1] / 2);
}

// Every type, bit for bit as ggml's own package has it.
TEST(GgufFiles, BlocksAreTheirNumbers) {
  const auto file = SafetensorsFile::open(golden_folder("gguf/blocks.safetensors"));
  ASSERT_TRUE(file) << file.error().message;
  for (const BlockFormat& format : block_formats()) {
    SCOPED_TRACE(format.name);
    const auto* const blocks = file->find(std::string(format.name) + ".blocks");
    const auto* const numbers = file->find(std::string(format.name) + ".numbers");
    ASSERT_TRUE(blocks != nullptr && numbers != nullptr);
    std::vector<float> made(static_cast<std::size_t>(numbers->shape[0]));
    dequantize_blocks(format.type, file->bytes(*blocks), made.data());
    EXPECT_EQ(std::memcmp(made.data(), file->bytes(*numbers).data(), made.size() * sizeof(float)),
              0);
  }
}

// Vocabularies as a GGUF has them encode and decode as the tokenizers that they are of.
TEST(GgufFiles, TokenizersAreTheirOriginals) {
  for (const char* const kind : {"qwen2", "llama3", "model_bpe"}) {
    SCOPED_TRACE(kind);
    const std::string folder = golden_folder(std::string("tokenizers/") + kind);
    const auto file =
        MappedFile::open(golden_folder(std::string("gguf/tokenizers/") + kind + ".gguf"));
    ASSERT_TRUE(file) << file.error().message;
    const auto header = parse_gguf(file->bytes());
    ASSERT_TRUE(header) << header.error().message;
    auto texts = read_gguf_tokenizer(header->metadata);
    ASSERT_TRUE(texts) << texts.error().message;
    const auto given = load_tokenizer(NamedFiles(kind, *std::move(texts)));
    ASSERT_TRUE(given) << given.error().message;
    const auto wanted = load_tokenizer(folder);
    ASSERT_TRUE(wanted) << wanted.error().message;
    EXPECT_EQ((*given)->vocab_size(), (*wanted)->vocab_size());
    std::ifstream strings(folder + "/strings.jsonl");
    std::size_t count = 0;
    for (std::string line; std::getline(strings, line);) {
      const auto tree = json::parse(line);
      ASSERT_TRUE(tree) << line;
      const json::value* const text = json::find(tree->get_object(), "text");
      if (text == nullptr) continue;
      ++count;
      for (const bool adds : {false, true}) {
        const EncodeOptions options{.add_special_tokens = adds};
        const std::vector<TokenId> ids = (*wanted)->encode(text->get_string(), options);
        ASSERT_EQ((*given)->encode(text->get_string(), options), ids) << line;
        ASSERT_EQ((*given)->decode(ids, adds), (*wanted)->decode(ids, adds)) << line;
      }
    }
    EXPECT_GT(count, 500U);
  }
}

TEST(GgufFiles, SaysWhatItCannotOpen) {
  const auto error = [](const std::string& place) {
    const auto checkpoint = open_checkpoint(place);
    return checkpoint ? std::string("no error") : checkpoint.error().message;
  };
  const std::string vl = golden_folder("gguf/qwen2_vl");
  EXPECT_THAT(error(vl + "/mmproj.gguf"), HasSubstr("holds a vision tower alone"));
  EXPECT_THAT(error(vl + "/model.gguf," + vl + "/model.gguf"),
              HasSubstr("general.architecture is \"qwen2vl\", a projector's (mmproj) is \"clip\""));
  EXPECT_THAT(error(golden_folder("gguf/qwen2_bf16") + "/model.gguf," + vl + "/mmproj.gguf"),
              HasSubstr("clip.projector_type is \"qwen2vl_merger\", which is not read beside a "
                        "text of \"qwen2\""));
  const auto missing = resolve_checkpoint(vl + "/none.gguf");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("there is no file"));
  const std::string several = ::testing::TempDir() + "/saccade_gguf_several";
  fs::remove_all(several);
  fs::create_directories(several);
  fs::copy(vl + "/model.gguf", several + "/a.gguf");
  fs::copy(vl + "/model.gguf", several + "/b.gguf");
  EXPECT_THAT(error(several), HasSubstr("holds 2 models in GGUF; name one of a.gguf, b.gguf"));
  fs::remove_all(several);
}

}  // namespace
}  // namespace saccade

// Sentence encoders against sentence-transformers: every stage of two small checkpoints on every
// device, and one hundred sentences with the real all-MiniLM-L6-v2 where it is installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/readback.h"
#include "tests/golden/family_golden.h"
#include "text/tokenizer.h"

namespace saccade {
namespace {

using test::golden_folder;
using ::testing::HasSubstr;

const std::vector<std::string> kSentenceEncoders = {"mean_short", "cls_long"};

struct Loaded {
  std::unique_ptr<SentenceEncoder> encoder;
  std::unique_ptr<Tokenizer> tokenizer;
};

Loaded load_encoder_at(const std::string& directory, Device& device) {
  Loaded loaded;
  auto checkpoint = open_checkpoint(directory);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  if (!checkpoint) return loaded;
  auto encoder = load_encoder(*checkpoint, device, {.compute = DType::kF32, .kv = {}});
  EXPECT_TRUE(encoder) << encoder.error().message;
  auto tokenizer = load_tokenizer(directory);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  if (encoder && tokenizer) loaded = {*std::move(encoder), *std::move(tokenizer)};
  return loaded;
}

std::vector<TokenId> fitted(const Loaded& with, std::string_view text) {
  std::vector<TokenId> ids = with.encoder->tokenize(*with.tokenizer, text);
  with.encoder->truncate(*with.tokenizer, ids, with.encoder->shape().max_tokens);
  return ids;
}

// The embeddings of several sequences in one forward.
std::vector<std::vector<float>> embed(SentenceEncoder& encoder, Device& device,
                                      const std::vector<std::vector<TokenId>>& inputs,
                                      const Tap& tap = {}) {
  std::vector<TokenId> ids;
  std::vector<std::int32_t> begins = {0};
  for (const auto& input : inputs) {
    ids.insert(ids.end(), input.begin(), input.end());
    begins.push_back(static_cast<std::int32_t>(ids.size()));
  }
  const auto count = static_cast<std::int64_t>(inputs.size());
  const std::int64_t width = encoder.shape().dimensions;
  EXPECT_TRUE(encoder.reserve(device, static_cast<std::int64_t>(ids.size()), count));
  std::vector<float> out(static_cast<std::size_t>(count * width));
  const Buffer memory = *device.allocate(out.size() * sizeof(float));
  Stream& stream = device.lane(Lane::kStep);
  encoder.forward(stream, ids, begins, memory.view(DType::kF32, count, width), tap);
  stream.retire();
  Buffer staging;
  const View read = *readable(stream, memory.view(DType::kF32, 1, count * width), staging);
  std::copy_n(read.row<float>(0), out.size(), out.begin());
  std::vector<std::vector<float>> rows;
  for (std::int64_t i = 0; i < count; ++i)
    rows.emplace_back(out.begin() + i * width, out.begin() + (i + 1) * width);
  return rows;
}

double error_of(std::span<const float> value, std::span<const float> wanted) {
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    worst = std::max(worst, std::abs(double{value[i]} - wanted[i]));
    largest = std::max(largest, std::abs(double{wanted[i]}));
  }
  return worst / std::max(largest, 1e-30);
}

template <typename T>
std::vector<T> tensor(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  EXPECT_NE(entry, nullptr) << name;
  if (entry == nullptr) return {};
  const auto bytes = file.bytes(*entry);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::string> golden_texts(const SafetensorsFile& file) {
  const auto tree = json::parse(file.metadata().at("golden")).value();
  std::vector<std::string> texts;
  for (const auto& text : json::find(tree.get_object(), "texts")->get_array())
    texts.emplace_back(text.get_string());
  return texts;
}

void expect_stages(const Loaded& loaded, Device& device, const SafetensorsFile& golden) {
  const auto texts = golden_texts(golden);
  ASSERT_EQ(texts.size(), 10U);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(texts[i]);
    const std::string at = std::to_string(i) + ".";
    const auto ids = fitted(loaded, texts[i]);
    ASSERT_EQ(ids, tensor<std::int32_t>(golden, at + "ids"));
    const auto rows = tensor<std::int32_t>(golden, at + "rows");
    int stages = 0;
    const Tap tap = [&](std::string_view name, View value) {
      if (name == "text.pooled" || name == "text.embedding") return;
      const auto wanted = tensor<float>(golden, at + std::string(name));
      const auto width = static_cast<std::size_t>(value.cols());
      ASSERT_EQ(wanted.size(), rows.size() * width);
      for (std::size_t r = 0; r < rows.size(); ++r)
        EXPECT_LT(error_of({value.row<float>(rows[r]), width},
                           std::span(wanted).subspan(r * width, width)),
                  test::kTolerance)
            << name << " row " << rows[r];
      ++stages;
    };
    const auto embedding = embed(*loaded.encoder, device, {ids}, tap).front();
    EXPECT_GE(stages, 3);
    EXPECT_LT(error_of(embedding, tensor<float>(golden, at + "text.embedding")), test::kTolerance);
  }
}

class EncoderGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(EncoderGolden, EveryStageAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const std::string& name : kSentenceEncoders) {
    SCOPED_TRACE(name);
    const std::string directory = golden_folder("minilm/" + name);
    const auto golden = SafetensorsFile::open(directory + "/golden.safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const Loaded loaded = load_encoder_at(directory, *device);
    ASSERT_NE(loaded.encoder, nullptr);
    expect_stages(loaded, *device, *golden);
  }
}

// Bit for bit: what shares the forward does not matter.
TEST_P(EncoderGolden, BatchesDoNotChangeEmbeddings) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  const std::string directory = golden_folder("minilm/mean_short");
  const Loaded loaded = load_encoder_at(directory, *device);
  ASSERT_NE(loaded.encoder, nullptr);
  const auto golden = SafetensorsFile::open(directory + "/golden.safetensors");
  std::vector<std::vector<TokenId>> inputs;
  for (const auto& text : golden_texts(*golden)) inputs.push_back(fitted(loaded, text));
  const auto together = embed(*loaded.encoder, *device, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(embed(*loaded.encoder, *device, {inputs[i]}).front(), together[i]) << i;
}

// No epsilon to speak of: cosines are products of embeddings.
TEST_P(EncoderGolden, TheNormalisedHaveLengthOne) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  const Loaded loaded = load_encoder_at(golden_folder("minilm/mean_short"), *device);
  ASSERT_NE(loaded.encoder, nullptr);
  for (const std::string_view text : {"", "A saccade is the jump of the eye.", "!"}) {
    const auto rows = embed(*loaded.encoder, *device, {fitted(loaded, text)});
    double square = 0;
    for (const float value : rows.front()) square += double{value} * value;
    EXPECT_NEAR(square, 1, 1e-6) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, EncoderGolden, ::testing::ValuesIn(test::device_names()),
                         [](const auto& device) { return device.param; });

// A checkpoint saved from a model with a head: names begin with "bert.", old buffers stand beside.
TEST(SentenceEncoder, PrefixedNamesAndOldBuffersAreTheSameModel) {
  namespace fs = std::filesystem;
  const std::string from = golden_folder("minilm/mean_short");
  const std::string to = ::testing::TempDir() + "/saccade_prefixed_encoder";
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
  const auto file = SafetensorsFile::open(from + "/model.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  std::vector<SafetensorsPlan> plan;
  std::string data;
  for (const SafetensorsEntry& entry : file->tensors()) {
    plan.push_back({"bert." + entry.name, safetensors_dtype(entry.dtype).value(), entry.shape});
    const auto bytes = file->bytes(entry);
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  plan.push_back({"bert.embeddings.position_ids", DType::kI32, {1, 40}});
  data.append(160, '\0');
  std::ofstream(to + "/model.safetensors", std::ios::binary)
      << make_safetensors_header(plan, {}) << data;

  const auto device = make_reference_device();
  const Loaded loaded = load_encoder_at(to, *device);
  ASSERT_NE(loaded.encoder, nullptr);
  const auto golden = SafetensorsFile::open(from + "/golden.safetensors");
  expect_stages(loaded, *device, *golden);
  fs::remove_all(to);
}

void write(const std::string& path, std::string_view text) { std::ofstream(path) << text; }

TEST(SentenceEncoder, ModulesThatAreNotDoneAreNamed) {
  namespace fs = std::filesystem;
  const std::string to = ::testing::TempDir() + "/saccade_other_modules";
  fs::remove_all(to);
  fs::copy(golden_folder("minilm/mean_short"), to, fs::copy_options::recursive);
  const auto message = [&] {
    const auto encoder = create_encoder(open_checkpoint(to).value());
    return encoder ? std::string("loaded") : encoder.error().message;
  };
  EXPECT_EQ(message(), "loaded");
  write(to + "/1_Pooling/config.json", R"({"pooling_mode": "lasttoken"})");
  EXPECT_THAT(message(), HasSubstr("lasttoken"));
  write(to + "/1_Pooling/config.json",
        R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})");
  EXPECT_THAT(message(), HasSubstr("mean_tokens+max_tokens"));
  write(to + "/1_Pooling/config.json", R"({"pooling_mode": "mean", "embedding_dimension": 49})");
  EXPECT_THAT(message(), HasSubstr("49"));
  write(to + "/modules.json",
        R"([{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "../x"}])");
  EXPECT_THAT(message(), HasSubstr("leaves the folder"));
  write(to + "/modules.json", R"([{"type": "a.Transformer"}, {"type": "a.Dense"}])");
  EXPECT_THAT(message(), HasSubstr("a.Dense"));
  write(to + "/modules.json", R"([{"type": "a.Transformer"}])");
  EXPECT_THAT(message(), HasSubstr("no Pooling"));
  fs::remove_all(to);
}

TEST(SentenceEncoder, IsNoModelThatGenerates) {
  const auto checkpoint = open_checkpoint(golden_folder("minilm/mean_short")).value();
  const auto model = create_model(checkpoint);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("generates none"));
  const auto encoder = create_encoder(open_checkpoint(golden_folder("qwen2/odd_heads")).value());
  ASSERT_FALSE(encoder);
  EXPECT_THAT(encoder.error().message, HasSubstr("generates text"));
}

TEST(SentenceEncoder, TruncationKeepsTheClosingToken) {
  const auto device = make_reference_device();
  const Loaded loaded = load_encoder_at(golden_folder("minilm/mean_short"), *device);
  ASSERT_NE(loaded.encoder, nullptr);
  const auto whole = loaded.encoder->tokenize(*loaded.tokenizer, "one two three four five");
  auto cut = whole;
  loaded.encoder->truncate(*loaded.tokenizer, cut, 4);
  EXPECT_EQ(cut, (std::vector<TokenId>{whole[0], whole[1], whole[2], whole.back()}));
  auto same = whole;
  loaded.encoder->truncate(*loaded.tokenizer, same, 1000);
  EXPECT_EQ(same, whole);
}

TEST(RealMiniLm, OneHundredSentencesAgree) {
  const std::string directory = SACCADE_SOURCE_DIR "/.cache/minilm";
  if (!std::filesystem::exists(directory + "/model.safetensors"))
    GTEST_SKIP() << "the real model is not here; scripts/fetch-minilm gets it";
  const auto device = make_cpu_device(2).value();
  const Loaded loaded = load_encoder_at(directory, *device);
  ASSERT_NE(loaded.encoder, nullptr);
  EXPECT_EQ(loaded.encoder->shape().max_tokens, 256);
  EXPECT_TRUE(loaded.encoder->shape().normalised);
  const auto sentences = json::parse_file(golden_folder("minilm/sentences.json")).value();
  const auto file = SafetensorsFile::open(golden_folder("minilm/reference.safetensors"));
  ASSERT_TRUE(file) << file.error().message;
  const auto wanted = tensor<float>(*file, "embeddings");
  const auto lengths = tensor<std::int32_t>(*file, "lengths");
  std::vector<std::vector<TokenId>> inputs;
  for (const auto& sentence : sentences.get_array())
    inputs.push_back(fitted(loaded, std::string_view(sentence.get_string())));
  ASSERT_EQ(inputs.size(), 100U);
  double worst = 0;
  for (std::size_t begin = 0; begin < inputs.size(); begin += 20) {
    const auto rows = embed(*loaded.encoder, *device,
                            {inputs.begin() + static_cast<std::ptrdiff_t>(begin),
                             inputs.begin() + static_cast<std::ptrdiff_t>(begin + 20)});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(inputs[begin + i].size(), static_cast<std::size_t>(lengths[begin + i]));
      const double error = error_of(rows[i], std::span(wanted).subspan((begin + i) * 384, 384));
      EXPECT_LT(error, test::kTolerance) << "sentence " << begin + i;
      worst = std::max(worst, error);
    }
  }
  RecordProperty("largest_difference", std::to_string(worst));
  std::printf("largest difference over largest magnitude: %.2e\n", worst);
}

}  // namespace
}  // namespace saccade

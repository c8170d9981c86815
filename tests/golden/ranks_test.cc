// Models split over ranks, each a thread with its own device: against transformers, stage by stage,
// and against the model in one piece.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <thread>

#include "model/solo_run.h"
#include "ops/team/collective.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using test::golden_folder;

// body(rank's model, its device) on as many threads as ranks.
void on_ranks(const std::string& directory, int ranks,
              const std::function<void(int, Model&, Device&)>& body,
              std::optional<DType> cache = std::nullopt) {
  const auto collectives = make_thread_collectives(ranks);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Model>> models;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(make_cpu_device(1).value());
    models.push_back(test::load(directory, *devices.back(),
                                {.compute = DType::kF32,
                                 .kv = cache,
                                 .ranks = collectives[static_cast<std::size_t>(rank)].get()}));
    ASSERT_NE(models.back(), nullptr);
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      body(rank, *models[at], *devices[at]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Split {
  std::string checkpoint;
  std::vector<std::string> goldens;
};

// What splits differently: biases, those of sums too, key heads that hold their queries
// (InternLM2), matrices that are stored in one (Phi-3), norms of heads and DeepStack, experts,
// norms after a block, layers that attend to images, heads whose neighbours turn, and stored codes.
const std::vector<Split> kSplits = {
    {"qwen2/odd_heads", {"text", "long"}},
    {"qwen3/odd_heads", {"text"}},
    {"internvl2/internlm2", {"text", "one_image"}},
    {"phi_3_vision/su", {"text", "one_image"}},
    {"qwen3_vl/odd_heads", {"text", "one_image"}},
    {"qwen3_moe/every_layer", {"text"}},
    {"qwen3_vl_moe/every_layer", {"text", "one_image", "three_images", "multi_turn"}},
    {"gemma3/pooled", {"text", "one_image"}},
    {"glm4v/odd_heads", {"text", "one_image"}},
    {"mllama/quarters", {"text", "one_image", "three_images"}},
    {"mistral3/ninths", {"text", "one_image"}},
    {"variants/biased", {"text"}},
    {"quantised/awq_row", {"text"}},
    {"quantised/gptq_order", {"text"}},
    {"quantised/fp8_block", {"text"}}};

TEST(Ranks, TwoAgreeWithTransformers) {
  for (const auto& [checkpoint, goldens] : kSplits) {
    SCOPED_TRACE(checkpoint);
    on_ranks(golden_folder(checkpoint), 2, [&](int, Model& model, Device& device) {
      for (const std::string& golden : goldens)
        test::expect_golden(model, device, golden_folder(checkpoint), golden);
    });
  }
}

struct RankAnswer {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  std::size_t weight_bytes = 0;
};

RankAnswer answer(Model& model, Device& device, const std::string& checkpoint,
                  const Golden& golden) {
  const auto media = test::prepare_golden_images(*model.processor, golden);
  EXPECT_TRUE(media) << media.error().message;
  const auto tokenizer = load_tokenizer(checkpoint);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  std::vector<ImageLayout> layouts;
  for (const PreparedImage& image : *media) layouts.push_back(image.layout);
  auto prompt = model.processor->build_prompt(**tokenizer, golden.rendered, layouts, false);
  EXPECT_TRUE(prompt) << prompt.error().message;
  auto run = SoloRun::create(*model.network, device, *std::move(prompt), *media, 24);
  EXPECT_TRUE(run) << run.error().message;
  const View logits = (*run)->prefill();
  RankAnswer answer;
  answer.logits.assign(logits.row<float>(0), logits.row<float>(0) + logits.cols());
  answer.tokens = (*run)->greedy(24);
  answer.weight_bytes = model.shape().weight_bytes;
  return answer;
}

TEST(Ranks, TwoAgreeWithOne) {
  for (const auto& [checkpoint, golden_name] :
       {std::pair<std::string, std::string>{"llama3/scaled", "text"},
        {"qwen2_5_vl/odd_heads", "one_image"},
        {"internvl2/internlm2", "one_image"},
        {"mllama/quarters", "one_image"},
        {"quantised/gptq_order", "long"}}) {
    SCOPED_TRACE(checkpoint);
    const std::string directory = golden_folder(checkpoint);
    const auto golden = read_golden(directory + "/golden/" + golden_name + ".safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    const auto device = make_cpu_device(1).value();
    const auto whole = test::load(directory, *device);
    ASSERT_NE(whole, nullptr);
    const RankAnswer want = answer(*whole, *device, directory, *golden);

    std::array<RankAnswer, 2> got;
    on_ranks(directory, 2, [&](int rank, Model& model, Device& its) {
      got[static_cast<std::size_t>(rank)] = answer(model, its, directory, *golden);
    });
    EXPECT_EQ(got[0].logits, got[1].logits);  // bit for bit: every rank goes on alone from here
    double largest = 0;
    double error = 0;
    for (std::size_t i = 0; i < want.logits.size(); ++i) {
      largest = std::max<double>(largest, std::abs(want.logits[i]));
      error = std::max<double>(error, std::abs(want.logits[i] - got[0].logits[i]));
    }
    EXPECT_LE(error, 1e-5 * largest);
    EXPECT_EQ(got[0].tokens, want.tokens);
    EXPECT_EQ(got[1].tokens, want.tokens);
    EXPECT_LT(got[0].weight_bytes, want.weight_bytes);
  }
}

// Each rank rounds the keys and values of its own heads, a head's row by itself. Sums over ranks
// run in another order than those of one process, so a row may be a step off: ranks agree to the
// bit among themselves, and with one process in what is said.
TEST(Ranks, KeysAndValuesInBytes) {
  for (const DType cache : {DType::kI8, DType::kE4m3}) {
    for (const char* checkpoint : {"qwen2_5_vl/odd_heads", "mllama/quarters"}) {
      SCOPED_TRACE(fmt::format("{} {}", checkpoint, name_of(cache)));
      const std::string directory = golden_folder(checkpoint);
      const auto golden = read_golden(directory + "/golden/one_image.safetensors");
      ASSERT_TRUE(golden) << golden.error().message;
      const auto device = make_cpu_device(1).value();
      const auto whole = test::load(directory, *device, {.compute = DType::kF32, .kv = cache});
      ASSERT_NE(whole, nullptr);
      const RankAnswer want = answer(*whole, *device, directory, *golden);
      std::array<RankAnswer, 2> got;
      on_ranks(
          directory, 2,
          [&](int rank, Model& model, Device& its) {
            EXPECT_EQ(model.shape().cache_dtype, cache);
            got[static_cast<std::size_t>(rank)] = answer(model, its, directory, *golden);
          },
          cache);
      EXPECT_EQ(got[0].logits, got[1].logits);
      EXPECT_EQ(got[0].tokens, want.tokens);
      EXPECT_EQ(got[1].tokens, want.tokens);
    }
  }
}

TEST(Ranks, WhatCannotBeSharedEvenlyIsRefused) {
  const auto device = make_cpu_device(1).value();
  const auto ranks = make_thread_collectives(2);
  const auto checkpoint = open_checkpoint(golden_folder("llama3/plain"));
  ASSERT_TRUE(checkpoint);
  const auto model =
      load_model(*checkpoint, *device, {.compute = {}, .kv = {}, .ranks = ranks[0].get()});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(model.error().message,
              ::testing::HasSubstr("num_attention_heads is 3, 2 ranks cannot share it evenly"));
}

}  // namespace
}  // namespace saccade

// Models split over ranks that are emulated GPUs and add up through NCCL's interface: the tokens of
// the model in one piece.
#include "model/solo_run.h"
#include "tests/golden/family_golden.h"
#include "tests/gpu/nccl_ranks.h"

namespace saccade {
namespace {

using test::fake_nccl;
using test::golden_folder;
using test::NcclRanks;

constexpr std::int64_t kTokens = 10;

struct Answer {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
};

Answer answer(Model& model, Device& device, const std::string& checkpoint, const Golden& golden) {
  Answer answer;
  const auto media = test::prepare_golden_images(*model.processor, golden);
  EXPECT_TRUE(media) << media.error().message;
  const auto tokenizer = load_tokenizer(checkpoint);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  if (!media || !tokenizer) return answer;
  std::vector<ImageLayout> layouts;
  for (const PreparedImage& image : *media) layouts.push_back(image.layout);
  auto prompt = model.processor->build_prompt(**tokenizer, golden.rendered, layouts, false);
  EXPECT_TRUE(prompt) << prompt.error().message;
  auto run = SoloRun::create(*model.network, device, *std::move(prompt), *media, kTokens);
  EXPECT_TRUE(run) << run.error().message;
  if (!run) return answer;
  const View logits = (*run)->prefill();
  const auto memory =
      device.allocate(static_cast<std::size_t>(logits.cols()) * sizeof(float), Space::kHost);
  EXPECT_TRUE(memory) << memory.error().message;
  if (!memory) return answer;
  const View host = memory->view(DType::kF32, 1, logits.cols());
  Stream& stream = device.lane(Lane::kStep);
  stream.download(logits.row_range(0, 1), host);
  stream.synchronize();
  answer.logits.assign(host.row<float>(0), host.row<float>(0) + host.cols());
  answer.tokens = (*run)->greedy(kTokens);
  return answer;
}

class NcclModels : public NcclRanks {
 protected:
  void expect_tokens_of_one(const std::string& checkpoint, const std::string& golden_name,
                            int ranks) {
    SCOPED_TRACE(checkpoint);
    const std::string directory = golden_folder(checkpoint);
    const auto golden = read_golden(directory + "/golden/" + golden_name + ".safetensors");
    ASSERT_TRUE(golden) << golden.error().message;
    Answer want;
    {
      const auto alone = make_emulated_cuda_device({.late = true, .seed = 2});
      const auto whole = test::load(directory, *alone);
      ASSERT_NE(whole, nullptr);
      want = answer(*whole, *alone, directory, *golden);
    }
    const Result<void> made = make(ranks);
    ASSERT_TRUE(made) << made.error().message;
    std::vector<std::unique_ptr<Model>> models;
    for (int rank = 0; rank < ranks; ++rank) {
      models.push_back(test::load(directory, device(rank),
                                  {.compute = DType::kF32, .kv = {}, .ranks = &collective(rank)}));
      ASSERT_NE(models.back(), nullptr);
    }
    std::vector<Answer> got(static_cast<std::size_t>(ranks));
    on_ranks([&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      got[at] = answer(*models[at], device(rank), directory, *golden);
    });
    ASSERT_FALSE(want.logits.empty());
    for (const Answer& each : got) {
      EXPECT_EQ(each.logits, got[0].logits);  // bit for bit: every rank goes on alone from here
      EXPECT_EQ(each.tokens, want.tokens);
    }
    double largest = 0;
    double error = 0;
    ASSERT_EQ(got[0].logits.size(), want.logits.size());
    for (std::size_t i = 0; i < want.logits.size(); ++i) {
      largest = std::max<double>(largest, std::abs(want.logits[i]));
      error = std::max<double>(error, std::abs(want.logits[i] - got[0].logits[i]));
    }
    EXPECT_LE(error, 1e-5 * largest);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_TRUE(collective(rank).status());
    EXPECT_GT(std::ssize(fake_nccl().calls), ranks * kTokens);
    models.clear();
  }
};

TEST_F(NcclModels, TwoGpusGiveTheTokensOfOne) {
  expect_tokens_of_one("qwen2/odd_heads", "text", 2);
  expect_tokens_of_one("qwen2_5_vl/odd_heads", "one_image", 2);
}

// Experts that share a row's terms, and codes that are kept.
TEST_F(NcclModels, WithExpertsAndKeptCodes) {
  expect_tokens_of_one("qwen3_moe/every_layer", "text", 2);
  expect_tokens_of_one("quantised/gptq_order", "text", 2);
}

}  // namespace
}  // namespace saccade

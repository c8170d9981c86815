// The sampling op against its slow twin: the same token for the same draw, but where a draw falls
// between two tokens whose shares differ in the last places.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/ops/devices.h"

namespace saccade {
namespace {

constexpr std::int64_t kVocab = 1000;

struct Choice {
  std::vector<SampledToken> sampled;
  std::vector<TokenLogit> alternatives;
  std::vector<std::int32_t> last_tokens;
};

struct Case {
  std::vector<float> logits;  // [rows, kVocab]
  std::vector<std::vector<std::uint32_t>> allowed;
  std::vector<std::int32_t> masked;
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::int32_t> prompt;
  std::vector<SamplingRow> rows;  // refer to the lists above
  std::vector<bool> penalised;
  int alternatives = 5;
};

Case random_case(Rng& rng, std::int64_t rows) {
  Case made;
  for (std::int64_t i = 0; i < rows * kVocab; ++i) {
    made.logits.push_back(static_cast<float>(rng.uniform() * 12 - 4));
  }
  for (int i = 0; i < 40; ++i) {
    made.masked.push_back(static_cast<std::int32_t>(rng.below(kVocab)));
    made.prompt.push_back(static_cast<std::int32_t>(rng.below(kVocab)));
    made.bias.emplace_back(static_cast<std::int32_t>(rng.below(kVocab + 50)),
                           static_cast<float>(rng.uniform() * 4 - 2));
  }
  made.allowed.resize(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    SamplingRow row;
    row.row = rows - 1 - i;
    row.slot = static_cast<std::int32_t>(i);
    auto& allowed = made.allowed[static_cast<std::size_t>(i)];
    if (rng.below(3) == 0) {
      for (int word = 0; word < 20; ++word) allowed.push_back(static_cast<std::uint32_t>(rng()));
    }
    row.temperature = rng.below(3) == 0 ? 0 : 0.2 + rng.uniform();
    row.top_k = rng.below(2) == 0 ? 0 : static_cast<std::int64_t>(1 + rng.below(60));
    row.top_p = rng.below(2) == 0 ? 1 : 0.2 + 0.7 * rng.uniform();
    row.min_p = rng.below(2) == 0 ? 0 : 0.1 * rng.uniform();
    row.repetition_penalty = 1 + static_cast<float>(rng.uniform());
    row.frequency_penalty = static_cast<float>(rng.uniform());
    row.presence_penalty = static_cast<float>(rng.uniform());
    row.draw = rng();
    row.alternatives = static_cast<int>(rng.below(7)) - 1;
    made.rows.push_back(row);
    made.penalised.push_back(rng.below(2) == 0);
  }
  return made;
}

// Two steps: the second one's penalties know what the first one gave.
Choice run(Device& device, const Case& of) {
  Stream& stream = device.lane(Lane::kStep);
  const auto count = static_cast<std::int64_t>(of.rows.size());
  std::vector<float> logits = of.logits;
  std::vector<RowStats> stats(of.rows.size());
  Choice result;
  result.last_tokens.assign(of.rows.size(), -1);
  std::vector<std::unique_ptr<TokenCounts>> counts(of.rows.size());
  for (int step = 0; step < 2; ++step) {
    const View matrix(logits.data(), DType::kF32, count, kVocab);
    const View numbers(stats.data(), DType::kU8, count, sizeof(RowStats));
    stream.row_stats(matrix, numbers);
    std::vector<SamplingRow> rows = of.rows;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!counts[i] && of.penalised[i]) counts[i] = device.count_tokens(of.prompt);
      rows[i].counts = counts[i].get();
      rows[i].allowed = of.allowed[i];
      rows[i].masked = {of.masked, std::span(of.masked).first(3)};
      rows[i].bias = of.bias;
      rows[i].draw += static_cast<std::uint64_t>(step);
    }
    std::vector<SampledToken> sampled(of.rows.size());
    std::vector<TokenLogit> lists(of.rows.size() * static_cast<std::size_t>(of.alternatives));
    stream.sample({.logits = matrix,
                   .stats = numbers,
                   .rows = rows,
                   .last_tokens = View(result.last_tokens.data(), DType::kI32, count, 1),
                   .sampled = View(sampled.data(), DType::kU8, count, sizeof(SampledToken)),
                   .alternatives = View(lists.data(), DType::kU8, count,
                                        of.alternatives * std::int64_t{sizeof(TokenLogit)})});
    stream.synchronize();
    result.sampled.insert(result.sampled.end(), sampled.begin(), sampled.end());
    result.alternatives.insert(result.alternatives.end(), lists.begin(), lists.end());
  }
  return result;
}

TEST(Sampling, EveryDeviceChoosesAsItsTwin) {
  Rng rng(21);
  int others = 0;
  int all = 0;
  for (std::int64_t round = 0; round < scaled(20, 8); ++round) {
    const Case of = random_case(rng, 16);
    const auto reference = make_reference_device();
    const Choice expected = run(*reference, of);
    for (const std::string& isa : isas_here()) {
      const TestDevice device = device_of(isa);
      const Choice got = run(*device, of);
      for (std::size_t i = 0; i < got.sampled.size(); ++i) {
        const SampledToken& token = got.sampled[i];
        const SampledToken& twin = expected.sampled[i];
        ++all;
        ASSERT_EQ(token.failed, twin.failed);
        ASSERT_EQ(token.alternatives, twin.alternatives);
        if (token.token != twin.token) {
          ++others;
          continue;
        }
        ASSERT_NEAR(token.logprob, twin.logprob, 1e-4f);
        for (std::int32_t a = 0; a < token.alternatives; ++a) {
          const std::size_t at = i * 5 + static_cast<std::size_t>(a);
          ASSERT_EQ(got.alternatives[at].token, expected.alternatives[at].token);
          ASSERT_NEAR(got.alternatives[at].logprob, expected.alternatives[at].logprob, 1e-4f);
        }
      }
      for (std::size_t i = 0; i < got.last_tokens.size(); ++i) {
        ASSERT_EQ(got.last_tokens[i], got.sampled[of.rows.size() + i].token);
      }
    }
  }
  // A draw hits the last places of a share once in many thousands; after it a sequence's second
  // step may differ too.
  EXPECT_LE(others, all / 500) << others << " of " << all;
}

// A given token is neither chosen nor counted: it has its log-probability, its rank among all
// tokens, equals counted with it, and the likeliest beside it.
TEST(Sampling, GivenTokensHaveProbabilityAndRank) {
  Rng rng(5);
  Case of = random_case(rng, 24);
  for (std::size_t i = 0; i < of.logits.size(); i += 3) of.logits[i] = std::floor(of.logits[i]);
  for (std::size_t i = 0; i < of.rows.size(); ++i) {
    SamplingRow& row = of.rows[i];
    if (i % 4 == 3) continue;  // one in four is chosen, beside them
    row.given = static_cast<std::int32_t>(rng.below(kVocab / 3)) * 3;
    row.alternatives = static_cast<int>(i % 6);
  }
  const auto reference = make_reference_device();
  const Choice expected = run(*reference, of);
  for (std::size_t i = 0; i < of.rows.size(); ++i) {
    const SamplingRow& row = of.rows[i];
    if (row.given < 0) continue;
    const std::span logits =
        std::span(of.logits).subspan(static_cast<std::size_t>(row.row * kVocab), kVocab);
    double sum = 0;
    std::int32_t rank = 0;
    const float logit = logits[static_cast<std::size_t>(row.given)];
    for (const float other : logits) {
      sum += std::exp(static_cast<double>(other));
      rank += other >= logit ? 1 : 0;
    }
    EXPECT_EQ(expected.sampled[i].token, row.given);
    EXPECT_EQ(expected.sampled[i].rank, rank);
    EXPECT_EQ(expected.sampled[i].alternatives, row.alternatives);
    EXPECT_NEAR(expected.sampled[i].logprob, static_cast<double>(logit) - std::log(sum), 1e-4);
  }
  for (const std::string& isa : isas_here()) {
    SCOPED_TRACE(isa);
    const TestDevice device = device_of(isa);
    const Choice got = run(*device, of);
    for (std::size_t i = 0; i < got.sampled.size(); ++i) {
      const SamplingRow& row = of.rows[i % of.rows.size()];
      if (row.given < 0) continue;
      const SampledToken& token = got.sampled[i];
      ASSERT_EQ(token.failed, 0);
      ASSERT_EQ(token.token, row.given);
      ASSERT_EQ(token.rank, expected.sampled[i].rank);
      ASSERT_EQ(token.alternatives, row.alternatives);
      ASSERT_NEAR(token.logprob, expected.sampled[i].logprob, 1e-4f);
      for (int a = 0; a < row.alternatives; ++a) {
        const std::size_t at = i * 5 + static_cast<std::size_t>(a);
        ASSERT_EQ(got.alternatives[at].token, expected.alternatives[at].token);
      }
    }
  }
}

// An id that is not known yet is read where sample() left it.
TEST(Sampling, EmbedReadsTheTokenThatASlotWasGiven) {
  std::vector<float> table(12);
  std::iota(table.begin(), table.end(), 0.0f);
  std::vector<std::int32_t> last = {2, 0, 3};
  for (const std::string& name : {std::string("reference"), isas_here().front()}) {
    const TestDevice device =
        name == "reference" ? TestDevice(make_reference_device()) : device_of(name);
    std::vector<float> out(9, -1.0f);
    device->embed({.table = View(table.data(), DType::kF32, 4, 3),
                   .ids = device->upload(std::vector<std::int32_t>{1, -1, -3}),
                   .last_tokens = View(last.data(), DType::kI32, 3, 1),
                   .out = View(out.data(), DType::kF32, 3, 3).col_range(0, 3)});
    EXPECT_EQ((std::vector<float>(out.begin(), out.begin() + 3)), (std::vector<float>{3, 4, 5}));
    EXPECT_EQ((std::vector<float>(out.begin() + 3, out.begin() + 6)),
              (std::vector<float>{6, 7, 8}));
    EXPECT_EQ(out[6], 9.0f);
    EXPECT_EQ(out[7], 10.0f);
  }
}

}  // namespace
}  // namespace saccade

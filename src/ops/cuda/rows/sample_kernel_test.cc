// The sampling kernel against its definition, which sorts: the same token to the last of equals,
// whatever the row looks like and wherever the draw falls. Masses are the kernel's integers, so
// nothing here is near: a draw may fall exactly on a boundary. What a kernel is given lies on the
// heap, which a GPU sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/rng.h"
#include "ops/cuda/kernels.h"
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

using Mass = std::uint64_t;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLastDraw = 1 - 0x1.0p-53;

float exp_below_zero(float x) {
  x = std::max(x, -87.0f);
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>(static_cast<unsigned>(static_cast<int>(n) + 127) << 23);
}

Mass mass_of(float scaled) {
  return static_cast<Mass>(static_cast<double>(exp_below_zero(scaled)) * 0x1.0p40);
}

// One row's parameters, and its logits as they are drawn from.
struct Drawn {
  std::vector<float> logits;
  float scale = 1;
  float floor = std::numeric_limits<float>::lowest();
  std::int64_t top_k = 0;
  double top_p = 1;
  double uniform = 0;
};

struct Candidate {
  float scaled;
  std::int32_t token;
  Mass mass;
};

// Who is left, in the order of the draw.
std::vector<Candidate> candidates(const Drawn& of) {
  const float top = *std::max_element(of.logits.begin(), of.logits.end());
  std::vector<Candidate> left;
  for (std::size_t i = 0; i < of.logits.size(); ++i) {
    const float scaled = (of.logits[i] - top) * of.scale;
    if (scaled >= of.floor) left.push_back({scaled, static_cast<std::int32_t>(i), mass_of(scaled)});
  }
  const bool by_rank = of.top_k > 0 && of.top_k < static_cast<std::int64_t>(of.logits.size());
  if (by_rank || of.top_p < 1)
    std::stable_sort(left.begin(), left.end(),
                     [](const auto& a, const auto& b) { return a.scaled > b.scaled; });
  if (by_rank && of.top_k < static_cast<std::int64_t>(left.size())) {
    const float least = left[static_cast<std::size_t>(of.top_k - 1)].scaled;
    std::erase_if(left, [&](const Candidate& at) { return at.scaled < least; });
  }
  if (of.top_p < 1) {
    Mass total = 0;
    for (const Candidate& at : left) total += at.mass;
    const auto share =
        static_cast<Mass>(std::ceil(std::max(of.top_p, 0.0) * static_cast<double>(total)));
    const Mass wanted = std::max<Mass>(1, std::min(share, total));
    Mass sum = 0;
    std::size_t count = 0;
    while (sum < wanted) sum += left[count++].mass;
    left.resize(count);
  }
  return left;
}

std::int32_t token_of(const Drawn& of) {
  const std::vector<Candidate> left = candidates(of);
  Mass total = 0;
  for (const Candidate& at : left) total += at.mass;
  Mass bound = std::min(static_cast<Mass>(of.uniform * static_cast<double>(total)), total - 1);
  for (const Candidate& at : left) {
    if (bound < at.mass) return at.token;
    bound -= at.mass;
  }
  return -1;
}

// Draws that fall onto the boundaries of some candidates' shares, beside them, and anywhere.
std::vector<double> draws_of(const Drawn& of, Rng& rng) {
  std::vector<double> draws = {rng.below(2) == 0 ? 0 : kLastDraw, rng.uniform()};
  const std::vector<Candidate> left = candidates(of);
  std::vector<Mass> through(1, 0);
  for (const Candidate& at : left) through.push_back(through.back() + at.mass);
  for (int i = 0; i < 2; ++i) {
    const double at = static_cast<double>(through[rng.below(through.size())]) /
                      static_cast<double>(through.back());
    for (const double draw : {at, std::nextafter(at, i)})
      if (draw >= 0 && draw < 1) draws.push_back(draw);
  }
  return draws;
}

// All as rows of one launch, each with one's own logits; what was drawn of each.
std::vector<std::int32_t> drawn_by_kernel(const std::vector<Drawn>& each) {
  const auto count = static_cast<std::int64_t>(each.size());
  const auto vocab = static_cast<std::int64_t>(each.front().logits.size());
  TestRows logits(count, vocab, DType::kF32, true);
  std::vector<RowStatsEntry> stats(each.size());
  std::vector<SampledEntry> sampled(each.size());
  std::vector<SampleKernelRow> rows(each.size());
  for (std::size_t i = 0; i < each.size(); ++i) {
    for (std::int64_t col = 0; col < vocab; ++col)
      logits.set(static_cast<std::int64_t>(i), col, each[i].logits[static_cast<std::size_t>(col)]);
    rows[i].row = static_cast<std::int64_t>(i);
    rows[i].scale = each[i].scale;
    rows[i].floor = each[i].floor;
    rows[i].top_k = each[i].top_k;
    rows[i].top_p = each[i].top_p;
    rows[i].uniform = each[i].uniform;
    rows[i].sampled = &sampled[i];
  }
  launch_row_stats({logits.rows(), stats.data()}, nullptr);
  launch_sample(
      {.logits = logits.rows(), .stats = stats.data(), .rows = rows.data(), .count = count},
      nullptr);
  std::vector<std::int32_t> tokens;
  for (const SampledEntry& entry : sampled) tokens.push_back(entry.failed != 0 ? -1 : entry.token);
  return tokens;
}

// A launch of one row.
struct OneRow {
  std::vector<SampleKernelRow> row = std::vector<SampleKernelRow>(1);
  std::vector<SampledEntry> sampled = std::vector<SampledEntry>(1);
  std::vector<RowStatsEntry> stats = std::vector<RowStatsEntry>(1);
  std::vector<float> scratch;

  SampledEntry run(TestRows& logits) {
    row[0].sampled = sampled.data();
    if (row[0].adjusts) scratch.resize(static_cast<std::size_t>(logits.cols()));
    launch_row_stats({logits.rows(), stats.data()}, nullptr);
    launch_sample({.logits = logits.rows(),
                   .stats = stats.data(),
                   .rows = row.data(),
                   .count = 1,
                   .scratch = row[0].adjusts ? scratch.data() : nullptr},
                  nullptr);
    return sampled[0];
  }
};

// The row under every draw that draws_of() finds.
void check(const Drawn& of, Rng& rng) {
  std::vector<Drawn> each;
  for (const double uniform : draws_of(of, rng)) {
    each.push_back(of);
    each.back().uniform = uniform;
  }
  const std::vector<std::int32_t> got = drawn_by_kernel(each);
  for (std::size_t i = 0; i < each.size(); ++i)
    ASSERT_EQ(got[i], token_of(each[i]))
        << fmt::format("{} logits, scale {} floor {} top_k {} top_p {} uniform {}",
                       of.logits.size(), of.scale, of.floor, of.top_k, of.top_p, each[i].uniform);
}

float of_bits(unsigned bits) { return std::bit_cast<float>(bits); }

// Rows that searches may stumble over, by name.
std::map<std::string, std::vector<float>> shapes(std::size_t vocab, Rng& rng) {
  std::map<std::string, std::vector<float>> made;
  const auto filled = [&](const auto& make) {
    std::vector<float> logits(vocab);
    for (std::size_t i = 0; i < vocab; ++i) logits[i] = static_cast<float>(make(i));
    return logits;
  };
  const auto normal = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += rng.uniform();
    return sum;
  };
  made["normal"] = filled([&](auto) { return 3 * normal(); });
  made["narrow"] = filled([&](auto) { return 1e-3 * normal(); });
  made["all equal"] = filled([](auto) { return 1.25; });
  made["few values"] = filled([&](auto) { return static_cast<double>(rng.below(5)); });
  made["bf16"] = filled([&](auto) { return to_float(to_bf16(static_cast<float>(normal()))); });
  made["one has all"] = filled([&](auto i) { return i == vocab / 2 ? 80.0 : rng.uniform(); });
  made["mostly masked"] =
      filled([&](auto i) { return i % 97 == vocab % 97 || i == 0 ? normal() : -kInfinity; });
  // Ranks at both sides of where bins of the first histogram begin, and where there is no mass.
  made["borders"] = filled([&](auto i) {
    if (i == vocab / 3) return 0.0f;
    constexpr unsigned kAt[] = {0x00000000U, 0x39e10000U, 0x39e20000U, 0x3f800000U, 0x40490000U,
                                0x41100000U, 0x41dd0000U, 0x41ddd000U, 0x41e00000U, 0x42ae0000U};
    return -of_bits(kAt[rng.below(std::size(kAt))] + (rng.below(2) == 0 ? 0U : 0xffffU));
  });
  // One bin to the first two digits: what tells them apart is in the last.
  made["last digit"] = filled([&](auto i) {
    return i == vocab / 3 ? 0.0f : -of_bits(0x3f812340U + static_cast<unsigned>(rng.below(24)));
  });
  return made;
}

void check_shapes_of(std::size_t vocab, Rng& rng, int rounds) {
  for (const auto& [name, logits] : shapes(vocab, rng)) {
    SCOPED_TRACE(name);
    for (int round = 0; round < rounds; ++round) {
      Drawn of{.logits = logits};
      constexpr float kScales[] = {
          1, 1, 0.4f, 7, 100, 0x1.0p-60f, std::numeric_limits<float>::min()};
      of.scale = kScales[rng.below(std::size(kScales))];
      const std::int64_t top_ks[] = {0,
                                     0,
                                     1,
                                     2,
                                     20,
                                     static_cast<std::int64_t>(vocab) / 2,
                                     static_cast<std::int64_t>(vocab) - 1,
                                     static_cast<std::int64_t>(vocab) + 3};
      of.top_k = top_ks[rng.below(std::size(top_ks))];
      constexpr double kTopPs[] = {1, 1, 0.9, 0.5, 1e-3, 0, kLastDraw};
      of.top_p = kTopPs[rng.below(std::size(kTopPs))];
      constexpr float kFloors[] = {std::numeric_limits<float>::lowest(), -30, -28, -3, -1e-4f, 0};
      if (rng.below(2) == 0) of.floor = kFloors[rng.below(std::size(kFloors))];
      check(of, rng);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(SampleKernel, DrawsAsItsDefinition) {
  Rng rng(71);
  for (const std::size_t vocab : {1, 2, 31, 32, 33, 700}) check_shapes_of(vocab, rng, 4);
  check_shapes_of(4133, rng, 1);
}

// More than fit into shared memory have to be told apart over the row itself.
TEST(SampleKernel, MoreCandidatesThanAListHolds) {
  Rng rng(72);
  for (const auto& [name, logits] : shapes(5003, rng)) {
    SCOPED_TRACE(name);
    for (const auto& [top_k, top_p] :
         {std::pair<std::int64_t, double>{0, 0.999}, {1, 1}, {3000, 1}, {4900, 0.9}}) {
      check({.logits = logits, .scale = 0.3f, .top_k = top_k, .top_p = top_p}, rng);
    }
  }
}

TEST(SampleKernel, LargeVocabulary) {
  Rng rng(73);
  std::vector<float> logits(152064);
  for (float& logit : logits) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += rng.uniform();
    logit = static_cast<float>(2.5 * sum);
  }
  for (const auto& [top_k, top_p] :
       {std::pair<std::int64_t, double>{0, 1}, {0, 0.9}, {20, 1}, {1, 1}, {50, 0.8}}) {
    Drawn of{.logits = logits, .top_k = top_k, .top_p = top_p};
    std::vector<Drawn> each;
    for (int i = 0; i < 2; ++i) {
      each.push_back(of);
      each.back().uniform = rng.uniform();
    }
    const std::vector<std::int32_t> got = drawn_by_kernel(each);
    for (std::size_t i = 0; i < each.size(); ++i)
      EXPECT_EQ(got[i], token_of(each[i])) << top_k << " " << top_p;
  }
}

// The k-th has equals before and after it: all of them stay, and no other.
TEST(SampleKernel, EqualsOfTheLastStay) {
  Rng rng(74);
  std::vector<float> logits(1100, -2.0f);
  for (const std::size_t at : {3, 700, 1099}) logits[at] = 1;
  for (const std::size_t at : {0, 31, 32, 699, 701, 1098}) logits[at] = 0.5f;
  for (const std::int64_t top_k : {1, 2, 3, 4, 5, 9, 10}) {
    const Drawn of{.logits = logits, .top_k = top_k};
    std::vector<Drawn> each;
    for (int i = 0; i < 30; ++i) {
      each.push_back(of);
      each.back().uniform = i < 29 ? i / 29.0 : kLastDraw;
    }
    std::set<std::int32_t> seen;
    const std::vector<std::int32_t> got = drawn_by_kernel(each);
    for (std::size_t i = 0; i < each.size(); ++i) {
      ASSERT_EQ(got[i], token_of(each[i])) << top_k << " " << each[i].uniform;
      seen.insert(got[i]);
    }
    if (top_k < 10) {
      EXPECT_EQ(seen.size(), top_k <= 3 ? 3U : 9U) << top_k;
    }
  }
}

// Lists, penalties and allowed tokens, over rows that take several rounds of a warp.
TEST(SampleKernel, AdjustsInOrder) {
  Rng rng(75);
  constexpr std::int64_t kVocab = 5003;
  TestRows logits(1, kVocab, DType::kF32, true);
  for (int round = 0; round < 24; ++round) {
    logits.random(rng, 6);
    std::vector<float> expected(kVocab);
    for (std::int64_t col = 0; col < kVocab; ++col)
      expected[static_cast<std::size_t>(col)] = logits.at(0, col);
    OneRow one;
    SampleKernelRow& row = one.row[0];
    std::vector<std::uint32_t> allowed(round % 2 == 0 ? kVocab / 32 + 1 : 20);
    if (round % 3 != 0) {
      for (std::uint32_t& word : allowed) word = static_cast<std::uint32_t>(rng());
      row.allowed = allowed.data();
      row.allowed_words = static_cast<std::int32_t>(allowed.size());
      for (std::size_t token = 0; token < expected.size(); ++token)
        if (token / 32 >= allowed.size() || (allowed[token / 32] >> token % 32 & 1U) == 0)
          expected[token] = -kInfinity;
    }
    std::vector<std::int32_t> masked;
    std::vector<TokenBias> bias;
    if (round % 4 != 0) {
      for (int i = 0; i < 300; ++i) {
        masked.push_back(static_cast<std::int32_t>(rng.below(kVocab + 9)) - 4);
        bias.push_back(
            {static_cast<std::int32_t>(rng.below(kVocab / 20)), static_cast<float>(rng.uniform())});
      }
      row.masked[1] = masked.data();
      row.masked_count[1] = 300;
      row.bias = bias.data();
      row.bias_count = 300;
      for (const std::int32_t token : masked)
        if (token >= 0 && token < kVocab) expected[static_cast<std::size_t>(token)] = -kInfinity;
      for (const TokenBias& at : bias) expected[static_cast<std::size_t>(at.token)] += at.bias;
    }
    std::vector<std::int32_t> counts(kVocab);
    if (round % 5 != 0) {
      for (std::int32_t& count : counts)
        count = rng.below(2) == 0 ? 0 : static_cast<std::int32_t>(rng.below(3));
      row.counts = counts.data();
      row.repetition_penalty = 1.25f;
      row.frequency_penalty = 0.5f;
      row.presence_penalty = 0.25f;
      for (std::size_t token = 0; token < expected.size(); ++token) {
        if (counts[token] == 0 || expected[token] == -kInfinity) continue;
        float& logit = expected[token];
        logit = logit > 0 ? logit / 1.25f : logit * 1.25f;
        logit -= 0.5f * static_cast<float>(counts[token]);
        logit -= 0.25f;
      }
    }
    row.adjusts = row.allowed != nullptr || !masked.empty() || row.counts != nullptr;
    row.greedy = round % 7 == 6;
    row.floor = std::numeric_limits<float>::lowest();
    row.top_k = round % 2 == 0 ? 40 : 0;
    row.uniform = rng.uniform();
    const std::vector<std::int32_t> before = counts;
    const SampledEntry sampled = one.run(logits);
    const std::int32_t largest = static_cast<std::int32_t>(
        std::max_element(expected.begin(), expected.end()) - expected.begin());
    const std::int32_t drawn =
        token_of({.logits = expected, .top_k = row.top_k, .uniform = row.uniform});
    EXPECT_EQ(sampled.failed, 0);
    EXPECT_EQ(sampled.token, row.greedy ? largest : drawn) << round;
    for (std::size_t token = 0; token < counts.size(); ++token)
      ASSERT_EQ(
          counts[token],
          before[token] +
              (row.counts != nullptr && static_cast<std::int32_t>(token) == sampled.token ? 1 : 0));
  }
}

// The likeliest beside the token, and the rank of one that is given.
TEST(SampleKernel, AlternativesAreTheLikeliest) {
  Rng rng(76);
  for (const std::size_t vocab : {3, 700, 5003}) {
    for (const auto& [name, values] : shapes(vocab, rng)) {
      for (const int wanted : {0, 1, 3, 20}) {
        SCOPED_TRACE(fmt::format("{} of {} {}", wanted, vocab, name));
        TestRows logits(1, static_cast<std::int64_t>(vocab), DType::kF32, true);
        std::vector<std::int32_t> order;
        for (std::size_t i = 0; i < vocab; ++i) {
          logits.set(0, static_cast<std::int64_t>(i), values[i]);
          if (values[i] > -kInfinity) order.push_back(static_cast<std::int32_t>(i));
        }
        const auto logit = [&](std::int32_t token) {
          return values[static_cast<std::size_t>(token)];
        };
        std::stable_sort(order.begin(), order.end(),
                         [&](auto a, auto b) { return logit(a) > logit(b); });
        std::vector<AlternativeEntry> list(20);
        OneRow one;
        SampleKernelRow& row = one.row[0];
        row.given = wanted == 20 ? order[order.size() / 2] : -1;
        row.alternatives = wanted;
        row.list = list.data();
        const SampledEntry sampled = one.run(logits);
        ASSERT_EQ(sampled.failed, 0);
        ASSERT_EQ(sampled.alternatives, std::min(wanted, static_cast<int>(order.size())));
        for (int i = 0; i < sampled.alternatives; ++i)
          ASSERT_EQ(list[static_cast<std::size_t>(i)].token, order[static_cast<std::size_t>(i)]);
        if (row.given >= 0) {
          EXPECT_EQ(sampled.token, row.given);
          EXPECT_EQ(sampled.rank, std::count_if(order.begin(), order.end(), [&](auto token) {
                      return logit(token) >= logit(row.given);
                    }));
        }
      }
    }
  }
}

}  // namespace
}  // namespace saccade::cuda

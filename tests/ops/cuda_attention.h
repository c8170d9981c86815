// For the tests of attention's kernels: calls over pages in any order or rows without pages, with
// their definition in double precision.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "ops/cuda/attention/attention_splits.h"
#include "ops/formats/kv_rows.h"
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {

struct Interval {
  std::int32_t begin, end;
};

// What is called with, and the whole sequences' keys and values behind it.
struct Problem {
  std::int64_t head_dim = 64;
  std::int64_t kv_heads = 1;
  std::int64_t group = 1;
  std::int64_t block_size = 16;  // 0: no pages, rows
  DType type = DType::kBf16;
  DType page_type = DType::kBf16;
  bool odd = false;
  float softcap = 0;
  std::vector<std::int32_t> contexts;  // tokens before each sequence's rows
  std::vector<std::int32_t> counts;    // rows of each
  std::function<Interval(std::int32_t token, std::int32_t length)> sees;
  std::int32_t split_tokens = kAttentionSplitTokens;
  bool few = true;  // sequences of few rows are tiles of few rows
};

// Who computes the splits: as planned, a block each, or one block for a tile, this many tiles at a
// time.
constexpr std::int64_t kPlanned = -1;
constexpr std::int64_t kShared = 0;

inline Interval causal(std::int32_t token, std::int32_t) { return {0, token + 1}; }
inline Interval both_ways(std::int32_t, std::int32_t length) { return {0, length}; }

class Call {
 public:
  Call(const Problem& problem, std::uint64_t seed) : p_(problem) {
    Rng rng(seed);
    std::int32_t rows = 0;
    std::int32_t tokens = 0;
    std::vector<std::int32_t> lengths;
    for (std::size_t i = 0; i < p_.counts.size(); ++i) {
      lengths.push_back(p_.contexts[i] + p_.counts[i]);
      sequences.push_back({rows, p_.counts[i], tokens});
      first_token.push_back(tokens);
      rows += p_.counts[i];
      tokens += lengths.back();
    }
    const std::int64_t kv_cols = p_.kv_heads * p_.head_dim;
    q.emplace(rows, kv_cols * p_.group, p_.type, p_.odd);
    const DType stored = is_coded(p_.page_type) ? DType::kF32 : p_.page_type;
    k.emplace(tokens, kv_cols, stored, p_.odd);
    v.emplace(tokens, kv_cols, stored, p_.odd);
    out.emplace(rows, kv_cols * p_.group, p_.type, p_.odd);
    q->random(rng, 2);
    k->random(rng, 2);
    v->random(rng, 2);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      for (std::int32_t row = 0; row < p_.counts[i]; ++row) {
        const Interval interval = p_.sees(p_.contexts[i] + row, lengths[i]);
        seen.push_back(interval.begin);
        seen.push_back(interval.end);
      }
    }
    for (const bool few : {true, false}) {
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        const std::int64_t of_sequence = p_.counts[i] * p_.group;
        if ((p_.few && of_sequence <= kFewAttentionRows) != few) continue;
        for (std::int64_t first = 0; first < of_sequence; first += kAttentionTileRows)
          tiles.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(first)});
      }
      if (few) few_tiles = static_cast<std::int64_t>(tiles.size());
    }
    if (p_.block_size > 0) fill_pages(lengths, rng);
  }

  void run(std::int64_t band = kPlanned) {
    AttentionKernelArgs args;
    args.q = q->rows();
    args.heads = p_.kv_heads * p_.group;
    args.kv_heads = p_.kv_heads;
    args.head_dim = p_.head_dim;
    if (p_.block_size > 0) {
      args.pages = pages;
      args.blocks = blocks.data();
    } else {
      args.k = k->rows();
      args.v = v->rows();
    }
    args.sequences = sequences.data();
    args.tiles = tiles.data();
    args.tile_count = static_cast<std::int64_t>(tiles.size());
    args.few_tiles = few_tiles;
    args.seen = seen.data();
    args.scale = scale();
    args.softcap = p_.softcap;
    args.out = out->rows();
    const AttentionCall call = {.tiles = tiles,
                                .few_tiles = few_tiles,
                                .sequences = sequences,
                                .seen = seen,
                                .heads = args.heads,
                                .kv_heads = args.kv_heads,
                                .head_dim = args.head_dim,
                                .split_tokens = p_.split_tokens};
    const AttentionSplitPlan plan = band == kPlanned  ? plan_splits(call)
                                    : band == kShared ? share_splits(call)
                                                      : walk_splits(call, band);
    std::vector<float> partials(plan.partial_bytes / sizeof(float),
                                std::numeric_limits<float>::quiet_NaN());
    std::vector<std::uint32_t> ended(static_cast<std::size_t>(plan.ended));
    args.splits = {.tokens = p_.split_tokens,
                   .parts = plan.parts.empty() ? nullptr : plan.parts.data(),
                   .part_count = static_cast<std::int64_t>(plan.parts.size()),
                   .few_parts = plan.few_parts,
                   .merges = plan.merges.empty() ? nullptr : plan.merges.data(),
                   .merge_rows = plan.merge_rows,
                   .ended = ended.data(),
                   .band = plan.band,
                   .partials = partials.data()};
    launch_attention(args, nullptr);
    EXPECT_EQ(std::ranges::count(ended, 0U), std::ssize(ended)) << "of the next call";
  }

  // [rows][heads * head_dim]
  std::vector<std::vector<double>> want() const {
    const auto dim = static_cast<std::size_t>(p_.head_dim);
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      for (std::int64_t row = sequences[i].row_begin;
           row < sequences[i].row_begin + sequences[i].row_count; ++row) {
        std::vector<double>& sums = rows.emplace_back(static_cast<std::size_t>(q->cols()));
        for (std::int64_t head = 0; head < p_.kv_heads * p_.group; ++head) {
          double total = 0;
          double* const out_of_head = sums.data() + static_cast<std::size_t>(head) * dim;
          for (std::int64_t token = seen[static_cast<std::size_t>(2 * row)];
               token < seen[static_cast<std::size_t>(2 * row + 1)]; ++token) {
            const std::int64_t at = first_token[i] + token;
            const double weight = std::exp(score(row, head, at));
            total += weight;
            for (std::size_t d = 0; d < dim; ++d)
              out_of_head[d] +=
                  weight * v->at(at, head / p_.group * p_.head_dim + static_cast<std::int64_t>(d));
          }
          for (std::size_t d = 0; total > 0 && d < dim; ++d) out_of_head[d] /= total;
        }
      }
    }
    return rows;
  }

  std::optional<TestRows> q, k, v, out;
  std::vector<AttentionSequence> sequences;
  std::vector<AttentionTile> tiles;
  std::int64_t few_tiles = 0;
  std::vector<std::int32_t> first_token, seen, blocks;
  KvPages pages;

 private:
  float scale() const { return 1 / std::sqrt(static_cast<float>(p_.head_dim)); }

  double score(std::int64_t row, std::int64_t head, std::int64_t at) const {
    double sum = 0;
    for (std::int64_t d = 0; d < p_.head_dim; ++d)
      sum += static_cast<double>(q->at(row, head * p_.head_dim + d)) *
             k->at(at, head / p_.group * p_.head_dim + d);
    sum *= static_cast<double>(scale());
    return p_.softcap > 0 ? p_.softcap * std::tanh(sum / p_.softcap) : sum;
  }

  // Pages in shuffled order with other bytes between them; what holds no token is NaN, and pages
  // that nobody sees any of are given back.
  void fill_pages(const std::vector<std::int32_t>& lengths, Rng& rng) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      sequences[i].first_block = static_cast<std::int32_t>(ids.size());
      for (std::int64_t token = 0; token < lengths[i]; token += p_.block_size)
        ids.push_back(static_cast<std::int32_t>(ids.size()));
    }
    std::shuffle(ids.begin(), ids.end(), rng);
    blocks = ids;
    std::int64_t used = kv_block_elements(p_.page_type, p_.block_size, p_.kv_heads, p_.head_dim) *
                        static_cast<std::int64_t>(size_of(p_.page_type));
    if (is_coded(p_.page_type) && !p_.odd) used = (used + 15) / 16 * 16;
    pages = {nullptr, used + 64, p_.block_size, p_.kv_heads, p_.head_dim, p_.page_type};
    pool.assign(static_cast<std::size_t>(pages.block_stride) * (ids.size() + 1), std::byte{0xff});
    auto base = reinterpret_cast<std::uintptr_t>(pool.data());
    pages.base = pool.data() + (16 - base % 16) % 16;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      for (std::int64_t token = 0; token < lengths[i]; ++token)
        for (int value = 0; value < 2; ++value)
          for (std::int64_t head = 0; head < p_.kv_heads; ++head) put(i, token, value, head);
      std::int32_t first_seen = std::numeric_limits<std::int32_t>::max();
      for (std::int32_t row = 0; row < sequences[i].row_count; ++row)
        first_seen = std::min(first_seen,
                              seen[static_cast<std::size_t>(2 * (sequences[i].row_begin + row))]);
      for (std::int64_t block = 0;
           (block + 1) * p_.block_size <= first_seen && block * p_.block_size < lengths[i]; ++block)
        blocks[static_cast<std::size_t>(sequences[i].first_block + block)] = -1;
    }
  }
  void put(std::size_t i, std::int64_t token, int value, std::int64_t head) {
    const std::int64_t block =
        blocks[static_cast<std::size_t>(sequences[i].first_block + token / p_.block_size)];
    const std::int64_t row = (value * p_.kv_heads + head) * p_.block_size + token % p_.block_size;
    std::byte* to = pages.base + block * pages.block_stride;
    if (is_coded(p_.page_type)) {
      put_codes(to, row, value != 0 ? *v : *k, first_token[i] + token, head);
      return;
    }
    for (std::int64_t d = 0; d < p_.head_dim; ++d) {
      const float x = (value != 0 ? *v : *k).at(first_token[i] + token, head * p_.head_dim + d);
      if (p_.page_type == DType::kF32) {
        std::memcpy(to + (row * p_.head_dim + d) * 4, &x, 4);
      } else {
        const std::uint16_t bits = p_.page_type == DType::kBf16 ? to_bf16(x).bits : to_f16(x).bits;
        std::memcpy(to + (row * p_.head_dim + d) * 2, &bits, 2);
      }
    }
  }

  // And what the codes stand for takes the place of the numbers.
  void put_codes(std::byte* block, std::int64_t row, TestRows& numbers, std::int64_t token,
                 std::int64_t head) {
    const auto dims = static_cast<std::size_t>(p_.head_dim);
    std::vector<float> from;
    for (std::int64_t d = 0; d < p_.head_dim; ++d)
      from.push_back(numbers.at(token, head * p_.head_dim + d));
    auto* const codes = reinterpret_cast<std::uint8_t*>(block + row * p_.head_dim);
    const float scale = round_kv_row(from, p_.page_type, {codes, dims});
    std::memcpy(block + 2 * p_.kv_heads * p_.block_size * p_.head_dim + 4 * row, &scale, 4);
    for (std::size_t d = 0; d < dims; ++d) {
      const float code = p_.page_type == DType::kI8
                             ? static_cast<float>(static_cast<std::int8_t>(codes[d]))
                             : to_float(E4m3{codes[d]});
      numbers.set(token, head * p_.head_dim + static_cast<std::int64_t>(d), code * scale);
    }
  }

  Problem p_;
  std::vector<std::byte> pool;
};

// Values are below 3. A weight is rounded to bf16 (2^-9 of itself; their errors average out, and
// are bounded without that), the result once more. In f32, the error of scores below 20. Either
// sums in f32, as many terms as tokens.
inline double tolerance_of(const Problem& problem) {
  double tokens = 0;
  for (std::size_t i = 0; i < problem.counts.size(); ++i)
    tokens = std::max(tokens, static_cast<double>(problem.contexts[i] + problem.counts[i]));
  return (problem.type == DType::kBf16 ? 0x1.0p-8 * 3 * 2 : 400 * rounding(DType::kF32)) +
         3 * tokens * rounding(DType::kF32);
}

inline void check(const Problem& problem, std::int64_t band = kPlanned) {
  SCOPED_TRACE(fmt::format("head_dim {} kv_heads {} group {} block {} {} over {} odd {} band {}",
                           problem.head_dim, problem.kv_heads, problem.group, problem.block_size,
                           name_of(problem.type), name_of(problem.page_type), problem.odd, band));
  Call call(problem, 3);
  call.run(band);
  const auto want = call.want();
  expect_near(
      *call.out,
      [&](std::int64_t row, std::int64_t col) {
        return want[static_cast<std::size_t>(row)][static_cast<std::size_t>(col)];
      },
      [&](std::int64_t, std::int64_t) { return tolerance_of(problem); });
}

}  // namespace saccade::cuda

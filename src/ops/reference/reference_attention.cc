#include "ops/reference/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/formats/kv_rows.h"
#include "ops/reference/view_numbers.h"
#include "ops/shapes.h"

namespace saccade {

using namespace reference;

namespace {

// Where the pool keeps one token's key (or value) of one kv head, and what its elements are
// multiplied by.
struct KvRow {
  View row;
  double scale = 1;
  std::byte* scale_at = nullptr;  // of codes
};

KvRow kv_row(const KvLayer& layer, const SequenceSpan& span, std::int64_t token, bool value,
             std::int64_t kv_head) {
  const std::int32_t block = span.blocks[static_cast<std::size_t>(token / layer.block_size)];
  CHECK(block >= 0, "token {} has no block", token);
  const std::int64_t rows = layer.kv_heads * layer.block_size;
  const std::int64_t row =
      (value ? rows : 0) + kv_head * layer.block_size + token % layer.block_size;
  const View all = layer.blocks.row_range(block, block + 1);
  KvRow at{all.col_range(row * layer.head_dim, (row + 1) * layer.head_dim)};
  if (!layer.coded()) return at;
  at.scale_at = all.data() + 2 * rows * layer.head_dim + 4 * row;
  float scale = 0;
  std::memcpy(&scale, at.scale_at, sizeof(scale));
  at.scale = scale;
  return at;
}

void store_kv_row(const KvRow& to, View from, std::int64_t row, std::int64_t first_col) {
  std::vector<float> numbers;
  for (std::int64_t dim = 0; dim < to.row.cols(); ++dim) {
    numbers.push_back(static_cast<float>(get(from, row, first_col + dim)));
    if (to.scale_at == nullptr) set(to.row, 0, dim, numbers.back());
  }
  if (to.scale_at == nullptr) return;
  const float scale = round_kv_row(
      numbers, to.row.dtype(), {reinterpret_cast<std::uint8_t*>(to.row.data()), numbers.size()});
  std::memcpy(to.scale_at, &scale, sizeof(scale));
}

// The keys and values that queries of one kv head read, tokens [first, first + tokens), as doubles.
// Keys lie by columns, values by rows, so that the loops over them go along memory.
struct WideHead {
  std::int64_t first = 0;
  std::size_t tokens = 0;
  std::size_t dim = 0;
  std::vector<double> keys;    // [dim, tokens]
  std::vector<double> values;  // [tokens, dim]
  std::vector<double> key_scales;
  std::vector<double> value_scales;
};

// row_at(token, value) is where a token's key (or value) is.
template <typename RowAt>
WideHead widen_head(std::int64_t first, std::int64_t end, std::int64_t head_dim, RowAt row_at) {
  WideHead head;
  head.first = first;
  head.tokens = static_cast<std::size_t>(end - first);
  head.dim = static_cast<std::size_t>(head_dim);
  head.keys.resize(head.dim * head.tokens);
  head.values.resize(head.tokens * head.dim);
  std::vector<double> key(head.dim);
  for (std::size_t i = 0; i < head.tokens; ++i) {
    const std::int64_t token = first + static_cast<std::int64_t>(i);
    const KvRow key_row = row_at(token, false);
    read(key_row.row, 0, 0, key);
    for (std::size_t d = 0; d < head.dim; ++d) head.keys[d * head.tokens + i] = key[d];
    head.key_scales.push_back(key_row.scale);
    const KvRow value_row = row_at(token, true);
    read(value_row.row, 0, 0, std::span(head.values).subspan(i * head.dim, head.dim));
    head.value_scales.push_back(value_row.scale);
  }
  return head;
}

// softmax(q k^T scale) v over the tokens of `visible`, scores capped where softcap is positive.
std::vector<double> attend(const WideHead& head, std::span<const double> q, Visible visible,
                           float scale, float softcap = 0) {
  const auto begin = static_cast<std::size_t>(visible.begin - head.first);
  const auto end = static_cast<std::size_t>(visible.end - head.first);
  std::vector<double> scores(end - begin);
  for (std::size_t d = 0; d < head.dim; ++d) {
    const double* keys = head.keys.data() + d * head.tokens + begin;
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] += q[d] * keys[i];
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] *= head.key_scales[begin + i] * scale;
    if (softcap > 0) scores[i] = softcap * std::tanh(scores[i] / softcap);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - largest);
  std::vector<double> sums(head.dim);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double weight = scores[i] / total * head.value_scales[begin + i];
    const double* values = head.values.data() + (begin + i) * head.dim;
    for (std::size_t d = 0; d < head.dim; ++d) sums[d] += weight * values[d];
  }
  return sums;
}

}  // namespace

void reference_kv_write(const KvWriteArgs& args) {
  const KvLayer& layer = args.layer;
  for (const SequenceSpan& span : args.plan->spans()) {
    for (std::int64_t i = 0; i < span.row_count; ++i) {
      for (std::int64_t head = 0; head < layer.kv_heads; ++head) {
        const std::int64_t token = span.context + i;
        const std::int64_t col = head * layer.head_dim;
        store_kv_row(kv_row(layer, span, token, false, head), args.k, span.row_begin + i, col);
        store_kv_row(kv_row(layer, span, token, true, head), args.v, span.row_begin + i, col);
      }
    }
  }
}

void reference_paged_attention(const PagedAttentionArgs& args) {
  const KvLayer& layer = args.layer;
  const auto [block_size, heads, kv_heads, head_dim, window] = args.plan->geometry();
  const std::int64_t group = heads / kv_heads;
  for (const SequenceSpan& span : args.plan->spans()) {
    std::vector<Visible> visible;
    for (std::int64_t i = 0; i < span.row_count; ++i)
      visible.push_back(visible_to(span, span.context + i, window));
    if (visible.empty()) continue;
    const std::int64_t first = std::ranges::min(visible, {}, &Visible::begin).begin;
    const std::int64_t end = std::ranges::max(visible, {}, &Visible::end).end;
    for (std::int64_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
      const WideHead wide = widen_head(first, end, head_dim, [&](std::int64_t token, bool value) {
        return kv_row(layer, span, token, value, kv_head);
      });
      for (std::int64_t i = 0; i < span.row_count; ++i) {
        for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          const std::int64_t row = span.row_begin + i;
          const std::int64_t col = head * head_dim;
          write(args.out, row, col,
                attend(wide, part_of(args.q, row, col, head_dim),
                       visible[static_cast<std::size_t>(i)], args.scale, args.softcap));
        }
      }
    }
  }
}

void reference_segment_attention(const SegmentAttentionArgs& args) {
  const auto [heads, kv_heads, head_dim] = args.plan->geometry();
  const std::int64_t group = heads / kv_heads;
  const std::span<const std::int32_t> begins = args.plan->begins();
  for (std::size_t segment = 0; segment + 1 < begins.size(); ++segment) {
    const Visible all{begins[segment], begins[segment + 1]};
    if (all.begin == all.end) continue;
    for (std::int64_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
      const WideHead wide =
          widen_head(all.begin, all.end, head_dim, [&](std::int64_t token, bool value) {
            const View rows = (value ? args.v : args.k).row_range(token, token + 1);
            return KvRow{rows.col_range(kv_head * head_dim, (kv_head + 1) * head_dim)};
          });
      for (std::int64_t row = all.begin; row < all.end; ++row) {
        for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          const std::int64_t col = head * head_dim;
          write(args.out, row, col,
                attend(wide, part_of(args.q, row, col, head_dim), all, args.scale));
        }
      }
    }
  }
}

}  // namespace saccade

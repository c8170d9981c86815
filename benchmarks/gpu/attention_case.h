// Sequences that meet a pool of keys and values, on the device: what attention is measured over.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "benchmarks/gpu/device_bench.h"

namespace saccade {

struct AttentionShape {
  std::int64_t sequences = 1;
  std::int64_t rows = 1;     // of each in this step
  std::int64_t context = 0;  // tokens of each that are in the pool before
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 64;
  DType cache = DType::kBf16;
  std::int64_t longest = 0;  // above context: that of the last sequence
};

// Blocks of the sequences lie among each other. The plan lives until the stream's retire(). Where
// few rows meet them, pools that are more together than a second-level cache are gone through in
// turn, as a model's layers are.
class AttentionCase {
 public:
  AttentionCase(DeviceBench& bench, const AttentionShape& shape, bool in_turn = false)
      : bench_(bench),
        shape_(shape),
        blocks_((shape.context + shape.rows + kBlock - 1) / kBlock),
        q_(bench.random(shape.sequences * shape.rows, shape.heads * shape.head_dim, DType::kBf16)),
        out_(
            bench.empty(shape.sequences * shape.rows, shape.heads * shape.head_dim, DType::kBf16)) {
    for (std::int64_t s = 0; s < shape.sequences; ++s) {
      auto& table = tables_.emplace_back();
      for (std::int64_t b = 0; b < blocks_; ++b)
        table.push_back(static_cast<std::int32_t>(b * shape.sequences + s));
    }
    const std::int64_t common = blocks_ * shape.sequences;
    const std::int64_t blocks_of_last =
        (context_of(shape.sequences - 1) + shape.rows + kBlock - 1) / kBlock;
    for (std::int64_t b = 0; b < blocks_of_last - blocks_; ++b)
      tables_.back().push_back(static_cast<std::int32_t>(common + b));
    pools_.push_back(make_pool());
    args_.layer = {.blocks = pools_[0].view,
                   .block_size = kBlock,
                   .kv_heads = shape.kv_heads,
                   .head_dim = shape.head_dim};
    args_.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    args_.compute = DType::kBf16;
    if (is_coded(shape.cache)) write_all();
    const std::int64_t bytes = pools_[0].view.rows() * pools_[0].view.cols() *
                               static_cast<std::int64_t>(size_of(shape.cache));
    const std::int64_t pools = !in_turn || shape.rows > kFewRows || bench.rehearsal()
                                   ? 1
                                   : std::clamp<std::int64_t>(kRotated / bytes, 1, kMaxPools);
    for (std::int64_t i = 1; i < pools; ++i) {
      pools_.push_back(make_pool());
      args_.layer.blocks = pools_.back().view;
      if (is_coded(shape.cache)) write_all();
    }
    plan_all();
  }

  // The step's sequences from `first` on, `count` of them; q and out are theirs alone.
  void plan(std::int64_t first, std::int64_t count) {
    std::vector<SequenceSpan> spans;
    for (std::int64_t s = 0; s < count; ++s)
      spans.push_back({s * shape_.rows, shape_.rows, context_of(first + s), 0,
                       tables_[static_cast<std::size_t>(first + s)]});
    args_.plan = &bench_.stream().plan_attention(spans, {.block_size = kBlock,
                                                         .heads = shape_.heads,
                                                         .kv_heads = shape_.kv_heads,
                                                         .head_dim = shape_.head_dim});
    args_.q = q_.view.row_range(first * shape_.rows, (first + count) * shape_.rows);
    args_.out = out_.view.row_range(first * shape_.rows, (first + count) * shape_.rows);
  }
  void plan_all() { plan(0, shape_.sequences); }
  void run() {
    args_.layer.blocks = pools_[next_++ % pools_.size()].view;
    bench_.stream().paged_attention(args_);
  }
  const PagedAttentionArgs& args() const { return args_; }
  View out() const { return out_.view; }

  // Keys and values in sight, once, and q and out.
  double bytes() const {
    const auto tokens = static_cast<double>(shape_.sequences * (shape_.context + shape_.rows) +
                                            context_of(shape_.sequences - 1) - shape_.context);
    const auto row_bytes = shape_.head_dim * static_cast<std::int64_t>(size_of(shape_.cache)) +
                           kv_scale_bytes(shape_.cache);
    return 2 * (tokens * static_cast<double>(shape_.kv_heads * row_bytes) +
                2 * static_cast<double>(q_.view.rows() * q_.view.cols()));
  }
  double flops() const {
    const double more = static_cast<double>(context_of(shape_.sequences - 1) - shape_.context) /
                        static_cast<double>(shape_.sequences);
    const double seen =
        static_cast<double>(shape_.context) + more + static_cast<double>(shape_.rows + 1) / 2;
    return 4 * seen * static_cast<double>(q_.view.rows() * q_.view.cols());
  }

 private:
  static constexpr std::int64_t kBlock = 16;
  static constexpr std::int64_t kFewRows = 16;
  static constexpr std::int64_t kMaxPools = 64;
  std::int64_t context_of(std::int64_t sequence) const {
    return sequence + 1 == shape_.sequences ? std::max(shape_.context, shape_.longest)
                                            : shape_.context;
  }
  // Of random numbers; in bytes they are written as a step's are.
  DeviceMatrix make_pool() {
    const std::int64_t rows =
        blocks_ * (shape_.sequences - 1) + static_cast<std::int64_t>(tables_.back().size());
    const std::int64_t cols =
        kv_block_elements(shape_.cache, kBlock, shape_.kv_heads, shape_.head_dim);
    return is_coded(shape_.cache) ? bench_.empty(rows, cols, shape_.cache)
                                  : bench_.random(rows, cols, shape_.cache);
  }
  void write_all() {
    const std::int64_t tokens = shape_.context + shape_.rows;
    std::vector<SequenceSpan> spans;
    for (std::int64_t s = 0; s < shape_.sequences; ++s)
      spans.push_back({s * tokens, tokens, 0, 0, tables_[static_cast<std::size_t>(s)]});
    const auto rows = [&] {
      return bench_.random(shape_.sequences * tokens, shape_.kv_heads * shape_.head_dim,
                           DType::kBf16);
    };
    const DeviceMatrix k = rows();
    const DeviceMatrix v = rows();
    Stream& stream = bench_.stream();
    stream.kv_write({&stream.plan_attention(spans, {.block_size = kBlock,
                                                    .heads = shape_.heads,
                                                    .kv_heads = shape_.kv_heads,
                                                    .head_dim = shape_.head_dim}),
                     k.view, v.view, args_.layer});
    stream.synchronize();
  }

  DeviceBench& bench_;
  AttentionShape shape_;
  std::int64_t blocks_;  // of a sequence
  std::vector<DeviceMatrix> pools_;
  std::size_t next_ = 0;
  DeviceMatrix q_;
  DeviceMatrix out_;
  std::vector<std::vector<std::int32_t>> tables_;
  PagedAttentionArgs args_;
};

}  // namespace saccade

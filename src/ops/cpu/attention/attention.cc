#include "ops/cpu/attention/attention.h"

#include <algorithm>
#include <limits>

namespace saccade::cpu {
namespace {

Index round_up(Index value, Index unit) { return (value + unit - 1) / unit * unit; }

// Hands out parts of one piece of memory, each on its own cache lines. Run once without memory to
// learn the size, and once with it.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <typename T>
  T* take(Index count) {
    std::byte* const part = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += round_up(count * static_cast<Index>(sizeof(T)), 64);
    return reinterpret_cast<T*>(part);
  }
  Index bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  Index bytes_ = 0;
};

}  // namespace

void AttentionState::clear() {
  std::fill_n(max, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(sum, rows, 0.0f);
  std::fill_n(out, rows * cols, 0.0f);
}

TileShape::TileShape(const AttentionKernels& kernels, Index tile_rows, Index dims)
    : rows(tile_rows),
      padded_rows(round_up(rows, kernels.row_unit)),
      head_dim(dims),
      padded_depth(round_up(dims, kernels.depth_unit)),
      cols(round_up(dims, kernels.cols_unit)) {}

Index TileShape::state_floats() const {
  return 2 * round_up(rows, 16) + round_up(padded_rows * cols, 16);
}

AttentionState TileShape::state_at(float* memory) const {
  return {memory, memory + round_up(rows, 16), memory + 2 * round_up(rows, 16), rows, cols};
}

PackedTokens::PackedTokens(const AttentionKernels& attention, Index dims, std::byte* at)
    : head_dim(dims),
      cols(round_up(dims, attention.cols_unit)),
      key_bytes(round_up(
          attention.chunk_tokens * round_up(dims, attention.depth_unit) * attention.element_bytes,
          64)),
      value_bytes(round_up(attention.chunk_tokens * cols * attention.element_bytes, 64)),
      memory(at) {}

Index PackedTokens::bytes(const AttentionKernels& attention, Index head_dim, Index tokens) {
  const PackedTokens shape(attention, head_dim, nullptr);
  return round_up(tokens, attention.chunk_tokens) / attention.chunk_tokens *
         (shape.key_bytes + shape.value_bytes);
}

AttentionTile::AttentionTile(const Kernels& kernels, const AttentionKernels& attention, Index rows,
                             Index head_dim, Scratch& scratch, bool coded)
    : kernels_(kernels),
      attention_(attention),
      shape_(attention, rows, head_dim),
      first_(std::numeric_limits<Index>::max()) {
  const Index chunk = attention.chunk_tokens;
  const Index element = attention.element_bytes;
  const auto carve = [&](std::byte* memory) {
    Carver carver(memory);
    begin_ = carver.take<Index>(rows);
    end_ = carver.take<Index>(rows);
    chunk_begin_ = carver.take<Index>(rows);
    chunk_end_ = carver.take<Index>(rows);
    key_rows_ = carver.take<const void*>(chunk);
    value_rows_ = carver.take<const void*>(chunk);
    zeros_ = carver.take<float>(head_dim);
    if (coded) {
      decoded_rows_ = carver.take<Bf16>(2 * chunk * head_dim);
      key_scales_ = carver.take<float>(chunk);
      value_scales_ = carver.take<float>(chunk);
    }
    queries_ = carver.take<std::byte>(shape_.padded_rows * shape_.padded_depth * element);
    args_.keys = carver.take<std::byte>(chunk * shape_.padded_depth * element);
    args_.values = carver.take<std::byte>(chunk * shape_.cols * element);
    args_.scores = carver.take<float>(attention.group_rows * attention.score_stride);
    args_.weights = carver.take<std::byte>(attention.group_rows * chunk * element);
    total_ = shape_.state_at(carver.take<float>(shape_.state_floats()));
    split_ = shape_.state_at(carver.take<float>(shape_.state_floats()));
    return carver.bytes();
  };
  carve(scratch.reserve<std::byte>(carve(nullptr)));
  std::fill_n(zeros_, head_dim, 0.0f);
  args_.rows = rows;
  args_.head_dim = head_dim;
  args_.queries = queries_;
  args_.key_rows = key_rows_;
  args_.value_rows = value_rows_;
  args_.key_scales = key_scales_;
  args_.value_scales = value_scales_;
  args_.begin = chunk_begin_;
  args_.end = chunk_end_;
  args_.cols = shape_.cols;
}

void AttentionTile::set_query(Index row, const float* q, float scale, Index begin, Index end) {
  begin_[row] = begin;
  end_[row] = end;
  first_ = std::min(first_, begin);
  last_ = std::max(last_, end);
  attention_.pack_query(q, scale, row, shape_.head_dim, queries_);
}

void AttentionTile::attend(DType type, float softcap, const PackedTokens& tokens) {
  const Index unit = attention_.chunk_tokens;
  void* const keys = args_.keys;
  void* const values = args_.values;
  args_.packed = true;
  total_.clear();
  for (Index at = first_ / unit * unit; at < last_; at += unit) {
    args_.keys = tokens.keys(at / unit);
    args_.values = tokens.values(at / unit);
    attend_chunk(type, softcap, at, std::min(unit, last_ - at), total_);
  }
  args_.packed = false;
  args_.keys = keys;
  args_.values = values;
}

void AttentionTile::attend_chunk(DType type, float softcap, Index chunk, Index tokens,
                                 AttentionState state) {
  for (Index row = 0; row < shape_.rows; ++row) {
    chunk_begin_[row] = begin_[row] - chunk;
    chunk_end_[row] = end_[row] - chunk;
  }
  args_.tokens = tokens;
  args_.type = type;
  args_.softcap = softcap;
  args_.max = state.max;
  args_.sum = state.sum;
  args_.out = state.out;
  attention_.attend_chunk(args_);
}

void AttentionTile::merge(const AttentionState& split) {
  MergeArgs args;
  args.rows = shape_.rows;
  args.cols = shape_.cols;
  args.max = total_.max;
  args.sum = total_.sum;
  args.out = total_.out;
  args.other_max = split.max;
  args.other_sum = split.sum;
  args.other_out = split.out;
  kernels_.merge(args);
}

void AttentionTile::store(Index row, float* out) const {
  kernels_.mix_row(total_.out + row * shape_.cols, 1.0f / total_.sum[row], false, out,
                   shape_.head_dim);
}

}  // namespace saccade::cpu

// What attention needs beside the matrix kernel (panel_kernels.h), for a vector type V: keys and
// values of a chunk as right-hand sides, softmax as it goes, and the join of two ranges.
#pragma once

#include "ops/cpu/row_kernels.h"

namespace saccade::cpu {

template <typename V>
struct Attention {
  using F = typename V::F;
  using M = Math<V>;
  using R = Rows<V>;
  static constexpr Index kLanes = V::kLanes;
  static constexpr Index kVectors = kChunkTokens / kLanes;
  static constexpr float kInfinity = __builtin_inff();

  // Scores are summed over dims in order, token by token in lanes: so keys are transposed. That
  // costs a quarter of a shuffle an element, less than the sums across lanes it saves.
  template <typename T>
  static void pack_keys_of(const PackChunkArgs& args) {
    for (Index token = 0; token < args.tokens; token += kLanes) {
      float* panel = args.out + token * args.head_dim;
      for (Index dim = 0; dim < args.head_dim; dim += kLanes) {
        const Index left = args.head_dim - dim;
        const int dims = static_cast<int>(left < kLanes ? left : kLanes);
        F block[V::kLanes];
        for (Index i = 0; i < kLanes; ++i) {
          const bool there = token + i < args.tokens && args.rows[token + i] != nullptr;
          block[i] =
              there ? R::load(static_cast<const T*>(args.rows[token + i]) + dim, dims) : V::zero();
        }
        V::transpose(block);
        for (Index i = 0; i < dims; ++i) V::store(panel + (dim + i) * kLanes, block[i]);
      }
    }
  }

  template <typename T>
  static void pack_values_of(const PackChunkArgs& args) {
    for (Index token = 0; token < args.tokens; ++token) {
      const auto* row = static_cast<const T*>(args.rows[token]);
      float* out = args.out + token * kLanes;
      R::each(args.head_dim, [&](Index dim, int dims) {
        V::store(out + dim * kChunkTokens, row != nullptr ? R::load(row + dim, dims) : V::zero());
      });
    }
  }

  static void pack_keys(const PackChunkArgs& args) {
    if (args.type == DType::kBf16) return pack_keys_of<Bf16>(args);
    if (args.type == DType::kF16) return pack_keys_of<F16>(args);
    pack_keys_of<float>(args);
  }
  static void pack_values(const PackChunkArgs& args) {
    if (args.type == DType::kBf16) return pack_values_of<Bf16>(args);
    if (args.type == DType::kF16) return pack_values_of<F16>(args);
    pack_values_of<float>(args);
  }

  static float exp_of(float x) { return V::first(M::exp(V::set(x))); }

  static void softmax(const SoftmaxArgs& args) {
    for (Index row = 0; row < args.rows; ++row) {
      float* scores = args.scores + row * kChunkTokens;
      const Index begin = args.begin[row] > 0 ? args.begin[row] : 0;
      const Index end = args.end[row] < args.tokens ? args.end[row] : args.tokens;
      if (begin >= end) {  // sees nothing here: weights of 0, and nothing else changes
        for (Index i = 0; i < kVectors; ++i) V::store(scores + i * kLanes, V::zero());
        continue;
      }
      F score[kVectors];
      F max = V::set(-kInfinity);
#pragma GCC unroll 16
      for (Index i = 0; i < kVectors; ++i) {
        F s = V::load(scores + i * kLanes);
        if (args.softcap > 0) {
          const F cap = V::set(args.softcap);
          s = cap * M::tanh(s / cap);
        }
        if (i * kLanes < begin || (i + 1) * kLanes > end) {
          const F token = V::iota() + V::set(static_cast<float>(i * kLanes));
          s = V::select(V::less(token, V::set(static_cast<float>(begin))), V::set(-kInfinity), s);
          s = V::select(V::less(token, V::set(static_cast<float>(end))), s, V::set(-kInfinity));
        }
        score[i] = s;
        max = V::max(s, max);
      }
      const float old_max = args.max[row];
      const float chunk_max = V::largest(max);
      const float new_max = chunk_max > old_max ? chunk_max : old_max;
      F sum = V::zero();
#pragma GCC unroll 16
      for (Index i = 0; i < kVectors; ++i) {
        const F weight = M::exp(score[i] - V::set(new_max));
        sum = sum + weight;
        V::store(scores + i * kLanes, weight);
      }
      if (new_max > old_max) {
        const float shrink = exp_of(old_max - new_max);
        args.sum[row] *= shrink;
        scale_row(args.out + row * args.out_cols, shrink, args.out_cols);
        args.max[row] = new_max;
      }
      args.sum[row] += V::sum(sum);
    }
  }

  static void merge(const MergeArgs& args) {
    for (Index row = 0; row < args.rows; ++row) {
      const float other_max = args.other_max[row];
      if (other_max == -kInfinity) continue;
      const bool grows = other_max > args.max[row];
      const float max = grows ? other_max : args.max[row];
      const float mine = exp_of(args.max[row] - max);
      const float theirs = exp_of(other_max - max);
      float* out = args.out + row * args.cols;
      const float* other = args.other_out + row * args.cols;
      R::each(args.cols, [&](Index col, int count) {
        const F sum = V::fma(R::load(other + col, count), V::set(theirs),
                             R::load(out + col, count) * V::set(mine));
        R::store(out + col, sum, count);
      });
      args.sum[row] = args.sum[row] * mine + args.other_sum[row] * theirs;
      args.max[row] = max;
    }
  }

 private:
  static void scale_row(float* x, float scale, Index cols) {
    R::each(cols, [&](Index col, int count) {
      R::store(x + col, R::load(x + col, count) * V::set(scale), count);
    });
  }
};

}  // namespace saccade::cpu

// The arithmetic of norms: one order of sums, each step rounded by itself, so that a row has the
// same bits whichever kernel normalises it.
#pragma once

#include "ops/cuda/kernel.h"

namespace saccade::cuda {

constexpr int kNormBlock = 256;

// Threads that share a piece of `cols` columns, `pack` neighbours at a time: thread t adds up packs
// t, t + threads, ... in order; a warp's sums are added by warp_sum(), and those of warps in order.
// Short pieces are a warp's work.
constexpr int norm_threads(std::int64_t cols, int pack) {
  return cols <= std::int64_t{32} * pack * 2 ? 32 : kNormBlock;
}

SACCADE_DEVICE float square_added(float sum, float x) {
  return add_apart(sum, multiply_apart(x, x));
}

// Of the sum of squares of `cols` numbers: what each is multiplied by.
SACCADE_DEVICE float norm_scale(float sum, int cols, float epsilon) {
  return 1 / sqrtf(add_apart(sum / static_cast<float>(cols), epsilon));
}

SACCADE_DEVICE float normalised(float x, float scale, float weight, float bias) {
  return add_apart(multiply_apart(multiply_apart(x, scale), weight), bias);
}

// A warp's share of the sum of squares, as warp `warp` of norm_threads().
template <int N, typename T>
SACCADE_DEVICE float warp_squares(const T* from, int cols, int warp, int lane, int threads) {
  float sum = 0;
  for (int col = (warp * 32 + lane) * N; col < cols; col += threads * N) {
    float values[N];
    load(from + col, values);
#pragma unroll
    for (int i = 0; i < N; ++i) sum = square_added(sum, values[i]);
  }
  return warp_sum(sum);
}

// All of it by one warp.
template <int N, typename T>
SACCADE_DEVICE float squares_by_warp(const T* from, int cols, int lane) {
  const int threads = norm_threads(cols, N);
  if (threads == 32) return warp_squares<N>(from, cols, 0, lane, threads);
  float sum = 0;
  for (int warp = 0; warp < threads / 32; ++warp)
    sum = add_apart(sum, warp_squares<N>(from, cols, warp, lane, threads));
  return sum;
}

}  // namespace saccade::cuda

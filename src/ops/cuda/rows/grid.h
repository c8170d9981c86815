// How the row-wise kernels cut a matrix: a thread takes packs of neighbours, the grid walks over
// all of them.
#pragma once

#include "ops/cuda/kernel.h"

namespace saccade::cuda {

constexpr int kRowBlock = 256;
constexpr int kPack = 8;

// What one thread is to do: its pack's row and first column; advances to its next.
struct PackWalk {
  std::int64_t at;
  std::int64_t step;
  std::int64_t end;
  std::int64_t packs;  // of a row
  int pack;

  SACCADE_DEVICE PackWalk(std::int64_t rows, std::int64_t cols, int width)
      : at(std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x),
        step(std::int64_t{gridDim.x} * blockDim.x),
        end(rows * (cols / width)),
        packs(cols / width),
        pack(width) {}
  SACCADE_DEVICE bool more() const { return at < end; }
  SACCADE_DEVICE void next() { at += step; }
  SACCADE_DEVICE std::int64_t row() const { return at / packs; }
  SACCADE_DEVICE std::int64_t col() const { return at % packs * pack; }
};

inline dim3 pack_grid(std::int64_t rows, std::int64_t cols, int width) {
  const std::int64_t blocks = (rows * (cols / width) + kRowBlock - 1) / kRowBlock;
  return dim3(static_cast<unsigned>(blocks < 16384 ? blocks : 16384));
}

template <int N, typename T>
SACCADE_DEVICE void load_from(const Rows& rows, std::int64_t row, std::int64_t col,
                              float (&to)[N]) {
  load(static_cast<const T*>(rows.data) + row * rows.stride + col, to);
}

template <int N, typename T>
SACCADE_DEVICE void store_to(const float (&from)[N], const Rows& rows, std::int64_t row,
                             std::int64_t col) {
  store(from, static_cast<T*>(rows.data) + row * rows.stride + col);
}

// Calls `launch` with a value of the element type that `type` names.
template <typename Launch>
void with_type(DType type, const Launch& launch) {
  if (type == DType::kF32)
    launch(float{});
  else if (type == DType::kBf16)
    launch(Bf16{});
  else
    launch(F16{});
}

}  // namespace saccade::cuda

// When a weight that is kept as codes is dequantised (dequantize_codes.h) for a library's product,
// and how much of it at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cuda/codes/code_kernels.h"
#include "ops/cuda/libraries/product_table.h"

namespace saccade::cuda {

// A weight dequantised costs its code, read, and its bf16, written and read again: 5 bytes of E4M3,
// 4.5 of four bits. The product then takes 2 flops a row at the library's rate; the own kernel
// needs no such bytes, and takes them at a share of that rate. Rows from which the library's way
// is the shorter:
constexpr double even_rows(double bytes, double own_share) {
  constexpr double kLibraryRate = 788e12;  // flops a second, of bf16: an H200's, measured
  constexpr double kCopyRate = 4.3e12;     // bytes a second: likewise
  return bytes / kCopyRate * kLibraryRate / 2 / (1 / own_share - 1);
}
// mma.sync beside wgmma, each code made a number on its way: assumed, not measured.
inline constexpr double kOwnShare = 0.5;

// By whole classes of row counts, so that a row's bits are the same in all of one: the first class
// whose middle is beyond that.
constexpr std::int64_t usual_dequantized_rows() {
  const double even = even_rows(5, kOwnShare);
  std::size_t at = 0;
  while (static_cast<double>(kRowClasses[at].least + kRowClasses[at].most) / 2 < even) ++at;
  return kRowClasses[at].least;
}
static_assert(usual_dequantized_rows() == 257);

struct DequantizedProducts {
  // The least of a class.
  std::int64_t least_rows = usual_dequantized_rows();
  // Of bf16 in scratch, a lane. Each band's product ends with tiles that do not fill the GPU: the
  // larger bands are, the fewer such ends.
  std::size_t band_bytes = std::size_t{128} << 20;
};

// Outputs [0, rows) and those that are left behind whole bands of as many: their shapes, without
// memory.
struct DequantizedBands {
  Rows whole;
  Rows last;
};
DequantizedBands dequantized_bands(const CodedRows& weight, std::size_t band_bytes);

}  // namespace saccade::cuda

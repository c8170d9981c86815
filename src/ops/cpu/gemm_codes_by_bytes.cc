// gemm of rows of bytes with codes of four bits: what gemm_int8.cc is for weights of bytes. Codes
// are unpacked as they are multiplied, by three instructions for each sixteen products of a lane,
// so many rows need no unpacked copy of them.
#include <algorithm>

#include "ops/cpu/gemm.h"

namespace saccade::cpu {
namespace {

// A block of many rows reads 126 KiB of x and 64 KiB of codes and updates 252 KiB of c in each step
// of 512 in depth, in the second-level cache.
constexpr std::int64_t kRowBlock = 252;
constexpr std::int64_t kColBlock = 256;
constexpr std::int64_t kDepthBlock = 512;
constexpr std::int64_t kMostRows = 4096;  // rounded at a time: bounds the scratch
constexpr std::int64_t kUnit = 32;
constexpr std::int64_t kLine = 64;
// Up to here vectors take as long as tiles, or less.
constexpr std::int64_t kVectorRows = 16;

// x, rounded.
struct Codes {
  std::int8_t* codes = nullptr;
  std::int64_t stride = 0;
  std::int32_t* sums = nullptr;  // one a row and group
  float* scales = nullptr;       // one a row
};

}  // namespace

void CpuStream::gemm_codes_by_bytes(const GemmArgs& args, const FourBitWeight& weight) {
  if (args.x.rows() > kVectorRows && codes_on_tiles()) return gemm_byte_tiles(args);
  const std::int64_t lanes = kernels_.lanes;
  const std::int64_t groups = weight.groups();
  const std::int64_t step = std::max<std::int64_t>(1, kDepthBlock / weight.group());  // groups
  for (std::int64_t top = 0; top < args.x.rows(); top += kMostRows) {
    const std::int64_t rows = std::min(kMostRows, args.x.rows() - top);
    Codes x;
    // An odd number of cache lines: rows one after another then lie in different sets.
    x.stride = ((weight.in() + kUnit - 1) / kUnit * kUnit + kLine - 1) / kLine;
    x.stride = (x.stride | 1) * kLine;
    constexpr auto kWord = static_cast<std::int64_t>(sizeof(std::int32_t));
    x.codes = shared_scratch().reserve<std::int8_t>(rows * (x.stride + (groups + 1) * kWord));
    x.sums = reinterpret_cast<std::int32_t*>(x.codes + rows * x.stride);
    x.scales = reinterpret_cast<float*>(x.sums + rows * groups);
    each_row(rows, weight.in(), [&](std::int64_t row) {
      x.scales[row] =
          code_bytes_.round_row(args.x.row<float>(top + row), weight.in(), weight.group(),
                                x.codes + row * x.stride, x.sums + row * groups);
    });

    const bool few = rows <= kFewRows;
    const Blocks blocks{rows, weight.panels(), few ? rows : kRowBlock,
                        few ? few_rows_panels(weight, pool_.size()) : kColBlock / lanes};
    pool_.parallel_each(blocks.count(), [&](std::int64_t index, int worker) {
      const Block block = blocks.at(index);
      const std::int64_t c_stride = block.panels * lanes;
      float* const c = worker_scratch(worker).reserve<float>(block.rows * c_stride);
      CodeByteArgs some;
      some.x = x.codes + block.row * x.stride;
      some.x_stride = x.stride;
      some.x_sums = x.sums + block.row * groups;
      some.x_sums_stride = groups;
      some.rows = block.rows;
      some.c_stride = c_stride;
      // Few rows: four panels at a time from top to bottom, so that memory is read in order.
      const std::int64_t across = few ? 4 : block.panels;
      const std::int64_t down = few ? groups : step;
      for (std::int64_t first = 0; first < block.panels; first += across) {
        some.w = weight.panels(block.panel + first, std::min(across, block.panels - first));
        some.c = c + first * lanes;
        for (std::int64_t group = 0; group < groups; group += down) {
          some.begin = group * weight.group();
          some.depth = std::min(down * weight.group(), weight.in() - some.begin);
          code_bytes_.multiply(some);
        }
      }
      for (std::int64_t row = 0; row < block.rows; ++row)
        kernels_.mix_row(c + row * c_stride, x.scales[block.row + row], false, c + row * c_stride,
                         c_stride);
      finish_block(kernels_, args, {top + block.row, block.rows, block.panel, block.panels}, c,
                   c_stride);
    });
  }
}

}  // namespace saccade::cpu

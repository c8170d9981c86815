// gemm, and gate and up of an MLP, of rows of bytes with codes of four bits: what gemm_int8.cc is
// for weights of bytes, with 64 KiB of codes in a block's step of depth. Codes are unpacked as they
// are multiplied, by three instructions for each sixteen products of a lane, so many rows need no
// unpacked copy of them.
#include <algorithm>

#include "ops/cpu/products/gemm.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kUnit = 32;
// Up to here vectors take as long as tiles, or less.
constexpr std::int64_t kVectorRows = 16;

// x, rounded.
struct Codes {
  std::int8_t* codes = nullptr;
  std::int64_t stride = 0;
  std::int32_t* sums = nullptr;  // one a row and group
  float* scales = nullptr;       // one a row
};

struct Multipliers {
  const Kernels& kernels;
  const W4A8Kernels& codes;
};

// c [block.rows, block.panels * lanes] = the rows of x, with their scales, times panels of the
// weight. Few rows go four panels at a time from top to bottom, so that memory is read in order.
void multiply(const Multipliers& by, const FourBitWeight& weight, const Codes& x,
              const Block& block, bool few, float* c) {
  const std::int64_t lanes = by.kernels.lanes;
  const std::int64_t groups = weight.groups();
  W4A8Args some;
  some.x = x.codes + block.row * x.stride;
  some.x_stride = x.stride;
  some.x_sums = x.sums + block.row * groups;
  some.x_sums_stride = groups;
  some.rows = block.rows;
  some.c_stride = block.panels * lanes;
  const std::int64_t across = few ? 4 : block.panels;
  const std::int64_t down =
      few ? groups : std::max<std::int64_t>(1, kRoundedDepthBlock / weight.group());  // groups
  for (std::int64_t first = 0; first < block.panels; first += across) {
    some.w = weight.panels(block.panel + first, std::min(across, block.panels - first));
    some.c = c + first * lanes;
    for (std::int64_t group = 0; group < groups; group += down) {
      some.begin = group * weight.group();
      some.depth = std::min(down * weight.group(), weight.in() - some.begin);
      by.codes.multiply(some);
    }
  }
  for (std::int64_t row = 0; row < block.rows; ++row)
    by.kernels.mix_row(c + row * some.c_stride, x.scales[block.row + row], false,
                       c + row * some.c_stride, some.c_stride);
}

}  // namespace

// Of x, rounded: body(x, and what each_rounded_block() says).
template <typename Body>
void CpuStream::each_code_block(View x, const FourBitWeight& weight, std::int64_t parts,
                                const Body& body) {
  const std::int64_t rows = x.rows();
  const std::int64_t groups = weight.groups();
  Codes codes;
  codes.stride = odd_lines(tile_count(weight.in(), kUnit) * kUnit);
  constexpr auto kWord = static_cast<std::int64_t>(sizeof(std::int32_t));
  codes.codes = shared_scratch().reserve<std::int8_t>(rows * (codes.stride + (groups + 1) * kWord));
  codes.sums = reinterpret_cast<std::int32_t*>(codes.codes + rows * codes.stride);
  codes.scales = reinterpret_cast<float*>(codes.sums + rows * groups);
  each_row(rows, weight.in(), [&](std::int64_t row) {
    codes.scales[row] =
        w4a8_.round_row(x.row<float>(row), weight.in(), weight.group(),
                        codes.codes + row * codes.stride, codes.sums + row * groups);
  });
  each_rounded_block(rows, weight, parts, [&](const Block& block, bool few, Scratch& scratch) {
    body(codes, block, few, scratch);
  });
}

void CpuStream::gemm_w4a8(const GemmArgs& args, const FourBitWeight& weight) {
  if (args.x.rows() > kVectorRows && codes_on_tiles()) return gemm_byte_tiles(args);
  for (std::int64_t top = 0; top < args.x.rows(); top += kMaxRoundedRows) {
    const View some = args.x.row_range(top, std::min(top + kMaxRoundedRows, args.x.rows()));
    each_code_block(
        some, weight, 1, [&](const Codes& x, const Block& block, bool few, Scratch& scratch) {
          const std::int64_t stride = block.panels * kernels_.lanes;
          float* const c = scratch.reserve<float>(block.rows * stride);
          multiply({kernels_, w4a8_}, weight, x, block, few, c);
          finish_block(kernels_, args, {top + block.row, block.rows, block.panel, block.panels}, c,
                       stride);
        });
  }
}

void CpuStream::gate_w4a8(const MlpArgs& args, const FourBitWeight& weight) {
  each_code_block(
      args.x, weight, 2, [&](const Codes& x, const Block& block, bool few, Scratch& scratch) {
        const std::int64_t stride = block.panels * kernels_.lanes;
        float* const gate = scratch.reserve<float>(2 * block.rows * stride);
        float* const up = gate + block.rows * stride;
        multiply({kernels_, w4a8_}, weight, x, block, few, gate);
        multiply({kernels_, w4a8_}, weight, x,
                 {block.row, block.rows, weight.panels() / 2 + block.panel, block.panels}, few, up);
        for (std::int64_t row = 0; row < block.rows; ++row)
          gate_row(kernels_, args, block.row + row, block.panel * kernels_.lanes,
                   {gate + row * stride, static_cast<std::size_t>(stride)}, up + row * stride);
      });
}

}  // namespace saccade::cpu

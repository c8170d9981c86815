// Kernels over weights that are kept in eight or four bits, beside those of kernels.h.
#pragma once

#include "ops/cuda/kernels.h"
#include "ops/cuda/layers/expert_kernels.h"

namespace saccade::cuda {

enum class CodeForm : std::uint8_t {
  kBytes,     // signed, code * scale of the output; inputs in their order
  kE4m3,      // float8_e4m3fn but NaN, code * scale of the group; inputs as code_places.h has them
  kNibbles,   // (code - zero) * scale of the group; likewise
  kE4m3Rows,  // as kE4m3, inputs in their order: for rows of activations that are E4M3 too
};

// Where kE4m3Rows has the scale of a group of an output.
struct ScalePlaces {
  std::int64_t block = 1;       // outputs that share it
  std::int64_t block_step = 1;  // floats from block to block
  std::int64_t group_step = 0;  // floats from group to group

  constexpr std::int64_t of(std::int64_t output, std::int64_t group) const {
    return output / block * block_step + group * group_step;
  }
  bool operator==(const ScalePlaces&) const = default;
};

// A weight [rows, cols] of codes. Groups are of consecutive inputs, so many 16 of them each; kBytes
// has one, as may kE4m3Rows, whose groups are of 32 inputs and multiples of that, and whose scales
// may be of several outputs. Codes, scales and zeros begin 16 bytes aligned.
struct CodedRows {
  CodeForm form = CodeForm::kBytes;
  const std::byte* codes = nullptr;
  std::int64_t rows = 0;    // outputs
  std::int64_t cols = 0;    // inputs
  std::int64_t stride = 0;  // bytes from output to output, a multiple of 16; zero behind the inputs
  const float* scales = nullptr;        // [groups, rows], but of kE4m3Rows
  const std::uint8_t* zeros = nullptr;  // kNibbles: [groups, rows]
  std::int64_t groups = 1;
  int group_steps = 0;                  // 16 inputs each
  bool rounded = false;                 // embed() gives its numbers rounded to bf16
  const std::int32_t* order = nullptr;  // [cols]: the column of x that each input is; null: its own
  ScalePlaces places = {};              // kE4m3Rows
  float input_scale = 0;                // kE4m3Rows: of all rows of x; 0: each has its own
};

// Floats that `scales` has.
constexpr std::int64_t scale_count(const CodedRows& weight) {
  if (weight.form != CodeForm::kE4m3Rows || weight.rows == 0) return weight.groups * weight.rows;
  return weight.places.of(weight.rows - 1, weight.groups - 1) + 1;
}

// Rows of x become codes as int8_rows.h rounds activations, to the bit.
struct RoundRowsKernelArgs {
  Rows x;                        // f32 or bf16
  std::int8_t* codes = nullptr;  // [x.rows], zero behind the last column
  std::int64_t stride = 0;       // bytes, a multiple of 16
  float* scales = nullptr;       // [x.rows]
};
void launch_round_rows(const RoundRowsKernelArgs& args, cudaStream_t stream);

// y = activation(sum * the output's scale * the row's + bias) + residual, sums exact, of kBytes:
// the same bits as the CPU's but for the activation.
struct GemmBytesKernelArgs {
  const std::int8_t* x = nullptr;   // [x_rows], as launch_round_rows() leaves them
  std::int64_t x_stride = 0;        // bytes
  const float* x_scales = nullptr;  // [x_rows]
  CodedRows weight;
  const float* bias = nullptr;
  Activation activation = Activation::kNone;
  Rows residual;  // may be y
  Rows y;         // [rows, out], f32 or bf16
};
void launch_gemm_bytes(const GemmBytesKernelArgs& args, cudaStream_t stream);
void launch_grouped_gemm_bytes(const GemmBytesKernelArgs& args, const GemmGroups& groups,
                               cudaStream_t stream);

// As launch_gemm() (args.weight is not used), of kE4m3 and kNibbles: weights are not rounded, and
// f32 sums of a group get its scale. x is bf16, or f32 and then so is y. Where the weight has an
// order, x is in it already.
void launch_gemm_codes(const GemmKernelArgs& args, const CodedRows& weight, cudaStream_t stream);
void launch_grouped_gemm_codes(const GemmKernelArgs& args, const CodedRows& weight,
                               const GemmGroups& groups, cudaStream_t stream);
// Their latter part.
void launch_gemm_codes_f32(const GemmKernelArgs& args, const CodedRows& weight,
                           cudaStream_t stream);
void launch_grouped_gemm_codes_f32(const GemmKernelArgs& args, const CodedRows& weight,
                                   const GemmGroups& groups, cudaStream_t stream);

// out[row][i] = x[row][order[i]]; of groups, of the row of x and by the order that a visit has.
struct OrderColsKernelArgs {
  Rows x;
  const std::int32_t* order = nullptr;  // [out.cols]
  GemmGroups groups;                    // without tiles: one order for all
  Rows out;                             // of x's type
};
void launch_order_cols(const OrderColsKernelArgs& args, cudaStream_t stream);

// out row i = table row ids[i] * scale, as EmbedKernelArgs.
struct EmbedCodesKernelArgs {
  CodedRows table;
  const std::int32_t* ids = nullptr;         // [out.rows]
  const std::int32_t* last_token = nullptr;  // or null
  float scale = 1;
  Rows out;
};
void launch_embed_codes(const EmbedCodesKernelArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda

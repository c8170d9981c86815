// Weights of E4M3 for rows of activations that become E4M3 too: how they are made at load, and the
// products with them.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/rounding.h"
#include "ops/cuda/cuda_device.h"

namespace saccade::cuda {
namespace {

// Whether the blocks of all parts are those of the stacked matrix, of the size that libraries take.
bool whole_blocks(std::span<const StoredMatrix> parts, std::int64_t group) {
  std::int64_t first = 0;
  for (const StoredMatrix& part : parts) {
    if (group != kScaleBlock || part.block_out != kScaleBlock ||
        part.out_begin % kScaleBlock != 0 || first % kScaleBlock != 0)
      return false;
    first += part.out();
  }
  return true;
}

CodedRows plan(std::span<const StoredMatrix> parts, std::int64_t group) {
  CodedRows like;
  like.form = CodeForm::kE4m3Rows;
  for (const StoredMatrix& part : parts) like.rows += part.out();
  like.cols = parts.front().in();
  like.stride = round_up(like.cols, 16);
  like.groups = (like.cols + group - 1) / group;
  like.group_steps = static_cast<int>(round_up(group, 16) / 16);
  like.rounded = true;
  like.places = {.block = 1, .block_step = 1, .group_step = like.rows};
  if (whole_blocks(parts, group))
    like.places = {.block = kScaleBlock, .block_step = round_up(like.groups, 4), .group_step = 1};
  // Groups of inputs have scales of their own.
  if (like.groups == 1) like.input_scale = shared_input_scale(parts);
  return like;
}

// Outputs of a part, as its file has them; whether all are numbers.
bool copy_codes(const StoredMatrix& part, std::int64_t out, std::byte* to) {
  const std::byte* const from =
      part.codes.bytes.data() + (part.out_begin + out) * part.stored_in + part.in_begin;
  std::memcpy(to, from, static_cast<std::size_t>(part.in()));
  return std::none_of(from, from + part.in(),
                      [](std::byte code) { return (code & std::byte{0x7f}) == std::byte{0x7f}; });
}

}  // namespace

std::unique_ptr<PackedWeight> CudaDevice::pack_e4m3(std::span<const StoredMatrix> parts) {
  const std::int64_t group = shared_e4m3_group(parts);
  if (group == 0) return nullptr;
  const CodedRows like = plan(parts, group);
  auto weight = std::make_unique<CudaWeight>(runtime_, like, DType::kE4m3);
  if (like.rows == 0) return weight;
  std::vector<float> scales(static_cast<std::size_t>(scale_count(like)));
  const auto scale_at = [&](std::int64_t output, std::int64_t of_group) -> float& {
    return scales[static_cast<std::size_t>(like.places.of(output, of_group))];
  };
  std::int64_t first = 0;
  for (const StoredMatrix& part : parts) {
    const StoredMatrixReader reader(part);
    for (std::int64_t out = 0; out < part.out(); ++out)
      for (std::int64_t of_group = 0; of_group < like.groups; ++of_group)
        scale_at(first + out, of_group) = reader.block_scale(out, of_group * group);
    first += part.out();
  }
  // What is no number makes its output none, or all outputs that share its scale.
  std::vector<std::uint8_t> numbers(static_cast<std::size_t>(like.rows), 1);
  send_codes(*weight->codes(), parts,
             [&](std::size_t part, std::int64_t begin, std::int64_t end, std::byte* codes,
                 std::int64_t row) {
               for (std::int64_t out = begin; out < end; ++out) {
                 const std::int64_t at = out - begin;
                 numbers[static_cast<std::size_t>(row + at)] =
                     copy_codes(parts[part], out, codes + at * like.stride) ? 1 : 0;
               }
             });
  for (std::int64_t row = 0; row < like.rows; ++row)
    if (numbers[static_cast<std::size_t>(row)] == 0)
      scale_at(row, 0) = std::numeric_limits<float>::quiet_NaN();
  send(weight->codes()->scales, std::as_bytes(std::span(scales)));
  runtime_->synchronize(lanes_[static_cast<std::size_t>(Lane::kCopy)]->stream_);
  return weight;
}

E4m3Rows CudaStream::rounded_e4m3(const Rows& x, const CodedRows& weight, float given) {
  E4m3Rows out;
  out.stride = weight.stride;
  out.group_step = x.rows;
  const std::int64_t codes_bytes = x.rows * out.stride;
  out.codes =
      reserve(rounded_, static_cast<std::size_t>(codes_bytes) +
                            static_cast<std::size_t>(x.rows * weight.groups) * sizeof(float));
  out.scales = reinterpret_cast<float*>(out.codes + codes_bytes);
  launch(launch_round_e4m3, {.x = x, .out = out, .group = group_of_inputs(weight), .given = given});
  return out;
}

void CudaStream::gemm_e4m3(const GemmArgs& args, const CodedRows& weight) {
  GemmKernelArgs gemm;
  gemm.x = rows_of(args.x);
  gemm.bias = reinterpret_cast<const float*>(data_of(args.bias));
  gemm.activation = args.activation;
  gemm.residual = rows_of(args.residual);
  gemm.y = rows_of(args.y);
  if (multiply_by_library(gemm, &weight)) return;
  launch(launch_gemm_e4m3, {.x = rounded_e4m3(gemm.x, weight, weight.input_scale),
                            .weight = weight,
                            .bias = gemm.bias,
                            .activation = gemm.activation,
                            .residual = gemm.residual,
                            .y = gemm.y});
}

}  // namespace saccade::cuda

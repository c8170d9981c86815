// Weights that are kept as codes: how they are made at load, and the products with them.
#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "ops/cuda/codes/code_places.h"
#include "ops/cuda/codes/code_plan.h"
#include "ops/cuda/cuda_device.h"
#include "ops/formats/int8_rows.h"

namespace saccade::cuda {
namespace {

// Outputs a thread takes at a time.
constexpr std::int64_t kPieceOut = 16;
constexpr std::int64_t kTileIn = StoredMatrixReader::kTileIn;

// Outputs [begin, end) of a matrix as rows of bytes, `stride` apart, and their scales: its own,
// where it is stored so.
void round_outputs(const StoredMatrixReader& reader, std::int64_t begin, std::int64_t end,
                   std::byte* codes, std::int64_t stride, float* scales) {
  const std::int64_t in = reader.matrix().in();
  if (has_byte_rows(reader.matrix())) {
    for (std::int64_t row = 0; row < end - begin; ++row) {
      auto* const into = reinterpret_cast<std::int8_t*>(codes + row * stride);
      scales[row] =
          copy_byte_row(reader.matrix(), begin + row, {into, static_cast<std::size_t>(in)});
    }
    return;
  }
  std::vector<float> numbers(static_cast<std::size_t>((end - begin) * in));
  for (std::int64_t col = 0; col < in; col += kTileIn)
    reader.read(begin, end, col, std::min(in, col + kTileIn), numbers.data() + col, in);
  for (std::int64_t row = 0; row < end - begin; ++row) {
    const auto count = static_cast<std::size_t>(in);
    auto* const into = reinterpret_cast<std::int8_t*>(codes + row * stride);
    scales[row] = round_weights({numbers.data() + row * in, count}, {into, count});
  }
}

CodedRows rows_of_parts(std::span<const StoredMatrix> parts, CodeForm form) {
  CodedRows rows;
  rows.form = form;
  for (const StoredMatrix& part : parts) rows.rows += part.out();
  rows.cols = parts.front().in();
  return rows;
}

// One launch's arguments in one place, as a call that is kept has them.
struct CodesCall {
  GemmKernelArgs gemm;
  CodedRows weight;
};
void launch_codes(const CodesCall& call, cudaStream_t stream) {
  launch_gemm_codes(call.gemm, call.weight, stream);
}

}  // namespace

CudaWeight::CudaWeight(std::shared_ptr<Runtime> runtime, const CodedRows& like, DType operand,
                       bool ordered)
    : PackedWeight(like.rows, like.cols),
      runtime_(std::move(runtime)),
      operand_(operand),
      codes_(like) {
  constexpr std::int64_t kAlign = 16;
  const auto float_bytes = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t scales_at = like.rows * like.stride;
  const std::int64_t zeros_at = scales_at + round_up(scale_count(like) * float_bytes, kAlign);
  const bool zeros = like.form == CodeForm::kNibbles;
  const std::int64_t order_at = zeros_at + (zeros ? round_up(like.groups * like.rows, kAlign) : 0);
  const auto index_bytes = static_cast<std::int64_t>(sizeof(std::int32_t));
  bytes_ = static_cast<std::size_t>(order_at + (ordered ? like.cols * index_bytes : 0));
  rows_.data = runtime_->allocate(std::max<std::size_t>(bytes_, 16));
  if (rows_.data == nullptr)
    throw DeviceFailed(fmt::format("no {} bytes on the device for a weight of {} x {}", bytes_,
                                   like.rows, like.cols));
  auto* const data = static_cast<std::byte*>(rows_.data);
  codes_->codes = data;
  codes_->scales = reinterpret_cast<const float*>(data + scales_at);
  if (zeros) codes_->zeros = reinterpret_cast<const std::uint8_t*>(data + zeros_at);
  if (ordered) codes_->order = reinterpret_cast<const std::int32_t*>(data + order_at);
}

void CudaDevice::send(const void* to, std::span<const std::byte> from) {
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  for (std::size_t at = 0; at < from.size(); at += kBandBytes) {
    const std::size_t bytes = std::min(kBandBytes, from.size() - at);
    const UploadRing::Piece piece = copies.matrices_.take(bytes);
    std::memcpy(piece.host, from.data() + at, bytes);
    send_piece(static_cast<const std::byte*>(to) + at, piece, bytes);
  }
}

void CudaDevice::send_piece(const std::byte* to, const UploadRing::Piece& piece,
                            std::size_t bytes) {
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  runtime_->copy({.to = const_cast<std::byte*>(to),
                  .to_stride = bytes,
                  .from = piece.host,
                  .from_stride = bytes,
                  .row_bytes = bytes,
                  .rows = 1},
                 Direction::kToDevice, copies.stream_);
  copies.matrices_.release();
}

// A band of outputs at a time, over zeros; the copy of one runs while the next one is made.
void CudaDevice::send_codes(const CodedRows& weight, std::span<const StoredMatrix> parts,
                            const CodeFiller& fill) {
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  const auto stride = static_cast<std::size_t>(weight.stride);
  const std::int64_t band = std::max<std::int64_t>(
      kPieceOut, static_cast<std::int64_t>(kBandBytes / stride) / kPieceOut * kPieceOut);
  std::int64_t first = 0;  // row of the weight
  for (std::size_t which = 0; which < parts.size(); ++which) {
    const StoredMatrix& part = parts[which];
    for (std::int64_t begin = 0; begin < part.out(); begin += band) {
      const std::int64_t count = std::min(band, part.out() - begin);
      const std::size_t bytes = static_cast<std::size_t>(count) * stride;
      const UploadRing::Piece piece = copies.matrices_.take(bytes);
      std::memset(piece.host, 0, bytes);
      pool_.parallel_each((count + kPieceOut - 1) / kPieceOut, [&](std::int64_t index, int) {
        const std::int64_t from = index * kPieceOut;
        fill(which, begin + from, begin + std::min(count, from + kPieceOut),
             piece.host + static_cast<std::size_t>(from) * stride, first + begin + from);
      });
      send_piece(weight.codes + static_cast<std::size_t>(first + begin) * stride, piece, bytes);
    }
    first += part.out();
  }
}

std::unique_ptr<PackedWeight> CudaDevice::pack_bytes(std::span<const StoredMatrix> parts) {
  CodedRows like = rows_of_parts(parts, CodeForm::kBytes);
  like.stride = round_up(like.cols, 16);
  auto weight = std::make_unique<CudaWeight>(runtime_, like, DType::kI8);
  if (like.rows == 0 || like.cols == 0) return weight;
  std::vector<float> scales(static_cast<std::size_t>(like.rows));
  const std::vector<StoredMatrixReader> readers(parts.begin(), parts.end());
  send_codes(*weight->codes(), parts,
             [&](std::size_t part, std::int64_t begin, std::int64_t end, std::byte* codes,
                 std::int64_t row) {
               round_outputs(readers[part], begin, end, codes, like.stride, scales.data() + row);
             });
  send(weight->codes()->scales, std::as_bytes(std::span(scales)));
  runtime_->synchronize(lanes_[static_cast<std::size_t>(Lane::kCopy)]->stream_);
  return weight;
}

std::unique_ptr<PackedWeight> CudaDevice::pack_kept(std::span<const StoredMatrix> parts,
                                                    DType compute) {
  const std::optional<CodePlan> plan = plan_codes(parts);
  if (!plan) return nullptr;
  const bool nibbles = plan->form == CodeForm::kNibbles;
  CodedRows like = rows_of_parts(parts, plan->form);
  if (like.rows == 0) return nullptr;
  like.stride = round_up(like.cols, kCodeChunk) / kCodeChunk *
                (nibbles ? kNibbleChunkBytes : kE4m3ChunkBytes);
  like.groups = plan->groups;
  like.group_steps = static_cast<int>(round_up(plan->group, 16) / 16);
  like.rounded = compute == DType::kBf16;
  auto weight = std::make_unique<CudaWeight>(runtime_, like, activations_, !plan->order.empty());
  const auto grid = static_cast<std::size_t>(like.groups * like.rows);
  std::vector<float> scales(grid);
  std::vector<std::uint8_t> zeros(nibbles ? grid : 0);
  const std::vector<StoredMatrixReader> readers(parts.begin(), parts.end());
  send_codes(*weight->codes(), parts,
             [&](std::size_t part, std::int64_t begin, std::int64_t end, std::byte* codes,
                 std::int64_t row) {
               CodeOutputs to;
               to.codes = codes;
               to.stride = like.stride;
               to.scales = scales.data() + row;
               to.zeros = nibbles ? zeros.data() + row : nullptr;
               to.group_stride = like.rows;
               place_codes(*plan, readers[part], begin, end, to);
             });
  send(weight->codes()->scales, std::as_bytes(std::span(scales)));
  send(weight->codes()->zeros, std::as_bytes(std::span(zeros)));
  send(weight->codes()->order, std::as_bytes(std::span(plan->order)));
  runtime_->synchronize(lanes_[static_cast<std::size_t>(Lane::kCopy)]->stream_);
  return weight;
}

Rows CudaStream::ordered(const Rows& x, const std::int32_t* order, const GemmGroups& groups,
                         std::int64_t rows) {
  Rows out = x;
  out.rows = rows;
  out.stride = round_up(x.cols, 8);
  out.data = reserve(ordered_, static_cast<std::size_t>(rows * out.stride) * size_of(x.type));
  OrderColsKernelArgs args;
  args.x = x;
  args.order = order;
  args.groups = groups;
  args.out = out;
  launch(launch_order_cols, args);
  return out;
}

RoundedRows CudaStream::rounded(const Rows& x) {
  const std::int64_t stride = round_up(x.cols, 16);
  const std::int64_t codes_bytes = x.rows * stride;
  std::byte* const scratch =
      reserve(rounded_, static_cast<std::size_t>(codes_bytes) +
                            static_cast<std::size_t>(x.rows) * sizeof(float));
  RoundRowsKernelArgs args;
  args.x = x;
  args.codes = reinterpret_cast<std::int8_t*>(scratch);
  args.stride = stride;
  args.scales = reinterpret_cast<float*>(scratch + codes_bytes);
  launch(launch_round_rows, args);
  return {args.codes, stride, args.scales};
}

void CudaStream::gemm_codes(const GemmArgs& args, const CodedRows& weight) {
  if (weight.form == CodeForm::kE4m3Rows) return gemm_e4m3(args, weight);
  if (weight.form != CodeForm::kBytes) {
    GemmKernelArgs gemm;
    gemm.x = rows_of(args.x);
    gemm.bias = floats(args.bias);
    gemm.activation = args.activation;
    gemm.residual = rows_of(args.residual);
    gemm.y = rows_of(args.y);
    if (multiply_wide(gemm, weight)) return;
    if (weight.order != nullptr && args.x.rows() > 0)
      gemm.x = ordered(gemm.x, weight.order, {}, gemm.x.rows);
    launch(launch_codes, {gemm, weight});
    return;
  }
  const RoundedRows x = rounded(rows_of(args.x));
  launch(launch_gemm_bytes, {.x = x.codes,
                             .x_stride = x.stride,
                             .x_scales = x.scales,
                             .weight = weight,
                             .bias = floats(args.bias),
                             .activation = args.activation,
                             .residual = rows_of(args.residual),
                             .y = rows_of(args.y)});
}

}  // namespace saccade::cuda

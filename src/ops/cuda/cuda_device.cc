#include "ops/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>

#include "ops/shapes.h"

namespace saccade::cuda {
namespace {

std::int64_t padded_cols(std::int64_t cols, DType type) {
  const std::int64_t pack = 16 / static_cast<std::int64_t>(size_of(type));
  return (cols + pack - 1) / pack * pack;
}

// Outputs [begin, begin + count) as rows of `like`, zero behind their last input. Tiles are cut
// both ways: wide matrices have few outputs a band, and each thread is to have some of it.
void fill_band(ThreadPool& pool, const StoredMatrixReader& reader, std::int64_t begin,
               std::int64_t count, const Rows& like, std::byte* host) {
  constexpr std::int64_t kTileOut = StoredMatrixReader::kTileOut;
  constexpr std::int64_t kTileIn = StoredMatrixReader::kTileIn;
  constexpr std::int64_t kTileCols = 16 * kTileIn;
  const StoredMatrix& matrix = reader.matrix();
  const std::size_t size = size_of(like.type);
  const std::int64_t in = like.cols;
  const std::int64_t wide = (in + kTileCols - 1) / kTileCols;
  const auto place = [&](std::int64_t row, std::int64_t col) {
    return host + static_cast<std::size_t>(row * like.stride + col) * size;
  };
  const auto copy = [&](std::int64_t row, std::int64_t col, std::int64_t cols) {
    std::memcpy(place(row, col),
                matrix.float_row(begin + row) + static_cast<std::size_t>(col) * size,
                static_cast<std::size_t>(cols) * size);
  };
  const auto round = [&](const float* values, std::int64_t cols, std::byte* to) {
    if (like.type == DType::kF32) {
      std::memcpy(to, values, static_cast<std::size_t>(cols) * size);
      return;
    }
    auto* const rounded = reinterpret_cast<Bf16*>(to);
    for (std::int64_t i = 0; i < cols; ++i) rounded[i] = to_bf16(values[i]);
  };
  const bool stored = matrix.has_float_rows() && matrix.codes.dtype == like.type;
  pool.parallel_each((count + kTileOut - 1) / kTileOut * wide, [&](std::int64_t tile, int) {
    const std::int64_t from = tile / wide * kTileOut;
    const std::int64_t to = std::min(count, from + kTileOut);
    const std::int64_t first = tile % wide * kTileCols;
    const std::int64_t end = std::min(in, first + kTileCols);
    for (std::int64_t row = from; end == in && row < to; ++row)
      std::memset(place(row, in), 0, static_cast<std::size_t>(like.stride - in) * size);
    for (std::int64_t row = from; stored && row < to; ++row) copy(row, first, end - first);
    if (stored) return;
    std::vector<float> numbers(static_cast<std::size_t>(kTileOut * kTileIn));
    for (std::int64_t col = first; col < end; col += kTileIn) {
      const std::int64_t cols = std::min(kTileIn, end - col);
      reader.read(begin + from, begin + to, col, col + cols, numbers.data(), kTileIn);
      for (std::int64_t row = from; row < to; ++row)
        round(numbers.data() + (row - from) * kTileIn, cols, place(row, col));
    }
  });
}

}  // namespace

DeviceScratch::~DeviceScratch() {
  if (data_ != nullptr) runtime_.free(data_);
}

std::byte* DeviceScratch::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  if (data_ != nullptr) runtime_.free(data_);
  bytes_ = bytes + bytes / 4;
  data_ = runtime_.allocate(bytes_);
  if (data_ == nullptr) data_ = runtime_.allocate(bytes_ = bytes);  // without room to grow
  if (data_ != nullptr) return data_;
  bytes_ = 0;
  throw DeviceFailed(fmt::format("no {} bytes of scratch on the device", bytes));
}

CudaWeight::CudaWeight(std::shared_ptr<Runtime> runtime, std::int64_t out, std::int64_t in,
                       DType type, DType operand)
    : PackedWeight(out, in), runtime_(std::move(runtime)), operand_(operand) {
  rows_.type = type;
  rows_.rows = out;
  rows_.cols = in;
  rows_.stride = padded_cols(in, type);
  bytes_ = static_cast<std::size_t>(out * rows_.stride) * size_of(type);
  rows_.data = runtime_->allocate(std::max<std::size_t>(bytes_, 16));
  if (rows_.data == nullptr)
    throw DeviceFailed(
        fmt::format("no {} bytes on the device for a weight of {} x {}", bytes_, out, in));
}

CudaWeight::~CudaWeight() { runtime_->free(static_cast<std::byte*>(rows_.data)); }

CudaTokenCounts::CudaTokenCounts(CudaDevice& device, std::span<const std::int32_t> prompt)
    : device_(device), prompt_(prompt.begin(), prompt.end()) {}

CudaTokenCounts::~CudaTokenCounts() {
  if (counts_ != nullptr) device_.spare_counts_.push_back({counts_, vocab_});
}

CudaDevice::CudaDevice(std::unique_ptr<Runtime> runtime, int threads, DType activations)
    : runtime_(std::move(runtime)),
      activations_(activations),
      pool_(threads),
      biases_(std::make_shared<BiasCopies>(runtime_)) {
  CHECK(activations == DType::kF32 || activations == DType::kBf16, "activations of {}",
        name_of(activations));
  for (std::size_t i = 0; i < kLanes; ++i)
    lanes_.push_back(std::make_unique<CudaStream>(*this, i == 0 ? 1 : 0));
}

CudaDevice::~CudaDevice() {
  as_far_as_it_goes([&] {
    for (const auto& lane : lanes_) lane->synchronize();
  });
  lanes_.clear();
  for (const SpareCounts& spare : spare_counts_)
    runtime_->free(reinterpret_cast<std::byte*>(spare.counts));
}

Result<Buffer> CudaDevice::allocate(std::size_t bytes, Space space) {
  const std::size_t least = std::max<std::size_t>(bytes, 16);
  if (space == Space::kHost) {
    std::byte* const data = runtime_->allocate_pinned(least);
    if (data == nullptr)
      return fail(ErrorCode::kExhausted, "no {} bytes of pinned memory of the host", bytes);
    std::memset(data, 0, least);
    return Buffer(
        data, bytes, [runtime = runtime_](std::byte* at, std::size_t) { runtime->free_pinned(at); },
        Space::kHost);
  }
  std::byte* const data = runtime_->allocate(least);
  if (data == nullptr)
    return fail(ErrorCode::kExhausted, "no {} bytes of the device's memory, {} are free", bytes,
                runtime_->free_bytes());
  // Every lane may use it from now on: so it waits.
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  runtime_->zero(data, least, copies.stream_);
  runtime_->synchronize(copies.stream_);
  return Buffer(
      data, bytes,
      [runtime = runtime_, biases = biases_](std::byte* at, std::size_t size) {
        biases->forget(at, size);
        runtime->free(at);
      },
      runtime_->space());
}

void CudaDevice::hold_uploads() {
  for (const Lane lane : {Lane::kStep, Lane::kEncode}) {
    CudaStream& stream = *lanes_[static_cast<std::size_t>(lane)];
    stream.lists_.hold(std::size_t{1} << 20, 4);
    stream.matrices_.hold(kBandBytes, 2);
  }
}

// A band of rows at a time: read as numbers, rounded, sent. The copy of one band runs while the
// next one is read.
std::unique_ptr<PackedWeight> CudaDevice::pack_weight(std::span<const StoredMatrix> parts,
                                                      DType compute) {
  check_shapes(parts, compute);
  if (compute == DType::kI8) return pack_bytes(parts);
  if (compute == DType::kE4m3) {
    if (auto weight = pack_e4m3(parts)) return weight;
    compute = DType::kBf16;
  }
  if (auto kept = pack_kept(parts, compute)) return kept;
  std::int64_t out = 0;
  for (const StoredMatrix& part : parts) out += part.out();
  const std::int64_t in = parts.front().in();
  const bool half = compute == DType::kBf16;
  auto weight =
      std::make_unique<CudaWeight>(runtime_, out, in, compute, half ? activations_ : DType::kF32);
  const Rows& rows = weight->rows();
  const std::size_t row_bytes = static_cast<std::size_t>(rows.stride) * size_of(compute);
  if (out == 0 || in == 0 || make_weight(parts, rows)) return weight;

  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  constexpr std::int64_t kTileOut = StoredMatrixReader::kTileOut;
  const std::int64_t band =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kBandBytes / row_bytes) / kTileOut) *
      kTileOut;
  std::int64_t first = 0;  // row of the weight
  for (const StoredMatrix& part : parts) {
    const StoredMatrixReader reader(part);
    for (std::int64_t begin = 0; begin < part.out(); begin += band) {
      const std::int64_t count = std::min(band, part.out() - begin);
      const std::size_t bytes = static_cast<std::size_t>(count) * row_bytes;
      const UploadRing::Piece piece = copies.matrices_.take(bytes);
      fill_band(pool_, reader, begin, count, rows, piece.host);
      runtime_->copy({.to = static_cast<std::byte*>(rows.data) +
                            static_cast<std::size_t>(first + begin) * row_bytes,
                      .to_stride = bytes,
                      .from = piece.host,
                      .from_stride = bytes,
                      .row_bytes = bytes,
                      .rows = 1},
                     Direction::kToDevice, copies.stream_);
      copies.matrices_.release();
    }
    first += part.out();
  }
  runtime_->synchronize(copies.stream_);
  return weight;
}

}  // namespace saccade::cuda

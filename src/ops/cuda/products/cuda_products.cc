// gemm by way of a library, where one is open and was found fit for the shape.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/libraries/cublaslt_library.h"
#include "ops/cuda/products/finish_product.h"

namespace saccade::cuda {
namespace {

// What a band's sums may take where they are finished apart.
constexpr std::size_t kSumBytes = std::size_t{64} << 20;

bool begins_aligned(const Rows& rows) {
  const auto row_bytes = static_cast<std::size_t>(rows.stride) * size_of(rows.type);
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && row_bytes % 16 == 0;
}

Rows rows_from(Rows rows, std::int64_t first, std::int64_t count) {
  if (rows.data == nullptr) return rows;
  rows.data = static_cast<std::byte*>(rows.data) +
              static_cast<std::size_t>(first * rows.stride) * size_of(rows.type);
  rows.rows = count;
  return rows;
}

}  // namespace

Result<void> CudaDevice::open_libraries(const CudaSettings& settings) {
  const std::string said =
      settings.libraries.empty() ? cuda_libraries_variable() : settings.libraries;
  if (said == "none") return {};
  runtime_->select();
  const auto open = [&]() -> Result<std::unique_ptr<ProductLibrary>> {
    TRY(OpenedLibrary library, open_first(library_places(kCublasLtFile, said)));
    return open_cublaslt(std::move(library), !settings.batch_invariant);
  };
  auto library = open();
  if (library) {
    log::info("products by {}", (*library)->description());
    use_library(*std::move(library), settings.batch_invariant);
    return {};
  }
  if (!said.empty())
    return fail(library.error().code, "cuBLASLt of {}: {}", said, library.error().message);
  log::info("products by the own kernels, there is no cuBLASLt: {}", library.error().message);
  return {};
}

void CudaDevice::use_library(std::unique_ptr<ProductLibrary> library, bool batch_invariant,
                             const DequantizedProducts& dequantized) {
  dequantized_ = dequantized;
  products_ = std::make_unique<ProductTable>(*runtime_, std::move(library), batch_invariant);
}

std::unique_ptr<PackedWeight> CudaDevice::pack(std::span<const StoredMatrix> parts, DType compute) {
  std::unique_ptr<PackedWeight> weight = pack_weight(parts, compute);
  const auto& packed = static_cast<const CudaWeight&>(*weight);
  const bool half = activations_ == DType::kBf16 && compute != DType::kF32;
  if (products_ == nullptr) return weight;
  biases_->reserve();
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  if (packed.codes() != nullptr) {
    products_->learn(*packed.codes(), copies.launching());
    learn_wide(*packed.codes());
  } else if (half) {
    products_->learn(packed.rows(), copies.launching());
  }
  return weight;
}

// First asked for, a bias is looked at on the host, which waits for it; from then on only its copy
// is.
const std::byte* CudaStream::bias_in_bf16(const float* bias, std::int64_t outputs) {
  BiasCopies& copies = *device_.biases_;
  if (const auto known = copies.find(bias, outputs)) return known->data;
  repeated_.interrupt();
  const std::size_t bytes = static_cast<std::size_t>(outputs) * sizeof(float);
  const UploadRing::Piece piece = matrices_.take(bytes);
  const auto copy = [&](std::byte* to, const std::byte* from, std::size_t count, Direction where) {
    runtime_.copy({.to = to,
                   .to_stride = count,
                   .from = from,
                   .from_stride = count,
                   .row_bytes = count,
                   .rows = 1},
                  where, stream_);
    runtime_.synchronize(stream_);
  };
  copy(piece.host, reinterpret_cast<const std::byte*>(bias), bytes, Direction::kToHost);
  std::vector<float> values(static_cast<std::size_t>(outputs));
  std::memcpy(values.data(), piece.host, bytes);
  const BiasCopies::Copy made = copies.add(bias, values);
  if (made.data != nullptr) {
    auto* const rounded = reinterpret_cast<Bf16*>(piece.host);
    for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = to_bf16(values[i]);
    copy(made.data, piece.host, values.size() * sizeof(Bf16), Direction::kToDevice);
  }
  matrices_.release();
  return made.data;
}

// Into a y of bf16, with the bias in the library and GELU too if it does that; another activation
// goes over y as it was rounded, as in transformers. A residual behind an activation would have to
// be added apart. Where all batches are to give a row the same bits, one way is for all of them.
CudaStream::LibraryWay CudaStream::way_in_bf16(const GemmKernelArgs& args, Product& product) {
  const ProductTable& table = *device_.products_;
  const bool biased = args.bias != nullptr;
  const bool added = args.residual.data != nullptr;
  const auto by = [&](Epilogue epilogue, Activation then) -> LibraryWay {
    product.epilogue = epilogue;
    const bool serves =
        table.batch_invariant() ? table.serves(product) : table.choose(product) != nullptr;
    if (!serves || (then != Activation::kNone && (added || table.batch_invariant()))) return {};
    if (biased && (product.bias = bias_in_bf16(args.bias, args.y.cols)) == nullptr) return {};
    return {.taken = true, .algorithm = table.choose(product), .then = then};
  };
  if (biased && args.activation == Activation::kGeluTanh && !added) {
    if (const LibraryWay way = by(Epilogue::kBiasGelu, Activation::kNone); way.taken) return way;
  }
  return by(biased ? Epilogue::kBias : Epilogue::kNone, args.activation);
}

bool CudaStream::multiply_by_library(const GemmKernelArgs& args, const CodedRows* codes) {
  ProductTable* const table = device_.products_.get();
  if (table == nullptr || args.y.rows == 0) return false;
  Product product;
  if (codes != nullptr) {
    const auto by = product_by(*codes);
    if (!by) return false;
    product = *by;
  } else {
    if (args.x.type != DType::kBf16 || args.weight.type != DType::kBf16 ||
        !begins_aligned(args.x) || !begins_aligned(args.weight))
      return false;
    product.weight = args.weight;
  }
  const bool alone = args.bias == nullptr && args.activation == Activation::kNone;
  const bool direct =
      begins_aligned(args.y) && (args.residual.data == nullptr || begins_aligned(args.residual));
  product.y = args.y;
  LibraryWay way;
  if (direct && alone)
    way = {.taken = true, .algorithm = table->choose(product)};
  else if (direct && args.y.type == DType::kBf16)
    way = way_in_bf16(args, product);
  if (!way.taken) return multiply_apart(args, product, codes);
  if (way.algorithm == nullptr) return false;
  product.c = args.residual;
  launch_by_library(args, product, codes, *way.algorithm, 0, args.y.rows);
  if (way.then != Activation::kNone)
    launch(launch_gated,
           {.gate = args.y, .up = {}, .residual = {}, .activation = way.then, .out = args.y});
  return true;
}

// `product`'s rows are those of args.x from `first` on.
void CudaStream::launch_by_library(const GemmKernelArgs& args, Product product,
                                   const CodedRows* codes, const ProductAlgorithm& algorithm,
                                   std::int64_t first, std::int64_t count) {
  std::byte* const workspace = reserve(workspace_, ProductLibrary::kWorkspace);
  const Rows x = rows_from(args.x, first, count);
  if (codes != nullptr)
    set_rows(product, rounded_e4m3(x, *codes, codes->input_scale), count);
  else
    product.x = x;
  launch(launch_library_product, {device_.products_.get(), algorithm, product, workspace,
                                  codes != nullptr ? *codes : CodedRows{}, args.bias});
}

// Sums in f32, which an own kernel finishes: one rounding, as in the own product.
bool CudaStream::multiply_apart(const GemmKernelArgs& args, Product product,
                                const CodedRows* codes) {
  Rows sums = {nullptr, DType::kF32, args.y.rows, args.y.cols, (args.y.cols + 3) / 4 * 4};
  product.y = sums;
  product.epilogue = Epilogue::kNone;
  product.bias = nullptr;
  const ProductAlgorithm* const algorithm = device_.products_->choose(product);
  if (algorithm == nullptr) return false;
  const std::size_t row_bytes = static_cast<std::size_t>(sums.stride) * sizeof(float);
  const std::int64_t band =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kSumBytes / row_bytes));
  sums.data = reserve(sums_, static_cast<std::size_t>(std::min(band, sums.rows)) * row_bytes);
  for (std::int64_t first = 0; first < args.y.rows; first += band) {
    const std::int64_t count = std::min(band, args.y.rows - first);
    product.y = rows_from(sums, 0, count);
    GemmKernelArgs unfinished = args;
    unfinished.bias = nullptr;
    launch_by_library(unfinished, product, codes, *algorithm, first, count);
    launch(launch_finish_product, {.sums = product.y,
                                   .bias = args.bias,
                                   .activation = args.activation,
                                   .residual = rows_from(args.residual, first, count),
                                   .y = rows_from(args.y, first, count)});
  }
  return true;
}

}  // namespace saccade::cuda

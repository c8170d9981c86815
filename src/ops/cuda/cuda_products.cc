// gemm by way of a library, where one is open and was found fit for the shape.
#include <algorithm>

#include "base/log.h"
#include "ops/cuda/cublaslt_library.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/finish_product.h"

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
    return open_cublaslt(std::move(library));
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
                             const WideProducts& wide) {
  wide_ = wide;
  products_ = std::make_unique<ProductTable>(*runtime_, std::move(library), batch_invariant);
}

std::unique_ptr<PackedWeight> CudaDevice::pack(std::span<const StoredMatrix> parts, DType compute) {
  std::unique_ptr<PackedWeight> weight = pack_weight(parts, compute);
  const auto& packed = static_cast<const CudaWeight&>(*weight);
  const bool half = activations_ == DType::kBf16 && compute != DType::kF32;
  if (products_ == nullptr) return weight;
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  if (packed.codes() != nullptr) {
    products_->learn(*packed.codes(), copies.launching());
    learn_wide(*packed.codes());
  } else if (half) {
    products_->learn(packed.rows(), copies.launching());
  }
  return weight;
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
  const bool plain = args.bias == nullptr && args.activation == Activation::kNone &&
                     (args.residual.data == nullptr || begins_aligned(args.residual)) &&
                     begins_aligned(args.y);
  // Sums in f32, which an own kernel finishes: one rounding, as in the own product.
  Rows sums = {nullptr, DType::kF32, args.y.rows, args.y.cols, (args.y.cols + 3) / 4 * 4};
  product.y = plain ? args.y : sums;
  const ProductAlgorithm* const algorithm = table->choose(product);
  if (algorithm == nullptr) return false;
  std::byte* const workspace = reserve(workspace_, ProductLibrary::kWorkspace);
  const auto multiply = [&](std::int64_t first, std::int64_t count) {
    const Rows x = rows_from(args.x, first, count);
    if (codes != nullptr)
      set_rows(product, rounded_e4m3(x, *codes, codes->input_scale), count);
    else
      product.x = x;
    launch(launch_library_product, {&table->library(), *algorithm, product, workspace,
                                    codes != nullptr ? *codes : CodedRows{}});
  };
  if (plain) {
    product.c = args.residual;
    multiply(0, args.y.rows);
    return true;
  }
  const std::size_t row_bytes = static_cast<std::size_t>(sums.stride) * sizeof(float);
  const std::int64_t band =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kSumBytes / row_bytes));
  sums.data = reserve(sums_, static_cast<std::size_t>(std::min(band, sums.rows)) * row_bytes);
  for (std::int64_t first = 0; first < args.y.rows; first += band) {
    const std::int64_t count = std::min(band, args.y.rows - first);
    product.y = rows_from(sums, 0, count);
    multiply(first, count);
    launch(launch_finish_product, {.sums = product.y,
                                   .bias = args.bias,
                                   .activation = args.activation,
                                   .residual = rows_from(args.residual, first, count),
                                   .y = rows_from(args.y, first, count)});
  }
  return true;
}

}  // namespace saccade::cuda

// Products of few rows with the norm before them and the activation behind them.
#include "ops/cuda/cuda_device.h"
#include "ops/shapes.h"

namespace saccade::cuda {
namespace {

bool is_plain(const NormArgs& norm) {
  return norm.add.empty() && norm.bias.empty() && norm.group == 0 && !norm.subtract_mean &&
         norm.x.dtype() == norm.out.dtype();
}

}  // namespace

// Only what would be the own kernel's: so few rows are, unless all batches are to give a row the
// bits of one algorithm of a library.
std::optional<FewGemmKernelArgs> CudaStream::few_gemm(const NormArgs* norm, const GemmArgs& args,
                                                      bool gated) {
  const auto& weight = static_cast<const CudaWeight&>(*args.weight);
  if (weight.codes() != nullptr) return std::nullopt;
  if (device_.products_ != nullptr && device_.products_->batch_invariant()) return std::nullopt;
  FewGemmKernelArgs kernel = {.gemm = {.x = rows_of(args.x),
                                       .weight = weight.rows(),
                                       .bias = floats(args.bias),
                                       .activation = args.activation,
                                       .residual = rows_of(args.residual),
                                       .y = rows_of(args.y)},
                              .gated = gated};
  if (norm != nullptr) {
    // A norm by itself takes as many neighbours at a time as both ends let it.
    if (!is_plain(*norm) || !takes_few_gemm(kernel)) return std::nullopt;
    kernel.gemm.x = rows_of(norm->x);
    kernel.norm = floats(norm->weight);
    kernel.epsilon = norm->epsilon;
    kernel.offset = norm->weight_offset;
  }
  if (!takes_few_gemm(kernel)) return std::nullopt;
  return kernel;
}

void CudaStream::normed_gemm(const NormedGemmArgs& args) {
  check_shapes(args);
  if (const auto kernel = few_gemm(&args.norm, args.gemm, false))
    launch(launch_few_gemm, *kernel);
  else
    Stream::normed_gemm(args);
}

bool CudaStream::gated_product(const NormArgs* norm, const MlpArgs& args) {
  if (!args.gated()) return false;
  const auto kernel = few_gemm(norm,
                               {.x = args.x,
                                .weight = args.in,
                                .bias = args.in_bias,
                                .activation = args.activation,
                                .residual = {},
                                .y = args.inner.col_range(0, args.out->in())},
                               true);
  if (kernel) launch(launch_few_gemm, *kernel);
  return kernel.has_value();
}

void CudaStream::mlp(const MlpArgs& args) {
  check_shapes(args);
  if (!gated_product(nullptr, args)) return Stream::mlp(args);
  gemm({.x = args.inner.col_range(0, args.out->in()),
        .weight = args.out,
        .bias = args.out_bias,
        .residual = args.residual,
        .y = args.y});
}

void CudaStream::normed_mlp(const NormedMlpArgs& args) {
  check_shapes(args);
  if (!gated_product(&args.norm, args.mlp)) return Stream::normed_mlp(args);
  gemm({.x = args.mlp.inner.col_range(0, args.mlp.out->in()),
        .weight = args.mlp.out,
        .bias = args.mlp.out_bias,
        .residual = args.mlp.residual,
        .y = args.mlp.y});
}

}  // namespace saccade::cuda

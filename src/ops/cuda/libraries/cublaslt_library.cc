#include "ops/cuda/libraries/cublaslt_library.h"

#include <utility>

#include "base/check.h"
#include "ops/cuda/libraries/cublaslt_api.h"

namespace saccade::cuda {
namespace {

using namespace cublaslt;  // NOLINT: its names are what this file is about

constexpr std::size_t kLeastCublasLt = 130000;  // 13.0: the versions that the API above is of

int type_of(DType type) {
  if (type == DType::kE4m3) return kR8FE4M3;
  return type == DType::kBf16 ? kR16BF : kR32F;
}

std::int32_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      break;
    case Epilogue::kBias:
      return kEpilogueBias;
    case Epilogue::kBiasGelu:
      return kEpilogueGeluBias;
  }
  return kEpilogueDefault;
}

// Matrices are stored by columns there: a row of ours is a column of theirs.
class TheirLayout {
 public:
  TheirLayout(const Functions& functions, const Rows& rows) : functions_(functions) {
    const Status status = functions_.cublasLtMatrixLayoutCreate(
        &layout_, type_of(rows.type), static_cast<std::uint64_t>(rows.cols),
        static_cast<std::uint64_t>(rows.rows), rows.stride);
    CHECK(status == kSuccess, "cublasLtMatrixLayoutCreate of {} x {}: status {}", rows.rows,
          rows.cols, status);
  }
  ~TheirLayout() { functions_.cublasLtMatrixLayoutDestroy(layout_); }
  TheirLayout(const TheirLayout&) = delete;
  TheirLayout& operator=(const TheirLayout&) = delete;
  Layout get() const { return layout_; }

 private:
  const Functions& functions_;
  Layout layout_ = nullptr;
};

// y^T = w x^T: the weight, as it is stored, is the transpose of their first operand.
struct Layouts {
  Layouts(const Functions& functions, const Product& product)
      : a(functions, product.weight), b(functions, product.x), d(functions, product.y) {}
  TheirLayout a, b, d;
};

class CublasLt final : public ProductLibrary {
 public:
  CublasLt(OpenedLibrary library, const Functions& functions, std::size_t version, bool splits)
      : library_(std::move(library)), functions_(functions), version_(version), splits_(splits) {}
  ~CublasLt() override {
    if (preference_ != nullptr) functions_.cublasLtMatmulPreferenceDestroy(preference_);
    for (const Desc desc : descs_)
      if (desc != nullptr) functions_.cublasLtMatmulDescDestroy(desc);
    if (handle_ != nullptr) functions_.cublasLtDestroy(handle_);
  }

  Result<void> begin() {
    if (const Status status = functions_.cublasLtCreate(&handle_); status != kSuccess) {
      handle_ = nullptr;
      return fail(ErrorCode::kUnsupported, "{}: cublasLtCreate: status {}{}", library_.path(),
                  status, status == kNotInitialized ? " (no driver, or no GPU)" : "");
    }
    for (Desc& desc : descs_) {
      TRY_DO(succeeded("cublasLtMatmulDescCreate",
                       functions_.cublasLtMatmulDescCreate(&desc, kCompute32F, kR32F)));
      TRY_DO(describe(desc, kDescTransA, kOpT));
    }
    TRY_DO(describe(descs_[kByRow], kDescAScaleMode, kOuterVec32F));
    TRY_DO(describe(descs_[kByRow], kDescAScaleMode + 1, kOuterVec32F));
    TRY_DO(describe(descs_[kByBlock], kDescAScaleMode, kBlk128x128_32F));
    TRY_DO(describe(descs_[kByBlock], kDescAScaleMode + 1, kVec128_32F));
    TRY_DO(succeeded("cublasLtMatmulPreferenceCreate",
                     functions_.cublasLtMatmulPreferenceCreate(&preference_)));
    const std::uint64_t workspace = kWorkspace;
    TRY_DO(prefer(kPrefMaxWorkspace, &workspace, sizeof(workspace)));
    // Sums that blocks share may be added in an order that depends on how many there are; pieces in
    // the workspace have one.
    const std::uint32_t reductions = splits_ ? kReductionComputeType : 0;
    TRY_DO(prefer(kPrefReductionSchemeMask, &reductions, sizeof(reductions)));
    for (int operand = 0; operand < 4; ++operand) {
      const std::uint32_t bytes = 16;
      TRY_DO(prefer(kPrefMinAlignmentA + operand, &bytes, sizeof(bytes)));
    }
    return {};
  }

  std::string description() const override {
    return fmt::format("cuBLASLt {}.{}.{} ({})", version_ / 10000, version_ / 100 % 100,
                       version_ % 100, library_.path());
  }

  std::vector<ProductAlgorithm> algorithms(const Product& like, int most) override {
    const Layouts layouts(functions_, like);
    const Desc desc = desc_of(like);
    if (desc == nullptr) return {};
    std::vector<HeuristicResult> results(static_cast<std::size_t>(most));
    int found = 0;
    const Status status = functions_.cublasLtMatmulAlgoGetHeuristic(
        handle_, desc, layouts.a.get(), layouts.b.get(), layouts.d.get(), layouts.d.get(),
        preference_, most, results.data(), &found);
    std::vector<ProductAlgorithm> algorithms;
    if (status != kSuccess) return algorithms;
    for (int i = 0; i < found && i < most; ++i) {
      const HeuristicResult& result = results[static_cast<std::size_t>(i)];
      if (result.state != kSuccess || result.workspace > kWorkspace || splits(result.algorithm))
        continue;
      ProductAlgorithm& algorithm = algorithms.emplace_back();
      std::copy(std::begin(result.algorithm.data), std::end(result.algorithm.data),
                algorithm.data.begin());
      algorithm.workspace = result.workspace;
    }
    return algorithms;
  }

  bool multiply(const Product& product, const ProductAlgorithm& algorithm, std::byte* workspace,
                cudaStream_t stream) override {
    const Layouts layouts(functions_, product);
    const Desc desc = desc_of(product);
    if (desc == nullptr) return false;
    Algorithm theirs;
    std::copy(algorithm.data.begin(), algorithm.data.end(), theirs.data);
    const float alpha = 1;
    const float beta = product.c.data != nullptr ? 1.0f : 0.0f;
    const Rows& c = product.c.data != nullptr ? product.c : product.y;
    const TheirLayout c_layout(functions_, c);
    return functions_.cublasLtMatmul(handle_, desc, &alpha, product.weight.data, layouts.a.get(),
                                     product.x.data, layouts.b.get(), &beta, c.data, c_layout.get(),
                                     product.y.data, layouts.d.get(), &theirs, workspace,
                                     algorithm.workspace, stream) == kSuccess;
  }

 private:
  Result<void> succeeded(const char* what, Status status) const {
    if (status == kSuccess) return {};
    return fail(ErrorCode::kUnsupported, "{}: {}: status {}", library_.path(), what, status);
  }
  Result<void> prefer(int attribute, const void* value, std::size_t bytes) {
    return succeeded(
        "cublasLtMatmulPreferenceSetAttribute",
        functions_.cublasLtMatmulPreferenceSetAttribute(preference_, attribute, value, bytes));
  }
  template <typename Value>
  Result<void> describe(Desc desc, int attribute, const Value& value) {
    return succeeded("cublasLtMatmulDescSetAttribute", functions_.cublasLtMatmulDescSetAttribute(
                                                           desc, attribute, &value, sizeof(value)));
  }
  // With the product's scales and epilogue; null: they were not taken.
  Desc desc_of(const Product& product) {
    const ProductScales& scales = product.scales;
    const Desc desc = descs_[scales.x == nullptr ? kUnscaled : scales.blocks ? kByBlock : kByRow];
    if (!describe(desc, kDescEpilogue, epilogue_of(product.epilogue)) ||
        !describe(desc, kDescBiasPointer, product.bias))
      return nullptr;
    if (scales.x == nullptr) return desc;
    const bool taken = describe(desc, kDescAScalePointer, scales.weight).has_value() &&
                       describe(desc, kDescAScalePointer + 1, scales.x).has_value();
    return taken ? desc : nullptr;
  }
  // As is not wanted, whatever the mask above made of it.
  bool splits(const Algorithm& algorithm) const {
    const auto value = [&](int attribute) {
      std::int32_t is = 0;
      std::size_t written = 0;
      const Status status = functions_.cublasLtMatmulAlgoConfigGetAttribute(
          &algorithm, attribute, &is, sizeof(is), &written);
      return status == kSuccess ? is : 0;
    };
    const std::int32_t scheme = value(kConfigReductionScheme);
    if (splits_ && scheme == kReductionComputeType) return false;
    return value(kConfigSplitK) > 1 || scheme != 0;
  }

  OpenedLibrary library_;
  Functions functions_;
  std::size_t version_;
  bool splits_;
  Handle handle_ = nullptr;
  enum { kUnscaled, kByRow, kByBlock, kDescs };
  Desc descs_[kDescs] = {};
  Preference preference_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<ProductLibrary>> open_cublaslt(OpenedLibrary library, bool splits) {
  Functions functions = {};
#define SACCADE_FIND(name) TRY_DO(library.find(#name, functions.name))
  SACCADE_FIND(cublasLtGetVersion);
  const std::size_t version = functions.cublasLtGetVersion();
  if (version < kLeastCublasLt)
    return fail(ErrorCode::kUnsupported, "{} is of version {}, and {} is the least", library.path(),
                version, kLeastCublasLt);
  SACCADE_FIND(cublasLtCreate);
  SACCADE_FIND(cublasLtDestroy);
  SACCADE_FIND(cublasLtMatmulDescCreate);
  SACCADE_FIND(cublasLtMatmulDescDestroy);
  SACCADE_FIND(cublasLtMatmulDescSetAttribute);
  SACCADE_FIND(cublasLtMatrixLayoutCreate);
  SACCADE_FIND(cublasLtMatrixLayoutDestroy);
  SACCADE_FIND(cublasLtMatmulPreferenceCreate);
  SACCADE_FIND(cublasLtMatmulPreferenceDestroy);
  SACCADE_FIND(cublasLtMatmulPreferenceSetAttribute);
  SACCADE_FIND(cublasLtMatmulAlgoGetHeuristic);
  SACCADE_FIND(cublasLtMatmulAlgoConfigGetAttribute);
  SACCADE_FIND(cublasLtMatmul);
#undef SACCADE_FIND
  auto opened = std::make_unique<CublasLt>(std::move(library), functions, version, splits);
  TRY_DO(opened->begin());
  return std::unique_ptr<ProductLibrary>(std::move(opened));
}

}  // namespace saccade::cuda

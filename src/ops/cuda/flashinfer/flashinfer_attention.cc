// FlashInfer's FA3 on a Hopper GPU as a FlashAttention.
#include <cuda_runtime_api.h>

#include "base/log.h"
#include "ops/cuda/flashinfer/flashinfer_kernels.h"
#include "ops/cuda/libraries/flash_attention.h"

namespace saccade::cuda {
namespace {

struct Kernel {
  FlashForm form;
  int (*launch)(const FlashArgs& args, cudaStream_t stream);
};
constexpr Kernel kKernels[] = {{kPaged64, launch_paged_64},
                               {kPaged128, launch_paged_128},
                               {kPaged256, launch_paged_256},
                               {kRows64, launch_rows_64},
                               {kRows128, launch_rows_128},
                               {narrow(kPaged128, 80), launch_paged_to_128},
                               {narrow(kPaged128, 96), launch_paged_to_128},
                               // Of a size the first that passes the probe is used.
                               {narrow(kRowsTo96, 72), launch_rows_to_96},
                               {narrow(kRowsTo96, 80), launch_rows_to_96},
                               {narrow(kRowsTo96, 96), launch_rows_to_96},
                               {narrow(kRowsTo128, 72), launch_rows_to_128},
                               {narrow(kRowsTo128, 80), launch_rows_to_128},
                               {narrow(kRowsTo128, 96), launch_rows_to_128}};

class FlashInfer final : public FlashAttention {
 public:
  explicit FlashInfer(int blocks) : blocks_(blocks) {
    for (const Kernel& kernel : kKernels) forms_.push_back(kernel.form);
  }
  std::string description() const override { return "FlashInfer " SACCADE_FLASHINFER_VERSION; }
  std::span<const FlashForm> forms() const override { return forms_; }
  int blocks() const override { return blocks_; }
  bool launch(const FlashArgs& args, cudaStream_t stream) override {
    for (const Kernel& kernel : kKernels) {
      if (kernel.form != args.form) continue;
      const int status = kernel.launch(args, stream);
      if (status == 0) return true;
      static_cast<void>(cudaGetLastError());  // said; the next launch is not to blame for it
      log::warning("{}: {}", description(), cudaGetErrorString(static_cast<cudaError_t>(status)));
      return false;
    }
    return false;
  }

 private:
  int blocks_;
  std::vector<FlashForm> forms_;
};

}  // namespace

// Code for sm_90a runs on 9.0 alone.
Result<std::unique_ptr<FlashAttention>> open_flashinfer(int device) {
  int major = 0;
  int minor = 0;
  int blocks = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return fail(ErrorCode::kUnsupported, "the GPU does not say what it is");
  if (major != 9 || minor != 0)
    return fail(ErrorCode::kUnsupported,
                "FlashInfer's kernels here are for compute capability 9.0, and the GPU is of {}.{}",
                major, minor);
  return std::make_unique<FlashInfer>(blocks);
}

}  // namespace saccade::cuda

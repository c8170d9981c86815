#include <algorithm>
#include <thread>
#include <utility>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/device_under_test.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "ops/cuda/gpu_runtime.h"

namespace saccade::cuda {
namespace {

int host_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// A GPU whose memory is the host's, pinned: kernels reach it through the bus. Copies wait.
class HostMemoryRuntime final : public Runtime {
 public:
  explicit HostMemoryRuntime(std::unique_ptr<Runtime> gpu) : gpu_(std::move(gpu)) {}

  void select() const override { gpu_->select(); }
  std::string description() const override { return gpu_->description(); }
  Space space() const override { return Space::kHost; }
  std::int64_t free_bytes() const override { return gpu_->free_bytes(); }
  std::int64_t total_bytes() const override { return 0; }

  std::byte* allocate(std::size_t bytes) override { return gpu_->allocate_pinned(bytes); }
  void free(std::byte* data) override { gpu_->free_pinned(data); }
  std::byte* allocate_pinned(std::size_t bytes) override { return gpu_->allocate_pinned(bytes); }
  void free_pinned(std::byte* data) override { gpu_->free_pinned(data); }

  cudaStream_t make_stream(int priority) override { return gpu_->make_stream(priority); }
  void destroy(cudaStream_t stream) override { gpu_->destroy(stream); }
  void synchronize(cudaStream_t stream) override { gpu_->synchronize(stream); }
  void copy(const Copy2d& copy, Direction direction, cudaStream_t stream) override {
    gpu_->copy(copy, direction, stream);
    gpu_->synchronize(stream);
  }
  void zero(std::byte* data, std::size_t bytes, cudaStream_t stream) override {
    gpu_->zero(data, bytes, stream);
    gpu_->synchronize(stream);
  }

  cudaEvent_t make_event() override { return gpu_->make_event(); }
  void destroy(cudaEvent_t event) override { gpu_->destroy(event); }
  void record(cudaEvent_t event, cudaStream_t stream) override { gpu_->record(event, stream); }
  void wait(cudaStream_t stream, cudaEvent_t event) override { gpu_->wait(stream, event); }
  bool passed(cudaEvent_t event) override { return gpu_->passed(event); }
  void synchronize(cudaEvent_t event) override { gpu_->synchronize(event); }

  void begin_capture(cudaStream_t stream) override { gpu_->begin_capture(stream); }
  cudaGraphExec_t end_capture(cudaStream_t stream) override { return gpu_->end_capture(stream); }
  void launch(cudaGraphExec_t graph, cudaStream_t stream) override { gpu_->launch(graph, stream); }
  void destroy(cudaGraphExec_t graph) override { gpu_->destroy(graph); }

 private:
  std::unique_ptr<Runtime> gpu_;
};

}  // namespace

const bool kUnderTestIsEmulated = false;

Result<std::unique_ptr<Device>> make_device_under_test(DType activations, std::uint64_t,
                                                       const CudaSettings& settings) {
  TRY(std::unique_ptr<Runtime> runtime, make_gpu_runtime(0));
  auto device = std::make_unique<CudaDevice>(std::move(runtime), host_threads(), activations);
  TRY_DO(device->open_libraries(settings));
  TRY_DO(device->choose_attention(settings, open_flashinfer(0)));
  return device;
}

Result<std::unique_ptr<Device>> make_immediate_device(std::uint64_t) {
  wait_after_launches();
  TRY(std::unique_ptr<Runtime> runtime, make_gpu_runtime(0));
  return std::make_unique<CudaDevice>(std::make_unique<HostMemoryRuntime>(std::move(runtime)),
                                      host_threads(), DType::kF32);
}

Result<std::unique_ptr<Runtime>> make_runtime_under_test() { return make_gpu_runtime(0); }

}  // namespace saccade::cuda

// What tests of kernels ask of the emulator, of a GPU: its order is its own, and its streams run
// late by themselves.
namespace saccade::emulator {

void seed(std::uint64_t) {}

std::unique_ptr<cuda::Runtime> make_emulated_runtime(const EmulatedSettings& settings) {
  auto runtime = cuda::make_gpu_runtime(0);
  CHECK(runtime.has_value(), "{}", runtime.error().message);
  if (settings.space == Space::kDevice) return std::move(*runtime);
  return std::make_unique<cuda::HostMemoryRuntime>(std::move(*runtime));
}

}  // namespace saccade::emulator

namespace saccade {

std::unique_ptr<Device> make_emulated_cuda_device(const emulator::EmulatedSettings& settings,
                                                  DType activations) {
  return std::make_unique<cuda::CudaDevice>(emulator::make_emulated_runtime(settings),
                                            cuda::host_threads(), activations);
}

}  // namespace saccade

// The CUDA runtime of a GPU. Linked statically: a program with it starts on a machine without a
// driver, and says there is none when a device is asked for.
#include "ops/cuda/gpu_runtime.h"

#include <cuda_runtime_api.h>

#include "ops/cuda/device_failed.h"
#include "ops/cuda/launch.h"

namespace saccade::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw DeviceFailed(
      fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}
#define CUDA_CHECK(call) check((call), #call)

// Of what is given back: a device that has failed says so to every call.
void check_given_back(cudaError_t status, const char* what) {
  as_far_as_it_goes([&] { check(status, what); });
}
#define CUDA_GIVE_BACK(call) check_given_back((call), #call)

bool waits_after_launches = false;

constexpr int kLeastCapability = 80;
constexpr int kLeastDriver = 13000;  // of the runtime that this is built with

cudaMemcpyKind kind_of(Direction direction) {
  switch (direction) {
    case Direction::kToDevice:
      return cudaMemcpyHostToDevice;
    case Direction::kToHost:
      return cudaMemcpyDeviceToHost;
    case Direction::kWithinDevice:
      break;
  }
  return cudaMemcpyDeviceToDevice;
}

class GpuRuntime final : public Runtime {
 public:
  GpuRuntime(int index, std::string description)
      : index_(index), description_(std::move(description)) {}

  void select() const override { CUDA_CHECK(cudaSetDevice(index_)); }
  std::string description() const override { return description_; }
  Space space() const override { return Space::kDevice; }
  std::int64_t free_bytes() const override { return memory().free; }
  std::int64_t total_bytes() const override { return memory().total; }
  bool keeps_time() const override { return true; }

  std::byte* allocate(std::size_t bytes) override {
    select();
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    return taken(status, data);
  }
  void free(std::byte* data) override { CUDA_GIVE_BACK(cudaFree(data)); }
  std::byte* allocate_pinned(std::size_t bytes) override {
    select();
    void* data = nullptr;
    const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
    return taken(status, data);
  }
  void free_pinned(std::byte* data) override { CUDA_GIVE_BACK(cudaFreeHost(data)); }

  cudaStream_t make_stream(int priority) override {
    select();
    int least = 0;
    int greatest = 0;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                            priority > 0 ? greatest : least));
    return stream;
  }
  void destroy(cudaStream_t stream) override { CUDA_GIVE_BACK(cudaStreamDestroy(stream)); }
  void synchronize(cudaStream_t stream) override { CUDA_CHECK(cudaStreamSynchronize(stream)); }
  void copy(const Copy2d& copy, Direction direction, cudaStream_t stream) override {
    if (copy.rows == 0 || copy.row_bytes == 0) return;
    // A row's pitch may not be below its width, and one row needs none.
    if (copy.rows == 1)
      CUDA_CHECK(cudaMemcpyAsync(copy.to, copy.from, copy.row_bytes, kind_of(direction), stream));
    else
      CUDA_CHECK(cudaMemcpy2DAsync(copy.to, copy.to_stride, copy.from, copy.from_stride,
                                   copy.row_bytes, copy.rows, kind_of(direction), stream));
  }
  void zero(std::byte* data, std::size_t bytes, cudaStream_t stream) override {
    CUDA_CHECK(cudaMemsetAsync(data, 0, bytes, stream));
  }

  cudaEvent_t make_event() override {
    select();
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }
  void destroy(cudaEvent_t event) override { CUDA_GIVE_BACK(cudaEventDestroy(event)); }
  void record(cudaEvent_t event, cudaStream_t stream) override {
    CUDA_CHECK(cudaEventRecord(event, stream));
  }
  void wait(cudaStream_t stream, cudaEvent_t event) override {
    CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
  }
  bool passed(cudaEvent_t event) override {
    const cudaError_t status = cudaEventQuery(event);
    if (status == cudaErrorNotReady) return false;
    CUDA_CHECK(status);
    return true;
  }
  void synchronize(cudaEvent_t event) override { CUDA_CHECK(cudaEventSynchronize(event)); }

  // Of this thread: others go on as they like.
  void begin_capture(cudaStream_t stream) override {
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  cudaGraphExec_t end_capture(cudaStream_t stream) override {
    cudaGraph_t graph = nullptr;
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t made = nullptr;
    CUDA_CHECK(cudaGraphInstantiate(&made, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return made;
  }
  void launch(cudaGraphExec_t graph, cudaStream_t stream) override {
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
  }
  void destroy(cudaGraphExec_t graph) override { CUDA_GIVE_BACK(cudaGraphExecDestroy(graph)); }

 private:
  struct Memory {
    std::int64_t free;
    std::int64_t total;
  };
  Memory memory() const {
    select();
    std::size_t free = 0;
    std::size_t total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  }
  static std::byte* taken(cudaError_t status, void* data) {
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // said; the next launch is not to blame for it
      return nullptr;
    }
    CUDA_CHECK(status);
    return static_cast<std::byte*>(data);
  }

  int index_;
  std::string description_;
};

}  // namespace

Result<std::unique_ptr<Runtime>> make_gpu_runtime(int index) {
  int driver = 0;
  // 0 where there is no driver at all.
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (driver < kLeastDriver)
    return fail(ErrorCode::kUnsupported,
                "CUDA device {} was asked for, and {}: it wants NVIDIA's driver for CUDA {}.{} or "
                "newer; or use --device cpu",
                index,
                driver == 0 ? std::string("no NVIDIA driver is loaded")
                            : fmt::format("the driver is for CUDA {}.{}", driver / 1000,
                                          driver % 1000 / 10),
                kLeastDriver / 1000, kLeastDriver % 1000 / 10);
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0)
    return fail(ErrorCode::kUnsupported,
                "CUDA device {} was asked for, and the driver shows none ({}): is "
                "CUDA_VISIBLE_DEVICES right? Or use --device cpu",
                index, cudaGetErrorString(counted));
  if (index < 0 || index >= count)
    return fail(ErrorCode::kInvalid, "CUDA device {} was asked for, and there are {}, from 0 on",
                index, count);
  cudaDeviceProp properties;
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess)
    return fail(ErrorCode::kUnsupported, "CUDA device {}: {}", index, cudaGetErrorString(status));
  if (properties.major * 10 + properties.minor < kLeastCapability)
    return fail(ErrorCode::kUnsupported,
                "CUDA device {} is a {} of compute capability {}.{}, and 8.0 is the least: use "
                "--device cpu",
                index, properties.name, properties.major, properties.minor);
  return std::make_unique<GpuRuntime>(
      index, fmt::format("{}, sm_{}{}, {} GiB, driver {}.{}", properties.name, properties.major,
                         properties.minor, properties.totalGlobalMem >> 30, driver / 1000,
                         driver % 1000 / 10));
}

// Above 48 KiB a kernel has to be told; once a kernel would do, and telling it is cheap.
void allow_shared(const void* kernel, std::size_t bytes) {
  constexpr std::size_t kAnyMayHave = 48 * 1024;
  if (bytes <= kAnyMayHave) return;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
}

void wait_after_launches() { waits_after_launches = true; }

void check_launch(const char* kernel) {
  cudaError_t status = cudaPeekAtLastError();
  if (status == cudaSuccess && waits_after_launches) status = cudaDeviceSynchronize();
  if (status == cudaSuccess) return;
  check(status, fmt::format("launch of {}", kernel).c_str());
}

}  // namespace saccade::cuda

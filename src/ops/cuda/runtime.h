// What the device asks of the CUDA runtime, and no more: memory, streams, events, copies. The GPU's
// is cuda_runtime.cc; emulated_runtime.cc is the one of tests, whose streams run late.
//
// One thread calls at a time. Failures other than memory that is not there are bugs, or a GPU that
// is gone: DeviceFailed with what the runtime says, from the call that meets them, which may be
// long after the one that is to blame. What gives something back does not throw: the log has its
// failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensor/tensor.h"

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraphExec_t = CUgraphExec_st*;

namespace saccade::cuda {

// Rows of `row_bytes` bytes, `to_stride` and `from_stride` bytes apart.
struct Copy2d {
  std::byte* to = nullptr;
  std::size_t to_stride = 0;
  const std::byte* from = nullptr;
  std::size_t from_stride = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
};

enum class Direction : std::uint8_t { kToDevice, kToHost, kWithinDevice };

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Kernels that this thread launches from here on are for this device.
  virtual void select() const {}
  virtual std::string description() const = 0;  // "NVIDIA H100 80GB HBM3, sm_90, driver 13.0"
  // Of what allocate() gives.
  virtual Space space() const = 0;
  virtual std::int64_t free_bytes() const = 0;
  virtual std::int64_t total_bytes() const = 0;  // 0: space() is not the device's own

  // Whether the time that its work takes means something: not on the emulator.
  virtual bool keeps_time() const { return false; }

  // 256-byte aligned; null: there is no more.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* data) = 0;
  // Memory of the host that copies reach by themselves.
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(std::byte* data) = 0;

  // The higher the priority, the sooner its kernels get a multiprocessor: 0, or 1.
  virtual cudaStream_t make_stream(int priority) = 0;
  virtual void destroy(cudaStream_t stream) = 0;
  virtual void synchronize(cudaStream_t stream) = 0;
  virtual void copy(const Copy2d& copy, Direction direction, cudaStream_t stream) = 0;
  virtual void zero(std::byte* data, std::size_t bytes, cudaStream_t stream) = 0;

  virtual cudaEvent_t make_event() = 0;
  virtual void destroy(cudaEvent_t event) = 0;
  virtual void record(cudaEvent_t event, cudaStream_t stream) = 0;
  virtual void wait(cudaStream_t stream, cudaEvent_t event) = 0;  // the stream waits
  virtual bool passed(cudaEvent_t event) = 0;
  virtual void synchronize(cudaEvent_t event) = 0;  // the host waits

  // Between the two, what this thread launches into the stream is kept, arguments and all, and does
  // not run; nothing else is asked of the stream, and no memory is allocated.
  virtual void begin_capture(cudaStream_t stream) = 0;
  virtual cudaGraphExec_t end_capture(cudaStream_t stream) = 0;
  virtual void launch(cudaGraphExec_t graph, cudaStream_t stream) = 0;
  virtual void destroy(cudaGraphExec_t graph) = 0;  // that is not running
};

}  // namespace saccade::cuda

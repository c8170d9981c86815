// The emulated device with the library that stands in for cuBLASLt.
#pragma once

#include <memory>

#include "base/check.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"
#include "ops/cuda/libraries/cublaslt_library.h"
#include "tests/gpu/fakes/fake_cublaslt.h"

namespace saccade::test {

// The settings of the instance that everybody opens.
inline test::FakeCublasLt& fake_cublaslt() {
  static const cuda::OpenedLibrary library = *cuda::OpenedLibrary::open(SACCADE_FAKE_CUBLASLT);
  return reinterpret_cast<test::FakeCublasLtSettings>(
      library.symbol(test::kFakeCublasLtSettings))();
}

inline std::unique_ptr<cuda::CudaDevice> make_library_device(
    const cuda::DequantizedProducts& dequantized, bool batch_invariant = false,
    const emulator::EmulatedSettings& settings = {.late = true, .seed = 7}) {
  auto device = std::make_unique<cuda::CudaDevice>(emulator::make_emulated_runtime(settings), 2,
                                                   DType::kBf16);
  fake_cublaslt().enqueue = emulator::enqueue;
  auto library = cuda::open_cublaslt(*cuda::OpenedLibrary::open(SACCADE_FAKE_CUBLASLT));
  CHECK(library.has_value(), "{}", library.error().message);
  device->use_library(*std::move(library), batch_invariant, dequantized);
  return device;
}

}  // namespace saccade::test

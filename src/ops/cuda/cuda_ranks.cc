#include "ops/team/cuda_ranks.h"

#include <cstdlib>

#include "base/log.h"
#include "ops/cuda/libraries/nccl_collective.h"

namespace saccade {

Result<CudaRanks> make_cuda_ranks(int ranks, const CudaSettings& settings) {
  CHECK(ranks > 0, "{} ranks", ranks);
  TRY(const auto library, cuda::find_nccl(settings.libraries));
  // Read when the first device is opened.
  if (ranks > 1) ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  CudaRanks made;
  std::vector<cuda::CudaDevice*> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    auto device = make_cuda_device(rank, settings);
    if (!device) return fail_within(fmt::format("{} ranks want a GPU each", ranks), device.error());
    devices.push_back(static_cast<cuda::CudaDevice*>(device->get()));
    made.devices.push_back(*std::move(device));
  }
  TRY(made.collectives, cuda::make_nccl_collectives(library, devices));
  log::info("{} ranks add up with {}", ranks, library->description());
  return made;
}

}  // namespace saccade

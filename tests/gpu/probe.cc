// Which GPU there is, or what is missing: one line. The smallest program with the CUDA device in
// it, so that its link is tested where there is no GPU. 0: there is one; 77: there is none.
#include <cstdio>

#include "ops/device.h"

int main() {
  const auto device = saccade::make_cuda_device(0);
  std::printf("%s\n", device ? (*device)->description().c_str() : device.error().message.c_str());
  return device ? 0 : 77;
}

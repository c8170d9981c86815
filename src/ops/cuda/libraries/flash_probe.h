// Whether a library's attention does on this machine what flash_attention.h says of it.
#pragma once

#include <string>
#include <vector>

#include "ops/cuda/libraries/flash_attention.h"

namespace saccade::cuda {

class CudaDevice;

// Of the forms of device.flash().library those whose results are the own kernel's within what
// roundings can do, and the same bits alone, in company and in another cut of the sequence, though
// what nobody should read is NaN. `notes` gets a line for each of the others. Waits for the device.
std::vector<FlashForm> probe_flash(CudaDevice& device, std::vector<std::string>& notes);

}  // namespace saccade::cuda

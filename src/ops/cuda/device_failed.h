// A device that does not go on: a kernel that was refused or went wrong, memory that is not there.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/log.h"

namespace saccade::cuda {

// Nothing that the device has made since is to be relied on, and after most of its failures nothing
// more can be asked of it: whoever runs it tells everybody, and ends.
class DeviceFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// For destructors, which a device that has failed does not keep waiting: it says so once more and
// that is all.
template <typename F>
void as_far_as_it_goes(F&& f) noexcept {
  try {
    std::forward<F>(f)();
  } catch (const DeviceFailed& failed) {
    log::error("the device ends: {}", failed.what());
  }
}

}  // namespace saccade::cuda

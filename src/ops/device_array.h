// Lists in the memory of a device.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
#include "tensor/tensor.h"

namespace saccade {

// What Stream::upload() made of a list of the host. Small; passed by value.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(const T* data, std::int64_t size, Space space)
      : data_(data), size_(size), space_(space) {}

  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Space space() const { return space_; }
  const T* data() const { return data_; }  // an address of space()
  DeviceArray slice(std::int64_t begin, std::int64_t count) const {
    CHECK(begin >= 0 && count >= 0 && begin + count <= size_, "elements [{}, {}) of {}", begin,
          begin + count, size_);
    return DeviceArray(data_ + begin, count, space_);
  }
  // The elements, where the host can read them.
  std::span<const T> host() const {
    CHECK(space_ == Space::kHost || size_ == 0, "the host reads a list of the device");
    return {data_, static_cast<std::size_t>(size_)};
  }
  T operator[](std::int64_t i) const { return host()[static_cast<std::size_t>(i)]; }

 private:
  const T* data_ = nullptr;
  std::int64_t size_ = 0;
  Space space_ = Space::kHost;
};
using DeviceInts = DeviceArray<std::int32_t>;
using DeviceFloats = DeviceArray<float>;

}  // namespace saccade

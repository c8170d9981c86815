// DType, Shape, View, Buffer: what every layer above says about numbers in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace saccade {

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
    case DType::kF16:
      return 2;
    case DType::kI8:
    case DType::kU8:
    case DType::kE4m3:
      return 1;
  }
  return 0;
}

std::string_view name_of(DType type);  // "float32", "bfloat16", ...

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<Bf16>() {
  return DType::kBf16;
}
template <>
constexpr DType dtype_of<F16>() {
  return DType::kF16;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::kI8;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType dtype_of<E4m3>() {
  return DType::kE4m3;
}

// Up to four extents, outermost first.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    CHECK(extents.size() <= 4, "rank {} is over 4", extents.size());
    for (const std::int64_t extent : extents) extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  std::int64_t count() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= (*this)[i];
    return product;
  }
  bool operator==(const Shape& other) const {
    return rank_ == other.rank_ && extents_ == other.extents_;
  }

 private:
  std::array<std::int64_t, 4> extents_{};
  int rank_ = 0;
};

// Where memory lies. kHost: the processor may read and write it. kDevice: only ops do, and what the
// host wants of it is downloaded. Memory of a CPU is kHost whatever it was allocated for.
enum class Space : std::uint8_t { kHost, kDevice };

// A non-owning matrix of `rows` rows with `cols` contiguous elements each, `stride` elements from
// row to row. Higher shapes are written in comments ("[tokens, heads, head_dim]"): kernels take
// rows. Small; passed by value.
class View {
 public:
  View() = default;
  View(void* data, DType type, std::int64_t rows, std::int64_t cols, std::int64_t stride,
       Space space = Space::kHost)
      : data_(static_cast<std::byte*>(data)),
        rows_(rows),
        cols_(cols),
        stride_(stride),
        type_(type),
        space_(space) {}
  View(void* data, DType type, std::int64_t rows, std::int64_t cols)
      : View(data, type, rows, cols, cols) {}

  DType dtype() const { return type_; }
  Space space() const { return space_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t stride() const { return stride_; }  // elements
  bool empty() const { return data_ == nullptr || rows_ == 0 || cols_ == 0; }
  // An address of space(): the host may not follow it into kDevice.
  std::byte* data() const { return data_; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(stride_) * size_of(type_); }

  // Row r, for the host to read and write.
  template <typename T>
  T* row(std::int64_t r) const {
    CHECK(dtype_of<T>() == type_, "view is {}", name_of(type_));
    CHECK(space_ == Space::kHost, "the host reads a matrix of the device");
    return reinterpret_cast<T*>(data_) + r * stride_;
  }

  View row_range(std::int64_t begin, std::int64_t end) const {
    CHECK(0 <= begin && begin <= end && end <= rows_, "rows [{}, {}) of {}", begin, end, rows_);
    return View(data_ + static_cast<std::size_t>(begin) * row_bytes(), type_, end - begin, cols_,
                stride_, space_);
  }
  View col_range(std::int64_t begin, std::int64_t end) const {
    CHECK(0 <= begin && begin <= end && end <= cols_, "cols [{}, {}) of {}", begin, end, cols_);
    return View(data_ + static_cast<std::size_t>(begin) * size_of(type_), type_, rows_, end - begin,
                stride_, space_);
  }
  // Same elements, other extents; only for a view without gaps.
  View reshape(std::int64_t rows, std::int64_t cols) const {
    CHECK(stride_ == cols_ && rows * cols == rows_ * cols_, "{}x{} (stride {}) to {}x{}", rows_,
          cols_, stride_, rows, cols);
    return View(data_, type_, rows, cols, cols, space_);
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::int64_t stride_ = 0;
  DType type_ = DType::kF32;
  Space space_ = Space::kHost;
};

// Owns bytes of one space; freed by the function it was made with. Move-only. 64-byte aligned.
class Buffer {
 public:
  using Free = std::function<void(std::byte*, std::size_t)>;
  Buffer() = default;
  Buffer(std::byte* data, std::size_t bytes, Free free, Space space = Space::kHost)
      : data_(data), bytes_(bytes), free_(std::move(free)), space_(space) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Space space() const { return space_; }
  View view(DType type, std::int64_t rows, std::int64_t cols) const {
    CHECK(static_cast<std::size_t>(rows * cols) * size_of(type) <= bytes_, "{}x{} in {} bytes",
          rows, cols, bytes_);
    return View(data_, type, rows, cols, cols, space_);
  }
  void reset() {
    if (data_ != nullptr && free_) free_(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    std::swap(space_, other.space_);
  }
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Free free_;
  Space space_ = Space::kHost;
};

// Zeroed pages of host memory, returned to the system when freed. kExhausted when there is none.
Result<Buffer> allocate_host(std::size_t bytes);

}  // namespace saccade

// For the tests of ops/: the device that they are run on, and matrices that notice stray writes.
// The tests are compiled once and linked into a program for each kind of device (devices_cpu.cc,
// devices_team.cc, devices_cuda.cc).
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ops/device.h"

namespace saccade {

// What this program's tests run on: every CPU device of this machine; a team of two CPUs; or the
// CUDA device, on the emulator or a GPU.
enum class DeviceKind { kCpu, kTeam, kCuda };
extern const DeviceKind kDeviceKind;
inline bool on_cuda() { return kDeviceKind == DeviceKind::kCuda; }
inline bool on_team() { return kDeviceKind == DeviceKind::kTeam; }
bool emulated();
// Sweeps are shorter, here as on the emulator: every access is checked.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
inline bool slow() { return emulated() || kSanitized; }

// The instruction sets that the tests are instantiated for: "cuda" alone on CUDA, the best one on a
// team, which is the same of all.
std::vector<std::string> isas_here();

// A device of that kind, whose results can be read as soon as a call returns; of one of
// isas_here(), or a CPU's. Ends the program where there is none.
std::unique_ptr<Device> make_tested_device(const std::string& isa, int threads);

constexpr double kEpsilon = 0x1.0p-24;  // half an ulp of 1 in f32: the error of one rounding

// A device whose ops are called on its step lane: device->norm(...).
class TestDevice {
 public:
  explicit TestDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  Device& operator*() const { return *device_; }
  Stream* operator->() const { return &device_->lane(Lane::kStep); }

 private:
  std::unique_ptr<Device> device_;
};

inline TestDevice device_of(const std::string& isa, int threads = 2) {
  return TestDevice(make_tested_device(isa, threads));
}

// Rows with gaps between them; the memory before, between and after holds NaN, so that reading it
// shows in the result and writing it shows in intact().
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols, DType type = DType::kF32, std::int64_t gap = 3)
      : rows_(rows), cols_(cols), stride_(cols + gap), type_(type) {
    bytes_.resize(static_cast<std::size_t>(kBefore + rows * stride_ + kBefore) * size_of(type));
    for (std::int64_t i = 0; i < kBefore + rows * stride_ + kBefore; ++i)
      put(i, std::numeric_limits<float>::quiet_NaN());
  }

  // An odd offset: not even aligned to two elements.
  View view() {
    return View(reinterpret_cast<std::byte*>(bytes_.data()) + kBefore * size_of(type_), type_,
                rows_, cols_, stride_);
  }
  float at(std::int64_t row, std::int64_t col) const { return get(kBefore + row * stride_ + col); }
  void set(std::int64_t row, std::int64_t col, float value) {
    put(kBefore + row * stride_ + col, value);
  }
  Matrix& fill(const std::function<double()>& value) {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t col = 0; col < cols_; ++col) set(row, col, static_cast<float>(value()));
    return *this;
  }
  Matrix& random(Rng& rng, double scale = 1) {
    return fill([&] { return scale * (rng.uniform() + rng.uniform() + rng.uniform() - 1.5); });
  }
  Matrix& round_to(DType type) {
    if (type == DType::kBf16) {
      for (std::int64_t row = 0; row < rows_; ++row)
        for (std::int64_t col = 0; col < cols_; ++col)
          set(row, col, to_float(to_bf16(at(row, col))));
    }
    return *this;
  }
  std::vector<float> row(std::int64_t row) const {
    std::vector<float> values(static_cast<std::size_t>(cols_));
    for (std::int64_t col = 0; col < cols_; ++col)
      values[static_cast<std::size_t>(col)] = at(row, col);
    return values;
  }
  // The length of each row.
  std::vector<double> norms() const {
    std::vector<double> norms;
    for (std::int64_t row = 0; row < rows_; ++row) {
      double sum = 0;
      for (std::int64_t col = 0; col < cols_; ++col) sum += std::pow(at(row, col), 2);
      norms.push_back(std::sqrt(sum));
    }
    return norms;
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  // Whether all memory around the elements is untouched.
  bool intact() const {
    for (std::int64_t i = 0; i < kBefore + rows_ * stride_ + kBefore; ++i) {
      const std::int64_t at = i - kBefore;
      const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
      if (!inside && !std::isnan(get(i))) return false;
    }
    return true;
  }

 private:
  static constexpr std::int64_t kBefore = 17;
  float get(std::int64_t i) const {
    const unsigned char* p = bytes_.data() + static_cast<std::size_t>(i) * size_of(type_);
    if (type_ == DType::kBf16) return to_float(Bf16{word(p)});
    if (type_ == DType::kF16) return to_float(F16{word(p)});
    float value;
    std::memcpy(&value, p, sizeof(value));
    return value;
  }
  void put(std::int64_t i, float value) {
    unsigned char* p = bytes_.data() + static_cast<std::size_t>(i) * size_of(type_);
    if (type_ == DType::kF32) {
      std::memcpy(p, &value, sizeof(value));
      return;
    }
    const std::uint16_t bits = type_ == DType::kBf16 ? to_bf16(value).bits : to_f16(value).bits;
    std::memcpy(p, &bits, sizeof(bits));
  }
  static std::uint16_t word(const unsigned char* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return bits;
  }

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t stride_;
  DType type_;
  std::vector<unsigned char> bytes_;
};

// |got - want| <= tolerance(row, col) for each element.
inline void expect_near(const Matrix& got, const Matrix& want,
                        const std::function<double(std::int64_t, std::int64_t)>& tolerance) {
  ASSERT_EQ(got.rows(), want.rows());
  for (std::int64_t row = 0; row < got.rows(); ++row) {
    for (std::int64_t col = 0; col < got.cols(); ++col) {
      const double error = std::abs(static_cast<double>(got.at(row, col)) - want.at(row, col));
      ASSERT_LE(error, tolerance(row, col)) << "row " << row << " col " << col << ": got "
                                            << got.at(row, col) << ", want " << want.at(row, col);
    }
  }
  EXPECT_TRUE(got.intact());
}

inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
        << "col " << i << ": " << a[i] << " and " << b[i];
}

// A sweep's length: an emulated device, or a build with sanitizers, does in seconds what the CPU
// does in milliseconds.
inline std::int64_t scaled(std::int64_t full, std::int64_t where_slow) {
  return slow() ? where_slow : full;
}

class EveryCpu : public testing::TestWithParam<std::string> {
 protected:
  TestDevice device(int threads = 2) const { return device_of(GetParam(), threads); }
  TestDevice reference_{make_reference_device()};
};

#define SACCADE_EVERY_CPU(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(Isa, suite, testing::ValuesIn(::saccade::isas_here()), \
                           [](const auto& each) { return each.param; })

}  // namespace saccade

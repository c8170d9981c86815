#include "tensor/tensor.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "base/host_memory.h"

namespace saccade {

std::string_view name_of(DType type) {
  switch (type) {
    case DType::kF32:
      return "float32";
    case DType::kBf16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kI32:
      return "int32";
    case DType::kI8:
      return "int8";
    case DType::kU8:
      return "uint8";
    case DType::kE4m3:
      return "float8_e4m3";
  }
  return "unknown";
}

float to_float(Bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

Bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U)
    return Bf16{static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return Bf16{static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

float to_float(F16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffU;
  if (magnitude >= 0x7c00U)
    return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  // Normal numbers are rebased by a multiplication, which also makes subnormals exact.
  return std::bit_cast<float>(
      sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1.0p112f));
}

F16 to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return F16{static_cast<std::uint16_t>(sign | 0x7e00U)};
  if (magnitude >= 0x477ff000U) return F16{static_cast<std::uint16_t>(sign | 0x7c00U)};
  if (magnitude < 0x38800000U) {
    // Subnormal in f16: adding 0.5 lets the float unit round at the right bit.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return F16{
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U))};
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return F16{static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13))};
}

float to_float(E4m3 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x80U) << 24;
  const std::uint32_t magnitude = x.bits & 0x7fU;
  if (magnitude == 0x7fU) return std::bit_cast<float>(sign | 0x7fc00000U);
  // As f16 above.
  return std::bit_cast<float>(
      sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 20) * 0x1.0p120f));
}

E4m3 to_e4m3(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return E4m3{static_cast<std::uint8_t>(sign | 0x7fU)};
  if (magnitude >= 0x43e00000U) return E4m3{static_cast<std::uint8_t>(sign | 0x7eU)};  // 448
  if (magnitude < 0x3c800000U) {
    // Subnormal in e4m3, of steps of 2^-9: in [16384, 32768) those are what floats have.
    const float shifted = std::bit_cast<float>(magnitude) + 16384.0f;
    return E4m3{
        static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000U))};
  }
  const std::uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20) & 1U);
  return E4m3{static_cast<std::uint8_t>(sign | ((rounded - 0x3c000000U) >> 20))};
}

Result<Buffer> allocate_host(std::size_t bytes) {
  if (bytes == 0) return Buffer();
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    const int reason = errno;
    return fail(ErrorCode::kExhausted, "{} MiB of memory are not available, {} MiB are free: {}",
                bytes >> 20, available_host_bytes() >> 20, std::strerror(reason));
  }
  madvise(pages, bytes, MADV_HUGEPAGE);
  return Buffer(static_cast<std::byte*>(pages), bytes,
                [](std::byte* data, std::size_t n) { munmap(data, n); });
}

}  // namespace saccade

#include "ops/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>

#include "base/host_memory.h"
#include "base/threads/processors.h"
#include "ops/shapes.h"

namespace saccade {
namespace cpu {
namespace {

const Kernels& kernels_of(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512_kernels();
  if (isa >= Isa::kAvx2) return avx2_kernels();
#elif defined(__aarch64__)
  if (isa >= Isa::kNeon) return neon_kernels();
#endif
  CHECK(isa == Isa::kPortable, "no kernels for {}", name_of(isa));
  return portable_kernels();
}

const Int8Kernels& int8_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kVnni) return vnni_int8();
  if (isa == Isa::kAvx512) return avx512_int8();
  if (isa == Isa::kAvxVnni) return avxvnni_int8();
  if (isa == Isa::kAvx2) return avx2_int8();
#elif defined(__aarch64__)
  if (isa == Isa::kDotprod) return dotprod_int8();
  if (isa == Isa::kNeon) return neon_int8();
#endif
  return portable_int8();
}

const FourBitKernels& four_bits_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512_four_bits();
  if (isa >= Isa::kAvx2) return avx2_four_bits();
#elif defined(__aarch64__)
  if (isa >= Isa::kNeon) return neon_four_bits();
#endif
  return portable_four_bits();
}

const W4A8Kernels& w4a8_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kVnni) return vnni_w4a8();
  if (isa == Isa::kAvx512) return avx512_w4a8();
  if (isa == Isa::kAvxVnni) return avxvnni_w4a8();
  if (isa == Isa::kAvx2) return avx2_w4a8();
#elif defined(__aarch64__)
  if (isa == Isa::kDotprod) return dotprod_w4a8();
  if (isa == Isa::kNeon) return neon_w4a8();
#endif
  return portable_w4a8();
}

const TileKernels* tiles_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return &amx_kernels();
  if (isa == Isa::kBf16) return &bf16_kernels();
#endif
  return nullptr;
}

}  // namespace

void Scratch::grow(std::size_t bytes) {
  buffer_.reset();  // before asking for more: the old contents are nobody's
  Result<Buffer> larger = allocate_host(bytes + bytes / 4);
  CHECK(larger.has_value(), "scratch: {}", larger.error().message);
  buffer_ = std::move(*larger);
}

CpuDevice::CpuDevice(int threads, Isa isa)
    : isa_(isa),
      kernels_(kernels_of(isa)),
      tiles_(tiles_of(isa)),
      int8_(int8_of(isa)),
      four_bits_(four_bits_of(isa)),
      w4a8_(w4a8_of(isa)),
      pool_(threads),
      scratch_(static_cast<std::size_t>(threads)),
      samplers_(static_cast<std::size_t>(threads)) {
  for (std::size_t i = 0; i < kLanes; ++i) lanes_.push_back(std::make_unique<CpuStream>(*this));
}

CpuDevice::~CpuDevice() = default;

std::string CpuDevice::description() const {
  return fmt::format("cpu {}, {} thread{}", cpu::name_of(isa_), pool_.size(),
                     pool_.size() == 1 ? "" : "s");
}

std::int64_t CpuDevice::free_bytes() const { return available_host_bytes(); }

Stream& CpuDevice::lane(Lane lane) { return *lanes_[static_cast<std::size_t>(lane)]; }

CpuStream::CpuStream(CpuDevice& device)
    : device_(device),
      kernels_(device.kernels_),
      tiles_(device.tiles_),
      int8_(device.int8_),
      four_bits_(device.four_bits_),
      w4a8_(device.w4a8_),
      pool_(device.pool_) {}

void CpuStream::copy(View from, View to) {
  check_copy_shapes(from, to);
  each_row(to.rows(), to.cols(), [&](std::int64_t row) {
    const std::byte* x = from.data() + static_cast<std::size_t>(row) * from.row_bytes();
    std::byte* out = to.data() + static_cast<std::size_t>(row) * to.row_bytes();
    if (is_float(to.dtype())) {
      kernels_.convert_row(x, from.dtype(), out, to.dtype(), 1.0f, to.cols());
    } else {
      std::memcpy(out, x, static_cast<std::size_t>(to.cols()) * size_of(to.dtype()));
    }
  });
}

}  // namespace cpu

Result<std::unique_ptr<Device>> make_cpu_device(int threads, std::string_view isa) {
  TRY(const cpu::Isa chosen, cpu::choose_isa(isa));
  if (threads < 0 || threads > 4096)
    return fail(ErrorCode::kInvalid, "{} threads: want 1 to 4096, or 0 for one per core", threads);
  if (threads == 0) threads = find_processors().compute_threads();
  return std::make_unique<cpu::CpuDevice>(threads, chosen);
}

}  // namespace saccade

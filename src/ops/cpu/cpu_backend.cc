#include "ops/cpu/cpu_backend.h"

#include <algorithm>
#include <thread>

#include "ops/shapes.h"

namespace saccade {
namespace cpu {
namespace {

const Kernels& kernels_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512 || isa == Isa::kAmx) return avx512_kernels();
  if (isa == Isa::kAvx2) return avx2_kernels();
#endif
  CHECK(isa == Isa::kPortable, "no kernels for {}", name_of(isa));
  return portable_kernels();
}

const TileKernels* tiles_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return &amx_kernels();
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

CpuBackend::CpuBackend(int threads, Isa isa)
    : isa_(isa),
      kernels_(kernels_of(isa)),
      tiles_(tiles_of(isa)),
      pool_(threads),
      scratch_(static_cast<std::size_t>(threads)) {}

std::string CpuBackend::description() const {
  return fmt::format("cpu {}, {} thread{}", cpu::name_of(isa_), pool_.size(),
                     pool_.size() == 1 ? "" : "s");
}

void CpuBackend::copy(View from, View to) {
  CHECK(from.rows() == to.rows() && from.cols() == to.cols(), "copy {}x{} to {}x{}", from.rows(),
        from.cols(), to.rows(), to.cols());
  CHECK(is_float(from.dtype()) && is_float(to.dtype()), "copy {} to {}",
        saccade::name_of(from.dtype()), saccade::name_of(to.dtype()));
  each_row(to.rows(), to.cols(), [&](std::int64_t row) {
    kernels_.convert_row(from.data() + static_cast<std::size_t>(row) * from.row_bytes(),
                         from.dtype(), to.data() + static_cast<std::size_t>(row) * to.row_bytes(),
                         to.dtype(), 1.0f, to.cols());
  });
}

}  // namespace cpu

Result<std::unique_ptr<Backend>> make_cpu_backend(int threads, std::string_view isa) {
  TRY(const cpu::Isa chosen, cpu::choose_isa(isa));
  if (threads < 0 || threads > 4096)
    return fail(ErrorCode::kInvalid, "{} threads: want 1 to 4096, or 0 for one per core", threads);
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::make_unique<cpu::CpuBackend>(threads, chosen);
}

}  // namespace saccade

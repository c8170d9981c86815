#include <algorithm>

#include "base/clock.h"
#include "benchmarks/gpu/mma_roof.h"
#include "benchmarks/gpu/parts.h"
#include "ops/cuda/device_under_test.h"

namespace saccade {
namespace {

struct Sizes {
  std::size_t copy_bytes;
  std::int64_t blocks;
  std::int64_t rounds;
  int repeats;
};

class Roofs {
 public:
  Roofs(std::unique_ptr<cuda::Runtime> runtime, const Sizes& sizes)
      : runtime_(std::move(runtime)), sizes_(sizes), stream_(runtime_->make_stream(0)) {}
  ~Roofs() { runtime_->destroy(stream_); }

  // The best of a few: a roof is what the machine can do.
  template <typename Body>
  double best(const Body& body) {
    double least = 1e30;
    for (int i = 0; i < sizes_.repeats; ++i) {
      const Nanos begin = clock_.now();
      body();
      runtime_->synchronize(stream_);
      least = std::min(least, seconds(clock_.now() - begin));
    }
    return least;
  }

  Result<void> copies(Figures& figures) {
    const std::size_t bytes = sizes_.copy_bytes;
    std::byte* const from = runtime_->allocate(bytes);
    std::byte* const to = runtime_->allocate(bytes);
    std::byte* const pinned = runtime_->allocate_pinned(bytes);
    const auto row = [&](const char* name, double moved, std::byte* target, std::byte* source,
                         cuda::Direction direction) {
      const double took = best([&] {
        runtime_->copy({.to = target,
                        .to_stride = bytes,
                        .from = source,
                        .from_stride = bytes,
                        .row_bytes = bytes,
                        .rows = 1},
                       direction, stream_);
      });
      figures.add("roofs", name, {{"seconds", took}, {"bytes", moved}});
    };
    if (from != nullptr && to != nullptr && pinned != nullptr) {
      const auto size = static_cast<double>(bytes);
      row("copy within the device, read and written", 2 * size, to, from,
          cuda::Direction::kWithinDevice);
      row("copy to the device, pinned", size, to, pinned, cuda::Direction::kToDevice);
      row("copy to the host, pinned", size, pinned, from, cuda::Direction::kToHost);
    }
    if (from != nullptr) runtime_->free(from);
    if (to != nullptr) runtime_->free(to);
    if (pinned != nullptr) runtime_->free_pinned(pinned);
    if (from == nullptr || to == nullptr || pinned == nullptr)
      return fail(ErrorCode::kExhausted, "no three times {} bytes for copies", bytes);
    return {};
  }

  Result<void> products(Figures& figures) {
    const auto bytes = static_cast<std::size_t>(sizes_.blocks * kMmaRoofThreads) * sizeof(float);
    std::byte* const out = runtime_->allocate(bytes);
    if (out == nullptr) return fail(ErrorCode::kExhausted, "no {} bytes for sums", bytes);
    runtime_->select();
    const double took = best([&] {
      launch_mma_roof(reinterpret_cast<float*>(out), sizes_.blocks, sizes_.rounds, stream_);
    });
    runtime_->free(out);
    figures.add("roofs", "mma.sync bf16, out of registers",
                {{"seconds", took}, {"flops", mma_roof_flops(sizes_.blocks, sizes_.rounds)}});
    return {};
  }

 private:
  const SteadyClock clock_;
  std::unique_ptr<cuda::Runtime> runtime_;
  Sizes sizes_;
  cudaStream_t stream_;
};

}  // namespace

Result<void> measure_roofs(Figures& figures, bool rehearsal) {
  TRY(std::unique_ptr<cuda::Runtime> runtime, cuda::make_runtime_under_test());
  // A million products of tiles a multiprocessor and more: milliseconds on a large GPU.
  const Sizes sizes = rehearsal ? Sizes{std::size_t{1} << 16, 1, 2, 1}
                                : Sizes{std::size_t{1} << 30, 2112, 16384, 5};
  Roofs roofs(std::move(runtime), sizes);
  TRY_DO(roofs.copies(figures));
  return roofs.products(figures);
}

}  // namespace saccade

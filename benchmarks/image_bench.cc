// Speed of the image path on one thread, in source megapixels a second: decode, resize (each set of
// kernels), patch rows.
#include <benchmark/benchmark.h>

#include <cmath>

#include "base/check.h"
#include "base/rng.h"
#include "image/normalize.h"
#include "image/patchify.h"
#include "image/pixels.h"
#include "image/resize_kernels.h"

namespace {

using namespace saccade;

// Smooth with some noise: compresses about as a photograph does.
Pixels photo(int width, int height) {
  Pixels pixels{width, height, {}};
  Rng rng(1);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const double wave = std::sin(x / (40.0 + 9 * c)) * std::cos(y / (31.0 + 5 * c));
        pixels.rgb.push_back(
            static_cast<std::uint8_t>(128 + 90 * wave + 12 * (rng.uniform() - 0.5)));
      }
    }
  }
  return pixels;
}

void count_megapixels(benchmark::State& state, const Pixels& from) {
  const double megapixels = 1e-6 * from.width * from.height;
  state.counters["MP/s"] = benchmark::Counter(megapixels * static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate);
}

void resize_on(benchmark::State& state, const ResizeKernels* kernels) {
  if (kernels == nullptr) return state.SkipWithError("this CPU lacks it");
  const Pixels from = photo(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(resize_with(*kernels, from, static_cast<int>(state.range(2)),
                                         static_cast<int>(state.range(3)),
                                         ResampleFilter::kBicubic));
  }
  count_megapixels(state, from);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({1920, 1080, 1260, 700})
      ->Args({3840, 2160, 1008, 560})
      ->Args({640, 480, 1008, 756})
      ->Args({1024, 1024, 1008, 1008})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(resize_on, portable, &portable_resize_kernels())->Apply(sizes);
BENCHMARK_CAPTURE(resize_on, avx2, avx2_resize_kernels())->Apply(sizes);
BENCHMARK_CAPTURE(resize_on, avx512, avx512_resize_kernels())->Apply(sizes);

void decode_jpeg(benchmark::State& state) {
  const Pixels from = photo(1920, 1080);
  const auto jpeg = encode_jpeg(from, 85);
  CHECK(jpeg.has_value());
  for (auto _ : state) benchmark::DoNotOptimize(decode_image(*jpeg));
  count_megapixels(state, from);
}
BENCHMARK(decode_jpeg)->Unit(benchmark::kMillisecond);

void patch_rows(benchmark::State& state) {
  const Pixels from = photo(1260, 700);
  const PatchLayout layout;
  const NormalizeTable table;
  std::vector<float> rows(static_cast<std::size_t>(layout.rows(from) * layout.row_length()));
  for (auto _ : state) {
    patchify({&from, 1}, layout, table, rows);
    benchmark::DoNotOptimize(rows.data());
  }
  count_megapixels(state, from);
}
BENCHMARK(patch_rows)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

// fill() of the devices that make nothing themselves: a band at a time, by way of the host.
#include <algorithm>
#include <vector>

#include "ops/device.h"

namespace saccade {

void Stream::fill(const StoredMatrix& from, View to) {
  CHECK(from.out() == to.rows() && from.in() == to.cols(), "{} x {} numbers for {} x {}",
        from.out(), from.in(), to.rows(), to.cols());
  if (to.empty()) return;
  constexpr std::int64_t kBand = std::int64_t{1} << 20;  // elements
  const std::int64_t rows = std::max<std::int64_t>(1, kBand / to.cols());
  const StoredMatrixReader reader(from);
  std::vector<float> band(static_cast<std::size_t>(std::min(rows, to.rows()) * to.cols()));
  for (std::int64_t begin = 0; begin < to.rows(); begin += rows) {
    const std::int64_t end = std::min(to.rows(), begin + rows);
    constexpr std::int64_t kTile = StoredMatrixReader::kTileOut;
    const std::int64_t tiles = (end - begin + kTile - 1) / kTile;
    device().pool().parallel_each(tiles, [&](std::int64_t tile, int) {
      const std::int64_t first = begin + tile * kTile;
      reader.read(first, std::min(end, first + kTile), 0, to.cols(),
                  band.data() + (first - begin) * to.cols(), to.cols());
    });
    upload(View(band.data(), DType::kF32, end - begin, to.cols()), to.row_range(begin, end));
  }
}

}  // namespace saccade

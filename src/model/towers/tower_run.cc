#include "model/towers/tower_run.h"

#include <utility>

#include "base/check.h"

namespace saccade {

TowerRun::TowerRun(Stream& stream, std::span<const PreparedImage* const> images,
                   std::span<const View> out, Tap tap, std::size_t layers)
    : stream_(stream),
      images_(images.begin(), images.end()),
      out_(out.begin(), out.end()),
      tap_(std::move(tap)),
      layers_(layers) {}

void TowerRun::take_rows(View memory, std::int64_t rows) {
  CHECK(rows <= memory.rows(), "{} rows, {} reserved", rows, memory.rows());
  hidden_ = memory.row_range(0, rows);
}

Result<bool> TowerRun::advance() {
  const std::size_t stage = stage_++;
  if (stage == 0) {
    embed();
  } else if (stage <= layers_) {
    layer(stage - 1);
  } else {
    project();
  }
  return stage > layers_;
}

}  // namespace saccade

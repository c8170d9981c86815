#include "model/given/given_layouts.h"

namespace saccade {

ImageLayout lay_out_rows(const GivenRows& given) {
  ImageLayout layout;
  layout.tokens = given.rows;
  layout.key = "given";
  return layout;
}

Result<ImageLayout> lay_out_alike(const GivenRows& given, std::int64_t rows) {
  if (given.rows != rows)
    return fail(ErrorCode::kInvalid, "{} has {} rows, an image has {}", kGivenRows, given.rows,
                rows);
  return lay_out_rows(given);
}

Result<ImageLayout> lay_out_tiles(const GivenRows& given, std::int64_t rows) {
  if (given.rows % rows != 0)
    return fail(ErrorCode::kInvalid, "{} has {} rows, a tile of an image has {}", kGivenRows,
                given.rows, rows);
  ImageLayout layout = lay_out_rows(given);
  layout.grid_t = given.rows / rows;
  return layout;
}

Result<ImageLayout> lay_out_grid(const GivenRows& given, std::int64_t merge) {
  if (!given.grid)
    return fail(ErrorCode::kInvalid, "{} needs {} beside it", kGivenRows, kGivenGrid);
  const auto [t, h, w] = *given.grid;
  // Rows are numbers that are in memory: neither this nor the product below can overflow.
  const std::int64_t most = given.rows * merge * merge;
  if (t != 1 || h < 1 || w < 1 || h > most || w > most || h % merge != 0 || w % merge != 0 ||
      h * w != most)
    return fail(
        ErrorCode::kInvalid,
        "{} is [{}, {}, {}] for {} rows: t must be 1, h and w multiples of {}, and h * w {}",
        kGivenGrid, t, h, w, given.rows, merge, most);
  ImageLayout layout = lay_out_rows(given);
  layout.grid_h = h;
  layout.grid_w = w;
  layout.key = fmt::format("given {}x{}", h, w);
  return layout;
}

}  // namespace saccade

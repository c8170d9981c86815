// Layouts of images whose rows a client has made itself: what an ImagePipeline's given_layout() may
// follow from. A prompt of each needs to know another thing of an image.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/given/given_rows.h"
#include "model/images/image_layout.h"

namespace saccade {

// A placeholder a row, whatever their number.
ImageLayout lay_out_rows(const GivenRows& given);
// All images have `rows` of them. kInvalid for another number.
Result<ImageLayout> lay_out_alike(const GivenRows& given, std::int64_t rows);
// Any number of tiles (grid_t) of `rows` rows each. kInvalid for a part of a tile.
Result<ImageLayout> lay_out_tiles(const GivenRows& given, std::int64_t rows);
// Positions count the grid's rows and columns; a row is of merge x merge patches. kInvalid without
// a grid, and for one that the rows do not fill.
Result<ImageLayout> lay_out_grid(const GivenRows& given, std::int64_t merge);

}  // namespace saccade

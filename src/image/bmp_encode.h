// Pixels as a file without any coding: for what was decoded already and goes on as a file.
#pragma once

#include <cstddef>
#include <string>

#include "image/pixels.h"

namespace saccade {

// BMP of 24 bits, top row first. Its first bytes and its rows' padding follow from the size alone:
// equal pixels make equal files.
std::string encode_bmp(const Pixels& pixels);
std::size_t bmp_bytes(int width, int height);  // of such a file

}  // namespace saccade

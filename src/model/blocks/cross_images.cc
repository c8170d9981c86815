#include "model/blocks/cross_images.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/rounding.h"

namespace saccade {
namespace {

std::int64_t rows_of(std::span<const SequenceSpan> spans) {
  return spans.empty() ? 0 : spans.back().row_begin + spans.back().row_count;
}

}  // namespace

std::vector<CrossImage> lay_out_cross_images(const Prompt& prompt,
                                             std::span<const std::int64_t> rows,
                                             std::int64_t block_tokens) {
  std::vector<CrossImage> images;
  if (!prompt.cross_attends) return images;
  for (const ImageSpan& span : prompt.images) {
    CHECK(span.tokens == 1, "an image that is attended to stands as {} tokens", span.tokens);
    CrossImage image;
    image.index = span.index;
    image.token = span.begin;
    image.end = std::numeric_limits<std::int64_t>::max();
    image.rows = rows[static_cast<std::size_t>(span.index)];
    if (!images.empty()) {
      CrossImage& before = images.back();
      before.end = span.begin;
      image.first = before.first + before.rows;
      image.run = before.run;
    }
    if (images.empty() || images.back().token + 1 < span.begin)
      image.run = image.first = round_up(image.first, block_tokens);
    images.push_back(image);
  }
  return images;
}

std::int64_t stream_length(std::span<const CrossImage> images, std::int64_t block_tokens) {
  if (images.empty()) return 0;
  return round_up(images.back().first + images.back().rows, block_tokens);
}

void CrossSpans::clear() {
  seeing.clear();
  images.clear();
}

void CrossSpans::add(std::span<const CrossImage> of, std::int64_t begin, std::int64_t end,
                     std::span<const std::int32_t> table, std::int64_t block_tokens) {
  for (const CrossImage& image : of) {
    const auto blocks = table.subspan(static_cast<std::size_t>(image.run / block_tokens));
    if (begin <= image.token && image.token < end)
      images.push_back({.row_begin = rows_of(images),
                        .row_count = image.rows,
                        .context = image.first - image.run,
                        .blocks = blocks});
    // A span's rows stand at positions from 0 on, so it has no more of them than keys.
    const std::int64_t seen = image.first + image.rows - image.run;
    std::int64_t left = std::min(end, image.end) - std::max(begin, image.token);
    for (; left > 0; left -= seen)
      seeing.push_back({.row_begin = rows_of(seeing),
                        .row_count = std::min(left, seen),
                        .context = 0,
                        .prefix = seen,
                        .blocks = blocks});
  }
}

void add_seeing_rows(std::span<const CrossImage> of, std::int64_t begin, std::int64_t end,
                     std::int64_t first_row, std::vector<std::int32_t>& rows) {
  if (of.empty()) return;
  for (std::int64_t token = std::max(begin, of.front().token); token < end; ++token)
    rows.push_back(static_cast<std::int32_t>(first_row + token - begin));
}

}  // namespace saccade

#include "model/images/prepared_image.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace saccade {

void cut_rows(ThreadPool& pool, const PreparedImage& image, std::int64_t begin, std::int64_t end,
              std::span<float> to) {
  constexpr std::int64_t kPiece = 64;  // rows
  const std::int64_t length = image.cutter->row_length();
  CHECK(std::cmp_equal(to.size(), (end - begin) * length), "{} floats for {} rows of {}", to.size(),
        end - begin, length);
  pool.parallel_each((end - begin + kPiece - 1) / kPiece, [&](std::int64_t i, int) {
    const std::int64_t first = i * kPiece;
    const std::int64_t rows = std::min(kPiece, end - begin - first);
    image.cutter->cut(image.frames, begin + first, begin + first + rows,
                      to.subspan(static_cast<std::size_t>(first * length),
                                 static_cast<std::size_t>(rows * length)));
  });
}

}  // namespace saccade

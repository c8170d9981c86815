// A stored matrix as rows of floats, a few of them at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/threads/thread_pool.h"
#include "ops/formats/stored_matrix.h"

namespace saccade {

// body(row, values, worker) for every output on all threads of the pool, in no order; `values`
// are its inputs, good during the call. Beside the matrix there are sixteen rows a thread.
template <typename Body>
void each_row(const StoredMatrix& matrix, ThreadPool& pool, Body&& body) {
  constexpr std::int64_t kRows = 16;
  const StoredMatrixReader reader(matrix);
  const std::int64_t in = matrix.in();
  std::vector<std::vector<float>> rooms(static_cast<std::size_t>(pool.size()));
  pool.parallel_each((matrix.out() + kRows - 1) / kRows, [&](std::int64_t unit, int worker) {
    std::vector<float>& values = rooms[static_cast<std::size_t>(worker)];
    values.resize(static_cast<std::size_t>(kRows * in));
    const std::int64_t begin = unit * kRows;
    const std::int64_t end = std::min(begin + kRows, matrix.out());
    for (std::int64_t col = 0; col < in; col += StoredMatrixReader::kTileIn)
      reader.read(begin, end, col, std::min(col + StoredMatrixReader::kTileIn, in),
                  values.data() + col, in);
    for (std::int64_t row = begin; row < end; ++row)
      body(row,
           std::span<const float>(values.data() + (row - begin) * in, static_cast<std::size_t>(in)),
           worker);
  });
}

}  // namespace saccade

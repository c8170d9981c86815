#include "engine/embedding_arena.h"

#include <algorithm>

namespace saccade {

Result<EmbeddingArena> EmbeddingArena::create(Device& device, std::int64_t bytes,
                                              std::int64_t page_rows, std::int64_t hidden,
                                              DType dtype) {
  TRY(Buffer buffer, device.allocate(static_cast<std::size_t>(bytes)));
  return EmbeddingArena(std::move(buffer), page_rows, hidden, dtype);
}

// Rows [row, row + count) of an entry, which lie in one page.
View EmbeddingArena::page_rows(std::span<const EmbeddingPage> pages, std::int64_t row,
                               std::int64_t count) const {
  const std::int64_t page = pages[static_cast<std::size_t>(row / page_rows_)];
  const std::int64_t first = page * page_rows_ + row % page_rows_;
  const std::int64_t row_bytes = hidden_ * static_cast<std::int64_t>(size_of(dtype_));
  return View(buffer_.data() + first * row_bytes, dtype_, count, hidden_, hidden_, buffer_.space());
}

template <typename Move>
void EmbeddingArena::for_each_page(std::int64_t first, std::int64_t rows, Move&& move) const {
  for (std::int64_t done = 0; done < rows;) {
    const std::int64_t row = first + done;
    const std::int64_t count = std::min(rows - done, page_rows_ - row % page_rows_);
    move(row, done, count);
    done += count;
  }
}

void EmbeddingArena::write(Stream& stream, std::span<const EmbeddingPage> pages, View rows) {
  for_each_page(0, rows.rows(), [&](std::int64_t row, std::int64_t done, std::int64_t count) {
    stream.copy(rows.row_range(done, done + count), page_rows(pages, row, count));
  });
}

void EmbeddingArena::read(Stream& stream, std::span<const EmbeddingPage> pages, std::int64_t first,
                          View out) const {
  for_each_page(first, out.rows(), [&](std::int64_t row, std::int64_t done, std::int64_t count) {
    stream.copy(page_rows(pages, row, count), out.row_range(done, done + count));
  });
}

}  // namespace saccade

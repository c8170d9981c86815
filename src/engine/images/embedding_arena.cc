#include "engine/images/embedding_arena.h"

namespace saccade {

Result<EmbeddingArena> EmbeddingArena::create(Device& device, std::int64_t bytes,
                                              std::int64_t page_rows, std::int64_t hidden,
                                              DType dtype) {
  TRY(Buffer buffer, device.allocate(static_cast<std::size_t>(bytes)));
  return EmbeddingArena(std::move(buffer), page_rows, hidden, dtype);
}

View EmbeddingArena::all() const {
  const auto row_bytes = static_cast<std::size_t>(hidden_) * size_of(dtype_);
  return buffer_.view(dtype_, static_cast<std::int64_t>(buffer_.bytes() / row_bytes), hidden_);
}

void EmbeddingArena::find(std::span<const EmbeddingPage> pages, std::int64_t first,
                          std::int64_t count, std::vector<std::int32_t>& rows) const {
  for (std::int64_t row = first; row < first + count; ++row) {
    const std::int64_t page = pages[static_cast<std::size_t>(row / page_rows_)];
    rows.push_back(static_cast<std::int32_t>(page * page_rows_ + row % page_rows_));
  }
}

void EmbeddingArena::write(Stream& stream, std::span<const EmbeddingPage> pages, View rows) {
  std::vector<std::int32_t> places;
  find(pages, 0, rows.rows(), places);
  stream.copy_rows({.from = rows, .from_rows = {}, .to = all(), .to_rows = stream.upload(places)});
}

}  // namespace saccade

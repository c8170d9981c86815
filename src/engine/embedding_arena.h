// The bytes behind the embedding store's page numbers.
#pragma once

#include <cstdint>
#include <span>

#include "memory/embedding_store.h"
#include "ops/device.h"

namespace saccade {

// Engine thread.
class EmbeddingArena {
 public:
  // page_rows: rows of `hidden` elements a page.
  static Result<EmbeddingArena> create(Device& device, std::int64_t bytes, std::int64_t page_rows,
                                       std::int64_t hidden, DType dtype);

  // All rows of an entry, into its pages.
  void write(Stream& stream, std::span<const EmbeddingPage> pages, View rows);
  // Rows [first, first + out.rows()) of an entry.
  void read(Stream& stream, std::span<const EmbeddingPage> pages, std::int64_t first,
            View out) const;

 private:
  EmbeddingArena(Buffer buffer, std::int64_t page_rows, std::int64_t hidden, DType dtype)
      : buffer_(std::move(buffer)), page_rows_(page_rows), hidden_(hidden), dtype_(dtype) {}
  View page_rows(std::span<const EmbeddingPage> pages, std::int64_t row, std::int64_t count) const;
  template <typename Move>
  void for_each_page(std::int64_t first, std::int64_t rows, Move&& move) const;

  Buffer buffer_;
  std::int64_t page_rows_;
  std::int64_t hidden_;
  DType dtype_;
};

}  // namespace saccade

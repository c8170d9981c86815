// The bytes behind the embedding store's page numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  // The whole arena, and where in it rows [first, first + count) of an entry are: added to `rows`.
  View all() const;
  void find(std::span<const EmbeddingPage> pages, std::int64_t first, std::int64_t count,
            std::vector<std::int32_t>& rows) const;

 private:
  EmbeddingArena(Buffer buffer, std::int64_t page_rows, std::int64_t hidden, DType dtype)
      : buffer_(std::move(buffer)), page_rows_(page_rows), hidden_(hidden), dtype_(dtype) {}

  Buffer buffer_;
  std::int64_t page_rows_;
  std::int64_t hidden_;
  DType dtype_;
};

}  // namespace saccade

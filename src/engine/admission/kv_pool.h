// The bytes behind the allocator's integers: one buffer of the device, seen layer by layer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "memory/kv_allocator.h"
#include "model/network.h"

namespace saccade {

// What each text layer keeps, for the allocator.
std::vector<LayerSpec> layer_specs(const ModelShape& shape);

// Engine thread.
class KvPool {
 public:
  // kExhausted when the device has no `bytes`. `padding`: besides, a page of each table that no
  // sequence gets.
  static Result<std::unique_ptr<KvPool>> create(Device& device, const ModelShape& shape,
                                                const PagePlan& plan, std::int64_t bytes,
                                                bool padding = false);

  // [layers]. A cross-attention layer's group is its table's number plus the number of tables: it
  // may share the table with self-attention layers, but reads other spans.
  std::span<const KvBinding> bindings() const { return bindings_; }
  std::int64_t block_tokens() const { return block_tokens_; }
  // Whether a table's blocks hold tokens of text, rows of images that layers attend to, or both.
  bool holds_text(int table) const { return stream_of(table) != TokenStream::kEncoder; }
  bool holds_images(int table) const { return stream_of(table) != TokenStream::kText; }
  // The block of a table that holds a sequence's first token of text.
  std::size_t text_block(int table, std::int64_t encoder_tokens) const {
    return stream_of(table) == TokenStream::kBoth
               ? static_cast<std::size_t>(encoder_tokens / block_tokens_)
               : 0;
  }
  void copy(Stream& stream, const KvCopy& copy);
  // Pages for the keys and values of padding rows: [tables], or empty.
  std::span<const PageId> padding() const { return padding_; }

  // An embedding row laid into the slot of its own token: over keys and values of the
  // full-attention layers, as many elements at a time as the bytes of one head's row hold (head_dim
  // where both are of one type). Empty pieces: the slot is too small for a row.
  bool holds_embeddings() const { return !pieces_.empty(); }
  // The pool as rows of unit() elements of the embeddings' type, and which of them hold the
  // embedding rows of tokens [begin, begin + count), one row after the other: added to `units`.
  View units() const;
  std::int64_t unit() const { return unit_; }
  void find_embeddings(const KvSequence& sequence, std::int64_t begin, std::int64_t count,
                       std::vector<std::int32_t>& units) const;
  // Rows of `from` go to the slots of tokens [begin, begin + rows).
  void write_embeddings(Stream& stream, const KvSequence& sequence, std::int64_t begin, View from);

 private:
  struct Piece {
    int table = 0;            // of the plan
    std::int64_t offset = 0;  // bytes from the pool's start, page and token apart
    std::int64_t stride = 0;  // bytes a page
    std::int64_t width = 0;   // elements between tokens
    std::int64_t first = 0;   // columns of the row: [first, last)
    std::int64_t last = 0;
  };
  KvPool(const ModelShape& shape, const PagePlan& plan, Buffer buffer, std::vector<PageId> padding);
  TokenStream stream_of(int table) const { return streams_[static_cast<std::size_t>(table)]; }
  void cut_pieces(const ModelShape& shape, const PagePlan& plan);

  Buffer buffer_;
  std::int64_t block_tokens_;
  DType embedding_dtype_;
  std::vector<KvBinding> bindings_;
  std::vector<std::int64_t> table_bytes_;  // [tables] bytes a page
  std::vector<TokenStream> streams_;       // [tables]
  std::vector<int> group_tables_;          // [groups] first table
  std::vector<PageId> padding_;            // [tables]
  std::vector<Piece> pieces_;
  std::int64_t unit_ = 1;  // elements: divides every piece, its place and its stride
};

}  // namespace saccade

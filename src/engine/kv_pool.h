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
  // kExhausted when the device has no `bytes`.
  static Result<std::unique_ptr<KvPool>> create(Device& device, const ModelShape& shape,
                                                const PagePlan& plan, std::int64_t bytes);

  std::span<const KvBinding> bindings() const { return bindings_; }  // [layers]
  void copy(Stream& stream, const KvCopy& copy);

  // An embedding row laid into the slot of its own token: head_dim elements at a time over keys and
  // values of the full-attention layers. Empty pieces: the slot is too small for a row.
  bool holds_embeddings() const { return !pieces_.empty(); }
  // The pool as rows of unit() elements, and which of them hold the embedding rows of tokens
  // [begin, begin + count), one row after the other: added to `units`.
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
    std::int64_t width = 0;   // elements between tokens: head_dim
    std::int64_t first = 0;   // columns of the row: [first, last)
    std::int64_t last = 0;
  };
  KvPool(const ModelShape& shape, const PagePlan& plan, Buffer buffer);
  void cut_pieces(const ModelShape& shape, const PagePlan& plan);

  Buffer buffer_;
  std::int64_t block_tokens_;
  DType dtype_;
  std::vector<KvBinding> bindings_;
  std::vector<std::int64_t> table_bytes_;  // [tables] bytes a page
  std::vector<int> group_tables_;          // [groups] first table
  std::vector<Piece> pieces_;
  std::int64_t unit_ = 1;  // elements: divides every piece, its place and its stride
};

}  // namespace saccade

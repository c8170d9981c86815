#include "engine/admission/kv_pool.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace saccade {

namespace {

CacheKind cache_kind(LayerKind kind) {
  switch (kind) {
    case LayerKind::kFull:
      return CacheKind::kFull;
    case LayerKind::kSlidingWindow:
      return CacheKind::kSlidingWindow;
    case LayerKind::kCrossAttention:
      return CacheKind::kCrossAttention;
    case LayerKind::kRecurrent:
      return CacheKind::kState;
  }
  return CacheKind::kFull;
}

}  // namespace

std::vector<LayerSpec> layer_specs(const ModelShape& shape) {
  std::vector<LayerSpec> specs;
  for (const LayerShape& layer : shape.layers) {
    LayerSpec& spec = specs.emplace_back();
    spec.kind = cache_kind(layer.kind);
    spec.window = layer.window;
    spec.kv_heads = layer.kv_heads;
    spec.head_dim = layer.head_dim;
    spec.dtype_bytes = static_cast<std::int64_t>(size_of(shape.cache_dtype));
    spec.scale_bytes = kv_scale_bytes(shape.cache_dtype);
    spec.state_bytes = layer.state * static_cast<std::int64_t>(sizeof(float));
  }
  return specs;
}

Result<std::unique_ptr<KvPool>> KvPool::create(Device& device, const ModelShape& shape,
                                               const PagePlan& plan, std::int64_t bytes,
                                               bool padding) {
  std::vector<PageId> pages;  // the first of each table that begins behind all others
  std::int64_t end = bytes;
  for (const GroupPlan& group : plan.groups) {
    if (!padding) break;
    const std::int64_t page = (bytes + group.page_bytes - 1) / group.page_bytes;
    pages.insert(pages.end(), static_cast<std::size_t>(group.tables), static_cast<PageId>(page));
    end = std::max(end, (page + 1) * group.page_bytes);
  }
  TRY(Buffer buffer, device.allocate(static_cast<std::size_t>(end)));
  return std::unique_ptr<KvPool>(new KvPool(shape, plan, std::move(buffer), std::move(pages)));
}

KvPool::KvPool(const ModelShape& shape, const PagePlan& plan, Buffer buffer,
               std::vector<PageId> padding)
    : buffer_(std::move(buffer)),
      block_tokens_(plan.block_tokens),
      embedding_dtype_(shape.embedding_dtype),
      padding_(std::move(padding)) {
  for (const GroupPlan& group : plan.groups) {
    group_tables_.push_back(static_cast<int>(table_bytes_.size()));
    for (int table = 0; table < group.tables; ++table) {
      table_bytes_.push_back(group.page_bytes);
      streams_.push_back(group.stream);
    }
  }
  for (std::size_t layer = 0; layer < shape.layers.size(); ++layer) {
    const LayerPlace& place = plan.places[layer];
    KvBinding& binding = bindings_.emplace_back();
    const LayerShape& of = shape.layers[layer];
    const bool keeps_state = of.kind == LayerKind::kRecurrent;
    const DType dtype = keeps_state ? DType::kF32 : shape.cache_dtype;
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t elements =
        keeps_state ? of.state : kv_block_elements(dtype, block_tokens_, of.kv_heads, of.head_dim);
    CHECK(place.offset % element == 0 && place.stride % element == 0, "layer {} at {} of {}", layer,
          place.offset, place.stride);
    // Pages whose last byte is in the pool.
    const std::int64_t room = static_cast<std::int64_t>(buffer_.bytes()) - place.offset;
    binding.layer.blocks =
        View(buffer_.data() + place.offset, dtype, (room - elements * element) / place.stride + 1,
             elements, place.stride / element, buffer_.space());
    binding.layer.block_size = keeps_state
                                   ? plan.groups[static_cast<std::size_t>(place.group)].block_tokens
                                   : block_tokens_;
    binding.layer.kv_heads = of.kv_heads;
    binding.layer.head_dim = of.head_dim;
    binding.group = group_tables_[static_cast<std::size_t>(place.group)] + place.table;
    if (of.kind == LayerKind::kCrossAttention) binding.group += plan.tables;
  }
  cut_pieces(shape, plan);
}

void KvPool::cut_pieces(const ModelShape& shape, const PagePlan& plan) {
  const std::int64_t width = shape.embedding_width();
  const auto element = static_cast<std::int64_t>(size_of(embedding_dtype_));
  std::int64_t column = 0;
  for (std::size_t layer = 0; layer < shape.layers.size() && column < width; ++layer) {
    const LayerPlace& place = plan.places[layer];
    if (plan.groups[static_cast<std::size_t>(place.group)].kind != CacheKind::kFull) continue;
    if (shape.cross_attends()) continue;  // an image has one token, and as many rows as ever
    const LayerShape& of = shape.layers[layer];
    const std::int64_t row_bytes =
        of.head_dim * static_cast<std::int64_t>(size_of(shape.cache_dtype));
    if (row_bytes % element != 0 || place.offset % element != 0 || place.stride % element != 0)
      continue;
    for (std::int64_t head = 0; head < 2 * of.kv_heads && column < width; ++head) {
      const std::int64_t end = std::min(width, column + row_bytes / element);
      pieces_.push_back({bindings_[layer].group, place.offset + head * block_tokens_ * row_bytes,
                         place.stride, row_bytes / element, column, end});
      column = end;
    }
  }
  if (column < width) pieces_.clear();
  unit_ = pieces_.empty() ? 1 : pieces_.front().width;
  for (const Piece& piece : pieces_)
    for (const std::int64_t elements :
         {piece.width, piece.last - piece.first, piece.offset / element, piece.stride / element})
      unit_ = std::gcd(unit_, elements);
  const std::int64_t most = static_cast<std::int64_t>(buffer_.bytes()) / (unit_ * element);
  if (most > std::numeric_limits<std::int32_t>::max()) pieces_.clear();  // no index reaches its end
}

void KvPool::copy(Stream& stream, const KvCopy& copy) {
  const auto table =
      static_cast<std::size_t>(group_tables_[static_cast<std::size_t>(copy.group)] + copy.table);
  // As bytes: halves of a state's numbers may look like a bf16 that is none, which a copy of
  // numbers would change.
  const std::int64_t bytes = table_bytes_[table];
  const auto page = [&](std::int64_t index) {
    return View(buffer_.data() + index * bytes, DType::kU8, 1, bytes, bytes, buffer_.space());
  };
  stream.copy(page(copy.from), page(copy.to));
}

View KvPool::units() const {
  const auto bytes = static_cast<std::size_t>(unit_) * size_of(embedding_dtype_);
  return buffer_.view(embedding_dtype_, static_cast<std::int64_t>(buffer_.bytes() / bytes), unit_);
}

void KvPool::find_embeddings(const KvSequence& sequence, std::int64_t begin, std::int64_t count,
                             std::vector<std::int32_t>& units) const {
  const std::int64_t unit_bytes = unit_ * static_cast<std::int64_t>(size_of(embedding_dtype_));
  for (std::int64_t token = begin; token < begin + count; ++token) {
    const std::int64_t slot = token % block_tokens_;
    for (const Piece& piece : pieces_) {
      const PageId page =
          sequence.table(piece.table)[static_cast<std::size_t>(token / block_tokens_)];
      CHECK(page != kNoPage, "token {} has no page", token);
      const std::int64_t first =
          (piece.offset + page * piece.stride) / unit_bytes + slot * (piece.width / unit_);
      for (std::int64_t i = 0; i < (piece.last - piece.first) / unit_; ++i)
        units.push_back(static_cast<std::int32_t>(first + i));
    }
  }
}

void KvPool::write_embeddings(Stream& stream, const KvSequence& sequence, std::int64_t begin,
                              View from) {
  std::vector<std::int32_t> places;
  find_embeddings(sequence, begin, from.rows(), places);
  stream.copy_rows({.from = from.reshape(static_cast<std::int64_t>(places.size()), unit_),
                    .from_rows = {},
                    .to = units(),
                    .to_rows = stream.upload(places)});
}

}  // namespace saccade

#include "engine/step/batch_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

bool is_same(const LoraAdapter* one, const LoraAdapter* other) {
  return one == other ||
         (one != nullptr && other != nullptr && one->identity() == other->identity());
}

std::int64_t length(const std::vector<std::int32_t>& list) {
  return static_cast<std::int64_t>(list.size());
}

}  // namespace

Result<BatchBuilder> BatchBuilder::create(Device& device, const ModelShape& shape, int tables,
                                          std::int64_t max_rows, std::int64_t max_logit_rows,
                                          bool overlaid) {
  const auto row_bytes =
      static_cast<std::size_t>(shape.embedding_width()) * size_of(shape.embedding_dtype);
  Buffer embeddings;
  if (overlaid) {
    TRY(embeddings, device.allocate(static_cast<std::size_t>(max_rows) * row_bytes));
  }
  TRY(Buffer logits,
      device.allocate(static_cast<std::size_t>(max_logit_rows * shape.vocab) * sizeof(float)));
  return BatchBuilder(shape, tables, max_rows, std::move(embeddings), std::move(logits),
                      max_logit_rows);
}

BatchBuilder::BatchBuilder(const ModelShape& shape, int tables, std::int64_t max_rows,
                           Buffer embeddings, Buffer logits, std::int64_t max_logit_rows)
    : width_(shape.embedding_width()),
      vocab_(shape.vocab),
      dtype_(shape.embedding_dtype),
      keys_by_length_(shape.short_length > 0),
      max_rows_(max_rows),
      max_logit_rows_(max_logit_rows),
      embeddings_(std::move(embeddings)),
      logits_(std::move(logits)),
      spans_(static_cast<std::size_t>(tables)),
      cross_spans_(shape.cross_attends() ? static_cast<std::size_t>(tables) : 0) {
  lists_.positions.resize(static_cast<std::size_t>(shape.position_axes));
}

Batch BatchBuilder::build(Stream& stream, const StepPlan& plan, const Inputs& from,
                          std::int64_t padded) {
  const auto& [last_tokens, pool, images, arena, slots] = from;
  lists_.clear();
  for (auto& table : spans_) table.clear();
  for (CrossSpans& table : cross_spans_) table.clear();
  taken_.clear();
  for (const PlannedRows& rows : plan.rows) {
    const std::int64_t first_row = length(lists_.ids);
    TakenRows& taken = taken_.emplace_back();
    taken.seeing.begin = length(lists_.seeing_rows);
    taken.images.begin = length(lists_.image_rows);
    add_rows(rows, pool);
    if (!rows.sequence->layout.cross_images.empty()) {
      gather_across(rows, images, *arena);
    } else if (!rows.sequence->images->empty()) {
      gather(rows, first_row, pool, images, arena);
    }
    taken.batch = {first_row, length(lists_.ids)};
    taken.seeing.end = length(lists_.seeing_rows);
    taken.images.end = length(lists_.image_rows);
    for (std::int64_t row = rows.count - rows.sampled(); row < rows.count; ++row)
      lists_.logit_rows.push_back(static_cast<std::int32_t>(first_row + row));
  }
  if (padded > 0) pad(padded, pool);
  const auto row_count = static_cast<std::int64_t>(lists_.ids.size());
  const auto logit_count = static_cast<std::int64_t>(lists_.logit_rows.size());
  CHECK(row_count <= max_rows_ && logit_count <= max_logit_rows_, "{} rows, {} logit rows",
        row_count, logit_count);

  list_loras(plan, slots);

  span_spans_.assign(spans_.begin(), spans_.end());
  image_spans_.assign(cross_spans_.empty() ? 0 : spans_.size(), {});
  for (const CrossSpans& table : cross_spans_) {
    span_spans_.push_back(table.seeing);
    image_spans_.push_back(table.images);
  }
  Batch batch;
  batch.last_tokens = last_tokens;
  batch.spans = span_spans_;
  batch.image_spans = image_spans_;
  batch.kv = pool.bindings();
  batch.logits = logits(logit_count);
  batch.loras = loras_;
  batch.seeing_loras = seeing_loras_;
  batch.image_loras = image_loras_;
  lists_.upload(stream, batch);
  if (embedding_rows() > 0) place_embeddings(stream, pool, arena, batch);
  return batch;
}

void BatchBuilder::add_rows(const PlannedRows& rows, const KvPool& pool) {
  const Sequence& sequence = *rows.sequence;
  const Prompt& prompt = *sequence.request.prompt;
  const auto first_row = static_cast<std::int64_t>(lists_.ids.size());
  const auto begin = sequence.tokens().begin() + static_cast<std::ptrdiff_t>(rows.begin);
  const std::int64_t certain = rows.count - rows.drafts;
  const std::int64_t known = std::min(certain, sequence.known() - rows.begin);
  lists_.ids.insert(lists_.ids.end(), begin, begin + static_cast<std::ptrdiff_t>(known));
  if (known < certain) {
    CHECK(known + 1 == certain && rows.drafts == 0, "{} tokens of {} are known", known, certain);
    lists_.ids.push_back(-1 - sequence.kv.slot());
  }
  lists_.ids.insert(lists_.ids.end(), sequence.draft->tokens.begin(),
                    sequence.draft->tokens.begin() + static_cast<std::ptrdiff_t>(rows.drafts));
  for (std::size_t axis = 0; axis < lists_.positions.size(); ++axis) {
    const std::vector<std::int32_t>& given = prompt.positions[axis];
    for (std::int64_t token = rows.begin; token < rows.begin + rows.count; ++token) {
      lists_.positions[axis].push_back(
          token < sequence.prompt_tokens()
              ? given[static_cast<std::size_t>(token)]
              : static_cast<std::int32_t>(token + prompt.position_delta));
    }
  }
  if (keys_by_length_)
    lists_.long_rows.insert(lists_.long_rows.end(), static_cast<std::size_t>(rows.count),
                            sequence.is_long() ? 1 : 0);
  for (std::size_t table = 0; table < spans_.size(); ++table) {
    if (!pool.holds_text(static_cast<int>(table))) continue;
    const auto blocks = sequence.kv.table(static_cast<int>(table));
    spans_[table].push_back(
        {first_row, rows.count, rows.begin, prompt.bidirectional_prefix,
         blocks.subspan(pool.text_block(static_cast<int>(table), sequence.layout.encoder_tokens)),
         prompt.both_ways});
  }
  if (sequence.layout.cross_images.empty()) return;
  const std::int64_t end = rows.begin + rows.count;
  for (std::size_t table = 0; table < cross_spans_.size(); ++table) {
    if (!pool.holds_images(static_cast<int>(table))) continue;
    cross_spans_[table].add(sequence.layout.cross_images, rows.begin, end,
                            sequence.kv.table(static_cast<int>(table)), pool.block_tokens());
  }
  add_seeing_rows(sequence.layout.cross_images, rows.begin, end, first_row, lists_.seeing_rows);
}

// The rows of images whose tokens are computed in this step, in the order of their spans.
void BatchBuilder::gather_across(const PlannedRows& rows, const ImagePlanner& images,
                                 const EmbeddingArena& arena) {
  for (const CrossImage& at : rows.sequence->layout.cross_images) {
    if (at.token < rows.begin || at.token >= rows.begin + rows.count) continue;
    const auto image = std::ranges::find(*rows.sequence->images, at.index, &SequenceImage::index);
    arena.find(images.store().pages(image->key), 0, at.rows, lists_.image_rows);
  }
}

// The rows of each adapter: of the batch, of those that see an image, and of images.
void BatchBuilder::list_loras(const StepPlan& plan, LoraSlots* slots) {
  loras_.clear();
  seeing_loras_.clear();
  image_loras_.clear();
  std::vector<const LoraAdapter*> adapters;
  for (const PlannedRows& rows : plan.rows) {
    const LoraAdapter* const adapter = rows.sequence->request.adapter.get();
    const auto same = [adapter](const LoraAdapter* other) { return is_same(other, adapter); };
    if (adapter != nullptr && std::ranges::none_of(adapters, same)) adapters.push_back(adapter);
  }
  for (const LoraAdapter* adapter : adapters) {
    const PackedLora& packed = slots->get(*adapter);
    loras_.push_back(rows_of(plan, *adapter, packed, &TakenRows::batch));
    const LoraRows seeing = rows_of(plan, *adapter, packed, &TakenRows::seeing);
    if (seeing.count > 0) seeing_loras_.push_back(seeing);
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      const auto& [begin, end] = taken_[i].images;
      if (begin < end && is_same(plan.rows[i].sequence->request.adapter.get(), adapter))
        image_loras_.push_back({&packed, 0, end - begin, begin});
    }
  }
}

LoraRows BatchBuilder::rows_of(const StepPlan& plan, const LoraAdapter& adapter,
                               const PackedLora& packed, RowRange TakenRows::* of) {
  LoraRows rows;
  rows.adapter = &packed;
  rows.begin = static_cast<std::int64_t>(lists_.lora_rows.size());
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const auto& [begin, end] = taken_[i].*of;
    if (begin == end || !is_same(plan.rows[i].sequence->request.adapter.get(), &adapter)) continue;
    if (rows.count == 0) first = begin;
    last = end;
    rows.count += end - begin;
    for (std::int64_t row = begin; row < end; ++row)
      lists_.lora_rows.push_back(static_cast<std::int32_t>(row));
  }
  if (last - first == rows.count) rows.first = first;
  return rows;
}

// Each padding row is a sequence of one token without context.
void BatchBuilder::pad(std::int64_t rows, const KvPool& pool) {
  CHECK(pool.padding().size() == spans_.size(), "{} tables, {} pages of padding", spans_.size(),
        pool.padding().size());
  for (auto row = static_cast<std::int64_t>(lists_.ids.size()); row < rows; ++row) {
    lists_.logit_rows.push_back(static_cast<std::int32_t>(row));
    lists_.ids.push_back(0);
    for (auto& axis : lists_.positions) axis.push_back(0);
    if (keys_by_length_) lists_.long_rows.push_back(0);
    for (std::size_t table = 0; table < spans_.size(); ++table)
      spans_[table].push_back({row, 1, 0, 0, pool.padding().subspan(table, 1)});
  }
}

void BatchBuilder::gather(const PlannedRows& rows, std::int64_t first_row, const KvPool& pool,
                          const ImagePlanner& images, const EmbeddingArena* arena) {
  const Sequence& sequence = *rows.sequence;
  for (const ImageSpan& span : sequence.request.prompt->images) {
    const std::int64_t begin = std::max(rows.begin, span.begin);
    const std::int64_t end = std::min(rows.begin + rows.count, span.begin + span.tokens);
    if (begin >= end) continue;
    if (images.mode() == EncoderCache::kOverlay) {
      pool.find_embeddings(sequence.kv, begin, end - begin, lists_.embedding_sources);
    } else {
      const auto image =
          std::find_if(sequence.images->begin(), sequence.images->end(),
                       [&](const SequenceImage& at) { return at.index == span.index; });
      arena->find(images.store().pages(image->key), span.first_row + begin - span.begin,
                  end - begin, lists_.embedding_sources);
    }
    for (std::int64_t token = begin; token < end; ++token) {
      lists_.embedding_rows.push_back(static_cast<std::int32_t>(first_row + token - rows.begin));
    }
  }
}

// Rows of the store are read where they are. Overlaid ones are taken out of the pool at once: keys
// and values of this step are written over them.
void BatchBuilder::place_embeddings(Stream& stream, const KvPool& pool, const EmbeddingArena* arena,
                                    Batch& batch) const {
  if (arena != nullptr) {
    batch.embeddings = arena->all();
    return;
  }
  const DeviceInts units = std::exchange(batch.embedding_sources, {});
  batch.embeddings = embeddings_.view(dtype_, embedding_rows(), width_);
  stream.copy_rows({.from = pool.units(),
                    .from_rows = units,
                    .to = batch.embeddings.reshape(units.size(), pool.unit()),
                    .to_rows = {}});
}

}  // namespace saccade

#include "model/solo_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/batch_lists.h"
#include "ops/readback.h"

namespace saccade {
namespace {

// Positions of tokens [begin, end) on every axis: the prompt's own, then index + delta.
std::vector<std::int32_t> positions_of(const Prompt& prompt, std::int64_t begin, std::int64_t end) {
  std::vector<std::int32_t> positions;
  for (const std::vector<std::int32_t>& known : prompt.positions) {
    for (std::int64_t i = begin; i < end; ++i)
      positions.push_back(i < static_cast<std::int64_t>(known.size())
                              ? known[static_cast<std::size_t>(i)]
                              : static_cast<std::int32_t>(i + prompt.position_delta));
  }
  return positions;
}

}  // namespace

Result<std::unique_ptr<SoloRun>> SoloRun::create(Network& network, Device& device, Prompt prompt,
                                                 std::span<const PreparedImage> images,
                                                 std::int64_t new_tokens, const Tap& tap) {
  std::int64_t patches = 0;
  for (const PreparedImage& image : images)
    patches += image.layout.grid_t * image.layout.grid_h * image.layout.grid_w;
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  TRY_DO(network.reserve(device, {.rows = length,
                                  .sequences = 1,
                                  .logit_rows = length,
                                  .image_patches = patches,
                                  .length = length + new_tokens}));
  std::unique_ptr<SoloRun> run(new SoloRun(network, device, std::move(prompt)));
  TRY_DO(run->allocate(new_tokens));
  TRY_DO(run->encode(images, tap));
  return run;
}

Result<void> SoloRun::allocate(std::int64_t new_tokens) {
  ids_ = prompt_.ids;
  const ModelShape& shape = network_.shape();
  const std::int64_t length = static_cast<std::int64_t>(ids_.size()) + new_tokens;
  const std::int64_t count = (length + kBlock - 1) / kBlock;
  blocks_.resize(static_cast<std::size_t>(count));
  std::iota(blocks_.begin(), blocks_.end(), 0);

  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (const LayerShape& layer : shape.layers) {
    const auto stride = static_cast<std::size_t>(2 * layer.kv_heads * kBlock * layer.head_dim) *
                        size_of(shape.kv_dtype);
    layers_.push_back({{.blocks = {},
                        .block_size = kBlock,
                        .kv_heads = layer.kv_heads,
                        .head_dim = layer.head_dim},
                       0});
    offsets.push_back(bytes);
    bytes += stride * static_cast<std::size_t>(count);
  }
  TRY(cache_, device_.allocate(bytes));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    KvLayer& layer = layers_[i].layer;
    const std::int64_t elements = 2 * layer.kv_heads * kBlock * layer.head_dim;
    layer.blocks =
        View(cache_.data() + offsets[i], shape.kv_dtype, count, elements, elements, cache_.space());
  }
  TRY(logits_,
      device_.allocate(static_cast<std::size_t>(shape.vocab) * ids_.size() * sizeof(float)));
  TRY(stats_, device_.allocate(sizeof(RowStats)));
  return {};
}

Result<void> SoloRun::encode(std::span<const PreparedImage> images, const Tap& tap) {
  if (images.empty()) return {};
  const ModelShape& shape = network_.shape();
  std::int64_t tokens = 0;
  for (const PreparedImage& image : images) tokens += image.layout.tokens;
  TRY(embeddings_, device_.allocate(static_cast<std::size_t>(tokens * shape.embedding_width()) *
                                    size_of(shape.kv_dtype)));
  const View all = embeddings_.view(shape.kv_dtype, tokens, shape.embedding_width());
  std::vector<const PreparedImage*> pointers;
  std::int64_t row = 0;
  for (const PreparedImage& image : images) {
    pointers.push_back(&image);
    image_rows_.push_back(all.row_range(row, row + image.layout.tokens));
    row += image.layout.tokens;
  }
  Stream& stream = device_.lane(Lane::kEncode);
  const auto run = network_.begin_encode(stream, pointers, image_rows_, tap);
  for (bool complete = false; !complete;) {
    TRY(complete, run->advance());
  }
  stream.retire();
  device_.lane(Lane::kStep).wait(stream.record());
  return {};
}

View SoloRun::step(std::int64_t begin, std::int64_t end, std::int64_t rows, const Tap& tap) {
  const bool is_long = is_long_sequence(network_.shape(), static_cast<std::int64_t>(ids_.size()));
  BatchLists lists;
  lists.ids.assign(ids_.begin() + static_cast<std::ptrdiff_t>(begin),
                   ids_.begin() + static_cast<std::ptrdiff_t>(end));
  lists.positions = {positions_of(prompt_, begin, end)};
  if (is_long) lists.long_rows.assign(static_cast<std::size_t>(end - begin), 1);
  const std::array spans = {SequenceSpan{.row_begin = 0,
                                         .row_count = end - begin,
                                         .context = begin,
                                         .prefix = prompt_.bidirectional_prefix,
                                         .blocks = blocks_,
                                         .both_ways = prompt_.both_ways}};
  const std::array<std::span<const SequenceSpan>, 1> groups = {spans};

  // Spans ascend and embeddings_ holds the images in the same order: the wanted rows are one range.
  std::int64_t first = 0;
  std::int64_t passed = 0;
  for (const ImageSpan& span : prompt_.images) {
    for (std::int64_t i = 0; i < span.tokens; ++i, ++passed) {
      const std::int64_t token = span.begin + i;
      if (token < begin || token >= end) continue;
      if (lists.embedding_rows.empty()) first = passed;
      lists.embedding_rows.push_back(static_cast<std::int32_t>(token - begin));
    }
  }
  const auto taken = static_cast<std::int64_t>(lists.embedding_rows.size());
  const ModelShape& shape = network_.shape();
  const View embeddings =
      taken == 0 ? View()
                 : embeddings_.view(shape.kv_dtype, first + taken, shape.embedding_width())
                       .row_range(first, first + taken);

  lists.logit_rows.resize(static_cast<std::size_t>(rows));
  std::iota(lists.logit_rows.begin(), lists.logit_rows.end(),
            static_cast<std::int32_t>(end - begin - rows));
  const View logits = logits_.view(DType::kF32, rows, shape.vocab);
  Stream& stream = device_.lane(Lane::kStep);
  Batch batch;
  lists.upload(stream, batch);
  batch.spans = groups;
  batch.kv = layers_;
  batch.embeddings = embeddings;
  batch.logits = logits;
  network_.forward(stream, batch, tap);
  stream.retire();
  return logits;
}

View SoloRun::prefill(std::int64_t chunk, std::int64_t rows, const Tap& tap) {
  const auto length = static_cast<std::int64_t>(ids_.size());
  if (chunk <= 0) chunk = length;
  View logits;
  for (std::int64_t begin = 0; begin < length;) {
    std::int64_t end = std::max(std::min(begin + chunk, length), least_step_end(prompt_, begin));
    end = last_step_end(prompt_, begin, end);
    logits = step(begin, end, end == length ? rows : 0, tap);
    begin = end;
  }
  last_ = logits.row_range(rows - 1, rows);
  return logits;
}

std::vector<TokenId> SoloRun::greedy(std::int64_t count) {
  std::vector<TokenId> tokens;
  while (static_cast<std::int64_t>(tokens.size()) < count) {
    if (!tokens.empty()) {
      ids_.push_back(tokens.back());
      const auto length = static_cast<std::int64_t>(ids_.size());
      const ModelShape& shape = network_.shape();
      if (is_long_sequence(shape, length) && !is_long_sequence(shape, length - 1)) {
        prefill(static_cast<std::int64_t>(prompt_.ids.size()));  // no more rows are reserved
      } else {
        last_ = step(length - 1, length, 1, {});
      }
    }
    tokens.push_back(most_likely(last_));
  }
  return tokens;
}

TokenId SoloRun::most_likely(View logits) {
  Stream& stream = device_.lane(Lane::kStep);
  const View stats = stats_.view(DType::kU8, 1, sizeof(RowStats));
  stream.row_stats(logits, stats);
  const auto read = readable(stream, stats, readback_);
  CHECK(read.has_value(), "reading a row's statistics: {}", read.error().message);
  RowStats row;
  std::memcpy(&row, read->row<std::uint8_t>(0), sizeof(row));
  return row.argmax;
}

}  // namespace saccade

#include "model/solo_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/blocks/batch_lists.h"
#include "ops/readback.h"

namespace saccade {
namespace {

// Groups of a step's spans.
constexpr int kText = 0;
constexpr int kImages = 1;
constexpr int kStates = 2;

constexpr std::size_t kAligned = 64;  // bytes

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
                                                 std::int64_t new_tokens,
                                                 const SoloOptions& options) {
  const LoraAdapter* adapter = options.adapter;
  std::int64_t patches = 0;
  for (const PreparedImage& image : images)
    patches += image.layout.grid_t * image.layout.grid_h * image.layout.grid_w;
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  TRY_DO(network.reserve(device, {.rows = length,
                                  .sequences = 1,
                                  .logit_rows = length,
                                  .image_patches = patches,
                                  .length = length + new_tokens,
                                  .lora_rank = adapter != nullptr ? adapter->max_rank() : 0}));
  std::unique_ptr<SoloRun> run(new SoloRun(network, device, std::move(prompt)));
  if (adapter != nullptr) run->lora_.emplace(*adapter, device, network.lora_compute());
  TRY_DO(run->allocate(images, new_tokens));
  TRY_DO(run->encode(images, options.tap));
  return run;
}

Result<void> SoloRun::allocate(std::span<const PreparedImage> images, std::int64_t new_tokens) {
  ids_ = prompt_.ids;
  const ModelShape& shape = network_.shape();
  const std::int64_t length = static_cast<std::int64_t>(ids_.size()) + new_tokens;
  const std::int64_t count = (length + kBlock - 1) / kBlock;
  blocks_.resize(static_cast<std::size_t>(count));
  std::iota(blocks_.begin(), blocks_.end(), 0);
  std::vector<std::int64_t> image_rows;
  for (const PreparedImage& image : images) image_rows.push_back(image.layout.tokens);
  cross_images_ = lay_out_cross_images(prompt_, image_rows, kBlock);
  const std::int64_t cross_count = stream_length(cross_images_, kBlock) / kBlock;
  cross_blocks_.resize(static_cast<std::size_t>(cross_count));
  std::iota(cross_blocks_.begin(), cross_blocks_.end(), 0);

  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (const LayerShape& layer : shape.layers) {
    const bool crosses = layer.kind == LayerKind::kCrossAttention;
    const bool keeps_state = layer.kind == LayerKind::kRecurrent;
    const auto stride = static_cast<std::size_t>(kv_block_elements(
                            shape.cache_dtype, kBlock, layer.kv_heads, layer.head_dim)) *
                        size_of(shape.cache_dtype);
    layers_.push_back({{.blocks = {},
                        .block_size = keeps_state ? 0 : kBlock,
                        .kv_heads = layer.kv_heads,
                        .head_dim = layer.head_dim},
                       crosses       ? kImages
                       : keeps_state ? kStates
                                     : kText});
    offsets.push_back(bytes);
    bytes += keeps_state ? static_cast<std::size_t>(layer.state) * sizeof(float)
                         : stride * static_cast<std::size_t>(crosses ? cross_count : count);
    bytes = (bytes + kAligned - 1) / kAligned * kAligned;
  }
  TRY(cache_, device_.allocate(bytes));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    KvLayer& layer = layers_[i].layer;
    if (layers_[i].group == kStates) {
      const std::int64_t state = shape.layers[i].state;
      layer.blocks = View(cache_.data() + offsets[i], DType::kF32, 1, state, state, cache_.space());
      continue;
    }
    const std::int64_t elements =
        kv_block_elements(shape.cache_dtype, kBlock, layer.kv_heads, layer.head_dim);
    layer.blocks =
        View(cache_.data() + offsets[i], shape.cache_dtype,
             layers_[i].group == kText ? count : cross_count, elements, elements, cache_.space());
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
                                    size_of(shape.embedding_dtype)));
  const View all = embeddings_.view(shape.embedding_dtype, tokens, shape.embedding_width());
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
  if (!prompt_.cross_attends) TRY_DO(order_rows(stream));
  stream.retire();
  device_.lane(Lane::kStep).wait(stream.record());
  return {};
}

// A prompt may have images in another order than they were encoded in, and leave out rows of them.
Result<void> SoloRun::order_rows(Stream& stream) {
  const ModelShape& shape = network_.shape();
  std::int64_t tokens = 0;
  for (const ImageSpan& span : prompt_.images) tokens += span.tokens;
  if (tokens == 0) return {};
  TRY(Buffer ordered, device_.allocate(static_cast<std::size_t>(tokens * shape.embedding_width()) *
                                       size_of(shape.embedding_dtype)));
  const View all = ordered.view(shape.embedding_dtype, tokens, shape.embedding_width());
  std::int64_t row = 0;
  for (const ImageSpan& span : prompt_.images) {
    stream.copy(image_rows_[static_cast<std::size_t>(span.index)].row_range(
                    span.first_row, span.first_row + span.tokens),
                all.row_range(row, row + span.tokens));
    row += span.tokens;
  }
  ordered_ = std::move(ordered);
  return {};
}

View SoloRun::image_rows(std::int64_t begin, std::int64_t end, BatchLists& lists) const {
  // Spans ascend and rows stand in the same order: the wanted ones are one range.
  std::int64_t first = -1;
  std::int64_t taken = 0;
  std::int64_t passed = 0;
  for (const ImageSpan& span : prompt_.images) {
    const std::int64_t rows =
        prompt_.cross_attends ? image_rows_[static_cast<std::size_t>(span.index)].rows() : 1;
    for (std::int64_t token = span.begin; token < span.begin + span.tokens;
         ++token, passed += rows) {
      if (token < begin || token >= end) continue;
      if (first < 0) first = passed;
      taken += rows;
      if (!prompt_.cross_attends)
        lists.embedding_rows.push_back(static_cast<std::int32_t>(token - begin));
    }
  }
  if (taken == 0) return {};
  if (prompt_.cross_attends) {
    lists.image_rows.resize(static_cast<std::size_t>(taken));
    std::iota(lists.image_rows.begin(), lists.image_rows.end(), 0);
  }
  const ModelShape& shape = network_.shape();
  return (prompt_.cross_attends ? embeddings_ : ordered_)
      .view(shape.embedding_dtype, first + taken, shape.embedding_width())
      .row_range(first, first + taken);
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
  CrossSpans cross;
  cross.add(cross_images_, begin, end, cross_blocks_, kBlock);
  add_seeing_rows(cross_images_, begin, end, 0, lists.seeing_rows);
  const std::array<std::int32_t, 1> state = {0};
  const std::array states = {SequenceSpan{
      .row_begin = 0, .row_count = end - begin, .context = begin, .prefix = 0, .blocks = state}};
  const std::array<std::span<const SequenceSpan>, 3> groups = {spans, cross.seeing, states};
  const std::array<std::span<const SequenceSpan>, 3> image_groups = {{{}, cross.images, {}}};
  const View embeddings = image_rows(begin, end, lists);
  const ModelShape& shape = network_.shape();

  lists.logit_rows.resize(static_cast<std::size_t>(rows));
  std::iota(lists.logit_rows.begin(), lists.logit_rows.end(),
            static_cast<std::int32_t>(end - begin - rows));
  const View logits = logits_.view(DType::kF32, rows, shape.vocab);
  Stream& stream = device_.lane(Lane::kStep);
  Batch batch;
  lists.upload(stream, batch);
  batch.spans = groups;
  batch.image_spans = image_groups;
  batch.kv = layers_;
  batch.embeddings = embeddings;
  batch.logits = logits;
  const auto all_of = [&](std::int64_t count) {
    return LoraRows{lora_ ? &*lora_ : nullptr, 0, count, 0};
  };
  const LoraRows all = all_of(end - begin);
  const LoraRows all_seeing = all_of(batch.seeing_rows.size());
  const LoraRows all_images = all_of(batch.image_rows.size());
  if (lora_) {
    batch.loras = {&all, 1};
    batch.seeing_loras = {&all_seeing, 1};
    batch.image_loras = {&all_images, 1};
  }
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

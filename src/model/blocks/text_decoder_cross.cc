// The decoder's layers that attend to images across (Llama 3.2 Vision): keys and values are made of
// an image's embedding rows, once, in the step that computes its token, and stay in the pool in a
// group of their own. Rows that see no image pass such a layer unchanged: Meta's reference zeroes
// both of its branches for them.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/blocks/tanh_gate.h"
#include "model/blocks/text_decoder.h"

namespace saccade {
namespace {

using Part = WeightTable::Part;
using Range = WeightTable::Range;

// Rows [begin, begin + count) of the spans, as a step of their own.
std::vector<SequenceSpan> slice_of(std::span<const SequenceSpan> spans, std::int64_t begin,
                                   std::int64_t count) {
  std::vector<SequenceSpan> slice;
  for (const SequenceSpan& span : spans) {
    const std::int64_t first = std::max(span.row_begin, begin);
    const std::int64_t last = std::min(span.row_begin + span.row_count, begin + count);
    if (first >= last) continue;
    SequenceSpan& part = slice.emplace_back(span);
    part.row_begin = first - begin;
    part.row_count = last - first;
    part.context += first - span.row_begin;
  }
  return slice;
}

}  // namespace

void TextDecoder::add_cross_weights(WeightTable& table, const DecoderNames& names, Layer& layer,
                                    const std::string& at, std::int64_t rank, std::int64_t ranks) {
  const DecoderSettings& s = settings_;
  const CrossNames& cross = names.cross;
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  const auto share = [&](std::int64_t count) { return Range{rank * count, (rank + 1) * count}; };
  table.stacked(layer.qkv, {{at + cross.q, q * ranks, {share(q)}}}, s.hidden, Bias::kNo,
                MatrixRole::kTextLayer);
  std::vector<Part> parts;
  for (const std::string& name : cross.kv) parts.push_back({at + name, kv * ranks, {share(kv)}});
  table.stacked(layer.image_kv, std::move(parts), s.hidden, Bias::kNo, MatrixRole::kTextLayer);
  table.repeated_norm(layer.qk_norm, {{at + cross.q_norm + ".weight", s.heads}}, s.head_dim);
  table.repeated_norm(layer.image_k_norm, {{at + cross.k_norm + ".weight", s.kv_heads}},
                      s.head_dim);
  table.stacked(layer.attention_out, {{at + cross.attention_out, s.hidden, {}, share(q)}},
                q * ranks, Bias::kNo, MatrixRole::kTextLayer);
  add_tanh_gate(table, layer.attention_gate, at + cross.attention_gate);
  add_tanh_gate(table, layer.mlp_gate, at + cross.mlp_gate);
}

std::vector<TextDecoder::CrossPlan> TextDecoder::plan_cross(Stream& stream,
                                                            const Batch& batch) const {
  std::vector<CrossPlan> plans;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!settings_.attends_across(i)) continue;
    const auto& [layer, group] = batch.kv[i];
    if (std::ranges::find(plans, group, &CrossPlan::group) != plans.end()) continue;
    const AttentionGeometry geometry = {.block_size = layer.block_size,
                                        .heads = settings_.heads,
                                        .kv_heads = layer.kv_heads,
                                        .head_dim = layer.head_dim,
                                        .window = 0};
    CrossPlan& plan = plans.emplace_back();
    plan.group = group;
    const std::int64_t rows = batch.image_rows.size();
    for (std::int64_t begin = 0; begin < rows; begin += normed_.rows()) {
      const std::vector<SequenceSpan> slice =
          slice_of(batch.image_spans[static_cast<std::size_t>(group)], begin,
                   std::min(normed_.rows(), rows - begin));
      plan.images.push_back({begin, &stream.plan_attention(slice, geometry)});
    }
    if (!batch.seeing_rows.empty())
      plan.seeing = &stream.plan_attention(batch.spans[static_cast<std::size_t>(group)], geometry);
  }
  return plans;
}

void TextDecoder::write_images(Stream& stream, const Layer& layer, const KvLayer& kv,
                               const CrossPlan& plan, const Batch& batch) {
  const DecoderSettings& s = settings_;
  const std::int64_t width = s.kv_heads * s.head_dim;
  for (const CrossPlan::Slice& slice : plan.images) {
    const std::int64_t rows = slice.plan->rows();
    const View x = normed_.row_range(0, rows);
    const View pair = qkv_.row_range(0, rows).col_range(0, 2 * width);
    const View keys = pair.col_range(0, width);
    stream.copy_rows({.from = batch.embeddings.col_range(0, s.hidden),
                      .from_rows = batch.image_rows.slice(slice.begin, rows),
                      .to = x,
                      .to_rows = {}});
    apply_linear(stream, layer.image_kv, x, pair);
    const std::vector<LoraRows> loras = slice_of(batch.image_loras, slice.begin, rows);
    lora_.of(loras).add(stream, layer.image_kv, x, pair);
    stream.norm({.x = keys,
                 .add = {},
                 .weight = layer.image_k_norm.view,
                 .bias = {},
                 .group = s.head_dim,
                 .epsilon = s.norm.epsilon,
                 .weight_offset = s.norm.weight_offset,
                 .subtract_mean = s.norm.subtract_mean,
                 .out = keys});
    stream.kv_write(
        {.plan = slice.plan, .k = keys, .v = pair.col_range(width, 2 * width), .layer = kv});
  }
}

// Of the rows that see an image: x += gate * attention(norm(x)), then x += gate * mlp(norm(x)).
void TextDecoder::cross_layer(Stream& stream, const Layer& layer, const KvBinding& kv,
                              std::span<const CrossPlan> plans, const Batch& batch, View all) {
  const DecoderSettings& s = settings_;
  const auto plan = std::ranges::find(plans, kv.group, &CrossPlan::group);
  CHECK(plan != plans.end(), "group {} has no plan", kv.group);
  write_images(stream, layer, kv.layer, *plan, batch);
  const std::int64_t rows = batch.seeing_rows.size();
  if (rows == 0) return;
  const View x = seeing_.row_range(0, rows);
  const View normed = normed_.row_range(0, rows);
  const View queries = qkv_.row_range(0, rows).col_range(0, s.heads * s.head_dim);
  const View mixed = attention_.row_range(0, rows);
  const View gate_up = gate_up_.row_range(0, rows);

  const LoraAdder lora = lora_.of(batch.seeing_loras);
  stream.mix_rows({.x = all, .rows = batch.seeing_rows, .weights = {}, .out = x});
  apply_norm(stream, layer.attention_norm, s.norm, x, normed);
  apply_linear(stream, layer.qkv, normed, queries);
  lora.add(stream, layer.qkv, normed, queries);
  stream.norm({.x = queries,
               .add = {},
               .weight = layer.qk_norm.view,
               .bias = {},
               .group = s.head_dim,
               .epsilon = s.norm.epsilon,
               .weight_offset = s.norm.weight_offset,
               .subtract_mean = s.norm.subtract_mean,
               .out = queries});
  stream.paged_attention({.plan = plan->seeing,
                          .q = queries,
                          .layer = kv.layer,
                          .scale = s.attention_scale,
                          .softcap = 0,
                          .compute = compute_,
                          .out = mixed});
  end_block(stream, lora, layer.attention_out, mixed, normed, false);
  stream.add(normed, x, layer.attention_gate);

  gated_mlp(stream, lora, layer, norm_of(layer.mlp_norm, x, normed), {normed, gate_up, normed});
  stream.add(normed, x, layer.mlp_gate);
  stream.copy_rows({.from = x, .from_rows = {}, .to = all, .to_rows = batch.seeing_rows});
}

}  // namespace saccade

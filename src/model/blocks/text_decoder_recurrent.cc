// The decoder's layers that keep a state (Qwen3.5's gated delta nets): of a sequence's last tokens
// as a short convolution sees them, and of all its tokens a matrix for each value head. Both lie in
// one page of a group of their own. Tokens are taken in one after the other, so that a row's bits
// do not depend on how its sequence is cut into steps.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/blocks/text_decoder.h"

namespace saccade {
namespace {

// Stored [cols, 1, taps], kept [taps, cols]: a row a token.
Result<std::size_t> store_taps(VectorWeight& into, const StoredMatrix& stored, Device& device) {
  const std::int64_t cols = stored.out();
  const std::int64_t taps = stored.in();
  std::vector<float> rows(static_cast<std::size_t>(cols * taps));
  StoredMatrixReader(stored).read(0, cols, 0, taps, rows.data(), taps);
  std::vector<float> turned(rows.size());
  for (std::int64_t col = 0; col < cols; ++col)
    for (std::int64_t tap = 0; tap < taps; ++tap)
      turned[static_cast<std::size_t>(tap * cols + col)] =
          rows[static_cast<std::size_t>(col * taps + tap)];
  const std::size_t bytes = turned.size() * sizeof(float);
  TRY(into.storage, device.allocate(bytes));
  into.view = into.storage.view(DType::kF32, taps, cols);
  Stream& copy = device.lane(Lane::kCopy);
  copy.upload(View(turned.data(), DType::kF32, taps, cols), into.view);
  copy.synchronize();
  return bytes;
}

}  // namespace

std::string TextDecoder::recurrent_layers() const {
  constexpr int kShown = 4;
  std::string text;
  int count = 0;
  for (std::size_t i = 0; i < settings_.layers.size(); ++i) {
    if (!settings_.keeps_state(i)) continue;
    if (count++ < kShown) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  }
  if (count > kShown) text += fmt::format(" and {} more", count - kShown);
  return text;
}

// The gates follow from matrices of a few outputs, which are never rounded to codes: a decay's
// error grows with every token.
void TextDecoder::add_recurrent_weights(WeightTable& table, const DecoderNames& names, Layer& layer,
                                        const std::string& at) {
  const DecoderSettings& s = settings_;
  const DeltaNetSettings& d = s.delta;
  const DeltaNetNames& of = names.delta;
  table.stacked(layer.qkv, {{at + of.qkv, d.convolved()}, {at + of.output_gate, d.values()}},
                s.hidden, Bias::kNo, MatrixRole::kTextLayer);
  table.stacked(layer.delta_gates, {{at + of.beta, d.value_heads}, {at + of.decay, d.value_heads}},
                s.hidden, Bias::kNo, MatrixRole::kTextGate);
  table.row({{at + of.conv, {d.convolved(), 1, d.taps}, TensorKind::kMatrix}},
            [&layer](const WeightTable::Tensors& tensors, Device& device, DType) {
              return store_taps(layer.conv, tensors.matrices.front(), device);
            });
  table.bias(layer.a_log, at + of.a_log, d.value_heads);
  table.bias(layer.dt_bias, at + of.dt_bias, d.value_heads);
  table.repeated_norm(layer.head_norm, {{at + of.norm, d.value_heads}}, d.value_dim);
  table.linear(layer.attention_out, at + of.out, s.hidden, d.values(), Bias::kNo,
               MatrixRole::kTextLayer);
}

std::vector<TextDecoder::StatePlan> TextDecoder::plan_states(Stream& stream,
                                                             const Batch& batch) const {
  std::vector<StatePlan> plans;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!settings_.keeps_state(i)) continue;
    const auto& [layer, group] = batch.kv[i];
    if (std::ranges::find(plans, group, &StatePlan::group) != plans.end()) continue;
    std::vector<StateSpan> spans;
    for (const SequenceSpan& span : batch.spans[static_cast<std::size_t>(group)]) {
      if (span.row_count == 0) continue;
      const std::int64_t interval = layer.block_size;
      const std::int64_t block = interval == 0 ? 0 : span.context / interval;
      CHECK(interval == 0 || (span.context + span.row_count - 1) / interval == block,
            "tokens [{}, {}) go past a state that is kept after {}", span.context,
            span.context + span.row_count, (block + 1) * interval);
      spans.push_back({.row_begin = static_cast<std::int32_t>(span.row_begin),
                       .row_count = static_cast<std::int32_t>(span.row_count),
                       .page = span.blocks[static_cast<std::size_t>(block)],
                       .fresh = span.context == 0 ? 1 : 0});
    }
    plans.push_back({group, stream.upload(spans)});
  }
  return plans;
}

// x += out(norm(delta_rule(conv(qkv))) * silu(gate)), then x += mlp(norm(x)) as in any layer.
void TextDecoder::recurrent_layer(Stream& stream, const Layer& layer, const KvBinding& kv,
                                  std::span<const StatePlan> plans, View x) {
  const DecoderSettings& s = settings_;
  const DeltaNetSettings& d = s.delta;
  const auto plan = std::ranges::find(plans, kv.group, &StatePlan::group);
  CHECK(plan != plans.end(), "group {} has no plan", kv.group);
  const std::int64_t rows = x.rows();
  const View normed = normed_.row_range(0, rows);
  const View all = delta_.row_range(0, rows);
  const View convolved = all.col_range(0, d.convolved());
  const View values = convolved.col_range(2 * d.keys(), d.convolved());
  const View output_gate = all.col_range(d.convolved(), all.cols());
  const View gates = delta_gates_.row_range(0, rows);
  const View states = kv.layer.blocks;

  apply_norm(stream, layer.attention_norm, s.norm, x, normed);
  apply_linear(stream, layer.qkv, normed, all);
  lora_.add(stream, layer.qkv, normed, all);
  apply_linear(stream, layer.delta_gates, normed, gates);
  lora_.add(stream, layer.delta_gates, normed, gates);
  stream.causal_conv({.x = convolved,
                      .weight = layer.conv.view,
                      .spans = plan->spans,
                      .states = states.col_range(0, d.window()),
                      .activation = s.activation,
                      .out = convolved});
  stream.delta_rule({.q = convolved.col_range(0, d.keys()),
                     .k = convolved.col_range(d.keys(), 2 * d.keys()),
                     .v = values,
                     .a = gates.col_range(d.value_heads, 2 * d.value_heads),
                     .b = gates.col_range(0, d.value_heads),
                     .a_log = layer.a_log.view,
                     .dt_bias = layer.dt_bias.view,
                     .spans = plan->spans,
                     .states = states.col_range(d.window(), d.state()),
                     .key_dim = d.key_dim,
                     .value_dim = d.value_dim,
                     .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d.key_dim))),
                     .out = values});
  stream.norm({.x = values,
               .add = {},
               .weight = layer.head_norm.view,
               .bias = {},
               .group = d.value_dim,
               .epsilon = s.norm.epsilon,
               .weight_offset = 0,
               .out = values});
  stream.gated(
      {.gate = output_gate, .up = values, .activation = Activation::kSilu, .out = output_gate});
  end_block(stream, lora_, layer.attention_out, output_gate, x, true);
}

}  // namespace saccade

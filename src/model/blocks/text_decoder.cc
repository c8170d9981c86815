#include "model/blocks/text_decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

using Part = WeightTable::Part;
using Range = WeightTable::Range;

// Which of how many equal shares of a checkpoint's matrices this is. Settings are those of a share.
struct Share {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;

  // Of `begin` and what follows, `count` a rank.
  Range of(std::int64_t begin, std::int64_t count) const {
    return {begin + rank * count, begin + (rank + 1) * count};
  }
};

// A list of the host as a matrix of one row.
template <typename T>
View row_of(const std::vector<T>& values) {
  return View(const_cast<T*>(values.data()), dtype_of<T>(), 1,
              static_cast<std::int64_t>(values.size()));
}

// All queries, then all keys, then all values, from rows that go by key head.
std::vector<Range> ungroup(const DecoderSettings& s, const Share& share) {
  const std::int64_t queries = s.heads / s.kv_heads * s.head_dim;
  const std::int64_t group = queries + 2 * s.head_dim;
  const Range heads = share.of(0, s.kv_heads);
  std::vector<Range> order;
  for (std::int64_t head = heads.begin; head < heads.end; ++head)
    order.push_back({head * group, head * group + queries});
  for (const std::int64_t part : {0, 1}) {
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      const std::int64_t begin = head * group + queries + part * s.head_dim;
      order.push_back({begin, begin + s.head_dim});
    }
  }
  return order;
}

// All gates, then all queries, from rows that go by head: its query, then its gate.
std::vector<Range> gates_first(const DecoderSettings& s, const Share& share) {
  const Range heads = share.of(0, s.heads);
  std::vector<Range> order;
  for (const std::int64_t part : {1, 0}) {
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      const std::int64_t begin = (2 * head + part) * s.head_dim;
      order.push_back({begin, begin + s.head_dim});
    }
  }
  return order;
}

// Matrices of `counts` rows a rank, one after another in one tensor or each in its own.
std::vector<Part> parts_of(std::span<const std::string> names, const std::string& layer,
                           std::span<const std::int64_t> counts, const Share& share) {
  if (names.size() == counts.size()) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < names.size(); ++i)
      parts.push_back({layer + names[i], counts[i] * share.ranks, {share.of(0, counts[i])}});
    return parts;
  }
  Part part{.name = layer + names[0]};
  for (const std::int64_t count : counts) {
    part.order.push_back(share.of(part.out, count));
    part.out += count * share.ranks;
  }
  return {part};
}

// Of every head in `rows`: the first of each pair of neighbours, then the second ones, then what
// does not turn.
std::vector<Range> pairs_apart(Range rows, std::int64_t head_dim, std::int64_t pairs) {
  std::vector<Range> order;
  for (std::int64_t head = rows.begin; head < rows.end; head += head_dim) {
    for (const std::int64_t of_pair : {0, 1}) {
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const std::int64_t row = head + 2 * pair + of_pair;
        order.push_back({row, row + 1});
      }
    }
    if (2 * pairs < head_dim) order.push_back({head + 2 * pairs, head + head_dim});
  }
  return order;
}

std::vector<Part> qkv_parts(const DecoderSettings& s, const DecoderNames& names,
                            const std::string& layer, const Share& share) {
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  if (names.qkv_by_key_head)
    return {{layer + names.qkv[0], (q + 2 * kv) * share.ranks, ungroup(s, share)}};
  if (s.attention_gate)
    return {{layer + names.qkv[0], 2 * q * share.ranks, gates_first(s, share)},
            {layer + names.qkv[1], kv * share.ranks, {share.of(0, kv)}},
            {layer + names.qkv[2], kv * share.ranks, {share.of(0, kv)}}};
  std::vector<Part> parts = parts_of(names.qkv, layer, std::array{q, kv, kv}, share);
  if (names.neighbours_turn) {
    CHECK(parts.size() == 3, "{} matrices of queries, keys and values", parts.size());
    const auto pairs = static_cast<std::int64_t>(s.rope.inv_freq.size());
    for (const std::size_t part : {0, 1})
      parts[part].order = pairs_apart(parts[part].order.front(), s.head_dim, pairs);
  }
  return parts;
}

}  // namespace

Result<void> check_decoder(const DecoderSettings& s) {
  struct Extent {
    const char* name;
    std::int64_t value;
  };
  // Far over any published model, and small enough that products of three fit an int64.
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  for (const Extent extent :
       {Extent{"hidden_size", s.hidden}, Extent{"intermediate_size", s.intermediate},
        Extent{"num_attention_heads", s.heads}, Extent{"num_key_value_heads", s.kv_heads},
        Extent{"head_dim", s.head_dim}, Extent{"vocab_size", s.vocab},
        Extent{"num_hidden_layers", static_cast<std::int64_t>(s.layers.size())}}) {
    if (extent.value < 1 || extent.value > kMost)
      return fail(ErrorCode::kInvalid, "{} is {}, 1 to {} is possible", extent.name, extent.value,
                  kMost);
  }
  if (s.heads % s.kv_heads != 0)
    return fail(ErrorCode::kInvalid,
                "num_attention_heads {} is no multiple of num_key_value_heads {}", s.heads,
                s.kv_heads);
  if (s.head_dim % 2 != 0)
    return fail(ErrorCode::kInvalid, "head_dim {} is odd: it turns by pairs", s.head_dim);
  return {};
}

std::vector<float> frequencies_for(const RopeSettings& rope, std::int64_t length) {
  if (rope.ntk_factor == 0 || length <= rope.ntk_length) return rope.inv_freq;
  const auto turned = 2 * static_cast<std::int64_t>(rope.inv_freq.size());
  const auto dim = static_cast<double>(turned);
  const double stretch =
      rope.ntk_factor * static_cast<double>(length) / static_cast<double>(rope.ntk_length) -
      (rope.ntk_factor - 1);
  const auto theta = static_cast<float>(rope.theta * std::pow(stretch, dim / (dim - 2)));
  return rope_frequencies(static_cast<double>(theta), turned);
}

TextDecoder::TextDecoder(DecoderSettings settings) : settings_(std::move(settings)) {
  layers_.resize(settings_.layers.size());
  embedding_scale_ = settings_.embedding_scale;
}

Result<void> TextDecoder::split(Collective& ranks) {
  if (const std::string layers = recurrent_layers(); !layers.empty())
    return fail(ErrorCode::kUnsupported,
                "layers that keep a state ({}) cannot be shared by {} ranks", layers,
                ranks.ranks());
  struct Extent {
    const char* name;
    std::int64_t* value;
  };
  for (const Extent extent : {Extent{"num_attention_heads", &settings_.heads},
                              Extent{"num_key_value_heads", &settings_.kv_heads},
                              Extent{"intermediate_size", &settings_.intermediate},
                              Extent{"moe_intermediate_size", &settings_.experts.intermediate}}) {
    if (*extent.value % ranks.ranks() != 0)
      return fail(ErrorCode::kUnsupported, "{} is {}, {} ranks cannot share it evenly", extent.name,
                  *extent.value, ranks.ranks());
    *extent.value /= ranks.ranks();
  }
  for (LayerShape& layer : settings_.layers) layer.kv_heads = settings_.kv_heads;
  ranks_ = &ranks;
  return {};
}

void TextDecoder::set_compute(DType compute) {
  compute_ = compute;
  embedding_scale_ = settings_.embedding_scale;
  if (settings_.round_embedding_scale && compute == DType::kBf16)
    embedding_scale_ = to_float(to_bf16(embedding_scale_));
}

void TextDecoder::add_weights(WeightTable& table, const DecoderNames& names) {
  const DecoderSettings& s = settings_;
  if (s.tied_head) {
    table.tied(head_, embedding_, names.embedding, names.head, s.vocab, s.hidden);
  } else {
    table.embedding(embedding_, names.embedding + ".weight", s.vocab + s.placeholders, s.hidden);
    table.linear(head_, names.head, s.vocab, s.hidden, Bias::kNo, MatrixRole::kHead);
  }
  const Share share = ranks_ == nullptr ? Share{} : Share{ranks_->rank(), ranks_->ranks()};
  const std::int64_t q_width = s.heads * s.head_dim;
  const Bias qkv_bias = s.qkv_bias ? Bias::kYes : Bias::kNo;
  const Bias out_bias = s.out_bias ? Bias::kYes : Bias::kNo;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    const std::string at = fmt::format(fmt::runtime(names.layer), i);
    add_norm(table, layer.attention_norm, at + names.attention_norm, s.hidden, s.norm);
    if (s.attends_across(i)) {
      add_cross_weights(table, names, layer, at, share.rank, share.ranks);
      add_norm(table, layer.mlp_norm, at + names.mlp_norm, s.hidden, s.norm);
      add_mlp_weights(table, names, i, at);
      continue;
    }
    if (s.keeps_state(i)) {
      add_recurrent_weights(table, names, layer, at);
      add_norm(table, layer.mlp_norm, at + names.mlp_norm, s.hidden, s.norm);
      add_mlp_weights(table, names, i, at);
      continue;
    }
    table.stacked(layer.qkv, qkv_parts(s, names, at, share), s.hidden, qkv_bias,
                  MatrixRole::kTextLayer);
    if (s.qk_norm) {
      table.repeated_norm(
          layer.qk_norm,
          {{at + names.q_norm + ".weight", s.heads}, {at + names.k_norm + ".weight", s.kv_heads}},
          s.head_dim);
    }
    table.stacked(layer.attention_out,
                  {{at + names.attention_out, s.hidden, {}, share.of(0, q_width)}},
                  q_width * share.ranks, out_bias, MatrixRole::kTextLayer);
    add_norm(table, layer.mlp_norm, at + names.mlp_norm, s.hidden, s.norm);
    add_mlp_weights(table, names, i, at);
    if (s.post_norms) {
      add_norm(table, layer.post_attention_norm, at + names.post_attention_norm, s.hidden, s.norm);
      add_norm(table, layer.post_mlp_norm, at + names.post_mlp_norm, s.hidden, s.norm);
    }
  }
  add_norm(table, norm_, names.norm, s.hidden, s.norm);
  if (!names.unread.empty()) table.ignore(names.unread);
  if (ranks_ != nullptr) return;
  // Those whose products lora_ is asked about.
  lora_targets_ = lora_targets_of(table, [this](const Linear* linear) {
    return std::ranges::any_of(layers_, [linear](const Layer& layer) {
      return linear == &layer.qkv || linear == &layer.attention_out || linear == &layer.gate_up ||
             linear == &layer.mlp_out || linear == &layer.delta_gates || linear == &layer.image_kv;
    });
  });
}

void TextDecoder::add_mlp_weights(WeightTable& table, const DecoderNames& names, std::size_t index,
                                  const std::string& at) {
  const DecoderSettings& s = settings_;
  const Share share = ranks_ == nullptr ? Share{} : Share{ranks_->rank(), ranks_->ranks()};
  Layer& layer = layers_[index];
  if (s.has_experts(index)) {
    const std::int64_t inner = s.experts.intermediate;
    layer.experts.add_weights(table, s.experts, names.experts, at,
                              {s.hidden, inner * share.ranks, share.of(0, inner)});
    return;
  }
  const Bias bias = s.mlp_bias ? Bias::kYes : Bias::kNo;
  table.stacked(layer.gate_up,
                parts_of(names.gate_up, at, std::array{s.intermediate, s.intermediate}, share),
                s.hidden, bias, MatrixRole::kTextLayer);
  table.stacked(layer.mlp_out, {{at + names.mlp_out, s.hidden, {}, share.of(0, s.intermediate)}},
                s.intermediate * share.ranks, bias, MatrixRole::kTextLayer);
}

Result<void> TextDecoder::reserve(Device& device, const Capacity& capacity) {
  const DecoderSettings& s = settings_;
  if (s.experts.count > 0 && !device.has_experts())
    return fail(ErrorCode::kUnsupported, "device {} has no experts; the CPU does", device.name());
  if (const std::string layers = recurrent_layers(); !layers.empty() && !device.has_recurrence())
    return fail(ErrorCode::kUnsupported,
                "device {} runs no layers that keep a state ({}); the CPU does", device.name(),
                layers);
  for (Layer& layer : layers_) layer.experts.list();
  const DType type = device.activation_dtype();
  const std::int64_t expert_rows = s.experts.count > 0 ? capacity.rows : 0;
  const std::vector<float> frequencies = frequencies_for(s.rope, capacity.length);
  const auto pairs = static_cast<std::int64_t>(frequencies.size());
  const bool by_length = s.rope.short_length > 0;
  scratch_.add(hidden_, type, capacity.rows, s.hidden);
  scratch_.add(normed_, type, capacity.rows, s.hidden);
  scratch_.add(qkv_, type, capacity.rows,
               ((s.attention_gate ? 2 : 1) * s.heads + 2 * s.kv_heads) * s.head_dim);
  scratch_.add(attention_, type, capacity.rows, s.heads * s.head_dim);
  scratch_.add(gate_up_, type, capacity.rows, 2 * s.intermediate);
  scratch_.add(inv_freq_, DType::kF32, by_length ? 2 : 1, pairs);
  scratch_.add(axis_, DType::kU8, s.rope.axis.empty() ? 0 : 1, pairs);
  scratch_.add(cos_, DType::kF32, capacity.rows, pairs);
  scratch_.add(sin_, DType::kF32, capacity.rows, pairs);
  const auto window_pairs = static_cast<std::int64_t>(s.window_rope.inv_freq.size());
  scratch_.add(window_inv_freq_, DType::kF32, 1, window_pairs);
  scratch_.add(window_axis_, DType::kU8, s.window_rope.axis.empty() ? 0 : 1, window_pairs);
  scratch_.add(window_cos_, DType::kF32, capacity.rows, window_pairs);
  scratch_.add(window_sin_, DType::kF32, capacity.rows, window_pairs);
  const bool crosses = std::ranges::any_of(
      s.layers, [](const LayerShape& of) { return of.kind == LayerKind::kCrossAttention; });
  const std::int64_t state_rows = recurrent_layers().empty() ? 0 : capacity.rows;
  scratch_.add(delta_, type, state_rows, s.delta.convolved() + s.delta.values());
  scratch_.add(delta_gates_, type, state_rows, 2 * s.delta.value_heads);
  scratch_.add(seeing_, type, crosses ? capacity.rows : 0, s.hidden);
  scratch_.add(last_, type, capacity.logit_rows, s.hidden);
  scratch_.add(router_logits_, DType::kF32, expert_rows, s.experts.count);
  scratch_.add(gathered_, type, expert_rows, s.hidden);
  scratch_.add(expert_inner_, type, expert_rows, 2 * s.experts.intermediate);
  scratch_.add(expert_part_, type, expert_rows, s.hidden);
  lora_.add_scratch(scratch_, type, capacity.rows, capacity.lora_rank, lora_targets_);
  TRY_DO(scratch_.allocate(device));
  Stream& copy = device.lane(Lane::kCopy);
  copy.upload(row_of(frequencies), inv_freq_.row_range(0, 1));
  if (by_length) copy.upload(row_of(s.rope.long_inv_freq), inv_freq_.row_range(1, 2));
  if (!axis_.empty()) copy.upload(row_of(s.rope.axis), axis_);
  if (!window_inv_freq_.empty()) copy.upload(row_of(s.window_rope.inv_freq), window_inv_freq_);
  if (!window_axis_.empty()) copy.upload(row_of(s.window_rope.axis), window_axis_);
  copy.synchronize();
  return {};
}

void TextDecoder::forward(Stream& stream, const Batch& batch, const Tap& tap) {
  const std::int64_t rows = batch.ids.size();
  CHECK(rows <= hidden_.rows(), "{} rows, {} reserved", rows, hidden_.rows());
  const View x = hidden_.row_range(0, rows);

  lora_.begin(batch.loras, batch.lora_rows);
  const std::vector<const AttentionPlan*> plans = plan(stream, batch);
  const std::vector<CrossPlan> cross_plans = plan_cross(stream, batch);
  const std::vector<StatePlan> state_plans = plan_states(stream, batch);
  embed(stream, batch, x);
  show(tap, stream, "text.embed", x);
  const Angles angles = turn(stream, batch);
  const Angles window_angles = turn_in_windows(stream, batch, angles);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerShape& shape = settings_.layers[i];
    if (settings_.attends_across(i)) {
      cross_layer(stream, layers_[i], batch.kv[i], cross_plans, batch, x);
      if (tap && !batch.seeing_rows.empty()) show(tap, stream, fmt::format("text.layer.{}", i), x);
      continue;
    }
    if (settings_.keeps_state(i)) {
      recurrent_layer(stream, layers_[i], batch.kv[i], state_plans, x);
    } else {
      attention(stream, layers_[i], batch.kv[i].layer, *plans[i],
                shape.window > 0 ? window_angles : angles, x);
    }
    mlp(stream, layers_[i], x);
    if (tap) show(tap, stream, fmt::format("text.layer.{}", i), x);
    if (static_cast<std::int64_t>(i) < settings_.deepstack) {
      add_slice(stream, batch, 1 + static_cast<std::int64_t>(i), x);
      if (tap) show(tap, stream, fmt::format("text.deepstack.{}", i), x);
    }
  }
  if (tap) {
    const View normed = normed_.row_range(0, rows);
    apply_norm(stream, norm_, settings_.norm, x, normed);
    show(tap, stream, "text.norm", normed);
  }
  logits(stream, batch.logit_rows, batch.logits);
  show(tap, stream, "logits", batch.logits);
}

void TextDecoder::embed(Stream& stream, const Batch& batch, View x) {
  stream.embed({.table = embedding_.view,
                .packed = embedding_.view.rows() == 0 ? head_.weight.get() : nullptr,
                .ids = batch.ids,
                .last_tokens = batch.last_tokens,
                .scale = embedding_scale_,
                .out = x});
  if (!batch.embedding_rows.empty())
    stream.copy_rows({.from = batch.embeddings.col_range(0, settings_.hidden),
                      .from_rows = batch.embedding_sources,
                      .to = x,
                      .to_rows = batch.embedding_rows});
}

// Rows of long sequences turn by their own frequencies.
TextDecoder::Angles TextDecoder::turn(Stream& stream, const Batch& batch) const {
  const std::int64_t rows = batch.ids.size();
  const Angles angles{cos_.row_range(0, rows), sin_.row_range(0, rows)};
  stream.rope_table({.positions = batch.positions,
                     .inv_freq = inv_freq_,
                     .axis = axis_,
                     .tables = batch.long_rows,
                     .scale = settings_.rope.scale,
                     .cos = angles.cos,
                     .sin = angles.sin});
  return angles;
}

TextDecoder::Angles TextDecoder::turn_in_windows(Stream& stream, const Batch& batch,
                                                 const Angles& full) const {
  if (window_inv_freq_.empty()) return full;
  const std::int64_t rows = batch.ids.size();
  const Angles angles{window_cos_.row_range(0, rows), window_sin_.row_range(0, rows)};
  stream.rope_table({.positions = batch.positions,
                     .inv_freq = window_inv_freq_,
                     .axis = window_axis_,
                     .tables = {},
                     .scale = settings_.window_rope.scale,
                     .cos = angles.cos,
                     .sin = angles.sin});
  return angles;
}

std::vector<const AttentionPlan*> TextDecoder::plan(Stream& stream, const Batch& batch) const {
  std::vector<const AttentionPlan*> plans;
  std::vector<std::pair<int, const AttentionPlan*>> made;  // and the group it is of
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (settings_.attends_across(i) || settings_.keeps_state(i)) {
      plans.push_back(nullptr);
      continue;
    }
    const auto& [layer, group] = batch.kv[i];
    const AttentionGeometry geometry = {.block_size = layer.block_size,
                                        .heads = settings_.heads,
                                        .kv_heads = layer.kv_heads,
                                        .head_dim = layer.head_dim,
                                        .window = settings_.layers[i].window};
    const auto same = std::ranges::find_if(made, [&, of = group](const auto& each) {
      return each.first == of && each.second->geometry() == geometry;
    });
    if (same == made.end()) {
      const auto spans = batch.spans[static_cast<std::size_t>(group)];
      made.emplace_back(group, &stream.plan_attention(spans, geometry));
      plans.push_back(made.back().second);
    } else {
      plans.push_back(same->second);
    }
  }
  return plans;
}

// x += attention(norm(x))
void TextDecoder::attention(Stream& stream, const Layer& layer, const KvLayer& kv,
                            const AttentionPlan& plan, const Angles& angles, View x) {
  const DecoderSettings& s = settings_;
  const std::int64_t q_width = s.heads * s.head_dim;
  const View normed = normed_.row_range(0, x.rows());
  const View all = qkv_.row_range(0, x.rows());
  const View gates = all.col_range(0, s.attention_gate ? q_width : 0);
  const View qkv = all.col_range(gates.cols(), all.cols());
  View mixed = attention_.row_range(0, x.rows());
  const NormArgs norm = norm_of(layer.attention_norm, x, normed);
  const GemmArgs product = {.x = normed,
                            .weight = layer.qkv.weight.get(),
                            .bias = layer.qkv.bias.view,
                            .residual = {},
                            .y = all};
  if (lora_.adds_to(layer.qkv)) {
    stream.norm(norm);
    stream.gemm(product);
    lora_.add(stream, layer.qkv, normed, all);
  } else {
    stream.normed_gemm({norm, product});
  }
  stream.qkv({.plan = &plan,
              .qkv = qkv,
              .norm = s.qk_norm ? layer.qk_norm.view : View(),
              .epsilon = s.norm.epsilon,
              .weight_offset = s.norm.weight_offset,
              .subtract_mean = s.norm.subtract_mean,
              .cos = angles.cos,
              .sin = angles.sin,
              .layer = kv});
  stream.paged_attention({.plan = &plan,
                          .q = qkv.col_range(0, q_width),
                          .layer = kv,
                          .scale = s.attention_scale,
                          .softcap = s.attention_softcap,
                          .compute = compute_,
                          .out = mixed});
  if (s.attention_gate) {
    stream.gated({.gate = gates, .up = mixed, .activation = Activation::kSigmoid, .out = gates});
    mixed = gates;
  }
  if (!s.post_norms) {
    end_block(stream, lora_, layer.attention_out, mixed, x, true);
    return;
  }
  end_block(stream, lora_, layer.attention_out, mixed, normed, false);
  apply_norm(stream, layer.post_attention_norm, s.norm, normed, normed);
  stream.add(normed, x, 1);
}

// x += down(act(gate(norm(x))) * up(norm(x))), of one MLP or of the experts that are chosen
void TextDecoder::mlp(Stream& stream, const Layer& layer, View x) {
  const DecoderSettings& s = settings_;
  const View normed = normed_.row_range(0, x.rows());
  const View gate_up = gate_up_.row_range(0, x.rows());

  const NormArgs norm = norm_of(layer.mlp_norm, x, normed);
  if (!layer.experts.experts().empty()) {
    stream.norm(norm);
    return experts(stream, layer, normed, x);
  }
  if (!s.post_norms)
    return gated_mlp(stream, lora_, layer, norm,
                     {normed, gate_up, x, carries_residual() ? x : View()});
  gated_mlp(stream, lora_, layer, norm, {normed, gate_up, normed});
  apply_norm(stream, layer.post_mlp_norm, s.norm, normed, normed);
  stream.add(normed, x, 1);
}

NormArgs TextDecoder::norm_of(const Norm& norm, View x, View out) const {
  return {.x = x,
          .add = {},
          .weight = norm.weight.view,
          .bias = norm.bias.view,
          .epsilon = settings_.norm.epsilon,
          .weight_offset = settings_.norm.weight_offset,
          .subtract_mean = settings_.norm.subtract_mean,
          .out = out};
}

void TextDecoder::gated_mlp(Stream& stream, const LoraAdder& lora, const Layer& layer,
                            const NormArgs& norm, const MlpRows& rows) const {
  if (lora.adds_to(layer.gate_up) || lora.adds_to(layer.mlp_out)) {
    stream.norm(norm);
    mlp_in_parts(stream, lora, layer, rows);
  } else {
    stream.normed_mlp({.norm = norm,
                       .mlp = {.x = rows.x,
                               .in = layer.gate_up.weight.get(),
                               .in_bias = layer.gate_up.bias.view,
                               .activation = settings_.activation,
                               .out = layer.mlp_out.weight.get(),
                               .out_bias = layer.mlp_out.bias.view,
                               .residual = rows.residual,
                               .inner = rows.inner,
                               .y = rows.y}});
  }
  sum_over_ranks(stream, rows.y);
}

// The same with adapters added to its products: rows without one get the bits of the op.
void TextDecoder::mlp_in_parts(Stream& stream, const LoraAdder& lora, const Layer& layer,
                               const MlpRows& rows) const {
  const auto& [x, inner, y, residual] = rows;
  const std::int64_t width = settings_.intermediate;
  const View gate = inner.col_range(0, width);
  apply_linear(stream, layer.gate_up, x, inner);
  lora.add(stream, layer.gate_up, x, inner);
  stream.gated({.gate = gate,
                .up = inner.col_range(width, 2 * width),
                .activation = settings_.activation,
                .out = gate});
  apply_linear(stream, layer.mlp_out, gate, y, residual);
  lora.add(stream, layer.mlp_out, gate, y);
}

void TextDecoder::experts(Stream& stream, const Layer& layer, View normed, View x) {
  const std::int64_t rows = x.rows();
  const View logits = router_logits_.row_range(0, rows);
  apply_linear(stream, layer.experts.router(), normed, logits);
  stream.experts({.x = normed,
                  .logits = logits,
                  .experts = layer.experts.experts(),
                  .per_row = settings_.experts.per_token,
                  .normalise = settings_.experts.normalise,
                  .activation = settings_.activation,
                  .add = ranks_ == nullptr || ranks_->rank() == 0,
                  .gathered = gathered_.row_range(0, rows),
                  .inner = expert_inner_.row_range(0, rows),
                  .part = expert_part_.row_range(0, rows),
                  .y = x});
  sum_over_ranks(stream, x);
}

void TextDecoder::end_block(Stream& stream, const LoraAdder& lora, const Linear& linear, View part,
                            View y, bool add) const {
  apply_linear(stream, linear, part, y, add && carries_residual() ? y : View());
  lora.add(stream, linear, part, y);
  sum_over_ranks(stream, y);
}

void TextDecoder::sum_over_ranks(Stream& stream, View y) const {
  if (ranks_ != nullptr) ranks_->all_reduce(y, stream);
}

// x[embedding_rows] += a slice of their embedding rows.
void TextDecoder::add_slice(Stream& stream, const Batch& batch, std::int64_t slice, View x) {
  const std::int64_t hidden = settings_.hidden;
  if (batch.embedding_rows.empty()) return;
  stream.copy_rows({.from = batch.embeddings.col_range(slice * hidden, (slice + 1) * hidden),
                    .from_rows = batch.embedding_sources,
                    .to = x,
                    .to_rows = batch.embedding_rows,
                    .add = true});
}

void TextDecoder::logits(Stream& stream, DeviceInts rows, View out) {
  if (rows.empty()) return;
  const std::int64_t count = rows.size();
  CHECK(count <= last_.rows(), "{} logit rows, {} reserved", count, last_.rows());
  const View last = last_.row_range(0, count);
  stream.mix_rows({.x = hidden_, .rows = rows, .weights = {}, .out = last});
  apply_norm(stream, norm_, settings_.norm, last, last);
  apply_linear(stream, head_, last, out);
  if (settings_.logit_softcap > 0) stream.softcap(out, settings_.logit_softcap);
}

}  // namespace saccade

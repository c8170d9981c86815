#include "model/text_decoder.h"

#include <array>
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

std::vector<Part> qkv_parts(const DecoderSettings& s, const DecoderNames& names,
                            const std::string& layer, const Share& share) {
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  if (names.qkv_by_key_head)
    return {{layer + names.qkv[0], (q + 2 * kv) * share.ranks, ungroup(s, share)}};
  return parts_of(names.qkv, layer, std::array{q, kv, kv}, share);
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

std::vector<float> frequencies_for(const RopeSettings& rope, std::int64_t head_dim,
                                   std::int64_t length) {
  if (rope.ntk_factor == 0 || length <= rope.ntk_length) return rope.inv_freq;
  const auto dim = static_cast<double>(head_dim);
  const double stretch =
      rope.ntk_factor * static_cast<double>(length) / static_cast<double>(rope.ntk_length) -
      (rope.ntk_factor - 1);
  const auto theta = static_cast<float>(rope.theta * std::pow(stretch, dim / (dim - 2)));
  return rope_frequencies(static_cast<double>(theta), head_dim);
}

TextDecoder::TextDecoder(DecoderSettings settings) : settings_(std::move(settings)) {
  layers_.resize(settings_.layers.size());
  embedding_scale_ = settings_.embedding_scale;
}

Result<void> TextDecoder::split(Collective& ranks) {
  struct Extent {
    const char* name;
    std::int64_t* value;
  };
  for (const Extent extent : {Extent{"num_attention_heads", &settings_.heads},
                              Extent{"num_key_value_heads", &settings_.kv_heads},
                              Extent{"intermediate_size", &settings_.intermediate}}) {
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
    table.embedding(embedding_, names.embedding + ".weight", s.vocab, s.hidden);
    table.linear(head_, names.head, s.vocab, s.hidden, Bias::kNo);
  }
  const Share share = ranks_ == nullptr ? Share{} : Share{ranks_->rank(), ranks_->ranks()};
  const std::int64_t q_width = s.heads * s.head_dim;
  const Bias qkv_bias = s.qkv_bias ? Bias::kYes : Bias::kNo;
  const Bias out_bias = s.out_bias ? Bias::kYes : Bias::kNo;
  const Bias mlp_bias = s.mlp_bias ? Bias::kYes : Bias::kNo;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    const std::string at = fmt::format(fmt::runtime(names.layer), i);
    add_norm(table, layer.attention_norm, at + names.attention_norm, s.hidden, s.norm);
    table.stacked(layer.qkv, qkv_parts(s, names, at, share), s.hidden, qkv_bias);
    if (s.qk_norm) {
      add_norm(table, layer.q_norm, at + names.q_norm, s.head_dim, s.norm);
      add_norm(table, layer.k_norm, at + names.k_norm, s.head_dim, s.norm);
    }
    table.stacked(layer.attention_out,
                  {{at + names.attention_out, s.hidden, {}, share.of(0, q_width)}},
                  q_width * share.ranks, out_bias);
    add_norm(table, layer.mlp_norm, at + names.mlp_norm, s.hidden, s.norm);
    table.stacked(layer.gate_up,
                  parts_of(names.gate_up, at, std::array{s.intermediate, s.intermediate}, share),
                  s.hidden, mlp_bias);
    table.stacked(layer.mlp_out, {{at + names.mlp_out, s.hidden, {}, share.of(0, s.intermediate)}},
                  s.intermediate * share.ranks, mlp_bias);
    if (s.post_norms) {
      add_norm(table, layer.post_attention_norm, at + names.post_attention_norm, s.hidden, s.norm);
      add_norm(table, layer.post_mlp_norm, at + names.post_mlp_norm, s.hidden, s.norm);
    }
  }
  add_norm(table, norm_, names.norm, s.hidden, s.norm);
}

Result<void> TextDecoder::reserve(Backend& backend, const Capacity& capacity) {
  const DecoderSettings& s = settings_;
  const DType type = backend.activation_dtype();
  frequencies_ = frequencies_for(s.rope, s.head_dim, capacity.length);
  const auto pairs = static_cast<std::int64_t>(frequencies_.size());
  scratch_.add(hidden_, type, capacity.rows, s.hidden);
  scratch_.add(normed_, type, capacity.rows, s.hidden);
  scratch_.add(qkv_, type, capacity.rows, (s.heads + 2 * s.kv_heads) * s.head_dim);
  scratch_.add(attention_, type, capacity.rows, s.heads * s.head_dim);
  scratch_.add(gate_up_, type, capacity.rows, 2 * s.intermediate);
  scratch_.add(cos_, DType::kF32, capacity.rows, pairs);
  scratch_.add(sin_, DType::kF32, capacity.rows, pairs);
  const auto window_pairs = static_cast<std::int64_t>(s.window_rope.inv_freq.size());
  scratch_.add(window_cos_, DType::kF32, capacity.rows, window_pairs);
  scratch_.add(window_sin_, DType::kF32, capacity.rows, window_pairs);
  scratch_.add(last_, type, capacity.logit_rows, s.hidden);
  return scratch_.allocate(backend);
}

void TextDecoder::forward(Backend& backend, const Batch& batch, const Tap& tap) {
  const auto rows = static_cast<std::int64_t>(batch.ids.size());
  CHECK(rows <= hidden_.rows(), "{} rows, {} reserved", rows, hidden_.rows());
  const View x = hidden_.row_range(0, rows);

  embed(backend, batch, x);
  if (tap) tap("text.embed", x);
  const Angles angles = turn(backend, batch);
  const Angles window_angles = turn_in_windows(backend, batch, angles);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerShape& shape = settings_.layers[i];
    attention(backend, layers_[i], shape, batch.kv[i], batch,
              shape.window > 0 ? window_angles : angles, x);
    mlp(backend, layers_[i], x);
    if (tap) tap(fmt::format("text.layer.{}", i), x);
    if (static_cast<std::int64_t>(i) < settings_.deepstack) {
      add_slice(backend, batch, 1 + static_cast<std::int64_t>(i), x);
      if (tap) tap(fmt::format("text.deepstack.{}", i), x);
    }
  }
  if (tap) {
    const View normed = normed_.row_range(0, rows);
    apply_norm(backend, norm_, settings_.norm, x, normed);
    tap("text.norm", normed);
  }
  logits(backend, batch, x);
  if (tap) tap("logits", batch.logits);
}

void TextDecoder::embed(Backend& backend, const Batch& batch, View x) {
  backend.embed({.table = embedding_.view,
                 .packed = embedding_.view.rows() == 0 ? head_.weight.get() : nullptr,
                 .ids = batch.ids,
                 .scale = embedding_scale_,
                 .out = x});
  if (!batch.embedding_rows.empty())
    backend.scatter_rows({.x = batch.embeddings.col_range(0, settings_.hidden),
                          .rows = batch.embedding_rows,
                          .out = x});
}

// Rows of long sequences by their own frequencies, a run of equal rows at a time.
TextDecoder::Angles TextDecoder::turn(Backend& backend, const Batch& batch) const {
  const RopeSettings& rope = settings_.rope;
  const auto rows = static_cast<std::int64_t>(batch.ids.size());
  const Angles angles{cos_.row_range(0, rows), sin_.row_range(0, rows)};
  const auto is_long = [&](std::int64_t row) {
    return !batch.long_rows.empty() && batch.long_rows[static_cast<std::size_t>(row)] != 0;
  };
  std::array<std::span<const std::int32_t>, 3> positions;
  for (std::int64_t begin = 0; begin < rows;) {
    std::int64_t end = begin + 1;
    while (end < rows && is_long(end) == is_long(begin)) ++end;
    for (std::size_t axis = 0; axis < batch.positions.size(); ++axis)
      positions[axis] = batch.positions[axis].subspan(static_cast<std::size_t>(begin),
                                                      static_cast<std::size_t>(end - begin));
    backend.rope_table({.positions = std::span(positions).first(batch.positions.size()),
                        .inv_freq = is_long(begin) ? rope.long_inv_freq : frequencies_,
                        .axis = rope.axis,
                        .scale = rope.scale,
                        .cos = angles.cos.row_range(begin, end),
                        .sin = angles.sin.row_range(begin, end)});
    begin = end;
  }
  return angles;
}

TextDecoder::Angles TextDecoder::turn_in_windows(Backend& backend, const Batch& batch,
                                                 const Angles& full) const {
  const RopeSettings& rope = settings_.window_rope;
  if (rope.inv_freq.empty()) return full;
  const auto rows = static_cast<std::int64_t>(batch.ids.size());
  const Angles angles{window_cos_.row_range(0, rows), window_sin_.row_range(0, rows)};
  backend.rope_table({.positions = batch.positions,
                      .inv_freq = rope.inv_freq,
                      .axis = rope.axis,
                      .scale = rope.scale,
                      .cos = angles.cos,
                      .sin = angles.sin});
  return angles;
}

// Each head's columns of every row are a vector of their own.
void TextDecoder::norm_heads(Backend& backend, const Norm& norm, View heads) const {
  const std::int64_t head_dim = settings_.head_dim;
  for (std::int64_t begin = 0; begin < heads.cols(); begin += head_dim) {
    const View head = heads.col_range(begin, begin + head_dim);
    apply_norm(backend, norm, settings_.norm, head, head);
  }
}

// x += attention(norm(x))
void TextDecoder::attention(Backend& backend, const Layer& layer, const LayerShape& shape,
                            const KvBinding& kv, const Batch& batch, const Angles& angles, View x) {
  const DecoderSettings& s = settings_;
  const std::int64_t q_width = s.heads * s.head_dim;
  const std::int64_t k_end = q_width + s.kv_heads * s.head_dim;
  const View normed = normed_.row_range(0, x.rows());
  const View qkv = qkv_.row_range(0, x.rows());
  const View mixed = attention_.row_range(0, x.rows());
  const auto spans = batch.spans[static_cast<std::size_t>(kv.group)];

  apply_norm(backend, layer.attention_norm, s.norm, x, normed);
  apply_linear(backend, layer.qkv, normed, qkv);
  if (s.qk_norm) {
    norm_heads(backend, layer.q_norm, qkv.col_range(0, q_width));
    norm_heads(backend, layer.k_norm, qkv.col_range(q_width, k_end));
  }
  backend.rope(
      {.x = qkv.col_range(0, k_end), .head_dim = s.head_dim, .cos = angles.cos, .sin = angles.sin});
  backend.kv_write({.spans = spans,
                    .k = qkv.col_range(q_width, k_end),
                    .v = qkv.col_range(k_end, qkv.cols()),
                    .layer = kv.layer});
  backend.paged_attention({.spans = spans,
                           .q = qkv.col_range(0, q_width),
                           .layer = kv.layer,
                           .heads = s.heads,
                           .scale = s.attention_scale,
                           .window = shape.window,
                           .softcap = s.attention_softcap,
                           .compute = compute_,
                           .out = mixed});
  if (!s.post_norms) {
    end_block(backend, layer.attention_out, mixed, x, true);
    return;
  }
  end_block(backend, layer.attention_out, mixed, normed, false);
  apply_norm(backend, layer.post_attention_norm, s.norm, normed, normed);
  backend.add(normed, x, 1);
}

// x += down(act(gate(norm(x))) * up(norm(x)))
void TextDecoder::mlp(Backend& backend, const Layer& layer, View x) {
  const DecoderSettings& s = settings_;
  const View normed = normed_.row_range(0, x.rows());
  const View gate_up = gate_up_.row_range(0, x.rows());
  const View gate = gate_up.col_range(0, s.intermediate);

  apply_norm(backend, layer.mlp_norm, s.norm, x, normed);
  apply_linear(backend, layer.gate_up, normed, gate_up);
  backend.gated({.gate = gate,
                 .up = gate_up.col_range(s.intermediate, 2 * s.intermediate),
                 .activation = s.activation,
                 .out = gate});
  if (!s.post_norms) {
    end_block(backend, layer.mlp_out, gate, x, true);
    return;
  }
  end_block(backend, layer.mlp_out, gate, normed, false);
  apply_norm(backend, layer.post_mlp_norm, s.norm, normed, normed);
  backend.add(normed, x, 1);
}

// With several ranks the first one's product carries what is added to.
void TextDecoder::end_block(Backend& backend, const Linear& linear, View part, View y,
                            bool add) const {
  const bool carries = ranks_ == nullptr || ranks_->rank() == 0;
  apply_linear(backend, linear, part, y, add && carries ? y : View());
  if (ranks_ == nullptr) return;
  backend.synchronize();
  ranks_->all_reduce(y);
}

// x[embedding_rows] += a slice of their embedding rows, a run of neighbours at a time.
void TextDecoder::add_slice(Backend& backend, const Batch& batch, std::int64_t slice, View x) {
  const std::int64_t hidden = settings_.hidden;
  const std::span<const std::int32_t> rows = batch.embedding_rows;
  if (rows.empty()) return;
  const View added = normed_.row_range(0, static_cast<std::int64_t>(rows.size()));
  backend.copy(batch.embeddings.col_range(slice * hidden, (slice + 1) * hidden), added);
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    backend.add(added.row_range(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)),
                x.row_range(rows[begin], rows[end - 1] + 1), 1);
    begin = end;
  }
}

void TextDecoder::logits(Backend& backend, const Batch& batch, View x) {
  if (batch.logit_rows.empty()) return;
  const auto count = static_cast<std::int64_t>(batch.logit_rows.size());
  CHECK(count <= last_.rows(), "{} logit rows, {} reserved", count, last_.rows());
  const View last = last_.row_range(0, count);
  backend.mix_rows({.x = x, .rows = batch.logit_rows, .weights = {}, .out = last});
  apply_norm(backend, norm_, settings_.norm, last, last);
  apply_linear(backend, head_, last, batch.logits);
  if (settings_.logit_softcap > 0) backend.softcap(batch.logits, settings_.logit_softcap);
}

}  // namespace saccade

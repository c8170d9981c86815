#include "ops/shapes.h"

#include "ops/formats/int8_rows.h"

namespace saccade {
namespace {

void check_matrix(const char* name, View view, std::int64_t rows, std::int64_t cols) {
  CHECK(view.rows() == rows && view.cols() == cols, "{} is {}x{}, want {}x{}", name, view.rows(),
        view.cols(), rows, cols);
  CHECK(view.stride() >= view.cols(), "{}: stride {} under {} cols", name, view.stride(),
        view.cols());
  CHECK(view.data() != nullptr || rows == 0 || cols == 0, "{} has no data", name);
}

void check_f32(const char* name, View view) {
  CHECK(view.dtype() == DType::kF32, "{} is {}, want float32", name, name_of(view.dtype()));
}

void check_optional(const char* name, View view, std::int64_t rows, std::int64_t cols) {
  if (view.data() != nullptr) check_matrix(name, view, rows, cols);
}

void check_both_ways(const SequenceSpan& span, std::int64_t length) {
  CHECK(span.both_ways.empty() || span.prefix == 0, "intervals in a prefix of {}", span.prefix);
  std::int64_t passed = 0;
  for (const TokenInterval interval : span.both_ways) {
    CHECK(passed <= interval.begin && interval.begin < interval.end, "interval [{}, {}) after {}",
          interval.begin, interval.end, passed);
    passed = interval.end;
    CHECK(interval.begin >= length || interval.end <= length, "interval [{}, {}) is cut at {}",
          interval.begin, interval.end, length);
  }
}

void check_layer(const KvLayer& layer, const AttentionPlan* plan) {
  CHECK(plan != nullptr, "attention without a plan");
  const AttentionGeometry& planned = plan->geometry();
  CHECK(layer.block_size == planned.block_size && layer.kv_heads == planned.kv_heads &&
            layer.head_dim == planned.head_dim,
        "kv layer of blocks of {}, {} heads of {}; planned for {}, {} of {}", layer.block_size,
        layer.kv_heads, layer.head_dim, planned.block_size, planned.kv_heads, planned.head_dim);
  CHECK(is_float(layer.dtype()) || layer.coded(), "kv layer is {}", name_of(layer.dtype()));
  if (plan->rows() == 0) return;
  check_matrix("kv layer", layer.blocks, layer.blocks.rows(),
               kv_block_elements(layer.dtype(), layer.block_size, layer.kv_heads, layer.head_dim));
  CHECK(plan->block_end() <= layer.blocks.rows(), "block {} of {}", plan->block_end() - 1,
        layer.blocks.rows());
}

// Each of a list's elements in [0, end), or -1 where that is allowed.
void check_rows(const char* name, DeviceInts rows, std::int64_t end, std::int32_t least = 0) {
  if (rows.space() != Space::kHost) return;
  for (const std::int32_t row : rows.host())
    CHECK(row >= least && row < end, "{} {} of {}", name, row, end);
}

void check_spans(StateSpans spans, std::int64_t rows, std::int64_t pages) {
  if (spans.space() != Space::kHost) return;
  std::int64_t next = 0;
  for (const StateSpan& span : spans.host()) {
    CHECK(span.row_begin >= next && span.row_count >= 0,
          "span at row {} of {} rows, row {} is free", span.row_begin, span.row_count, next);
    next = std::int64_t{span.row_begin} + span.row_count;
    CHECK(next <= rows, "span to row {} of {}", next, rows);
    CHECK(span.page >= 0 && span.page < pages, "state {} of {}", span.page, pages);
  }
}

}  // namespace

void check_shapes(std::span<const StoredMatrix> parts, DType compute) {
  CHECK(!parts.empty(), "pack of no weight");
  CHECK(compute == DType::kF32 || compute == DType::kBf16 || compute == DType::kI8 ||
            compute == DType::kE4m3,
        "compute {}", name_of(compute));
  CHECK(compute != DType::kI8 || parts.front().in() <= kMaxInt8Inputs, "int8 of {} inputs",
        parts.front().in());
  for (const StoredMatrix& part : parts) {
    CHECK(part.in() == parts.front().in(), "weights of {} and {} inputs", part.in(),
          parts.front().in());
    CHECK(part.format != StoredMatrix::Format::kDense || is_float(part.codes.dtype), "weight is {}",
          name_of(part.codes.dtype));
  }
}

void check_shapes(const GemmArgs& args) {
  CHECK(args.weight != nullptr, "gemm without weight");
  const std::int64_t rows = args.x.rows();
  const std::int64_t out = args.weight->out();
  check_matrix("x", args.x, rows, args.weight->in());
  check_matrix("y", args.y, rows, out);
  check_optional("bias", args.bias, 1, out);
  check_optional("residual", args.residual, rows, out);
  if (args.bias.data() != nullptr) check_f32("bias", args.bias);
}

void check_shapes(const NormArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t cols = args.x.cols();
  check_matrix("x", args.x, rows, cols);
  check_matrix("out", args.out, rows, cols);
  check_matrix("weight", args.weight, 1, cols);
  check_f32("weight", args.weight);
  CHECK(args.group >= 0 && (args.group == 0 || cols % args.group == 0), "{} cols in groups of {}",
        cols, args.group);
  check_optional("add", args.add, rows, cols);
  check_optional("bias", args.bias, 1, cols);
  if (args.bias.data() != nullptr) check_f32("bias", args.bias);
}

void check_shapes(const RopeTableArgs& args) {
  const std::int64_t pairs = args.inv_freq.cols();
  const std::int64_t rows = args.cos.rows();
  check_matrix("inv_freq", args.inv_freq, args.inv_freq.rows(), pairs);
  check_matrix("cos", args.cos, rows, pairs);
  check_matrix("sin", args.sin, rows, pairs);
  check_f32("inv_freq", args.inv_freq);
  check_f32("cos", args.cos);
  check_f32("sin", args.sin);
  CHECK(rows == 0 || (!args.positions.empty() && args.positions.size() % rows == 0),
        "{} positions for {} rows", args.positions.size(), rows);
  if (!args.axis.empty()) check_matrix("axis", args.axis, 1, pairs);
  CHECK(args.axis.empty() || args.axis.dtype() == DType::kU8, "axis is {}",
        name_of(args.axis.dtype()));
  CHECK(args.tables.empty() || args.tables.size() == rows, "{} tables for {} rows",
        args.tables.size(), rows);
  check_rows("table", args.tables, args.inv_freq.rows());
  if (args.axis.empty() || args.axis.space() != Space::kHost || rows == 0) return;
  for (std::int64_t pair = 0; pair < pairs; ++pair)
    CHECK(args.axis.row<std::uint8_t>(0)[pair] < args.positions.size() / rows, "axis {} of {}",
          args.axis.row<std::uint8_t>(0)[pair], args.positions.size() / rows);
}

void check_shapes(const RopeArgs& args) {
  CHECK(args.head_dim > 0 && args.x.cols() % args.head_dim == 0, "{} cols in heads of {}",
        args.x.cols(), args.head_dim);
  CHECK(2 * args.cos.cols() <= args.head_dim, "{} pairs in a head of {}", args.cos.cols(),
        args.head_dim);
  check_matrix("x", args.x, args.x.rows(), args.x.cols());
  check_matrix("cos", args.cos, args.x.rows(), args.cos.cols());
  check_matrix("sin", args.sin, args.x.rows(), args.cos.cols());
  check_f32("cos", args.cos);
  check_f32("sin", args.sin);
}

// Every row belongs to exactly one span, in order; each span's blocks reach its last token, and
// those that its rows see are there.
void check_shapes(std::span<const SequenceSpan> spans, const AttentionGeometry& geometry) {
  CHECK(geometry.block_size > 0 && geometry.kv_heads > 0 && geometry.head_dim > 0 &&
            geometry.heads > 0 && geometry.heads % geometry.kv_heads == 0 && geometry.window >= 0,
        "attention of {} heads over {} kv heads of {}, blocks of {}, window {}", geometry.heads,
        geometry.kv_heads, geometry.head_dim, geometry.block_size, geometry.window);
  std::int64_t next = 0;
  for (const SequenceSpan& span : spans) {
    CHECK(span.row_begin == next && span.row_count >= 0, "span at row {} of {} rows, want row {}",
          span.row_begin, span.row_count, next);
    next += span.row_count;
    const std::int64_t length = span.context + span.row_count;
    CHECK(span.context >= 0 &&
              length <= static_cast<std::int64_t>(span.blocks.size()) * geometry.block_size,
          "{} tokens in {} blocks of {}", length, span.blocks.size(), geometry.block_size);
    CHECK(span.context >= span.prefix ||
              span.prefix <= static_cast<std::int64_t>(span.blocks.size()) * geometry.block_size,
          "a prefix of {} tokens in {} blocks of {}", span.prefix, span.blocks.size(),
          geometry.block_size);
    check_both_ways(span, length);
    if (span.row_count == 0) continue;
    // The first row sees furthest back.
    const Visible first = visible_to(span, span.context, geometry.window);
    const std::int64_t end = std::max(length, first.end);
    for (std::int64_t block = first.begin / geometry.block_size; block * geometry.block_size < end;
         ++block)
      CHECK(span.blocks[static_cast<std::size_t>(block)] >= 0, "block {} is seen and not there",
            block);
  }
}

void check_shapes(std::span<const std::int32_t> begins, const SegmentGeometry& geometry) {
  CHECK(geometry.heads > 0 && geometry.kv_heads > 0 && geometry.heads % geometry.kv_heads == 0 &&
            geometry.head_dim > 0,
        "{} heads over {} kv heads of {}", geometry.heads, geometry.kv_heads, geometry.head_dim);
  CHECK(!begins.empty() && begins.front() == 0, "segments do not begin at row 0");
  for (std::size_t i = 1; i < begins.size(); ++i)
    CHECK(begins[i - 1] <= begins[i], "segment {} ends at {}, before {}", i - 1, begins[i],
          begins[i - 1]);
}

void check_shapes(const KvWriteArgs& args) {
  check_layer(args.layer, args.plan);
  const std::int64_t cols = args.layer.kv_heads * args.layer.head_dim;
  check_matrix("k", args.k, args.plan->rows(), cols);
  check_matrix("v", args.v, args.plan->rows(), cols);
  for (const SequenceSpan& span : args.plan->spans())
    CHECK(span.row_count == 0 || span.context >= span.prefix ||
              span.prefix <= span.context + span.row_count,
          "prefix {} is cut at {}", span.prefix, span.context + span.row_count);
}

void check_shapes(const QkvArgs& args) {
  CHECK(args.plan != nullptr, "qkv without a plan");
  const std::int64_t turned = args.queries() + args.keys();
  check_matrix("qkv", args.qkv, args.plan->rows(), turned + args.keys());
  check_optional("norm", args.norm, 1, turned);
  if (args.norm.data() != nullptr) check_f32("norm", args.norm);
  check_shapes(RopeArgs{.x = args.qkv.col_range(0, turned),
                        .head_dim = args.layer.head_dim,
                        .cos = args.cos,
                        .sin = args.sin});
  check_shapes(KvWriteArgs{.plan = args.plan,
                           .k = args.qkv.col_range(args.queries(), turned),
                           .v = args.qkv.col_range(turned, args.qkv.cols()),
                           .layer = args.layer});
}

void check_shapes(const PagedAttentionArgs& args) {
  check_layer(args.layer, args.plan);
  const AttentionGeometry& planned = args.plan->geometry();
  check_matrix("q", args.q, args.plan->rows(), planned.heads * planned.head_dim);
  check_matrix("out", args.out, args.plan->rows(), planned.heads * planned.head_dim);
  CHECK(args.compute == DType::kF32 || args.compute == DType::kBf16, "compute {}",
        name_of(args.compute));
  CHECK(args.softcap >= 0, "softcap {}", args.softcap);
}

void check_shapes(const SegmentAttentionArgs& args) {
  CHECK(args.plan != nullptr, "attention without a plan");
  const SegmentGeometry& planned = args.plan->geometry();
  const std::int64_t rows = args.plan->rows();
  check_matrix("q", args.q, rows, planned.heads * planned.head_dim);
  check_matrix("k", args.k, rows, planned.kv_heads * planned.head_dim);
  check_matrix("v", args.v, rows, planned.kv_heads * planned.head_dim);
  check_matrix("out", args.out, rows, planned.heads * planned.head_dim);
  CHECK(args.compute == DType::kF32 || args.compute == DType::kBf16, "compute {}",
        name_of(args.compute));
}

void check_shapes(const GatedArgs& args) {
  const std::int64_t rows = args.gate.rows();
  const std::int64_t cols = args.gate.cols();
  check_matrix("gate", args.gate, rows, cols);
  check_matrix("up", args.up, rows, cols);
  check_matrix("out", args.out, rows, cols);
}

void check_shapes(const MlpArgs& args) {
  CHECK(args.in != nullptr && args.out != nullptr, "mlp without weight");
  const std::int64_t rows = args.x.rows();
  const std::int64_t inner = args.in->out();
  const std::int64_t width = args.out->in();
  CHECK(inner == width || inner == 2 * width, "an mlp of {} outputs into {} inputs", inner, width);
  check_matrix("x", args.x, rows, args.in->in());
  check_matrix("inner", args.inner, rows, inner);
  check_matrix("y", args.y, rows, args.out->out());
  check_optional("in_bias", args.in_bias, 1, inner);
  check_optional("out_bias", args.out_bias, 1, args.out->out());
  check_optional("residual", args.residual, rows, args.out->out());
  if (args.in_bias.data() != nullptr) check_f32("in_bias", args.in_bias);
  if (args.out_bias.data() != nullptr) check_f32("out_bias", args.out_bias);
}

namespace {

void check_normed(const NormArgs& norm, View x) {
  check_shapes(norm);
  CHECK(x.data() == norm.out.data() && x.rows() == norm.out.rows() && x.cols() == norm.out.cols() &&
            x.stride() == norm.out.stride() && x.dtype() == norm.out.dtype(),
        "x of {} x {} is not the norm's {} x {}", x.rows(), x.cols(), norm.out.rows(),
        norm.out.cols());
}

}  // namespace

void check_shapes(const NormedGemmArgs& args) {
  check_normed(args.norm, args.gemm.x);
  check_shapes(args.gemm);
}

void check_shapes(const NormedMlpArgs& args) {
  check_normed(args.norm, args.mlp.x);
  check_shapes(args.mlp);
}

void check_shapes(const ExpertsArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t in = args.x.cols();
  const std::int64_t out = args.y.cols();
  const auto count = static_cast<std::int64_t>(args.experts.size());
  CHECK(args.per_row >= 1 && args.per_row <= count, "{} of {} experts a row", args.per_row, count);
  const std::int64_t width = args.experts.front().down->in();
  for (const ExpertWeights& expert : args.experts)
    CHECK(expert.gate_up->in() == in && expert.gate_up->out() == 2 * width &&
              expert.down->in() == width && expert.down->out() == out,
          "an expert of {} to {} and {} to {}, want {} to {} and {} to {}", expert.gate_up->in(),
          expert.gate_up->out(), expert.down->in(), expert.down->out(), in, 2 * width, width, out);
  check_matrix("x", args.x, rows, in);
  check_matrix("logits", args.logits, rows, count);
  check_f32("logits", args.logits);
  check_matrix("gathered", args.gathered, rows, in);
  check_matrix("inner", args.inner, rows, 2 * width);
  check_matrix("part", args.part, rows, out);
  check_matrix("y", args.y, rows, out);
}

void check_shapes(const CausalConvArgs& args) {
  const std::int64_t rows = args.x.rows();
  const std::int64_t cols = args.x.cols();
  const std::int64_t taps = args.weight.rows();
  CHECK(taps >= 2 && taps <= 8, "a convolution of {} taps", taps);
  check_matrix("x", args.x, rows, cols);
  check_matrix("weight", args.weight, taps, cols);
  check_matrix("states", args.states, args.states.rows(), (taps - 1) * cols);
  check_matrix("out", args.out, rows, cols);
  check_f32("weight", args.weight);
  check_f32("states", args.states);
  check_spans(args.spans, rows, args.states.rows());
}

void check_shapes(const DeltaRuleArgs& args) {
  const std::int64_t rows = args.q.rows();
  const std::int64_t heads = args.a_log.cols();
  CHECK(args.key_dim > 0 && args.value_dim > 0 && args.q.cols() % args.key_dim == 0 &&
            args.q.cols() > 0 && heads % (args.q.cols() / args.key_dim) == 0,
        "{} value heads of {} over {} columns of keys of {}", heads, args.value_dim, args.q.cols(),
        args.key_dim);
  check_matrix("q", args.q, rows, args.q.cols());
  check_matrix("k", args.k, rows, args.q.cols());
  check_matrix("v", args.v, rows, heads * args.value_dim);
  check_matrix("a", args.a, rows, heads);
  check_matrix("b", args.b, rows, heads);
  check_matrix("a_log", args.a_log, 1, heads);
  check_matrix("dt_bias", args.dt_bias, 1, heads);
  check_matrix("states", args.states, args.states.rows(), heads * args.key_dim * args.value_dim);
  check_matrix("out", args.out, rows, heads * args.value_dim);
  check_f32("a_log", args.a_log);
  check_f32("dt_bias", args.dt_bias);
  check_f32("states", args.states);
  check_spans(args.spans, rows, args.states.rows());
}

void check_shapes(const EmbedArgs& args) {
  const bool packed = args.packed != nullptr;
  CHECK(packed != (args.table.data() != nullptr), "embed wants one table");
  CHECK(packed || is_float(args.table.dtype()), "table is {}", name_of(args.table.dtype()));
  const std::int64_t vocab = packed ? args.packed->out() : args.table.rows();
  const std::int64_t cols = packed ? args.packed->in() : args.table.cols();
  check_matrix("out", args.out, args.ids.size(), cols);
  const std::int64_t slots = args.last_tokens.rows();
  if (slots > 0) {
    check_matrix("last_tokens", args.last_tokens, slots, 1);
    CHECK(args.last_tokens.dtype() == DType::kI32, "last_tokens are {}",
          name_of(args.last_tokens.dtype()));
  }
  check_rows("id", args.ids, vocab, -slots);
}

void check_shapes(const MixRowsArgs& args) {
  const std::int64_t picks = args.rows.size();
  CHECK(args.taps > 0 && picks % args.taps == 0, "{} rows in groups of {}", picks, args.taps);
  CHECK(args.weights.empty() || args.weights.size() == picks, "{} weights for {} rows",
        args.weights.size(), picks);
  check_matrix("x", args.x, args.x.rows(), args.x.cols());
  check_matrix("out", args.out, picks / args.taps, args.x.cols());
  check_rows("row", args.rows, args.x.rows());
}

void check_shapes(const CutPatchesArgs& args) {
  CHECK(!args.frames.empty() && std::cmp_less_equal(args.frames.size(), args.depth),
        "{} frames of {}", args.frames.size(), args.depth);
  for (const auto& frame : args.frames)
    CHECK(std::cmp_equal(frame.size(), 3 * args.width * args.height), "{} bytes of {}x{} pixels",
          frame.size(), args.width, args.height);
  check_matrix("out", args.out, static_cast<std::int64_t>(args.places.size()),
               3 * args.depth * args.side * args.side);
  for (const PatchPlace place : args.places)
    CHECK(place.top >= 0 && place.top + args.side <= args.height && place.left >= 0 &&
              place.left + args.side <= args.width,
          "a patch of {} at {}, {} in {}x{} pixels", args.side, place.left, place.top, args.width,
          args.height);
}

void check_shapes(const CopyRowsArgs& args) {
  const std::int64_t count = args.count();
  check_matrix("from", args.from, args.from.rows(), args.to.cols());
  check_matrix("to", args.to, args.to.rows(), args.to.cols());
  CHECK(is_float(args.from.dtype()) && is_float(args.to.dtype()), "rows of {} to {}",
        name_of(args.from.dtype()), name_of(args.to.dtype()));
  CHECK(args.from_rows.empty() || args.from_rows.size() == count, "{} rows from, {} to",
        args.from_rows.size(), count);
  CHECK(args.to_rows.empty() || args.to_rows.size() == count, "{} rows from, {} to", count,
        args.to_rows.size());
  CHECK(!args.from_rows.empty() || count <= args.from.rows(), "{} rows of {}", count,
        args.from.rows());
  CHECK(!args.to_rows.empty() || count <= args.to.rows(), "{} rows to {}", count, args.to.rows());
  check_rows("row from", args.from_rows, args.from.rows());
  check_rows("row to", args.to_rows, args.to.rows(), -1);
}

void check_copy_shapes(View from, View to) {
  CHECK(from.rows() == to.rows() && from.cols() == to.cols(), "copy {}x{} to {}x{}", from.rows(),
        from.cols(), to.rows(), to.cols());
  CHECK(from.dtype() == to.dtype() || (is_float(from.dtype()) && is_float(to.dtype())),
        "copy {} to {}", name_of(from.dtype()), name_of(to.dtype()));
}

void check_add_shapes(View x, View y) {
  check_matrix("y", y, y.rows(), y.cols());
  check_matrix("x", x, x.rows() == 1 ? 1 : y.rows(), y.cols());
}

void check_row_stats_shapes(View logits, View stats) {
  check_matrix("logits", logits, logits.rows(), logits.cols());
  check_f32("logits", logits);
  CHECK(logits.rows() == 0 || logits.cols() > 0, "statistics of no logits");
  check_matrix("stats", stats, logits.rows(), sizeof(RowStats));
  CHECK(stats.dtype() == DType::kU8, "stats are {}", name_of(stats.dtype()));
}

void check_shapes(const SampleArgs& args) {
  check_row_stats_shapes(args.logits, args.stats);
  const auto count = static_cast<std::int64_t>(args.rows.size());
  check_matrix("sampled", args.sampled, count, sizeof(SampledToken));
  const auto room = static_cast<std::int64_t>(static_cast<std::size_t>(args.alternatives.cols()) /
                                              sizeof(TokenLogit));
  for (const SamplingRow& row : args.rows) {
    CHECK(row.row >= 0 && row.row < args.logits.rows(), "logits of row {} of {}", row.row,
          args.logits.rows());
    CHECK(row.slot >= -1 && row.slot < args.last_tokens.rows(), "slot {} of {}", row.slot,
          args.last_tokens.rows());
    CHECK(row.given < args.logits.cols(), "token {} is given, of {}", row.given,
          args.logits.cols());
    CHECK(row.alternatives <= room, "{} alternatives, room for {}", row.alternatives, room);
  }
}

}  // namespace saccade

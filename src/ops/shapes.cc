#include "ops/shapes.h"

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

// Every row belongs to exactly one span, in order; each span's blocks reach its last token.
void check_spans(std::span<const SequenceSpan> spans, std::int64_t rows, const KvLayer& layer) {
  CHECK(layer.block_size > 0 && layer.kv_heads > 0 && layer.head_dim > 0,
        "kv layer: block_size {} kv_heads {} head_dim {}", layer.block_size, layer.kv_heads,
        layer.head_dim);
  CHECK(is_float(layer.dtype), "kv layer is {}", name_of(layer.dtype));
  CHECK(layer.base != nullptr || spans.empty(), "kv layer has no memory");
  std::int64_t next = 0;
  for (const SequenceSpan& span : spans) {
    CHECK(span.row_begin == next && span.row_count >= 0, "span at row {} of {} rows, want row {}",
          span.row_begin, span.row_count, next);
    next += span.row_count;
    const std::int64_t length = span.context + span.row_count;
    CHECK(span.context >= 0 &&
              length <= static_cast<std::int64_t>(span.blocks.size()) * layer.block_size,
          "{} tokens in {} blocks of {}", length, span.blocks.size(), layer.block_size);
    CHECK(span.row_count == 0 || span.context >= span.prefix || span.prefix <= length,
          "prefix {} is cut at {}", span.prefix, length);
    check_both_ways(span, length);
  }
  CHECK(next == rows, "spans cover {} of {} rows", next, rows);
}

}  // namespace

void check_shapes(std::span<const StoredMatrix> parts, DType compute) {
  CHECK(!parts.empty(), "pack of no weight");
  CHECK(compute == DType::kF32 || compute == DType::kBf16, "compute {}", name_of(compute));
  for (const StoredMatrix& part : parts) {
    CHECK(part.in() == parts.front().in(), "weights of {} and {} inputs", part.in(),
          parts.front().in());
    CHECK(part.format != StoredMatrix::Format::kNumbers || is_float(part.codes.dtype),
          "weight is {}", name_of(part.codes.dtype));
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
  check_optional("add", args.add, rows, cols);
  check_optional("bias", args.bias, 1, cols);
  if (args.bias.data() != nullptr) check_f32("bias", args.bias);
}

void check_shapes(const RopeTableArgs& args) {
  const auto pairs = static_cast<std::int64_t>(args.inv_freq.size());
  const std::int64_t rows = args.cos.rows();
  check_matrix("cos", args.cos, rows, pairs);
  check_matrix("sin", args.sin, rows, pairs);
  check_f32("cos", args.cos);
  check_f32("sin", args.sin);
  CHECK(!args.positions.empty(), "rope_table without positions");
  for (const auto& axis : args.positions)
    CHECK(static_cast<std::int64_t>(axis.size()) == rows, "{} positions for {} rows", axis.size(),
          rows);
  CHECK(args.axis.empty() || args.axis.size() == args.inv_freq.size(), "{} axes for {} pairs",
        args.axis.size(), pairs);
  for (const std::uint8_t axis : args.axis)
    CHECK(axis < args.positions.size(), "axis {} of {}", axis, args.positions.size());
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

void check_shapes(const KvWriteArgs& args) {
  const std::int64_t cols = args.layer.kv_heads * args.layer.head_dim;
  check_matrix("k", args.k, args.k.rows(), cols);
  check_matrix("v", args.v, args.k.rows(), cols);
  check_spans(args.spans, args.k.rows(), args.layer);
  for (const SequenceSpan& span : args.spans)
    for (std::int64_t token = span.context; token < span.context + span.row_count; ++token)
      CHECK(span.blocks[static_cast<std::size_t>(token / args.layer.block_size)] >= 0,
            "token {} has no block", token);
}

void check_shapes(const PagedAttentionArgs& args) {
  const KvLayer& layer = args.layer;
  check_spans(args.spans, args.q.rows(), layer);
  CHECK(args.heads > 0 && args.heads % layer.kv_heads == 0, "{} heads over {} kv heads", args.heads,
        layer.kv_heads);
  check_matrix("q", args.q, args.q.rows(), args.heads * layer.head_dim);
  check_matrix("out", args.out, args.q.rows(), args.heads * layer.head_dim);
  CHECK(args.compute == DType::kF32 || args.compute == DType::kBf16, "compute {}",
        name_of(args.compute));
  CHECK(args.window >= 0 && args.softcap >= 0, "window {} softcap {}", args.window, args.softcap);
  for (const SequenceSpan& span : args.spans) {
    if (span.row_count == 0) continue;
    // The first row sees furthest back.
    const Visible first = visible_to(span, span.context, args.window);
    const std::int64_t end = span.context + span.row_count;
    for (std::int64_t block = first.begin / layer.block_size; block * layer.block_size < end;
         ++block)
      CHECK(span.blocks[static_cast<std::size_t>(block)] >= 0, "block {} is seen and not there",
            block);
  }
}

void check_shapes(const SegmentAttentionArgs& args) {
  const std::int64_t rows = args.q.rows();
  CHECK(args.heads > 0 && args.kv_heads > 0 && args.heads % args.kv_heads == 0 && args.head_dim > 0,
        "{} heads over {} kv heads of {}", args.heads, args.kv_heads, args.head_dim);
  check_matrix("q", args.q, rows, args.heads * args.head_dim);
  check_matrix("k", args.k, rows, args.kv_heads * args.head_dim);
  check_matrix("v", args.v, rows, args.kv_heads * args.head_dim);
  check_matrix("out", args.out, rows, args.heads * args.head_dim);
  CHECK(args.compute == DType::kF32 || args.compute == DType::kBf16, "compute {}",
        name_of(args.compute));
  CHECK(!args.begins.empty() && args.begins.front() == 0 && args.begins.back() == rows,
        "segments do not cover {} rows", rows);
  for (std::size_t i = 1; i < args.begins.size(); ++i)
    CHECK(args.begins[i - 1] <= args.begins[i], "segment {} ends at {}, before {}", i - 1,
          args.begins[i], args.begins[i - 1]);
}

void check_shapes(const GatedArgs& args) {
  const std::int64_t rows = args.gate.rows();
  const std::int64_t cols = args.gate.cols();
  check_matrix("gate", args.gate, rows, cols);
  check_matrix("up", args.up, rows, cols);
  check_matrix("out", args.out, rows, cols);
}

void check_shapes(const EmbedArgs& args) {
  const bool packed = args.packed != nullptr;
  CHECK(packed != (args.table.data() != nullptr), "embed wants one table");
  CHECK(packed || is_float(args.table.dtype()), "table is {}", name_of(args.table.dtype()));
  const std::int64_t vocab = packed ? args.packed->out() : args.table.rows();
  const std::int64_t cols = packed ? args.packed->in() : args.table.cols();
  check_matrix("out", args.out, static_cast<std::int64_t>(args.ids.size()), cols);
  for (const std::int32_t id : args.ids) CHECK(id >= 0 && id < vocab, "id {} of {}", id, vocab);
}

void check_shapes(const MixRowsArgs& args) {
  const auto picks = static_cast<std::int64_t>(args.rows.size());
  CHECK(args.taps > 0 && picks % args.taps == 0, "{} rows in groups of {}", picks, args.taps);
  CHECK(args.weights.empty() || args.weights.size() == args.rows.size(), "{} weights for {} rows",
        args.weights.size(), picks);
  check_matrix("x", args.x, args.x.rows(), args.x.cols());
  check_matrix("out", args.out, picks / args.taps, args.x.cols());
  for (const std::int32_t row : args.rows)
    CHECK(row >= 0 && row < args.x.rows(), "row {} of {}", row, args.x.rows());
}

void check_shapes(const ScatterRowsArgs& args) {
  check_matrix("x", args.x, static_cast<std::int64_t>(args.rows.size()), args.out.cols());
  check_matrix("out", args.out, args.out.rows(), args.out.cols());
  CHECK(is_float(args.x.dtype()) && is_float(args.out.dtype()), "scatter {} to {}",
        name_of(args.x.dtype()), name_of(args.out.dtype()));
  for (const std::int32_t row : args.rows)
    CHECK(row >= 0 && row < args.out.rows(), "row {} of {}", row, args.out.rows());
}

void check_add_shapes(View x, View y) {
  check_matrix("y", y, y.rows(), y.cols());
  check_matrix("x", x, x.rows() == 1 ? 1 : y.rows(), y.cols());
}

}  // namespace saccade

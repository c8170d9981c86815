#include <algorithm>
#include <string>

#include "base/rng.h"
#include "benchmarks/gpu/attention_case.h"
#include "benchmarks/gpu/model_widths.h"
#include "benchmarks/gpu/parts.h"

namespace saccade {
namespace {

// Rows up to which a product goes through kRotated of weights in turn.
constexpr std::int64_t kFewRows = 64;
// Of a decode whose keys many blocks share.
constexpr std::int64_t kLongContext = 32768;

// What a model asks of a product beside the product.
struct Epilogue {
  bool bias = false;
  bool residual = false;
  Activation activation = Activation::kNone;

  std::string name() const {
    std::string text = bias ? ", bias" : "";
    if (activation == Activation::kQuickGelu) text += ", quick GELU";
    if (activation == Activation::kGeluErf) text += ", GELU";
    if (activation == Activation::kGeluTanh) text += ", tanh GELU";
    return text + (residual ? ", residual" : "");
  }
  // For torch: what peers.py calls the activation.
  int number() const {
    if (activation == Activation::kGeluErf) return 1;
    if (activation == Activation::kGeluTanh) return 2;
    return activation == Activation::kQuickGelu ? 3 : 0;
  }
};

struct Extents {
  std::int64_t rows, in, out;
};

class OpTable {
 public:
  // `own`: on the same device, with the own kernels' attention alone.
  OpTable(DeviceBench& bench, DeviceBench& own) : bench_(bench), own_(own) {}

  void run() {
    if (bench_.rehearsal()) {
      of_width(kRehearsed, {1, 17});
      tower(9, 1, 32, 2, 16, 48);
      tower_attention(130, 1, 1, 64);
      return;
    }
    of_width(kWidths7B, {1, 16, 17, 64, 65, 128, 256, 512, 2048, 8192});
    tower(5476, 1, 1280, 16, 80, 5120);   // one megapixel of Qwen2-VL
    tower(5476, 86, 1280, 16, 80, 5120);  // and in windows
    tower_attention(5476, 1, 16, 64);     // the same with heads of 64
    tower_attention(4096, 1, 16, 72);     // 896 x 896 of SigLIP
    paged("attention phi3 1 x 2048 rows after 0", {1, 2048, 0, 32, 32, 96});
    tower_attention(5125, 5, 16, 64);  // five tiles of InternVL
    of_width(kWidths2B, {1, 16, 17, 64, 512, 2048});
  }

 private:
  void add(const std::string& name, double seconds, double bytes, double flops,
           const std::string& note = {}) {
    bench_.figures().add("ops", name, {{"seconds", seconds}, {"bytes", bytes}, {"flops", flops}},
                         note);
  }

  // The same weights, a row count after the other.
  void gemm(const std::string& name, const std::vector<std::int64_t>& rows, std::int64_t in,
            std::int64_t out, const Epilogue& epilogue = {}, DType result = DType::kBf16) {
    if (bench_.over()) return;
    const std::int64_t bytes = 2 * in * out;
    const bool few = rows.front() <= kFewRows && !bench_.rehearsal();
    const std::int64_t copies = few ? std::max<std::int64_t>(1, kRotated / bytes) : 1;
    std::vector<std::unique_ptr<PackedWeight>> weights;
    for (std::int64_t i = 0; i < copies; ++i) weights.push_back(bench_.weight(out, in));
    const DeviceMatrix bias = bench_.random(1, out, DType::kF32);
    for (const std::int64_t m : rows) {
      if (bench_.over()) return;
      const DeviceMatrix x = bench_.random(m, in, DType::kBf16);
      const DeviceMatrix y = bench_.empty(m, out, result);
      GemmArgs args;
      args.x = x.view;
      args.y = y.view;
      args.activation = epilogue.activation;
      if (epilogue.bias) args.bias = bias.view;
      // Into numbers that stay small: y itself would grow from call to call.
      const DeviceMatrix residual = bench_.random(epilogue.residual ? m : 1, out, result);
      if (epilogue.residual) args.residual = residual.view;
      std::size_t next = 0;
      const double took = bench_.time([&] {
        args.weight = weights[next++ % weights.size()].get();
        bench_.stream().gemm(args);
      });
      add_product(fmt::format("product {}{} rows {}", name, epilogue.name(), m), {m, in, out},
                  epilogue, result, took);
    }
  }

  // The note is the shape, for those who measure the same elsewhere.
  void add_product(const std::string& name, const Extents& of, const Epilogue& epilogue,
                   DType result, double took) {
    const auto m = static_cast<double>(of.rows);
    const auto in = static_cast<double>(of.in);
    const auto out = static_cast<double>(of.out);
    const double results = (epilogue.residual ? 2 : 1) * static_cast<double>(size_of(result));
    add(name, took, 2 * in * out + m * (2 * in + results * out), 2 * m * in * out,
        epilogue.bias ? fmt::format("biased {} {} {} {}", of.rows, of.in, of.out, epilogue.number())
                      : fmt::format("linear {} {} {}", of.rows, of.in, of.out));
  }

  void paged(const std::string& name, const AttentionShape& shape) {
    paged(bench_, name, shape);
    if (may_differ(shape.rows, shape.head_dim) && shape.cache == DType::kBf16)
      paged(own_, name, shape);
  }

  void paged(DeviceBench& bench, const std::string& name, const AttentionShape& shape) {
    if (bench_.over()) return;
    AttentionCase attention(bench, shape, true);
    const double took = bench.time([&] { attention.run(); });
    bench.stream().retire();
    if (is_coded(shape.cache) || &bench == &own_)
      return add(name + by(bench), took, attention.bytes(), attention.flops());
    if (shape.longest > 0) return add(name, took, attention.bytes(), attention.flops());
    add(name, took, attention.bytes(), attention.flops(),
        fmt::format("causal {} {} {} {} {} {}", shape.sequences, shape.rows, shape.context,
                    shape.heads, shape.kv_heads, shape.head_dim));
  }

  const char* by(const DeviceBench& bench) const {
    return &bench == &own_ ? ", by the own kernel" : "";
  }
  // Whether a library's attention may have been measured: where there is one, beside the own one.
  bool may_differ(std::int64_t rows, std::int64_t head_dim) const {
    return rows >= 128 &&
           (head_dim == 64 || head_dim == 72 || head_dim == 80 || head_dim == 96 ||
            head_dim == 128 || head_dim == 256) &&
           (bench_.rehearsal() || bench_.device().description() != own_.device().description());
  }

  void of_width(const ModelWidths& w, const std::vector<std::int64_t>& rows) {
    gemm(fmt::format("{} gate_up", w.name), rows, w.hidden, 2 * w.inner);
    gemm(fmt::format("{} down", w.name), rows, w.inner, w.hidden, {.residual = true});
    gemm(fmt::format("{} qkv", w.name), rows, w.hidden, w.qkv(), {.bias = true});
    gemm(fmt::format("{} out", w.name), rows, w.heads * w.head_dim, w.hidden, {.residual = true});
    std::vector<std::int64_t> few = rows;
    std::erase_if(few, [](std::int64_t m) { return m > kFewRows; });
    gemm(fmt::format("{} head", w.name), few, w.hidden, w.vocab, {}, DType::kF32);
    const auto attention = [&](std::int64_t sequences, std::int64_t count, std::int64_t context) {
      paged(fmt::format("attention {} {} x {} rows after {}", w.name, sequences, count, context),
            {sequences, count, context, w.heads, w.kv_heads, w.head_dim});
    };
    const auto over_bytes = [&](std::int64_t sequences, std::int64_t count, std::int64_t context) {
      for (const DType cache : {DType::kI8, DType::kE4m3})
        paged(fmt::format("attention {} {} x {} rows after {} over {}", w.name, sequences, count,
                          context, name_of(cache)),
              {sequences, count, context, w.heads, w.kv_heads, w.head_dim, cache});
    };
    if (bench_.rehearsal()) {
      attention(2, 1, 20);
      attention(1, 1, 2100);
      paged("attention rehearsal 2 x 1 rows after 20, 1 after 70",
            {3, 1, 20, w.heads, w.kv_heads, w.head_dim, DType::kBf16, 70});
      attention(1, 9, 0);
      paged("attention rehearsal 1 x 130 rows of 64", {1, 130, 0, 1, 1, 64});
      over_bytes(2, 1, 20);
    } else {
      for (const std::int64_t length : {512, 2048, 8192}) attention(1, length, 0);
      for (const std::int64_t sequences : {1, 8, 64}) attention(sequences, 1, 1024);
      attention(1, 1, 8192);
      for (const std::int64_t sequences : {1, 8}) attention(sequences, 1, kLongContext);
      // One long sequence among many short ones: a step is as long as its dearest block.
      paged(fmt::format("attention {} 127 x 1 rows after 1024, 1 after {}", w.name, kLongContext),
            {128, 1, 1024, w.heads, w.kv_heads, w.head_dim, DType::kBf16, kLongContext});
      attention(4, 512, 2048);
      for (const std::int64_t sequences : {1, 64}) over_bytes(sequences, 1, 1024);
      over_bytes(1, 1, 8192);
      over_bytes(1, 1, kLongContext);
      over_bytes(4, 512, 2048);
    }
    for (const std::int64_t m : rows)
      if (bench_.rehearsal() || m == 1 || m == 64 || m >= 2048) rows_of(w, m);
  }

  template <typename Op>
  void row_op(const ModelWidths& w, const char* name, std::int64_t rows, double bytes,
              const Op& op) {
    if (bench_.over()) return;
    add(fmt::format("{} {} rows {}", name, w.name, rows), bench_.time(op), bytes, 0);
  }

  void rows_of(const ModelWidths& w, std::int64_t m) {
    if (bench_.over()) return;
    Stream& stream = bench_.stream();
    const DeviceMatrix x = bench_.random(m, w.hidden, DType::kBf16);
    const DeviceMatrix y = bench_.random(m, w.hidden, DType::kBf16, 1e-6f);
    const DeviceMatrix z = bench_.empty(m, w.hidden, DType::kBf16);
    const DeviceMatrix scale = bench_.random(1, w.hidden, DType::kF32);
    const double wide = 2.0 * static_cast<double>(m * w.hidden);
    row_op(w, "norm after add", m, 4 * wide, [&] {
      NormArgs args;
      args.x = x.view;
      args.add = y.view;
      args.weight = scale.view;
      args.out = z.view;
      stream.norm(args);
    });
    const DeviceMatrix gate_up = bench_.random(m, 2 * w.inner, DType::kBf16);
    const DeviceMatrix inner = bench_.empty(m, w.inner, DType::kBf16);
    row_op(w, "gated silu", m, 6.0 * static_cast<double>(m * w.inner), [&] {
      stream.gated({gate_up.view.col_range(0, w.inner),
                    gate_up.view.col_range(w.inner, 2 * w.inner), Activation::kSilu, inner.view});
    });
    const DeviceMatrix q = bench_.random(m, w.heads * w.head_dim, DType::kBf16);
    const DeviceMatrix cos = bench_.random(m, w.head_dim / 2, DType::kF32);
    const DeviceMatrix sin = bench_.random(m, w.head_dim / 2, DType::kF32);
    row_op(w, "rope", m, 4.0 * static_cast<double>(m * w.heads * w.head_dim),
           [&] { stream.rope({q.view, w.head_dim, cos.view, sin.view}); });
    if (m > 64) return;
    const DeviceMatrix logits = bench_.random(m, w.vocab, DType::kF32, 8);
    const DeviceMatrix stats = bench_.empty(m, sizeof(RowStats), DType::kU8);
    const double table = 4.0 * static_cast<double>(m * w.vocab);
    row_op(w, "row_stats", m, table, [&] { stream.row_stats(logits.view, stats.view); });
    const DeviceMatrix sampled = bench_.empty(m, sizeof(SampledToken), DType::kU8);
    const auto sample = [&](const char* name, double temperature, double top_p,
                            std::int64_t top_k) {
      std::vector<SamplingRow> wanted;
      for (std::int64_t row = 0; row < m; ++row) {
        SamplingRow& each = wanted.emplace_back();
        each.row = row;
        each.temperature = temperature;
        each.top_p = top_p;
        each.top_k = top_k;
        each.draw = static_cast<std::uint64_t>(row) * 77;
      }
      row_op(w, name, m, table, [&] {
        stream.sample({.logits = logits.view,
                       .stats = stats.view,
                       .rows = wanted,
                       .last_tokens = {},
                       .sampled = sampled.view,
                       .alternatives = {}});
        stream.retire();
      });
    };
    sample("sample greedy", 0, 1, 0);
    sample("sample T 1", 1, 1, 0);
    sample("sample top_k 20", 1, 1, 20);
    sample("sample top_k 1", 1, 1, 1);
    sample("sample top_p 0.9", 0.7, 0.9, 0);
  }

  // One layer's products and attention of a vision tower.
  void tower(std::int64_t rows, std::int64_t segments, std::int64_t width, std::int64_t heads,
             std::int64_t head_dim, std::int64_t inner) {
    if (bench_.over()) return;
    if (segments == 1) {
      // As the model has them, and without what it has beside.
      gemm("tower qkv", {rows}, width, 3 * width);
      gemm("tower qkv", {rows}, width, 3 * width, {.bias = true});
      gemm("tower out", {rows}, width, width, {.bias = true, .residual = true});
      gemm("tower fc1", {rows}, width, inner);
      gemm("tower fc1", {rows}, width, inner, {.bias = true, .activation = Activation::kQuickGelu});
      gemm("tower fc1", {rows}, width, inner, {.bias = true, .activation = Activation::kGeluTanh});
      gemm("tower fc2", {rows}, inner, width);
      gemm("tower fc2", {rows}, inner, width, {.bias = true, .residual = true});
    }
    tower_attention(rows, segments, heads, head_dim);
  }

  void tower_attention(std::int64_t rows, std::int64_t segments, std::int64_t heads,
                       std::int64_t head_dim) {
    tower_attention(bench_, rows, segments, heads, head_dim);
    if (may_differ(rows / segments, head_dim))
      tower_attention(own_, rows, segments, heads, head_dim);
  }

  void tower_attention(DeviceBench& bench, std::int64_t rows, std::int64_t segments,
                       std::int64_t heads, std::int64_t head_dim) {
    if (bench_.over()) return;
    const DeviceMatrix q = bench.random(rows, heads * head_dim, DType::kBf16);
    const DeviceMatrix k = bench.random(rows, heads * head_dim, DType::kBf16);
    const DeviceMatrix v = bench.random(rows, heads * head_dim, DType::kBf16);
    const DeviceMatrix out = bench.empty(rows, heads * head_dim, DType::kBf16);
    std::vector<std::int32_t> begins;
    double pairs = 0;
    for (std::int64_t i = 0; i <= segments; ++i) {
      begins.push_back(static_cast<std::int32_t>(rows * i / segments));
      if (i == 0) continue;
      const double length = begins.back() - begins[begins.size() - 2];
      pairs += length * length;
    }
    SegmentAttentionArgs args;
    args.plan = &bench.stream().plan_segments(
        begins, {.heads = heads, .kv_heads = heads, .head_dim = head_dim});
    args.q = q.view;
    args.k = k.view;
    args.v = v.view;
    args.scale = 1 / std::sqrt(static_cast<float>(head_dim));
    args.compute = DType::kBf16;
    args.out = out.view;
    const double took = bench.time([&] { bench.stream().segment_attention(args); });
    bench.stream().retire();
    const auto columns = static_cast<double>(heads * head_dim);
    add(fmt::format("attention tower {} rows in {}, {} heads of {}{}", rows, segments, heads,
                    head_dim, by(bench)),
        took, 8 * static_cast<double>(rows) * columns, 4 * pairs * columns,
        &bench == &own_ ? "" : fmt::format("full {} {} {} {}", rows, segments, heads, head_dim));
  }

  DeviceBench& bench_;
  DeviceBench& own_;
};

}  // namespace

Result<void> measure_ops(DeviceBench& bench, DeviceBench& own) {
  OpTable(bench, own).run();
  measure_codes(bench);
  measure_experts(bench);
  measure_recurrence(bench);
  return {};
}

}  // namespace saccade

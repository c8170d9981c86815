#include <cstring>
#include <vector>

#include "benchmarks/gpu/attention_case.h"
#include "benchmarks/gpu/model_widths.h"
#include "benchmarks/gpu/parts.h"

namespace saccade {
namespace {

struct Tally {
  int cases = 0;
  int unequal = 0;
  std::string first;  // that was unequal

  void count(bool equal, const std::string& name) {
    ++cases;
    if (equal) return;
    ++unequal;
    if (first.empty()) first = name;
  }
};

bool same_row(const Buffer& one, std::int64_t row, const Buffer& other, std::int64_t other_row,
              std::size_t row_bytes) {
  return std::memcmp(one.data() + static_cast<std::size_t>(row) * row_bytes,
                     other.data() + static_cast<std::size_t>(other_row) * row_bytes,
                     row_bytes) == 0;
}

// Row r of the product of all rows, against row r of a product of `count` rows that begins at it,
// and of one that ends with it.
void products(DeviceBench& bench, const char* name, std::int64_t in, std::int64_t out,
              const std::vector<std::int64_t>& counts, Tally& tally) {
  const auto weight = bench.weight(out, in);
  const std::int64_t rows = counts.back();
  const DeviceMatrix x = bench.random(rows, in, DType::kBf16);
  const DeviceMatrix y = bench.empty(rows, out, DType::kBf16);
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    GemmArgs args;
    args.x = x.view.row_range(begin, end);
    args.weight = weight.get();
    args.y = y.view.row_range(begin, end);
    bench.stream().gemm(args);
    return bench.download(args.y);
  };
  const Buffer all = run(0, rows);
  const std::size_t row_bytes = static_cast<std::size_t>(out) * size_of(DType::kBf16);
  for (const std::int64_t count : counts) {
    if (bench.over()) return;
    for (const std::int64_t begin : {std::int64_t{0}, rows - count}) {
      const Buffer part = run(begin, begin + count);
      bool equal = true;
      for (std::int64_t row = 0; row < count; ++row)
        equal = equal && same_row(all, begin + row, part, row, row_bytes);
      tally.count(equal, fmt::format("{}: rows [{}, {}) of {}", name, begin, begin + count, rows));
    }
  }
}

// Each sequence alone against all together.
void attention(DeviceBench& bench, const AttentionShape& shape, Tally& tally) {
  AttentionCase all(bench, shape);
  all.run();
  const Buffer together = bench.download(all.out());
  const std::size_t row_bytes =
      static_cast<std::size_t>(shape.heads * shape.head_dim) * size_of(DType::kBf16);
  for (std::int64_t s = 0; s < shape.sequences && !bench.over(); ++s) {
    all.plan(s, 1);
    all.run();
    const Buffer alone = bench.download(all.args().out);
    bool equal = true;
    for (std::int64_t row = 0; row < shape.rows; ++row)
      equal = equal && same_row(together, s * shape.rows + row, alone, row, row_bytes);
    tally.count(equal, fmt::format("sequence {} of {}, {} rows after {}", s, shape.sequences,
                                   shape.rows, shape.context));
  }
  bench.stream().retire();
}

}  // namespace

Result<void> probe_batch_invariance(DeviceBench& bench) {
  const ModelWidths& w = bench.rehearsal() ? kRehearsed : kWidths7B;
  const std::vector<std::int64_t> counts =
      bench.rehearsal()
          ? std::vector<std::int64_t>{1, 3, 20}
          : std::vector<std::int64_t>{1, 2, 3, 7, 8, 16, 17, 64, 65, 128, 500, 2048, 8192};
  const auto report = [&](const char* name, const Tally& tally) {
    bench.figures().add("invariance", name, {{"cases", tally.cases}, {"unequal", tally.unequal}},
                        tally.first);
  };
  Tally of_products;
  products(bench, "qkv", w.hidden, w.qkv(), counts, of_products);
  products(bench, "down", w.inner, w.hidden, counts, of_products);
  report("products", of_products);
  Tally of_attention;
  if (bench.rehearsal()) {
    attention(bench, {3, 1, 20, w.heads, w.kv_heads, w.head_dim}, of_attention);
  } else {
    attention(bench, {64, 1, 1000, w.heads, w.kv_heads, w.head_dim}, of_attention);
    attention(bench, {8, 100, 1000, w.heads, w.kv_heads, w.head_dim}, of_attention);
  }
  report("attention", of_attention);
  if (of_products.unequal + of_attention.unequal > 0)
    return fail(ErrorCode::kInternal, "rows depend on their batch: {}{}{}", of_products.first,
                of_products.first.empty() || of_attention.first.empty() ? "" : "; ",
                of_attention.first);
  return {};
}

}  // namespace saccade

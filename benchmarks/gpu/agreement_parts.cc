// Numbers at real shapes: the own kernels' against sums in double precision at places picked at
// random, and a library's against the own kernels' everywhere.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/rng.h"
#include "benchmarks/gpu/attention_case.h"
#include "benchmarks/gpu/model_widths.h"
#include "benchmarks/gpu/parts.h"

namespace saccade {
namespace {

// Of rows whose results are rounded to bf16 once: norm of the difference over the norm. Attention
// rounds its weights too.
constexpr double kProductBound = 4e-3;
constexpr double kAttentionBound = 1e-2;

struct Agreement {
  int cases = 0;
  int beyond = 0;
  double worst = 0;
  std::string worst_case;

  void take(double error, double bound, const std::string& name) {
    ++cases;
    if (!(error <= bound)) ++beyond;
    if (error <= worst) return;
    worst = error;
    worst_case = name;
  }
};

std::vector<float> numbers_of(DeviceBench& bench, View from) {
  const Buffer bytes = bench.download(from);
  const View host = bytes.view(from.dtype(), from.rows(), from.cols());
  std::vector<float> values(static_cast<std::size_t>(from.rows() * from.cols()));
  for (std::int64_t row = 0; row < from.rows(); ++row)
    for (std::int64_t col = 0; col < from.cols(); ++col)
      values[static_cast<std::size_t>(row * from.cols() + col)] =
          to_float(host.row<Bf16>(row)[col]);
  return values;
}

double relative(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference / size);
}

class AgreementTable {
 public:
  AgreementTable(DeviceBench& library, DeviceBench& own) : library_(library), own_(own) {}

  void product(const char* name, std::int64_t rows, std::int64_t in, std::int64_t out) {
    if (library_.over()) return;
    const std::string said = fmt::format("{} of {} rows", name, rows);
    const auto run = [&](DeviceBench& bench) {
      const auto weight = bench.weight(out, in);
      const DeviceMatrix x = bench.random(rows, in, DType::kBf16);
      const DeviceMatrix y = bench.empty(rows, out, DType::kBf16);
      GemmArgs args;
      args.x = x.view;
      args.weight = weight.get();
      args.y = y.view;
      bench.stream().gemm(args);
      return numbers_of(bench, y.view);
    };
    const std::vector<float> by_own = run(own_);
    products_.take(relative(run(library_), by_own), 2 * kProductBound, said);
    in_double_.take(against_double(rows, in, out, by_own), kProductBound, said);
  }

  void attention(const AttentionShape& shape) {
    if (library_.over()) return;
    AttentionCase one(library_, shape);
    one.run();
    AttentionCase other(own_, shape);
    other.run();
    attention_.take(relative(numbers_of(library_, one.out()), numbers_of(own_, other.out())),
                    kAttentionBound,
                    fmt::format("{} x {} rows after {}, heads of {}", shape.sequences, shape.rows,
                                shape.context, shape.head_dim));
    library_.stream().retire();
    own_.stream().retire();
  }

  // Of a tower: so many segments of `rows` in all.
  void segments(std::int64_t rows, std::int64_t count, std::int64_t heads, std::int64_t head_dim) {
    if (library_.over()) return;
    std::vector<std::int32_t> begins;
    for (std::int64_t i = 0; i <= count; ++i)
      begins.push_back(static_cast<std::int32_t>(rows * i / count));
    const auto run = [&](DeviceBench& bench) {
      const auto random = [&] { return bench.random(rows, heads * head_dim, DType::kBf16); };
      const DeviceMatrix q = random();
      const DeviceMatrix k = random();
      const DeviceMatrix v = random();
      const DeviceMatrix out = bench.empty(rows, heads * head_dim, DType::kBf16);
      SegmentAttentionArgs args;
      args.plan = &bench.stream().plan_segments(
          begins, {.heads = heads, .kv_heads = heads, .head_dim = head_dim});
      args.q = q.view;
      args.k = k.view;
      args.v = v.view;
      args.scale = 1 / std::sqrt(static_cast<float>(head_dim));
      args.compute = DType::kBf16;
      args.out = out.view;
      bench.stream().segment_attention(args);
      std::vector<float> numbers = numbers_of(bench, out.view);
      bench.stream().retire();
      return numbers;
    };
    const std::vector<float> by_own = run(own_);
    attention_.take(relative(run(library_), by_own), kAttentionBound,
                    fmt::format("{} rows in {}, {} heads of {}", rows, count, heads, head_dim));
  }

  Result<void> report() {
    const auto add = [&](const char* name, const Agreement& of) {
      library_.figures().add("agreement", name,
                             {{"cases", of.cases}, {"beyond", of.beyond}, {"worst", of.worst}},
                             of.worst_case);
    };
    add("products: own kernel against double", in_double_);
    add("products: library against own kernel", products_);
    add("attention: library against own kernel", attention_);
    if (in_double_.beyond + products_.beyond + attention_.beyond > 0)
      return fail(ErrorCode::kInternal, "numbers beyond their bound: {} {} {}",
                  in_double_.worst_case, products_.worst_case, attention_.worst_case);
    return {};
  }

 private:
  // What DeviceBench::weight and random() hold, multiplied again at some places.
  double against_double(std::int64_t rows, std::int64_t in, std::int64_t out,
                        const std::vector<float>& got) {
    constexpr int kPlaces = 200;
    const DeviceMatrix x = own_.random(rows, in, DType::kBf16);
    const std::vector<float> x_values = numbers_of(own_, x.view);
    Rng rng(11);
    double difference = 0;
    double size = 0;
    for (int i = 0; i < kPlaces; ++i) {
      const auto row = static_cast<std::int64_t>(rng.uniform() * static_cast<double>(rows));
      const auto col = static_cast<std::int64_t>(rng.uniform() * static_cast<double>(out));
      double sum = 0;
      for (std::int64_t k = 0; k < in; ++k)
        sum += static_cast<double>(x_values[static_cast<std::size_t>(row * in + k)]) *
               own_.weight_at(in, col, k);
      difference += std::pow(got[static_cast<std::size_t>(row * out + col)] - sum, 2);
      size += sum * sum;
    }
    return std::sqrt(difference / size);
  }

  DeviceBench& library_;
  DeviceBench& own_;
  Agreement in_double_;
  Agreement products_;
  Agreement attention_;
};

}  // namespace

Result<void> measure_agreement(DeviceBench& library, DeviceBench& own) {
  AgreementTable table(library, own);
  const bool rehearsal = library.rehearsal();
  const ModelWidths& w = rehearsal ? kRehearsed : kWidths2B;
  const std::vector<std::int64_t> rows =
      rehearsal ? std::vector<std::int64_t>{1, 17}
                : std::vector<std::int64_t>{1, 16, 17, 64, 65, 257, 2048};
  for (const std::int64_t m : rows) {
    table.product("qkv", m, w.hidden, w.qkv());
    table.product("gate_up", m, w.hidden, 2 * w.inner);
    table.product("down", m, w.inner, w.hidden);
  }
  if (rehearsal) {
    table.attention({2, 3, 20, w.heads, w.kv_heads, w.head_dim});
    table.segments(130, 1, 1, 64);
    return table.report();
  }
  for (const std::int64_t head_dim : {64, 80, 96, 128, 256})
    for (const std::int64_t count : {1, 16, 128, 130, 2048})
      for (const std::int64_t context : {0, 1000})
        table.attention({2, count, context, w.heads, w.kv_heads, head_dim});
  table.attention({1, 130, 32768, w.heads, w.kv_heads, w.head_dim});
  for (const std::int64_t head_dim : {64, 72, 80, 96, 128}) {
    table.segments(130, 1, 16, head_dim);
    table.segments(5476, 1, 16, head_dim);
    table.segments(5125, 5, 16, head_dim);
  }
  return table.report();
}

}  // namespace saccade

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "benchmarks/gpu/model_widths.h"
#include "benchmarks/gpu/parts.h"

namespace saccade {
namespace {

constexpr std::int64_t kGroup = 128;
// So few rows that no 4-bit weight is dequantised for a library, under any class of row counts.
constexpr std::int64_t kMaxFew = 256;

// A weight as a checkpoint would have it: codes and scales of nothing in particular.
class StoredCodes {
 public:
  StoredCodes(StoredMatrix::Format format, std::int64_t out, std::int64_t in)
      : scales_(static_cast<std::size_t>((out + kGroup - 1) * ((in + kGroup - 1) / kGroup)),
                0.01F) {
    const bool e4m3 = format == StoredMatrix::Format::kE4m3;
    codes_.resize(static_cast<std::size_t>(e4m3 ? out * in : out * in / 2));
    for (std::size_t i = 0; i < codes_.size(); ++i)
      codes_[i] = static_cast<std::byte>(i * 2654435761U >> 13 & 0x77);
    zeros_.resize(scales_.size());
    matrix_.format = format;
    matrix_.stored_out = matrix_.out_end = out;
    matrix_.stored_in = matrix_.in_end = in;
    matrix_.codes = {e4m3 ? DType::kU8 : DType::kI32, codes_};
    matrix_.scales = {DType::kF32, std::as_bytes(std::span(scales_))};
    matrix_.zeros = {DType::kI32, std::as_bytes(std::span(zeros_))};
    matrix_.group = matrix_.block_out = matrix_.block_in = kGroup;
  }
  // Of E4M3: one scale an output, not one a block.
  void scale_outputs() {
    matrix_.block_out = 1;
    matrix_.block_in = matrix_.stored_in;
  }
  const StoredMatrix& matrix() const { return matrix_; }

 private:
  std::vector<std::byte> codes_;
  std::vector<float> scales_;
  std::vector<std::uint32_t> zeros_;
  StoredMatrix matrix_;
};

struct Product {
  std::string form;
  const char* name;
  std::int64_t in, out;
  std::int64_t weight_bytes;
};

// One form of a weight, a row count after the other. The share of the roof is that of bf16's.
void product(DeviceBench& bench, const Product& of, const std::vector<std::int64_t>& rows,
             const std::function<std::unique_ptr<PackedWeight>()>& weight) {
  if (bench.over() || rows.empty()) return;
  const bool few = rows.front() <= 64 && !bench.rehearsal();
  const std::int64_t copies = few ? std::max<std::int64_t>(1, kRotated / of.weight_bytes) : 1;
  std::vector<std::unique_ptr<PackedWeight>> weights;
  for (std::int64_t i = 0; i < copies; ++i) weights.push_back(weight());
  for (const std::int64_t m : rows) {
    if (bench.over()) return;
    const DeviceMatrix x = bench.random(m, of.in, DType::kBf16);
    const DeviceMatrix y = bench.empty(m, of.out, DType::kBf16);
    GemmArgs args;
    args.x = x.view;
    args.y = y.view;
    std::size_t next = 0;
    const double took = bench.time([&] {
      args.weight = weights[next++ % weights.size()].get();
      bench.stream().gemm(args);
    });
    const auto count = static_cast<double>(m);
    bench.figures().add(
        "ops", fmt::format("{} {} rows {}", of.form, of.name, m),
        {{"seconds", took},
         {"bytes",
          static_cast<double>(of.weight_bytes) + 2 * count * static_cast<double>(of.in + of.out)},
         {"flops", 2 * count * static_cast<double>(of.in) * static_cast<double>(of.out)}});
  }
}

std::vector<std::int64_t> above(const std::vector<std::int64_t>& rows, std::int64_t least) {
  std::vector<std::int64_t> kept;
  std::ranges::copy_if(rows, std::back_inserter(kept), [&](std::int64_t m) { return m > least; });
  return kept;
}

// `every`: of four bits, whose own kernel multiplies few rows and the library many; `some`: of the
// others.
void every_form(DeviceBench& bench, const char* name, std::int64_t in, std::int64_t out,
                const std::vector<std::int64_t>& every, const std::vector<std::int64_t>& some) {
  const auto kept = [&](const std::string& form, StoredMatrix::Format format, std::int64_t bytes,
                        const std::vector<std::int64_t>& rows) {
    if (bench.over()) return;
    const StoredCodes stored(format, out, in);
    const auto as = [&](const std::string& way, DType compute,
                        const std::vector<std::int64_t>& of_rows) {
      product(bench, {way, name, in, out, bytes}, of_rows,
              [&] { return bench.device().pack({&stored.matrix(), 1}, compute); });
    };
    // Of many rows both ways: weights that may not be rounded to bf16 are the own kernel's.
    as(form, DType::kBf16, rows);
    as(form + " by the own kernel", DType::kF32, above(rows, kMaxFew));
  };
  kept("four bits", StoredMatrix::Format::kGptq, in * out / 2, every);
  // Of bytes the rounding of the rows is part of it.
  product(bench, {"bytes", name, in, out, in * out}, some,
          [&] { return bench.weight(out, in, DType::kI8); });
  kept("e4m3", StoredMatrix::Format::kE4m3, in * out, some);
  // Activations are E4M3 too; their rounding is part of it.
  for (const bool blocks : {false, true}) {
    if (bench.over()) return;
    StoredCodes stored(StoredMatrix::Format::kE4m3, out, in);
    if (!blocks) stored.scale_outputs();
    product(bench, {blocks ? "w8a8 blocks" : "w8a8 rows", name, in, out, in * out}, some,
            [&] { return bench.device().pack({&stored.matrix(), 1}, DType::kE4m3); });
  }
}

}  // namespace

void measure_codes(DeviceBench& bench) {
  const ModelWidths& w = bench.rehearsal() ? kRehearsed : kWidths7B;
  using Rows = std::vector<std::int64_t>;
  const Rows every =
      bench.rehearsal() ? Rows{1, 17, 257} : Rows{1, 16, 17, 32, 33, 64, 65, 128, 256, 2048, 8192};
  const Rows some = bench.rehearsal() ? every : Rows{1, 64, 2048, 8192};
  every_form(bench, "gate_up", w.hidden, 2 * w.inner, every, some);
  every_form(bench, "down", w.inner, w.hidden, every, some);
}

}  // namespace saccade

// The slow twin: every op in double precision, in the order of its definition. It is the oracle of
// the kernel tests and the plainest statement of what each op means.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/host_memory.h"
#include "ops/formats/e4m3_rows.h"
#include "ops/formats/int8_rows.h"
#include "ops/host_stream.h"
#include "ops/reference/reference_attention.h"
#include "ops/reference/reference_recurrence.h"
#include "ops/reference/reference_sampling.h"
#include "ops/reference/view_numbers.h"
#include "ops/shapes.h"

namespace saccade {

using namespace reference;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return x;
}

class ReferenceWeight final : public PackedWeight {
 public:
  ReferenceWeight(std::int64_t out, std::int64_t in)
      : PackedWeight(out, in), values(static_cast<std::size_t>(out * in)) {}
  std::size_t bytes() const override { return values.size() * sizeof(float); }
  DType operand_dtype() const override {
    if (group > 0) return DType::kE4m3;
    return codes.empty() && !rounds_x ? DType::kF32 : DType::kI8;
  }
  double at(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row * in() + col)];
  }
  // Of a row and x, which is codes where the weights are.
  double dot(std::int64_t row, std::span<const double> x) const {
    const std::int64_t begin = row * in();
    if (codes.empty()) return std::inner_product(x.begin(), x.end(), values.begin() + begin, 0.0);
    return std::inner_product(x.begin(), x.end(), codes.begin() + begin, 0.0) *
           scales[static_cast<std::size_t>(row)];
  }
  // Of kI8: the codes of row r stand for code * scales[r]. Those of parts that are bytes already
  // are what they are.
  void round_to_bytes(std::span<const StoredMatrix> parts) {
    codes.resize(values.size());
    const auto count = static_cast<std::size_t>(in());
    for (const StoredMatrix& part : parts) {
      for (std::int64_t row = 0; row < part.out(); ++row) {
        const std::size_t begin = scales.size() * count;
        const std::span<std::int8_t> rounded = std::span(codes).subspan(begin, count);
        scales.push_back(has_byte_rows(part)
                             ? copy_byte_row(part, row, rounded)
                             : round_weights(std::span(values).subspan(begin, count), rounded));
        for (std::size_t i = 0; i < count; ++i)
          values[begin + i] = static_cast<float>(rounded[i]) * scales.back();
      }
    }
  }
  std::vector<float> values;  // [out, in]
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  bool rounds_x = false;   // to bytes, though weights are numbers
  std::int64_t group = 0;  // of kE4m3: rows of activations become such numbers, by groups
  float input_scale = 0;
};

// A row of activations becomes codes; returns their scale.
double round_to_bytes(std::vector<double>& x) {
  const std::vector<float> row(x.begin(), x.end());
  std::vector<std::int8_t> codes(x.size());
  const float scale = round_activations(row, codes);
  x.assign(codes.begin(), codes.end());
  return scale;
}

// A row of activations becomes numbers of E4M3 times the scale of their group.
void round_groups(std::vector<double>& x, const ReferenceWeight& weight) {
  const std::vector<float> row(x.begin(), x.end());
  std::vector<std::uint8_t> codes(x.size());
  const auto length = static_cast<std::size_t>(weight.group);
  for (std::size_t begin = 0; begin < x.size(); begin += length) {
    const std::size_t count = std::min(length, x.size() - begin);
    const float scale = round_to_e4m3(std::span(row).subspan(begin, count),
                                      std::span(codes).subspan(begin, count), weight.input_scale);
    for (std::size_t i = begin; i < begin + count; ++i)
      x[i] = static_cast<double>(to_float(E4m3{codes[i]})) * scale;
  }
}

// x W^T + bias, where there is one.
std::vector<double> product(const PackedWeight& packed, std::vector<double> x, View bias = {}) {
  const auto& weight = static_cast<const ReferenceWeight&>(packed);
  const bool bytes = weight.rounds_x || !weight.codes.empty();
  const double scale = bytes ? round_to_bytes(x) : 1;
  if (weight.group > 0) round_groups(x, weight);
  std::vector<double> sums;
  for (std::int64_t out = 0; out < weight.out(); ++out)
    sums.push_back(weight.dot(out, x) * scale + (bias.empty() ? 0 : get(bias, 0, out)));
  return sums;
}

// act(sums), or of twice as many as `width` act(gate) * up.
std::vector<double> activated(Activation activation, std::vector<double> sums, std::int64_t width) {
  const auto count = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < count; ++i)
    sums[i] = activate(activation, sums[i]) * (sums.size() > count ? sums[count + i] : 1);
  sums.resize(count);
  return sums;
}

class ReferenceStream final : public HostStream {
 public:
  explicit ReferenceStream(Device& device) : device_(device) {}
  Device& device() override { return device_; }

  void copy(View from, View to) override {
    check_copy_shapes(from, to);
    for (std::int64_t row = 0; row < to.rows(); ++row) {
      if (from.dtype() == to.dtype()) {
        std::memcpy(to.row_range(row, row + 1).data(), from.row_range(row, row + 1).data(),
                    static_cast<std::size_t>(to.cols()) * size_of(to.dtype()));
      } else {
        for (std::int64_t col = 0; col < to.cols(); ++col) set(to, row, col, get(from, row, col));
      }
    }
  }

  void gemm(const GemmArgs& args) override {
    check_shapes(args);
    const auto& weight = static_cast<const ReferenceWeight&>(*args.weight);
    for (std::int64_t row = 0; row < args.y.rows(); ++row) {
      const std::vector<double> sums = product(weight, row_of(args.x, row), args.bias);
      for (std::int64_t out = 0; out < weight.out(); ++out) {
        const double y = activate(args.activation, sums[static_cast<std::size_t>(out)]);
        set(args.y, row, out, args.residual.empty() ? y : y + get(args.residual, row, out));
      }
    }
  }

  void norm(const NormArgs& args) override {
    check_shapes(args);
    const std::int64_t cols = args.x.cols();
    const std::int64_t group = args.group > 0 ? args.group : cols;
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      if (!args.add.empty()) {
        for (std::int64_t col = 0; col < cols; ++col)
          set(args.x, row, col, get(args.x, row, col) + get(args.add, row, col));
      }
      for (std::int64_t begin = 0; begin < cols; begin += group)
        norm_group(args, row, begin, begin + group);
    }
  }

  void rope_table(const RopeTableArgs& args) override {
    check_shapes(args);
    for (std::int64_t row = 0; row < args.cos.rows(); ++row) {
      const float* inv_freq = args.inv_freq.row<float>(args.tables.empty() ? 0 : args.tables[row]);
      for (std::int64_t pair = 0; pair < args.inv_freq.cols(); ++pair) {
        const std::int64_t axis = args.axis.empty() ? 0 : args.axis.row<std::uint8_t>(0)[pair];
        const auto position = static_cast<float>(args.positions[axis * args.cos.rows() + row]);
        // Published models round the angle to f32; at large positions that is the largest error
        // of all, so it belongs to the definition.
        const float angle = position * inv_freq[pair];
        set(args.cos, row, pair, std::cos(static_cast<double>(angle)) * args.scale);
        set(args.sin, row, pair, std::sin(static_cast<double>(angle)) * args.scale);
      }
    }
  }

  void rope(const RopeArgs& args) override {
    check_shapes(args);
    const std::int64_t pairs = args.cos.cols();
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      for (std::int64_t head = 0; head < args.x.cols(); head += args.head_dim) {
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
          const double a = get(args.x, row, head + pair);
          const double b = get(args.x, row, head + pair + pairs);
          const double cos = get(args.cos, row, pair);
          const double sin = get(args.sin, row, pair);
          set(args.x, row, head + pair, a * cos - b * sin);
          set(args.x, row, head + pair + pairs, b * cos + a * sin);
        }
      }
    }
  }

  void kv_write(const KvWriteArgs& args) override {
    check_shapes(args);
    reference_kv_write(args);
  }
  void paged_attention(const PagedAttentionArgs& args) override {
    check_shapes(args);
    reference_paged_attention(args);
  }
  void segment_attention(const SegmentAttentionArgs& args) override {
    check_shapes(args);
    reference_segment_attention(args);
  }

  void gated(const GatedArgs& args) override {
    check_shapes(args);
    for (std::int64_t row = 0; row < args.out.rows(); ++row)
      for (std::int64_t col = 0; col < args.out.cols(); ++col)
        set(args.out, row, col,
            activate(args.activation, get(args.gate, row, col)) * get(args.up, row, col));
  }

  void mlp(const MlpArgs& args) override {
    check_shapes(args);
    for (std::int64_t row = 0; row < args.y.rows(); ++row) {
      const std::vector<double> y =
          product(*args.out,
                  activated(args.activation, product(*args.in, row_of(args.x, row), args.in_bias),
                            args.out->in()),
                  args.out_bias);
      for (std::int64_t col = 0; col < args.y.cols(); ++col)
        set(args.y, row, col,
            y[static_cast<std::size_t>(col)] +
                (args.residual.empty() ? 0 : get(args.residual, row, col)));
    }
  }

  void experts(const ExpertsArgs& args) override {
    check_shapes(args);
    for (std::int64_t row = 0; row < args.x.rows(); ++row) {
      std::vector<std::pair<double, std::int64_t>> likeliest;  // -logit, expert
      double total = 0;
      for (std::int64_t e = 0; e < args.logits.cols(); ++e) {
        likeliest.emplace_back(-get(args.logits, row, e), e);
        total += std::exp(get(args.logits, row, e));
      }
      std::ranges::sort(likeliest);
      likeliest.resize(static_cast<std::size_t>(args.per_row));
      double chosen = 0;
      for (const auto& [logit, expert] : likeliest) chosen += std::exp(-logit);
      std::vector<double> sum(static_cast<std::size_t>(args.y.cols()));
      for (const auto& [logit, expert] : likeliest) {
        const double weight = std::exp(-logit) / (args.normalise ? chosen : total);
        const ExpertWeights& of = args.experts[static_cast<std::size_t>(expert)];
        const std::vector<double> term = product(
            *of.down,
            activated(args.activation, product(*of.gate_up, row_of(args.x, row)), of.down->in()));
        for (std::size_t col = 0; col < sum.size(); ++col) sum[col] += weight * term[col];
      }
      for (std::int64_t col = 0; col < args.y.cols(); ++col)
        set(args.y, row, col,
            sum[static_cast<std::size_t>(col)] + (args.add ? get(args.y, row, col) : 0));
    }
  }

  void causal_conv(const CausalConvArgs& args) override {
    check_shapes(args);
    reference_causal_conv(args, activate);
  }
  void delta_rule(const DeltaRuleArgs& args) override {
    check_shapes(args);
    reference_delta_rule(args);
  }

  void embed(const EmbedArgs& args) override {
    check_shapes(args);
    const auto* packed = static_cast<const ReferenceWeight*>(args.packed);
    for (std::int64_t row = 0; row < args.out.rows(); ++row) {
      const std::int64_t given = args.ids[row];
      const std::int64_t id = given >= 0 ? given : *args.last_tokens.row<std::int32_t>(-1 - given);
      for (std::int64_t col = 0; col < args.out.cols(); ++col)
        set(args.out, row, col,
            (packed != nullptr ? packed->at(id, col) : get(args.table, id, col)) * args.scale);
    }
  }

  void mix_rows(const MixRowsArgs& args) override {
    check_shapes(args);
    for (std::int64_t row = 0; row < args.out.rows(); ++row) {
      for (std::int64_t col = 0; col < args.out.cols(); ++col) {
        double sum = 0;
        for (std::int64_t tap = 0; tap < args.taps; ++tap) {
          const std::int64_t pick = row * args.taps + tap;
          const double weight = args.weights.empty() ? 1 : args.weights[pick];
          sum += weight * get(args.x, args.rows[pick], col);
        }
        set(args.out, row, col, sum);
      }
    }
  }

  void copy_rows(const CopyRowsArgs& args) override {
    check_shapes(args);
    for (std::int64_t i = 0; i < args.count(); ++i) {
      const std::int64_t from = args.from_rows.empty() ? i : args.from_rows[i];
      const std::int64_t to = args.to_rows.empty() ? i : args.to_rows[i];
      for (std::int64_t col = 0; to >= 0 && col < args.to.cols(); ++col) {
        const double value = get(args.from, from, col);
        set(args.to, to, col, args.add ? get(args.to, to, col) + value : value);
      }
    }
  }

  void add(View x, View y, float scale) override {
    check_add_shapes(x, y);
    for (std::int64_t row = 0; row < y.rows(); ++row)
      for (std::int64_t col = 0; col < y.cols(); ++col)
        set(y, row, col, get(y, row, col) + scale * get(x, x.rows() == 1 ? 0 : row, col));
  }

  void softcap(View x, float cap) override {
    for (std::int64_t row = 0; row < x.rows(); ++row)
      for (std::int64_t col = 0; col < x.cols(); ++col)
        set(x, row, col, cap * std::tanh(get(x, row, col) / cap));
  }

  void row_stats(View logits, View out) override {
    check_row_stats_shapes(logits, out);
    for (std::int64_t row = 0; row < logits.rows(); ++row) {
      RowStats stats{0, -kInfinity, 0};
      for (std::int64_t col = 0; col < logits.cols(); ++col) {
        const auto logit = static_cast<float>(get(logits, row, col));
        if (logit > stats.max) {
          stats.max = logit;
          stats.argmax = static_cast<std::int32_t>(col);
        }
      }
      double total = 0;
      for (std::int64_t col = 0; col < logits.cols(); ++col)
        total += stats.max == -kInfinity ? 0 : std::exp(get(logits, row, col) - stats.max);
      stats.log_sum_exp = static_cast<float>(stats.max + std::log(total));
      std::memcpy(out.row<std::uint8_t>(row), &stats, sizeof(stats));
    }
  }

  void sample(const SampleArgs& args) override {
    check_shapes(args);
    for (std::size_t i = 0; i < args.rows.size(); ++i) {
      const LogitsRow of = logits_row(args, i);
      keep_sampled(args, i, reference_sample(of.logits, of.stats, args.rows[i], of.alternatives));
    }
  }

 private:
  // Columns [begin, end) of a row.
  static void norm_group(const NormArgs& args, std::int64_t row, std::int64_t begin,
                         std::int64_t end) {
    const auto count = static_cast<double>(end - begin);
    double mean = 0;
    for (std::int64_t col = begin; args.subtract_mean && col < end; ++col)
      mean += get(args.x, row, col) / count;
    double variance = 0;
    for (std::int64_t col = begin; col < end; ++col)
      variance += std::pow(get(args.x, row, col) - mean, 2) / count;
    const double scale = 1 / std::sqrt(variance + args.epsilon);
    for (std::int64_t col = begin; col < end; ++col) {
      const double weight = args.weight_offset + get(args.weight, 0, col);
      const double bias = args.bias.empty() ? 0 : get(args.bias, 0, col);
      set(args.out, row, col, (get(args.x, row, col) - mean) * scale * weight + bias);
    }
  }

  Device& device_;
};

class ReferenceDevice final : public Device {
 public:
  explicit ReferenceDevice(bool multiplies_e4m3) : multiplies_e4m3_(multiplies_e4m3) {}
  std::string_view name() const override { return "reference"; }
  std::string description() const override { return "reference, double precision, 1 thread"; }
  DType activation_dtype() const override { return DType::kF32; }
  ThreadPool& pool() override { return pool_; }
  Result<Buffer> allocate(std::size_t bytes, Space) override { return allocate_host(bytes); }
  Space space() const override { return Space::kHost; }
  std::int64_t free_bytes() const override { return available_host_bytes(); }
  bool multiplies_int8() const override { return true; }
  bool multiplies_w4a8() const override { return true; }
  bool multiplies_e4m3() const override { return multiplies_e4m3_; }
  bool caches(DType) const override { return true; }
  bool has_experts() const override { return true; }
  bool has_recurrence() const override { return true; }
  bool cuts_patches() const override { return true; }
  Stream& lane(Lane lane) override { return lanes_[static_cast<std::size_t>(lane)]; }

  std::unique_ptr<TokenCounts> count_tokens(std::span<const std::int32_t> prompt) override {
    return std::make_unique<ReferenceTokenCounts>(prompt);
  }

  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override {
    check_shapes(parts, compute);
    const std::int64_t in = parts.front().in();
    std::int64_t out = 0;
    for (const StoredMatrix& part : parts) out += part.out();
    auto packed = std::make_unique<ReferenceWeight>(out, in);
    float* next = packed->values.data();
    for (const StoredMatrix& part : parts) {
      StoredMatrixReader(part).read(0, part.out(), 0, in, next, in);
      next += part.out() * in;
    }
    if (compute == DType::kE4m3) packed->group = shared_e4m3_group(parts);
    packed->input_scale = shared_input_scale(parts);
    if (compute == DType::kBf16 || (compute == DType::kE4m3 && packed->group == 0)) {
      for (float& value : packed->values) value = to_float(to_bf16(value));
    }
    packed->rounds_x = std::ranges::all_of(parts, [](const StoredMatrix& part) {
      return part.rounds_activations && (codes_of_bits(part) <= 4 || has_super_blocks(part));
    });
    if (compute == DType::kI8) packed->round_to_bytes(parts);
    return packed;
  }

 private:
  bool multiplies_e4m3_;
  ThreadPool pool_{1};
  std::array<ReferenceStream, kLanes> lanes_{ReferenceStream(*this), ReferenceStream(*this),
                                             ReferenceStream(*this)};
};

}  // namespace

std::unique_ptr<Device> make_reference_device(bool multiplies_e4m3) {
  return std::make_unique<ReferenceDevice>(multiplies_e4m3);
}

}  // namespace saccade

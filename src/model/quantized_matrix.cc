#include "model/quantized_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "model/safetensors.h"

namespace saccade {
namespace {

constexpr std::int64_t kTileOut = 128;
constexpr std::int64_t kTileIn = 64;
constexpr std::int64_t kMostExtent = std::int64_t{1} << 24;
constexpr std::int64_t kWordBits = 32;

// Where AWQ's kernels want output o of eight: in this nibble of the word.
constexpr std::array<int, 8> kAwqNibble = {0, 4, 1, 5, 2, 6, 3, 7};

// float8_e4m3fn: no infinities; all ones is NaN.
constexpr std::array<float, 256> make_e4m3() {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15;
    const int mantissa = code & 7;
    float value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
    for (int i = exponent == 0 ? 1 : exponent; i < 10; ++i) value /= 2;
    for (int i = 10; i < exponent; ++i) value *= 2;
    if (exponent == 15 && mantissa == 7) value = std::numeric_limits<float>::quiet_NaN();
    values[static_cast<std::size_t>(code)] = code < 128 ? value : -value;
  }
  return values;
}
constexpr std::array<float, 256> kE4m3 = make_e4m3();

template <typename T>
T load(const StoredTensor& from, std::int64_t index) {
  T value;
  std::memcpy(&value, from.bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

float load_float(const StoredTensor& from, std::int64_t index) {
  if (from.dtype == "F32") return load<float>(from, index);
  if (from.dtype == "F16") return to_float(load<F16>(from, index));
  return to_float(load<Bf16>(from, index));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Result<void> expect(const StoredTensor& tensor, std::string_view name,
                    std::span<const std::int64_t> shape) {
  if (!std::ranges::equal(tensor.shape, shape))
    return fail(ErrorCode::kCorrupt, "{} is {}, the others make it {}", name,
                shape_text(tensor.shape), shape_text(shape));
  return {};
}

Result<void> expect_type(const StoredTensor& tensor, std::string_view name,
                         std::initializer_list<std::string_view> types) {
  if (std::ranges::find(types, tensor.dtype) != types.end()) return {};
  return fail(ErrorCode::kUnsupported, "{} is {}; {} is read", name,
              tensor.dtype.empty() ? "missing" : tensor.dtype, fmt::join(types, ", "));
}

// Two extents small enough that their products fit.
Result<void> expect_matrix(const StoredTensor& tensor, std::string_view name) {
  const bool fits =
      tensor.shape.size() == 2 &&
      std::ranges::all_of(tensor.shape, [](std::int64_t n) { return n >= 1 && n <= kMostExtent; });
  if (fits) return {};
  return fail(ErrorCode::kCorrupt, "{} is {}, a matrix of sides up to {} is required", name,
              shape_text(tensor.shape), kMostExtent);
}

// 1 in each of a word's fields.
std::uint32_t ones(int bits) {
  std::uint32_t word = 0;
  for (int at = 0; at < kWordBits; at += bits) word |= 1u << at;
  return word;
}

void store_row(const float* from, View into, std::int64_t row, std::int64_t begin,
               std::int64_t count) {
  if (into.dtype() == DType::kF32) {
    std::memcpy(into.row<float>(row) + begin, from,
                static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  Bf16* const to = into.row<Bf16>(row) + begin;
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}

}  // namespace

// [groups, cols]: integers have a column an output; fp8 one an output or one a block of them.
struct QuantizedMatrix::Grid {
  std::vector<float> scales;
  std::vector<std::uint8_t> zeros;
  std::vector<std::int32_t> group_of;  // each input's
};

Result<QuantizedMatrix> QuantizedMatrix::create(const Quantization& quantization,
                                                const Parts& parts) {
  QuantizedMatrix matrix(quantization, parts);
  if (quantization.method == QuantMethod::kFp8) {
    TRY_DO(matrix.check_floats());
  } else {
    TRY_DO(matrix.check_integers());
  }
  return matrix;
}

Result<void> QuantizedMatrix::check_integers() {
  TRY_DO(expect_type(parts_.codes, "qweight", {"I32"}));
  TRY_DO(expect_type(parts_.zeros, "qzeros", {"I32"}));
  TRY_DO(expect_type(parts_.scales, "scales", {"F16", "BF16", "F32"}));
  TRY_DO(expect_matrix(parts_.codes, "qweight"));
  const std::int64_t per_word = kWordBits / quantization_.bits;
  const bool awq = quantization_.method == QuantMethod::kAwq;
  in_ = parts_.codes.shape[0] * (awq ? 1 : per_word);
  out_ = parts_.codes.shape[1] * (awq ? per_word : 1);
  if (out_ % per_word != 0)
    return fail(ErrorCode::kCorrupt, "qweight is {}: {} outputs do not fill words of {}",
                shape_text(parts_.codes.shape), out_, per_word);
  const std::int64_t group = quantization_.group == 0 ? in_ : quantization_.group;
  if (awq && in_ % group != 0)
    return fail(ErrorCode::kCorrupt, "qweight is {}: {} inputs are no multiple of group_size {}",
                shape_text(parts_.codes.shape), in_, group);
  groups_ = ceil_div(in_, group);
  scale_cols_ = out_;
  TRY_DO(expect(parts_.scales, "scales", std::array{groups_, out_}));
  TRY_DO(expect(parts_.zeros, "qzeros", std::array{groups_, out_ / per_word}));
  return parts_.order.dtype.empty() ? Result<void>{} : check_order();
}

Result<void> QuantizedMatrix::check_order() const {
  TRY_DO(expect_type(parts_.order, "g_idx", {"I32"}));
  TRY_DO(expect(parts_.order, "g_idx", std::array{in_}));
  for (std::int64_t i = 0; i < in_; ++i) {
    const auto group = load<std::int32_t>(parts_.order, i);
    if (group < 0 || group >= groups_)
      return fail(ErrorCode::kCorrupt, "g_idx of input {} is {}, there are {} groups", i, group,
                  groups_);
  }
  return {};
}

Result<void> QuantizedMatrix::check_floats() {
  TRY_DO(expect_type(parts_.codes, "weight", {"F8_E4M3"}));
  TRY_DO(expect_type(parts_.scales, "its scale", {"F32", "BF16", "F16"}));
  TRY_DO(expect_matrix(parts_.codes, "weight"));
  out_ = parts_.codes.shape[0];
  in_ = parts_.codes.shape[1];
  const std::span<const std::int64_t> scale = parts_.scales.shape;
  if (quantization_.block_out > 0 && scale.size() == 2) {
    groups_ = ceil_div(out_, quantization_.block_out);
    scale_cols_ = ceil_div(in_, quantization_.block_in);
    return expect(parts_.scales, "its scale", std::array{groups_, scale_cols_});
  }
  // From here on the blocks are whole rows, or the whole matrix.
  const std::int64_t count = scale.empty() ? 1 : scale[0];
  const bool column = scale.size() < 2 || (scale.size() == 2 && scale[1] == 1);
  if (!column || (count != 1 && count != out_))
    return fail(ErrorCode::kCorrupt, "its scale is {}: neither one, nor one for each of {} outputs",
                shape_text(scale), out_);
  groups_ = count;
  quantization_.block_out = count == 1 ? out_ : 1;
  quantization_.block_in = in_;
  return {};
}

QuantizedMatrix::Grid QuantizedMatrix::read_grid() const {
  Grid grid;
  const auto count = static_cast<std::size_t>(groups_ * scale_cols_);
  grid.scales.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    grid.scales[i] = load_float(parts_.scales, static_cast<std::int64_t>(i));
  if (quantization_.method == QuantMethod::kFp8) return grid;

  const int bits = quantization_.bits;
  const std::int64_t per_word = kWordBits / bits;
  const std::uint32_t mask = (1u << bits) - 1;
  const auto words = static_cast<std::int64_t>(count) / per_word;
  // The first format's writer subtracts one from each field, borrowing between them: adding the
  // ones back to the whole word undoes it. Some files of the second format say they are of the
  // first; with symmetric zeros, which are all in the middle, they give themselves away.
  const std::uint32_t middle = ones(bits) << (bits - 1);
  bool shifted = quantization_.zeros_less_one;
  if (shifted && quantization_.symmetric) {
    shifted = false;
    for (std::int64_t i = 0; i < words && !shifted; ++i)
      shifted = load<std::uint32_t>(parts_.zeros, i) != middle;
  }
  grid.zeros.resize(count);
  const bool awq = quantization_.method == QuantMethod::kAwq;
  for (std::int64_t i = 0; i < words; ++i) {
    const std::uint32_t word = load<std::uint32_t>(parts_.zeros, i) + (shifted ? ones(bits) : 0);
    for (std::int64_t j = 0; j < per_word; ++j) {
      const int at = (awq ? kAwqNibble[static_cast<std::size_t>(j)] : static_cast<int>(j)) * bits;
      grid.zeros[static_cast<std::size_t>(i * per_word + j)] =
          static_cast<std::uint8_t>(word >> at & mask);
    }
  }
  grid.group_of.resize(static_cast<std::size_t>(in_));
  const std::int64_t group = quantization_.group == 0 ? in_ : quantization_.group;
  for (std::int64_t i = 0; i < in_; ++i)
    grid.group_of[static_cast<std::size_t>(i)] = parts_.order.dtype.empty()
                                                     ? static_cast<std::int32_t>(i / group)
                                                     : load<std::int32_t>(parts_.order, i);
  return grid;
}

void QuantizedMatrix::read_tile(const Grid& grid, std::int64_t out_begin, std::int64_t out_end,
                                std::int64_t in_begin, std::int64_t in_end, float* tile) const {
  if (quantization_.method == QuantMethod::kFp8) {
    for (std::int64_t o = out_begin; o < out_end; ++o) {
      const float* scales = grid.scales.data() + o / quantization_.block_out * scale_cols_;
      const std::byte* codes = parts_.codes.bytes.data() + o * in_;
      float* const row = tile + (o - out_begin) * kTileIn;
      for (std::int64_t i = in_begin; i < in_end; ++i)
        row[i - in_begin] =
            kE4m3[std::to_integer<std::size_t>(codes[i])] * scales[i / quantization_.block_in];
    }
    return;
  }
  const int bits = quantization_.bits;
  const std::int64_t per_word = kWordBits / bits;
  const std::uint32_t mask = (1u << bits) - 1;
  const bool awq = quantization_.method == QuantMethod::kAwq;
  for (std::int64_t i = in_begin; i < in_end; ++i) {
    const std::int64_t at = grid.group_of[static_cast<std::size_t>(i)] * out_;
    const float* scales = grid.scales.data() + at;
    const std::uint8_t* zeros = grid.zeros.data() + at;
    for (std::int64_t o = out_begin; o < out_end; ++o) {
      const std::uint32_t code =
          awq ? load<std::uint32_t>(parts_.codes, (i * out_ + o) / per_word) >>
                    (kAwqNibble[static_cast<std::size_t>(o % per_word)] * bits)
              : load<std::uint32_t>(parts_.codes, i / per_word * out_ + o) >> (i % per_word * bits);
      const int level = static_cast<int>(code & mask) - static_cast<int>(zeros[o]);
      tile[(o - out_begin) * kTileIn + i - in_begin] = static_cast<float>(level) * scales[o];
    }
  }
}

void QuantizedMatrix::dequantize(View into, ThreadPool& pool) const {
  CHECK(into.rows() == out_ && into.cols() == in_, "{}x{} into {}x{}", out_, in_, into.rows(),
        into.cols());
  const Grid grid = read_grid();
  pool.parallel_each(ceil_div(out_, kTileOut), [&](std::int64_t block, int) {
    alignas(64) std::array<float, kTileOut * kTileIn> tile;
    const std::int64_t out_begin = block * kTileOut;
    const std::int64_t out_end = std::min(out_begin + kTileOut, out_);
    for (std::int64_t begin = 0; begin < in_; begin += kTileIn) {
      const std::int64_t end = std::min(begin + kTileIn, in_);
      read_tile(grid, out_begin, out_end, begin, end, tile.data());
      for (std::int64_t o = out_begin; o < out_end; ++o)
        store_row(tile.data() + (o - out_begin) * kTileIn, into, o, begin, end - begin);
    }
  });
}

Result<QuantizedModules> find_quantized(
    const Quantization& quantization,
    const std::map<std::string, StoredTensor, std::less<>>& tensors) {
  QuantizedModules found;
  const bool floats = quantization.method == QuantMethod::kFp8;
  const std::string_view suffix = floats ? "weight" : "qweight";
  for (const auto& [name, tensor] : tensors) {
    for (const std::string_view unused : {".input_scale", ".output_scale", ".k_scale", ".v_scale",
                                          ".q_scale", ".kv_scale", ".input_zero_point"}) {
      if (name.ends_with(unused)) found.unused.push_back(name);
    }
    const bool codes = name.ends_with(suffix) && name.size() > suffix.size() &&
                       name[name.size() - suffix.size() - 1] == '.';
    if (!codes || (floats && tensor.dtype != "F8_E4M3")) continue;
    const std::string stem = name.substr(0, name.size() - suffix.size());

    QuantizedMatrix::Parts parts{.codes = tensor, .scales = {}, .zeros = {}, .order = {}};
    std::vector<std::string> used = {name};
    const auto add = [&](StoredTensor& into, std::string_view part) {
      const auto at = tensors.find(stem + std::string(part));
      if (at == tensors.end()) return;
      into = at->second;
      used.push_back(at->first);
    };
    if (floats) {
      add(parts.scales, "weight_scale");
      if (parts.scales.dtype.empty()) add(parts.scales, "weight_scale_inv");
    } else {
      add(parts.scales, "scales");
      add(parts.zeros, "qzeros");
      if (quantization.method == QuantMethod::kGptq) add(parts.order, "g_idx");
    }
    auto matrix = QuantizedMatrix::create(quantization, parts);
    if (!matrix)
      return fail_within(fmt::format("module \"{}\"", stem.substr(0, stem.size() - 1)),
                         std::move(matrix).error());
    found.modules.emplace(stem + "weight", QuantizedModule{*std::move(matrix), std::move(used)});
  }
  return found;
}

}  // namespace saccade

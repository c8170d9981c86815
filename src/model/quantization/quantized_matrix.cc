#include "model/quantization/quantized_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "base/rounding.h"
#include "model/checkpoint/safetensors.h"

namespace saccade {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 24;
constexpr std::int64_t kMaxExperts = 1 << 16;  // of a layer
constexpr std::int64_t kWordBits = 32;
// Of rows of activations: compressed-tensors' and AutoFP8's name, and transformers'.
constexpr std::array<std::string_view, 2> kInputScales = {"input_scale", "activation_scale"};

template <typename T>
T load_element(const StoredTensor& from, std::int64_t index) {
  T value;
  std::memcpy(&value, from.bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

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
      std::ranges::all_of(tensor.shape, [](std::int64_t n) { return n >= 1 && n <= kMaxExtent; });
  if (fits) return {};
  return fail(ErrorCode::kCorrupt, "{} is {}, a matrix of sides up to {} is required", name,
              shape_text(tensor.shape), kMaxExtent);
}

// The middle of the range in each of a word's fields.
std::uint32_t middles(int bits) {
  std::uint32_t word = 0;
  for (int at = bits - 1; at < kWordBits; at += bits) word |= 1u << at;
  return word;
}

// Some files of GPTQ's second format say they are of the first; with symmetric zeros, which are all
// in the middle, they give themselves away.
bool zeros_are_less_one(const Quantization& quantization, const StoredTensor& zeros) {
  if (!quantization.zeros_less_one || !quantization.symmetric) return quantization.zeros_less_one;
  const auto words = static_cast<std::int64_t>(zeros.bytes.size() / sizeof(std::uint32_t));
  const std::uint32_t middle = middles(quantization.bits);
  for (std::int64_t i = 0; i < words; ++i) {
    if (load_element<std::uint32_t>(zeros, i) != middle) return true;
  }
  return false;
}

Result<void> check_order(const StoredTensor& order, std::int64_t in, std::int64_t groups) {
  TRY_DO(expect_type(order, "g_idx", {"I32"}));
  TRY_DO(expect(order, "g_idx", std::array{in}));
  for (std::int64_t i = 0; i < in; ++i) {
    const auto group = load_element<std::int32_t>(order, i);
    if (group < 0 || group >= groups)
      return fail(ErrorCode::kCorrupt, "g_idx of input {} is {}, there are {} groups", i, group,
                  groups);
  }
  return {};
}

StoredValues numbers_of(const StoredTensor& tensor) {
  return {safetensors_dtype(tensor.dtype).value_or(DType::kU8), tensor.bytes};
}

StoredMatrix whole_matrix(StoredMatrix::Format format, const StoredTensor& codes, std::int64_t out,
                          std::int64_t in) {
  StoredMatrix matrix;
  matrix.format = format;
  matrix.codes = numbers_of(codes);
  matrix.stored_out = matrix.out_end = out;
  matrix.stored_in = matrix.in_end = in;
  return matrix;
}

Result<StoredMatrix> join_integers(const Quantization& quantization, const QuantizedParts& parts) {
  TRY_DO(expect_type(parts.codes, "qweight", {"I32"}));
  TRY_DO(expect_type(parts.zeros, "qzeros", {"I32"}));
  TRY_DO(expect_type(parts.scales, "scales", {"F16", "BF16", "F32"}));
  TRY_DO(expect_matrix(parts.codes, "qweight"));
  const std::int64_t per_word = kWordBits / quantization.bits;
  const bool awq = quantization.method == QuantMethod::kAwq;
  const std::int64_t in = parts.codes.shape[0] * (awq ? 1 : per_word);
  const std::int64_t out = parts.codes.shape[1] * (awq ? per_word : 1);
  if (out % per_word != 0)
    return fail(ErrorCode::kCorrupt, "qweight is {}: {} outputs do not fill words of {}",
                shape_text(parts.codes.shape), out, per_word);
  const std::int64_t group = quantization.group == 0 ? in : quantization.group;
  if (awq && in % group != 0)
    return fail(ErrorCode::kCorrupt, "qweight is {}: {} inputs are no multiple of group_size {}",
                shape_text(parts.codes.shape), in, group);
  const std::int64_t groups = ceil_div(in, group);
  TRY_DO(expect(parts.scales, "scales", std::array{groups, out}));
  TRY_DO(expect(parts.zeros, "qzeros", std::array{groups, out / per_word}));
  if (!parts.order.dtype.empty()) TRY_DO(check_order(parts.order, in, groups));

  StoredMatrix matrix = whole_matrix(awq ? StoredMatrix::Format::kAwq : StoredMatrix::Format::kGptq,
                                     parts.codes, out, in);
  matrix.bits = quantization.bits;
  matrix.scales = numbers_of(parts.scales);
  matrix.zeros = numbers_of(parts.zeros);
  matrix.zeros_less_one = zeros_are_less_one(quantization, parts.zeros);
  matrix.group = group;
  matrix.group_of = numbers_of(parts.order);
  return matrix;
}

// The size of a matrix's groups. Of several, all powers of two, the one that gives as many scales.
Result<std::int64_t> packed_group(const Quantization& quantization, const StoredTensor& scales,
                                  std::int64_t in) {
  if (quantization.group >= 0) return quantization.group == 0 ? in : quantization.group;
  const std::int64_t count = scales.shape.size() == 2 ? scales.shape[1] : 0;
  const std::int64_t group = count > 0 && in % count == 0 ? in / count : 0;
  if (group == 0 || (count > 1 && !std::has_single_bit(static_cast<std::uint64_t>(group))))
    return fail(ErrorCode::kCorrupt,
                "weight_scale is {}: {} inputs are no groups of 2, 4, 8 ... by it",
                shape_text(scales.shape), in);
  return group;
}

// compressed-tensors' words: rows are filled up to whole words, so their shape is a tensor.
Result<StoredMatrix> join_packed(const Quantization& quantization, const QuantizedParts& parts) {
  TRY_DO(expect_type(parts.codes, "weight_packed", {"I32"}));
  TRY_DO(expect_type(parts.scales, "weight_scale", {"F16", "BF16", "F32"}));
  TRY_DO(expect_type(parts.shape, "weight_shape", {"I64", "I32"}));
  TRY_DO(expect_matrix(parts.codes, "weight_packed"));
  TRY_DO(expect(parts.shape, "weight_shape", std::array{std::int64_t{2}}));
  const auto extent = [&](std::int64_t i) {
    return parts.shape.dtype == "I32" ? load_element<std::int32_t>(parts.shape, i)
                                      : load_element<std::int64_t>(parts.shape, i);
  };
  const std::int64_t per_word = kWordBits / quantization.bits;
  const std::int64_t out = extent(0);
  const std::int64_t in = extent(1);
  if (out != parts.codes.shape[0] || in < 1 || in > kMaxExtent ||
      ceil_div(in, per_word) != parts.codes.shape[1])
    return fail(ErrorCode::kCorrupt, "weight_shape says {} x {}, weight_packed is {}", out, in,
                shape_text(parts.codes.shape));
  TRY(const std::int64_t group, packed_group(quantization, parts.scales, in));
  const std::int64_t groups = ceil_div(in, group);
  TRY_DO(expect(parts.scales, "weight_scale", std::array{out, groups}));
  StoredMatrix matrix = whole_matrix(StoredMatrix::Format::kPacked, parts.codes, out, in);
  if (!quantization.symmetric) {
    TRY_DO(expect_type(parts.zeros, "weight_zero_point", {"I32"}));
    TRY_DO(expect(parts.zeros, "weight_zero_point", std::array{ceil_div(out, per_word), groups}));
    matrix.zeros = numbers_of(parts.zeros);
  }
  if (!parts.order.dtype.empty()) {
    TRY_DO(check_order(parts.order, in, groups));
    matrix.group_of = numbers_of(parts.order);
  }
  matrix.bits = quantization.bits;
  matrix.scales = numbers_of(parts.scales);
  matrix.group = group;
  return matrix;
}

// One number; 0 where it is none that scales anything.
Result<float> read_input_scale(const StoredTensor& scale) {
  TRY_DO(expect_type(scale, "input_scale", {"F32", "BF16", "F16"}));
  if (std::ranges::any_of(scale.shape, [](std::int64_t n) { return n != 1; }))
    return fail(ErrorCode::kCorrupt, "input_scale is {}, one number is required",
                shape_text(scale.shape));
  float value = 0;
  if (scale.dtype == "F32")
    value = load_element<float>(scale, 0);
  else if (scale.dtype == "BF16")
    value = to_float(load_element<Bf16>(scale, 0));
  else
    value = to_float(load_element<F16>(scale, 0));
  return std::isfinite(value) && value > 0 ? value : 0.0F;
}

// Bytes with a scale of each output or of all: floats and integers.
Result<StoredMatrix> join_bytes(const Quantization& quantization, const QuantizedParts& parts) {
  const bool floats = quantization.method == QuantMethod::kFp8;
  TRY_DO(expect_type(parts.codes, "weight", {floats ? "F8_E4M3" : "I8"}));
  // Scales of eight bits, powers of two, are written beside blocks of E4M3 (ue8m0).
  TRY_DO(floats ? expect_type(parts.scales, "its scale", {"F32", "BF16", "F16", "F8_E8M0"})
                : expect_type(parts.scales, "its scale", {"F32", "BF16", "F16"}));
  TRY_DO(expect_matrix(parts.codes, "weight"));
  StoredMatrix matrix =
      whole_matrix(floats ? StoredMatrix::Format::kE4m3 : StoredMatrix::Format::kInt8, parts.codes,
                   parts.codes.shape[0], parts.codes.shape[1]);
  matrix.rounds_activations = quantization.activations;
  matrix.scales = numbers_of(parts.scales);
  if (!parts.input_scale.dtype.empty()) {
    TRY(matrix.input_scale, read_input_scale(parts.input_scale));
  }
  const std::span<const std::int64_t> scale = parts.scales.shape;
  if (quantization.block_out > 0 && scale.size() == 2) {
    matrix.block_out = quantization.block_out;
    matrix.block_in = quantization.block_in;
    TRY_DO(expect(parts.scales, "its scale",
                  std::array{ceil_div(matrix.stored_out, matrix.block_out),
                             ceil_div(matrix.stored_in, matrix.block_in)}));
    return matrix;
  }
  // From here on the blocks are whole rows, or the whole matrix.
  const std::int64_t count = scale.empty() ? 1 : scale[0];
  const bool column = scale.size() < 2 || (scale.size() == 2 && scale[1] == 1);
  if (!column || (count != 1 && count != matrix.stored_out))
    return fail(ErrorCode::kCorrupt, "its scale is {}: neither one, nor one for each of {} outputs",
                shape_text(scale), matrix.stored_out);
  matrix.block_out = count == 1 ? matrix.stored_out : 1;
  matrix.block_in = matrix.stored_in;
  return matrix;
}

// Element `index` of the first extent.
StoredTensor slice(const StoredTensor& all, std::int64_t index) {
  if (all.shape.empty()) return all;
  const std::size_t bytes = all.bytes.size() / static_cast<std::size_t>(all.shape[0]);
  return {all.dtype, all.shape.subspan(1),
          all.bytes.subspan(static_cast<std::size_t>(index) * bytes, bytes)};
}

bool are_stacked_experts(std::string_view name, const StoredTensor& tensor) {
  return tensor.dtype == "F8_E4M3" && tensor.shape.size() == 3 && name.ends_with("_proj") &&
         name.find(".experts.") != std::string_view::npos;
}

// Of one tensor, [experts, outputs, inputs], and its scales, [experts] or more, each its own
// matrix.
Result<QuantizedModule> join_experts(
    const Quantization& quantization, const std::string& name,
    const std::map<std::string, StoredTensor, std::less<>>& tensors) {
  QuantizedModule module;
  const auto part = [&](std::string_view suffix) -> StoredTensor {
    const auto at = tensors.find(name + std::string(suffix));
    if (at == tensors.end()) return {};
    module.tensors.push_back(at->first);
    return at->second;
  };
  const StoredTensor codes = part("");
  StoredTensor scales = part("_scale_inv");
  if (scales.dtype.empty()) scales = part("_scale");
  const StoredTensor inputs =
      quantization.static_activations ? part("_activation_scale") : StoredTensor{};
  const std::int64_t count = codes.shape[0];
  if (count < 1 || count > kMaxExperts)
    return fail(ErrorCode::kCorrupt, "it is {}, 1 to {} experts are read", shape_text(codes.shape),
                kMaxExperts);
  for (const StoredTensor& one : {scales, inputs}) {
    if (!one.dtype.empty() && (one.shape.empty() || one.shape[0] != count))
      return fail(ErrorCode::kCorrupt, "a scale of it is {}, there are {} experts",
                  shape_text(one.shape), count);
  }
  for (std::int64_t e = 0; e < count; ++e) {
    QuantizedParts parts{
        .codes = slice(codes, e), .scales = slice(scales, e), .zeros = {}, .order = {}};
    parts.input_scale = slice(inputs, e);
    TRY(const StoredMatrix expert, join_parts(quantization, parts));
    module.experts.push_back(expert);
  }
  module.matrix = module.experts.front();
  return module;
}

}  // namespace

Result<StoredMatrix> join_parts(const Quantization& quantization, const QuantizedParts& parts) {
  switch (quantization.method) {
    case QuantMethod::kFp8:
    case QuantMethod::kInt8:
      return join_bytes(quantization, parts);
    case QuantMethod::kPacked:
      return join_packed(quantization, parts);
    case QuantMethod::kAwq:
    case QuantMethod::kGptq:
      break;
  }
  return join_integers(quantization, parts);
}

Result<QuantizedModules> find_quantized(
    const Quantization& quantization,
    const std::map<std::string, StoredTensor, std::less<>>& tensors) {
  QuantizedModules found;
  const bool bytes =
      quantization.method == QuantMethod::kFp8 || quantization.method == QuantMethod::kInt8;
  const bool packed = quantization.method == QuantMethod::kPacked;
  const std::string_view byte_type = quantization.method == QuantMethod::kFp8 ? "F8_E4M3" : "I8";
  const std::string_view suffix = bytes ? "weight" : packed ? "weight_packed" : "qweight";
  for (const auto& [name, tensor] : tensors) {
    for (const std::string_view unused :
         {".input_scale", ".activation_scale", ".output_scale", ".k_scale", ".v_scale", ".q_scale",
          ".kv_scale", ".input_zero_point", "_proj_activation_scale"}) {
      if (name.ends_with(unused)) found.unused.push_back(name);
    }
    if (quantization.method == QuantMethod::kFp8 && are_stacked_experts(name, tensor)) {
      auto module = join_experts(quantization, name, tensors);
      if (!module)
        return fail_within(fmt::format("experts \"{}\"", name), std::move(module).error());
      found.modules.emplace(name, *std::move(module));
      continue;
    }
    const bool codes = name.ends_with(suffix) && name.size() > suffix.size() &&
                       name[name.size() - suffix.size() - 1] == '.';
    if (!codes || (bytes && tensor.dtype != byte_type)) continue;
    const std::string stem = name.substr(0, name.size() - suffix.size());

    QuantizedParts parts{.codes = tensor, .scales = {}, .zeros = {}, .order = {}, .shape = {}};
    std::vector<std::string> used = {name};
    const auto add = [&](StoredTensor& into, std::string_view part) {
      const auto at = tensors.find(stem + std::string(part));
      if (at == tensors.end()) return;
      into = at->second;
      used.push_back(at->first);
    };
    if (bytes) {
      add(parts.scales, "weight_scale");
      if (parts.scales.dtype.empty()) add(parts.scales, "weight_scale_inv");
      for (const std::string_view input_scale : kInputScales) {
        if (quantization.static_activations && parts.input_scale.dtype.empty())
          add(parts.input_scale, input_scale);
      }
    } else if (packed) {
      add(parts.scales, "weight_scale");
      add(parts.zeros, "weight_zero_point");
      add(parts.order, "weight_g_idx");
      add(parts.shape, "weight_shape");
    } else {
      add(parts.scales, "scales");
      add(parts.zeros, "qzeros");
      if (quantization.method == QuantMethod::kGptq) add(parts.order, "g_idx");
    }
    auto matrix = join_parts(quantization, parts);
    if (!matrix)
      return fail_within(fmt::format("module \"{}\"", stem.substr(0, stem.size() - 1)),
                         std::move(matrix).error());
    found.modules.emplace(stem + "weight", QuantizedModule{*matrix, std::move(used)});
  }
  std::set<std::string_view> used;
  for (const auto& [name, module] : found.modules)
    used.insert(module.tensors.begin(), module.tensors.end());
  std::erase_if(found.unused, [&](const std::string& name) { return used.contains(name); });
  return found;
}

}  // namespace saccade

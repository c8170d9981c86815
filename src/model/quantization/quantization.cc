#include "model/quantization/quantization.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string_view>

#include "base/text/ascii.h"
#include "model/checkpoint/checkpoint.h"

namespace saccade {
namespace {

constexpr std::string_view kOtherForms =
    "give the original checkpoint, or one quantised as AWQ (gemm), GPTQ, fp8 or compressed-tensors";
constexpr std::int64_t kMaxGroup = std::int64_t{1} << 20;
constexpr std::int64_t kGroupByScales = -1;
constexpr std::int64_t kNoGroup = -2;  // before the first of config_groups

// Methods that people are likely to try, by a name that they know.
struct Refused {
  std::string_view method;
  std::string_view name;
};
constexpr std::array kRefused = {
    Refused{"bitsandbytes", "bitsandbytes"},
    Refused{"bitsandbytes_4bit", "bitsandbytes"},
    Refused{"bitsandbytes_8bit", "bitsandbytes"},
    Refused{"gguf", "GGUF"},
    Refused{"marlin", "Marlin's own layout"},
    Refused{"gptq_marlin", "Marlin's own layout"},
    Refused{"awq_marlin", "Marlin's own layout"},
    Refused{"fbgemm_fp8", "FBGEMM fp8"},
    Refused{"modelopt", "NVIDIA ModelOpt"},
    Refused{"auto-round", "AutoRound's own layout"},
    Refused{"intel/auto-round", "AutoRound's own layout"},
    Refused{"mxfp4", "MXFP4"},
};

tl::unexpected<Error> refuse(std::string_view what) {
  return fail(ErrorCode::kUnsupported, "quantization_config: {} is not read; {}", what,
              kOtherForms);
}

Result<const json::object*> find_section(const json::object& config) {
  for (const json::object* from : {&config, &text_section(config)}) {
    for (const std::string_view name : {"quantization_config", "compression_config"}) {
      const json::value* found = json::find(*from, name);
      if (found == nullptr) continue;
      if (!found->is_object())
        return fail(ErrorCode::kInvalid, "{} is {}, an object is required", name,
                    json::kind_name(*found));
      return &found->get_object();
    }
  }
  return nullptr;
}

// group_size: -1 is the whole input.
Result<std::int64_t> parse_group(const json::object& section, std::int64_t fallback) {
  TRY(const std::int64_t group, json::get_int_or(section, "group_size", fallback));
  if (group == -1) return 0;
  if (group < 1 || group > kMaxGroup)
    return fail(ErrorCode::kInvalid,
                "quantization_config: group_size is {}, -1 or 1 to {} is possible", group,
                kMaxGroup);
  return group;
}

Result<int> parse_bits(const json::object& section, std::initializer_list<int> known) {
  TRY(const std::int64_t bits, json::get_int_or(section, "bits", 4));
  if (std::ranges::find(known, bits) == known.end()) return refuse(fmt::format("bits {}", bits));
  return static_cast<int>(bits);
}

Result<Quantization> parse_awq(const json::object& section) {
  Quantization q{.method = QuantMethod::kAwq};
  TRY(q.bits, parse_bits(section, {4}));
  TRY(q.group, parse_group(section, 128));
  TRY(std::string version, json::get_string_or(section, "version", "gemm"));
  TRY(version, json::get_string_or(section, "format", version));
  version = ascii::lower(version);
  if (version != "gemm") return refuse(fmt::format("AWQ's version \"{}\"", version));
  TRY(const bool zeros, json::get_bool_or(section, "zero_point", true));
  if (!zeros) return refuse("AWQ without zero_point");
  return q;
}

Result<Quantization> parse_gptq(const json::object& section) {
  Quantization q{.method = QuantMethod::kGptq};
  TRY(q.bits, parse_bits(section, {2, 4, 8}));
  TRY(q.group, parse_group(section, -1));
  TRY(q.symmetric, json::get_bool_or(section, "sym", true));
  TRY(std::string format, json::get_string_or(section, "format", "gptq"));
  TRY(format, json::get_string_or(section, "checkpoint_format", format));
  TRY(const bool marlin, json::get_bool_or(section, "is_marlin_format", false));
  if (marlin || (format != "gptq" && format != "gptq_v2"))
    return refuse(fmt::format("GPTQ's checkpoint_format \"{}\"", marlin ? "marlin" : format));
  q.zeros_less_one = format == "gptq";
  TRY(const std::string words, json::get_string_or(section, "pack_dtype", "int32"));
  if (words != "int32") return refuse(fmt::format("GPTQ's pack_dtype \"{}\"", words));
  // GPTQModel's settings of single modules: patterns that exempt one begin with "-:".
  const json::value* dynamic = json::find(section, "dynamic");
  if (dynamic != nullptr && dynamic->is_object()) {
    for (const auto& member : dynamic->get_object()) {
      if (!std::string_view(member.key()).starts_with("-:"))
        return refuse(
            fmt::format("GPTQ's dynamic setting of \"{}\"", std::string_view(member.key())));
    }
  }
  return q;
}

// [outputs, inputs] that share a scale.
Result<void> parse_block(const json::value* block, Quantization& q) {
  if (block == nullptr) return {};
  const bool pair = block->is_array() && block->get_array().size() == 2;
  for (std::size_t i = 0; pair && i < 2; ++i) {
    const json::value& extent = block->get_array()[i];
    const std::int64_t value = extent.is_int64() ? extent.get_int64() : 0;
    if (value >= 1 && value <= kMaxGroup) (i == 0 ? q.block_out : q.block_in) = value;
  }
  if (q.block_out == 0 || q.block_in == 0)
    return fail(ErrorCode::kInvalid,
                "quantization_config: the block that shares a scale is not two lengths of 1 to {}",
                kMaxGroup);
  return {};
}

Result<Quantization> parse_fp8(const json::object& section) {
  Quantization q{.method = QuantMethod::kFp8, .bits = 8, .group = 0};
  TRY(const std::string format, json::get_string_or(section, "fmt", "e4m3"));
  if (format != "e4m3" && format != "float8_e4m3fn")
    return refuse(fmt::format("fp8's fmt \"{}\"", format));
  TRY_DO(parse_block(json::find(section, "weight_block_size"), q));
  TRY(const std::string name, json::get_string_or(section, "activation_scheme", "dynamic"));
  if (name != "dynamic" && name != "static")
    return refuse(fmt::format("fp8's activation_scheme \"{}\"", name));
  q.activations = true;
  q.static_activations = name == "static";
  return q;
}

// Floats of 8 bits.
Result<void> parse_float_weights(const json::object& w, Quantization& q) {
  TRY(const std::int64_t bits, json::get_int_or(w, "num_bits", 8));
  TRY(const std::string type, json::get_string_or(w, "type", "int"));
  TRY(const std::string strategy, json::get_string_or(w, "strategy", "tensor"));
  TRY(const bool symmetric, json::get_bool_or(w, "symmetric", true));
  if (type != "float" || bits != 8 || !symmetric)
    return refuse(fmt::format("compressed-tensors' {}{} of {} bits", symmetric ? "" : "asymmetric ",
                              type, bits));
  if (strategy == "block") return parse_block(json::find(w, "block_structure"), q);
  if (strategy != "tensor" && strategy != "channel")
    return refuse(fmt::format("compressed-tensors' strategy \"{}\"", strategy));
  return {};
}

// Integers in words (kPacked), or as bytes (kInt8).
Result<void> parse_int_weights(const json::object& w, Quantization& q) {
  TRY(const std::int64_t bits, json::get_int_or(w, "num_bits", 8));
  TRY(const std::string type, json::get_string_or(w, "type", "int"));
  TRY(const std::string strategy, json::get_string_or(w, "strategy", "tensor"));
  TRY(q.symmetric, json::get_bool_or(w, "symmetric", true));
  const bool packed = q.method == QuantMethod::kPacked;
  const bool known = type == "int" && (packed ? bits == 4 || bits == 8 : bits == 8 && q.symmetric);
  if (!known)
    return refuse(fmt::format("compressed-tensors' {}{} of {} bits",
                              q.symmetric ? "" : "asymmetric ", type, bits));
  q.bits = static_cast<int>(bits);
  if (strategy == "channel" || (!packed && strategy == "tensor")) {
    q.group = 0;
    return {};
  }
  if (!packed || strategy != "group")
    return refuse(fmt::format("compressed-tensors' strategy \"{}\"", strategy));
  TRY(q.group, parse_group(w, -1));
  return {};
}

// Whether a group's rows of activations become bytes of their own scale as they come; kUnsupported
// where something else is to be done to them.
Result<bool> parse_activations(const json::object& group) {
  const json::value* input = json::find(group, "input_activations");
  if (input == nullptr || !input->is_object()) return false;
  const json::object& a = input->get_object();
  TRY(const std::int64_t bits, json::get_int_or(a, "num_bits", 8));
  TRY(const std::string type, json::get_string_or(a, "type", "int"));
  TRY(const std::string strategy, json::get_string_or(a, "strategy", "tensor"));
  TRY(const bool symmetric, json::get_bool_or(a, "symmetric", true));
  TRY(const bool dynamic, json::get_bool_or(a, "dynamic", false));
  if (bits != 8 || type != "int" || strategy != "token" || !symmetric || !dynamic)
    return refuse(fmt::format("compressed-tensors' {}{}{} activations of {} bits by {}",
                              dynamic ? "" : "static ", symmetric ? "" : "asymmetric ", type, bits,
                              strategy));
  return true;
}

// The same for activations of weights that are floats, as e4m3_rows.h rounds them; others are left
// as they are.
void parse_float_activations(const json::object& group, Quantization& q) {
  const json::value* input = json::find(group, "input_activations");
  const json::object none;
  const json::object& a = input != nullptr && input->is_object() ? input->get_object() : none;
  const auto text = [&](std::string_view name) {
    const json::value* found = json::find(a, name);
    return found != nullptr && found->is_string() ? std::string_view(found->get_string())
                                                  : std::string_view();
  };
  const auto integer = [&](std::string_view name) {
    const json::value* found = json::find(a, name);
    return found != nullptr && found->is_int64() ? found->get_int64() : 0;
  };
  const auto flag = [&](std::string_view name, bool fallback) {
    const json::value* found = json::find(a, name);
    return found == nullptr ? fallback : found->is_bool() && found->get_bool();
  };
  const std::string_view strategy = text("strategy");
  const bool dynamic = flag("dynamic", false);
  const bool floats =
      text("type") == "float" && integer("num_bits") == 8 && flag("symmetric", true);
  const bool by_row = q.block_in == 0 && (strategy == "tensor" || (strategy == "token" && dynamic));
  const bool by_group =
      q.block_in > 0 && strategy == "group" && dynamic && integer("group_size") == q.block_in;
  q.activations = q.activations && floats && (by_row || by_group);
  q.static_activations = q.activations && !dynamic;
}

// The same, whichever the group, but for what it says.
Result<void> parse_config_group(const json::value& group, Quantization& q) {
  const json::value* weights =
      group.is_object() ? json::find(group.get_object(), "weights") : nullptr;
  if (weights == nullptr || !weights->is_object())
    return fail(ErrorCode::kInvalid,
                "quantization_config: a member of config_groups has no weights");
  if (q.method == QuantMethod::kFp8) {
    TRY_DO(parse_float_weights(weights->get_object(), q));
    parse_float_activations(group.get_object(), q);
    return {};
  }
  const Quantization before = q;
  TRY_DO(parse_int_weights(weights->get_object(), q));
  TRY(q.activations, parse_activations(group.get_object()));
  if (q.activations && q.method == QuantMethod::kPacked)
    return refuse(
        fmt::format("compressed-tensors' weights of {} bits with activations of 8", q.bits));
  if (before.group == kNoGroup) return {};  // the first
  if (q.bits != before.bits || q.symmetric != before.symmetric ||
      q.activations != before.activations)
    return refuse("compressed-tensors' config_groups that differ");
  if (q.group == before.group) return {};
  // How many scales a row has tells powers of two apart, whichever modules are of which size.
  const bool several = before.group == kGroupByScales;
  const bool known = std::has_single_bit(static_cast<std::uint64_t>(q.group)) &&
                     (several || std::has_single_bit(static_cast<std::uint64_t>(before.group)));
  if (!known)
    return refuse(fmt::format("compressed-tensors' config_groups of {} and {} inputs", before.group,
                              q.group));
  q.group = kGroupByScales;
  return {};
}

Result<Quantization> parse_compressed_tensors(const json::object& section) {
  Quantization q{.method = QuantMethod::kFp8, .bits = 8, .group = 0};
  TRY(const std::string format, json::get_string_or(section, "format", "dense"));
  if (format == "pack-quantized" || format == "int-quantized") {
    q.method = format == "pack-quantized" ? QuantMethod::kPacked : QuantMethod::kInt8;
    q.group = kNoGroup;
  } else if (format != "float-quantized" && format != "naive-quantized") {
    return refuse(fmt::format("compressed-tensors' format \"{}\"", format));
  }
  q.activations = q.method == QuantMethod::kFp8;  // if all groups say so
  const json::value* sparsity = json::find(section, "sparsity_config");
  if (sparsity != nullptr && sparsity->is_object()) {
    TRY(const std::string kind, json::get_string_or(sparsity->get_object(), "format", "dense"));
    if (kind != "dense") return refuse(fmt::format("compressed-tensors' sparsity \"{}\"", kind));
  }
  const json::value* transforms = json::find(section, "transform_config");
  if (transforms != nullptr && transforms->is_object() && !transforms->get_object().empty())
    return refuse("compressed-tensors' transform_config");
  const json::value* groups = json::find(section, "config_groups");
  if (groups == nullptr || !groups->is_object() || groups->get_object().empty())
    return fail(ErrorCode::kInvalid, "quantization_config: config_groups is missing");
  for (const auto& group : groups->get_object()) TRY_DO(parse_config_group(group.value(), q));
  return q;
}

Result<Quantization> parse_section(const json::object& section) {
  TRY(const std::string method, json::get_string_or(section, "quant_method", ""));
  if (method == "awq") return parse_awq(section);
  if (method == "gptq") return parse_gptq(section);
  if (method == "fp8") return parse_fp8(section);
  if (method == "compressed-tensors") return parse_compressed_tensors(section);
  if (method.empty()) return refuse("a configuration without quant_method");
  const auto* known = std::ranges::find(kRefused, method, &Refused::method);
  return refuse(known == kRefused.end() ? fmt::format("quant_method \"{}\"", method)
                                        : std::string(known->name));
}

}  // namespace

Result<std::optional<Quantization>> parse_quantization(const json::object& config) {
  TRY(const json::object* section, find_section(config));
  if (section == nullptr) return std::nullopt;
  TRY(const Quantization quantization, parse_section(*section));
  return quantization;
}

std::string describe(const Quantization& q) {
  if (q.method == QuantMethod::kFp8) {
    return fmt::format(
        "fp8 (e4m3){}{}",
        q.block_out > 0 ? fmt::format(", scales of {} x {}", q.block_out, q.block_in) : "",
        q.activations ? ", activations too" : "");
  }
  if (q.method == QuantMethod::kInt8) return q.activations ? "bytes, activations too" : "bytes";
  const char* const name = q.method == QuantMethod::kAwq    ? "AWQ"
                           : q.method == QuantMethod::kGptq ? "GPTQ"
                                                            : "compressed-tensors";
  return fmt::format("{}, {} bits, {}", name, q.bits,
                     q.group > 0    ? fmt::format("groups of {}", q.group)
                     : q.group == 0 ? "one group a row"
                                    : "groups of several sizes");
}

}  // namespace saccade

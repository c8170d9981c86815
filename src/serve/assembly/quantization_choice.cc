#include "serve/assembly/quantization_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "model/checkpoint/checkpoint.h"

namespace saccade::serve {
namespace {

// What vLLM calls a method, with the kernels that it runs it by, and what config.json calls it.
struct Method {
  std::string_view asked;
  std::string_view stored;
};
constexpr std::array kMethods = {
    Method{"awq", "awq"},   Method{"awq_marlin", "awq"},
    Method{"gptq", "gptq"}, Method{"gptq_marlin", "gptq"},
    Method{"fp8", "fp8"},   Method{"compressed-tensors", "compressed-tensors"},
};

// quant_method of config.json; empty where nothing is quantised.
std::string stored_method(const json::object& config) {
  for (const json::object* from : {&config, &text_section(config)}) {
    for (const std::string_view name : {"quantization_config", "compression_config"}) {
      const json::value* section = json::find(*from, name);
      if (section == nullptr || !section->is_object()) continue;
      return json::get_string_or(section->get_object(), "quant_method", "").value_or("");
    }
  }
  return {};
}

// Whether int8 or int4 was asked for, whose other choices are then made here too.
bool rounds_text(const LoadOptions& options) {
  return options.text_layers == DType::kI8 || options.four_bit_text;
}

bool is_cpu(const Device& device) { return device.multiplies_int8() && device.multiplies_w4a8(); }

}  // namespace

Result<void> choose_quantization(std::string_view asked, const json::object& config,
                                 LoadOptions& options) {
  if (asked == "int8") options.text_layers = DType::kI8;
  options.four_bit_text = asked == "int4";
  if (rounds_text(options) || asked.empty() || asked == "none" || asked == "None") return {};
  const auto* method = std::ranges::find(kMethods, asked, &Method::asked);
  if (method == kMethods.end())
    return fail(ErrorCode::kUnsupported,
                "--quantization {}: int8 and int4 round any checkpoint's text layers at load; awq, "
                "gptq, fp8 and compressed-tensors are read, of checkpoints that are stored so "
                "(docs/quantised.md); leave the flag out to take the checkpoint as it is",
                asked);
  const std::string stored = stored_method(config);
  if (stored == method->stored) return {};
  return fail(ErrorCode::kInvalid,
              "--quantization {}: the checkpoint is {}, and int8 and int4 alone are made while "
              "weights are loaded; leave the flag out, or give a checkpoint that is stored as {}",
              asked, stored.empty() ? "not quantised" : "stored as " + stored, method->stored);
}

void keep_blocks_small(const Device& device, LoadOptions& options) {
  if (rounds_text(options) || options.weight_only || options.dequantize || !is_cpu(device)) return;
  options.int8_rows = Int8Rows::kBeforeBlocks;
}

std::string choose_fastest(const Device& device, LoadOptions& options) {
  if (!rounds_text(options) || options.weight_only || !is_cpu(device)) return "";
  const bool four_bits = options.four_bit_text;
  options.head = DType::kI8;
  if (four_bits) options.int8_rows = Int8Rows::kBeforeFourBits;
  // KL(bfloat16 || form) and top-1 of glimpse's conversations, and speeds of Qwen2-VL-2B's shape:
  // kv-and-weights.md and quantised.md in benchmarks/results.
  const std::string_view layers = four_bits ? "W4A8" : "W8A8";
  const std::string_view cost =
      four_bits ? "KL of 0.100 nats and 920 of 958 top-1 in glimpse's conversations, with W4A16 "
                  "alone 0.107 and 917"
                : "KL of 3.1e-3 nats and 952 of 958 top-1 in glimpse's conversations, with the "
                  "layers alone 3.0e-3 and 949";
  const std::string_view gain =
      four_bits ? "gains 1.8 times the speed of prompts and 2.0 of eight streams on Zen 4, 1.7 of "
                  "one stream on AMX"
                : "gains half the head's bytes, which every step reads";
  return fmt::format(
      "--quantization {}: text layers {}, head in int8 on {}; costs {}; {}; --weight-only takes it "
      "back, --quantize-tower rounds the tower too",
      four_bits ? "int4" : "int8", layers, device.description(), cost, gain);
}

}  // namespace saccade::serve

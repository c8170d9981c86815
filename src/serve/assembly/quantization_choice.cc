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

// Whether the checkpoint is taken as it is stored.
bool asks_nothing(std::string_view asked) {
  return asked.empty() || asked == "none" || asked == "None";
}

}  // namespace

Result<void> check_quantization(std::string_view asked, const json::object& config) {
  if (asks_nothing(asked)) return {};
  if (asked == kRoundToBytes || asked == kRoundToFourBits)
    return {};  // at load, however the checkpoint is stored
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

void keep_blocks_small(const ServeSettings& settings, const Device& device, LoadOptions& options) {
  const bool cpu = device.multiplies_int8() && device.multiplies_codes_by_int8();
  if (!asks_nothing(settings.quantization) || settings.weight_only || settings.dequantize || !cpu)
    return;
  options.byte_blocks = true;
  options.byte_activations = true;
}

std::string choose_fastest(const ServeSettings& settings, const Device& device,
                           LoadOptions& options) {
  const bool bytes = settings.quantization == kRoundToBytes;
  const bool four_bits = settings.quantization == kRoundToFourBits;
  const bool cpu = device.multiplies_int8() && device.multiplies_codes_by_int8();
  if ((!bytes && !four_bits) || settings.weight_only || !cpu) return "";
  options.head = DType::kI8;
  options.byte_activations |= four_bits;
  // KL(bfloat16 || form) and top-1 of glimpse's conversations, and speeds of Qwen2-VL-2B's shape:
  // kv-and-weights.md and quantised.md in benchmarks/results.
  const std::string_view layers = bytes ? "W8A8" : "W4A8";
  const std::string_view cost =
      bytes ? "KL of 3.1e-3 nats and 952 of 958 top-1 in glimpse's conversations, with the "
              "layers alone 3.0e-3 and 949"
            : "KL of 0.100 nats and 920 of 958 top-1 in glimpse's conversations, with W4A16 "
              "alone 0.107 and 917";
  const std::string_view gain =
      bytes ? "gains half the head's bytes, which every step reads"
            : "gains 1.8 times the speed of prompts and 2.0 of eight streams on Zen 4, 1.7 of one "
              "stream on AMX";
  return fmt::format(
      "--quantization {}: text layers {}, head in int8 on {}; costs {}; {}; --weight-only takes it "
      "back, --quantize-tower rounds the tower too",
      settings.quantization, layers, device.description(), cost, gain);
}

}  // namespace saccade::serve

#include "serve/assembly/quantization_choice.h"

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

}  // namespace

Result<void> check_quantization(std::string_view asked, const json::object& config) {
  if (asked.empty() || asked == "none" || asked == "None") return {};
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

}  // namespace saccade::serve

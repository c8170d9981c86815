#include "model/weight_memory.h"

#include <algorithm>
#include <string>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/weight_table.h"
#include "model/dummies/dummy_sizes.h"

namespace saccade {
namespace {

bool is_expert(const TensorSpec& tensor) {
  return tensor.name.find(".experts.") != std::string::npos;
}

// num_experts_per_tok of num_experts, or Llama's and Mixtral's num_local_experts.
double active_share(const json::object& config) {
  const json::object& text = text_section(config);
  const auto number = [&](std::string_view name) -> double {
    const json::value* found = text.if_contains(name);
    return found != nullptr && found->is_int64() ? static_cast<double>(found->as_int64()) : 0;
  };
  const double experts = std::max(number("num_experts"), number("num_local_experts"));
  const double chosen = number("num_experts_per_tok");
  return experts > 0 && chosen > 0 ? std::min(1.0, chosen / experts) : 1;
}

// A byte and, of every row, a scale in f32; a scale of 16 bits for 32 to 128 codes of four bits.
constexpr double kBytesInt8 = 1.002;
constexpr double kBytesInt4 = 0.5 + 2.0 / 128;
constexpr double kBytesBf16 = 2;

// Of the read bandwidth, at which one sequence's steps read weights (benchmarks/results/fit.md and
// quantised.md; four bits have 0.68 on Zen 4 and 0.8 on AMX).
constexpr double kShareBf16 = 0.92;
constexpr double kShareInt8 = 0.88;
constexpr double kShareInt4 = 0.72;
// Of a layer, beside its weights: norms, a short text's attention, threads that meet.
constexpr double kLayerSeconds = 50e-6;

double bytes_per_parameter(std::optional<DType> type, bool four_bits = false) {
  if (four_bits) return kBytesInt4;
  if (type == DType::kI8) return kBytesInt8;
  return type == DType::kF32 ? 2 * kBytesBf16 : kBytesBf16;
}

}  // namespace

Result<ParameterCounts> parameter_counts(const Checkpoint& checkpoint) {
  TRY(const UnloadedModel model, create_model(checkpoint));
  const WeightTable table = model.network->weight_table();
  ParameterCounts parameters;
  parameters.experts = table.parameters(MatrixRole::kTextLayer, is_expert);
  parameters.text = table.parameters(MatrixRole::kTextLayer) - parameters.experts +
                    table.parameters(MatrixRole::kTextGate);
  parameters.active = parameters.experts > 0 ? active_share(checkpoint.config) : 1;
  parameters.head = table.parameters(MatrixRole::kHead);
  parameters.tower = table.parameters(MatrixRole::kTowerLayer);
  parameters.other = table.parameters(MatrixRole::kOther);
  parameters.layers = static_cast<std::int64_t>(model.shape().layers.size());
  return parameters;
}

Result<Checkpoint> published_checkpoint(const Family& family, std::string_view size) {
  const DummyCheckpoint made = make_dummy(family.name, size);
  Checkpoint checkpoint;
  for (const DummyFile& file : made.files) {
    json::object* into = file.name == "config.json"                ? &checkpoint.config
                         : file.name == "generation_config.json"   ? &checkpoint.generation
                         : file.name == "preprocessor_config.json" ? &checkpoint.preprocessor
                         : file.name == "video_preprocessor_config.json"
                             ? &checkpoint.video_preprocessor
                             : nullptr;
    if (into == nullptr) continue;
    TRY(const json::value parsed, json::parse(file.text));
    *into = parsed.as_object();
  }
  return checkpoint;
}

double weight_bytes(const ParameterCounts& parameters, const LoadOptions& options) {
  const auto bytes = [](std::int64_t count, double each) {
    return static_cast<double>(count) * each;
  };
  const double text = bytes_per_parameter(options.text_layers, options.four_bit_text);
  return bytes(parameters.text + parameters.experts, text) +
         bytes(parameters.head, bytes_per_parameter(options.head)) +
         bytes(parameters.tower, bytes_per_parameter(options.tower_layers)) +
         bytes(parameters.other, kBytesBf16);
}

double token_bytes(const ParameterCounts& parameters, const LoadOptions& options) {
  const double text = static_cast<double>(parameters.text) +
                      static_cast<double>(parameters.experts) * parameters.active;
  return text * bytes_per_parameter(options.text_layers, options.four_bit_text) +
         static_cast<double>(parameters.head) * bytes_per_parameter(options.head);
}

double token_seconds(const ParameterCounts& parameters, const LoadOptions& options,
                     double bandwidth) {
  const double share = options.four_bit_text               ? kShareInt4
                       : options.text_layers == DType::kI8 ? kShareInt8
                                                           : kShareBf16;
  return token_bytes(parameters, options) / (bandwidth * share) +
         static_cast<double>(parameters.layers) * kLayerSeconds;
}

}  // namespace saccade

#include "model/families/mistral_decoder.h"

#include <array>
#include <boost/json/value.hpp>

#include "model/checkpoint/checkpoint.h"

namespace saccade {
namespace {

constexpr DecoderDefaults kDefaults = {
    .norm_epsilon = 1e-6, .rope_theta = 10000, .max_position = 131072, .tied_head = false};

// Published files leave out what the class has as its default.
struct ClassDefault {
  std::string_view name;
  std::int64_t value;
};
constexpr std::array kClassDefaults = {
    ClassDefault{"hidden_size", 4096},      ClassDefault{"intermediate_size", 14336},
    ClassDefault{"num_hidden_layers", 32},  ClassDefault{"num_attention_heads", 32},
    ClassDefault{"num_key_value_heads", 8}, ClassDefault{"vocab_size", 32000}};
constexpr std::int64_t kWindow = 4096;

// The section with the defaults of its class written out, and its windows as other decoders say
// them. Layers are alike: layer_types is nothing that the class reads.
json::object written_out(json::object text) {
  for (const ClassDefault& each : kClassDefaults) {
    if (json::find(text, each.name) == nullptr) text[each.name] = each.value;
  }
  if (!text.contains("sliding_window")) text["sliding_window"] = kWindow;
  text["use_sliding_window"] = json::find(text, "sliding_window") != nullptr;
  text["max_window_layers"] = 0;
  text.erase("layer_types");
  return text;
}

}  // namespace

Result<DecoderConfig> parse_mistral(const json::object& config) {
  return parse_decoder(written_out(text_section(config)), kDefaults);
}

}  // namespace saccade

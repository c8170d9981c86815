#include "model/families/qwen3_5_decoder.h"

#include <array>
#include <string>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/config_section.h"

namespace saccade {
namespace {

constexpr DecoderDefaults kQwen35Defaults = {.norm_epsilon = 1e-6,
                                             .rope_theta = 10000,
                                             .max_position = 32768,
                                             .tied_head = false,
                                             .head_dim = 256,
                                             .full_interval = 4,
                                             .interleaved_sections = true,
                                             .sections = {11, 11, 10},
                                             .rotary_share = 0.25};

Result<DeltaNetSettings> parse_delta(const json::object& text) {
  DeltaNetSettings d{
      .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .taps = 4};
  const std::array fields = {ExtentField{"linear_num_key_heads", &d.key_heads, 1024},
                             ExtentField{"linear_num_value_heads", &d.value_heads, 1024},
                             ExtentField{"linear_key_head_dim", &d.key_dim, 1024},
                             ExtentField{"linear_value_head_dim", &d.value_dim, 1024},
                             ExtentField{"linear_conv_kernel_dim", &d.taps, 8}};
  TRY_DO(read_extents(text, "text_config", fields));
  if (d.value_heads % d.key_heads != 0)
    return fail(ErrorCode::kInvalid,
                "linear_num_value_heads {} is no multiple of linear_num_key_heads {}",
                d.value_heads, d.key_heads);
  if (d.taps < 2)
    return fail(ErrorCode::kUnsupported, "linear_conv_kernel_dim is {}, 2 to 8 is possible",
                d.taps);
  return d;
}

}  // namespace

Result<DecoderConfig> parse_qwen3_5(const json::object& config) {
  const json::object& text = text_section(config);
  TRY(DecoderConfig decoder, parse_decoder(config, kQwen35Defaults));
  DecoderSettings& s = decoder.settings;
  TRY_DO(read_biases(text, s));
  s.mlp_bias = false;  // there is no such field
  s.qk_norm = true;
  s.norm.weight_offset = 1;
  TRY(s.attention_gate, json::get_bool_or(text, "attn_output_gate", true));
  if (!s.attention_gate)
    return fail(ErrorCode::kUnsupported, "attn_output_gate false is not supported");
  TRY(const std::int64_t experts, json::get_int_or(text, "num_experts", 0));
  if (experts > 0) return fail(ErrorCode::kUnsupported, "num_experts {} is not supported", experts);
  if (s.rope.ntk_factor > 0)
    return fail(ErrorCode::kUnsupported, "rope type \"dynamic\" is not done for part of a head");
  TRY(s.delta, parse_delta(text));
  for (LayerShape& layer : s.layers)
    if (layer.kind == LayerKind::kRecurrent) layer.state = s.delta.state();
  return decoder;
}

// Tensors of the layers that guess several tokens ahead are not read.
DecoderNames qwen3_5_names(std::string_view prefix) {
  DecoderNames names = DecoderNames::under(std::string(prefix));
  names.unread = "mtp.";
  return names;
}

}  // namespace saccade

#include "model/families/phi3_decoder.h"

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/decoder_config.h"

namespace saccade {
namespace {

constexpr DecoderDefaults kPhi3Defaults = {
    .norm_epsilon = 1e-5, .rope_theta = 10000, .max_position = 4096, .tied_head = false};

}  // namespace

Result<DecoderConfig> parse_phi3(const json::object& config) {
  TRY(DecoderConfig decoder, parse_decoder(config, kPhi3Defaults));
  const json::object& text = text_section(config);
  TRY(const double rotary, json::get_double_or(text, "partial_rotary_factor", 1));
  if (rotary != 1)
    return fail(ErrorCode::kUnsupported, "partial_rotary_factor {} is not done", rotary);
  TRY(const std::int64_t window, json::get_int_or(text, "sliding_window", decoder.max_position));
  if (window < decoder.max_position)
    return fail(ErrorCode::kUnsupported,
                "sliding_window {} is under max_position_embeddings {}: it is not done", window,
                decoder.max_position);
  return decoder;
}

DecoderNames phi3_names(const std::string& prefix) {
  DecoderNames names = DecoderNames::under(prefix + "model.", prefix + "lm_head");
  names.qkv = {"self_attn.qkv_proj"};
  names.gate_up = {"mlp.gate_up_proj"};
  return names;
}

}  // namespace saccade

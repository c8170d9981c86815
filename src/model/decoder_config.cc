#include "model/decoder_config.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <numbers>
#include <string>

#include "model/checkpoint.h"

namespace saccade {
namespace {

constexpr std::int64_t kMostLayers = 1024;

Result<LayerKind> layer_kind(const json::value& type) {
  if (type.is_string() && type.get_string() == "full_attention") return LayerKind::kFull;
  if (type.is_string() && type.get_string() == "sliding_attention")
    return LayerKind::kSlidingWindow;
  return fail(ErrorCode::kUnsupported,
              "layer_types holds {}; full_attention and sliding_attention are done",
              type.is_string() ? std::string_view(type.get_string()) : json::kind_name(type));
}

// Which layers see a window: layer_types where the file has it, else those from max_window_layers
// on, if use_sliding_window.
Result<std::vector<LayerKind>> layer_kinds(const json::object& text, std::int64_t count,
                                           const DecoderDefaults& defaults) {
  std::vector<LayerKind> kinds(static_cast<std::size_t>(count), LayerKind::kFull);
  const json::value* types = json::find(text, "layer_types");
  if (types != nullptr) {
    if (!types->is_array() || types->get_array().size() != kinds.size())
      return fail(ErrorCode::kInvalid, "layer_types is not a list of num_hidden_layers = {} names",
                  count);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      TRY(kinds[i], layer_kind(types->get_array()[i]));
    }
    return kinds;
  }
  if (defaults.alternate_windows) {
    for (std::size_t i = 0; i < kinds.size(); i += 2) kinds[i] = LayerKind::kSlidingWindow;
    return kinds;
  }
  TRY(const bool sliding, json::get_bool_or(text, "use_sliding_window", false));
  if (!sliding || json::find(text, "sliding_window") == nullptr) return kinds;
  TRY(const std::int64_t first,
      json::get_int_or(text, "max_window_layers", defaults.max_window_layers));
  for (std::int64_t i = std::max<std::int64_t>(first, 0); i < count; ++i)
    kinds[static_cast<std::size_t>(i)] = LayerKind::kSlidingWindow;
  return kinds;
}

Result<std::vector<LayerShape>> layer_shapes(const json::object& text, std::int64_t kv_heads,
                                             std::int64_t head_dim,
                                             const DecoderDefaults& defaults) {
  TRY(const std::int64_t count, json::get_int(text, "num_hidden_layers"));
  if (count < 1 || count > kMostLayers)
    return fail(ErrorCode::kInvalid, "num_hidden_layers is {}, 1 to {} is possible", count,
                kMostLayers);
  TRY(const std::vector<LayerKind> kinds, layer_kinds(text, count, defaults));
  TRY(const std::int64_t window, json::get_int_or(text, "sliding_window", defaults.sliding_window));
  std::vector<LayerShape> layers;
  for (const LayerKind kind : kinds) {
    const bool slides = kind == LayerKind::kSlidingWindow;
    if (slides && window < 1)
      return fail(ErrorCode::kInvalid, "sliding_window is {}, at least 1 is possible", window);
    layers.push_back({kind, slides ? window : 0, kv_heads, head_dim});
  }
  return layers;
}

// Pair p turns by the axis of the section that it lies in: sections are of pairs, axes t, h, w. Or,
// interleaved, pairs 1, 4, 7, ... turn by h and 2, 5, 8, ... by w until there are as many as their
// sections are long; all others turn by t.
Result<std::vector<std::uint8_t>> section_axes(const json::value& sections, std::int64_t pairs,
                                               bool interleaved) {
  std::vector<std::uint8_t> axes;
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid,
                "mrope_section is not three lengths that sum to head_dim / 2 = {}", pairs);
  };
  if (!sections.is_array() || sections.get_array().size() != 3) return wrong();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const json::value& length = sections.get_array()[axis];
    if (!length.is_int64() || length.get_int64() < 0 || length.get_int64() > pairs) return wrong();
    axes.insert(axes.end(), static_cast<std::size_t>(length.get_int64()),
                static_cast<std::uint8_t>(axis));
  }
  if (static_cast<std::int64_t>(axes.size()) != pairs) return wrong();
  if (interleaved) {
    std::ranges::fill(axes, 0);
    for (std::size_t axis = 1; axis < 3; ++axis) {
      const auto end =
          std::min(axes.size(), 3 * sections.get_array()[axis].to_number<std::size_t>());
      for (std::size_t pair = axis; pair < end; pair += 3)
        axes[pair] = static_cast<std::uint8_t>(axis);
    }
  }
  return axes;
}

// One factor a pair, each over 0.
Result<std::vector<float>> rope_factors(const json::object& rope, std::string_view name,
                                        std::size_t pairs) {
  const json::value* list = json::find(rope, name);
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid, "rope_scaling.{} is not a list of head_dim / 2 = {} factors",
                name, pairs);
  };
  if (list == nullptr || !list->is_array() || list->get_array().size() != pairs) return wrong();
  std::vector<float> factors;
  for (const json::value& factor : list->get_array()) {
    if (!factor.is_number()) return wrong();
    factors.push_back(factor.to_number<float>());
    if (!(factors.back() > 0) || !std::isfinite(factors.back())) return wrong();
  }
  return factors;
}

// LongRoPE ("su" in its first checkpoints): each pair's wavelength has a factor for sequences up to
// the original length and another for longer ones; cos and sin grow with the logarithm of the
// stretch, at every length.
Result<void> scale_longrope(const json::object& text, const json::object& rope,
                            RopeSettings& settings) {
  TRY(const std::int64_t most, json::get_int(text, "max_position_embeddings"));
  TRY(std::int64_t original, json::get_int_or(text, "original_max_position_embeddings", 0));
  TRY(original, json::get_int_or(rope, "original_max_position_embeddings", original));
  if (original < 2 || most < 1)
    return fail(ErrorCode::kInvalid,
                "original_max_position_embeddings is {}, max_position_embeddings {}", original,
                most);
  const double stretch = static_cast<double>(most) / static_cast<double>(original);
  const double grown =
      stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original)));
  TRY(const double scale, json::get_double_or(rope, "attention_factor", grown));
  settings.scale = static_cast<float>(scale);
  settings.short_length = original;
  TRY(const auto shorts, rope_factors(rope, "short_factor", settings.inv_freq.size()));
  TRY(const auto longs, rope_factors(rope, "long_factor", settings.inv_freq.size()));
  settings.long_inv_freq = settings.inv_freq;
  for (std::size_t i = 0; i < shorts.size(); ++i) {
    settings.inv_freq[i] /= shorts[i];
    settings.long_inv_freq[i] /= longs[i];
  }
  return {};
}

// Llama 3.1: frequencies whose wavelength is over the original length divided by low_freq_factor
// are divided by `factor`; those under the length divided by high_freq_factor stay; in between they
// are blended.
Result<void> scale_llama3(const json::object& rope, std::vector<float>& inv_freq) {
  TRY(const double factor, json::get_double(rope, "factor"));
  TRY(const double low, json::get_double(rope, "low_freq_factor"));
  TRY(const double high, json::get_double(rope, "high_freq_factor"));
  TRY(const double original, json::get_double(rope, "original_max_position_embeddings"));
  if (!(factor > 0) || !(low > 0) || !(high > low) || !(original > 0))
    return fail(ErrorCode::kInvalid,
                "rope_scaling: factor {}, low_freq_factor {}, high_freq_factor {}, "
                "original_max_position_embeddings {}",
                factor, low, high, original);
  for (float& frequency : inv_freq) {
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < original / high) continue;
    const double kept =
        wavelength > original / low ? 0 : (original / wavelength - low) / (high - low);
    frequency = static_cast<float>(static_cast<double>(frequency) * ((1 - kept) / factor + kept));
  }
  return {};
}

// Dynamic NTK: what the frequencies of sequences over max_position_embeddings are made from.
Result<void> scale_dynamic(const json::object& text, const json::object& rope, double theta,
                           const DecoderDefaults& defaults, RopeSettings& settings) {
  TRY(settings.ntk_factor, json::get_double(rope, "factor"));
  if (!(settings.ntk_factor >= 1) || !(settings.ntk_factor <= 1024))
    return fail(ErrorCode::kInvalid, "rope_scaling.factor is {}, 1 to 1024 is possible",
                settings.ntk_factor);
  settings.theta = theta;
  TRY(settings.ntk_length,
      json::get_int_or(text, "max_position_embeddings", defaults.max_position));
  return {};
}

}  // namespace

Result<Activation> parse_activation(std::string_view name) {
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return Activation::kGeluTanh;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "relu") return Activation::kRelu;
  return fail(ErrorCode::kUnsupported, "activation \"{}\" is not done", name);
}

Result<RopeConfig> parse_rope(const json::object& text, std::int64_t head_dim,
                              const DecoderDefaults& defaults) {
  const json::value* found = json::find(text, "rope_parameters");
  if (found == nullptr) found = json::find(text, "rope_scaling");
  static const json::object kNone;
  if (found != nullptr && !found->is_object())
    return fail(ErrorCode::kInvalid, "rope_scaling is {}, an object is required",
                json::kind_name(*found));
  const json::object& rope = found == nullptr ? kNone : found->get_object();

  TRY(double theta, json::get_double_or(text, "rope_theta", defaults.rope_theta));
  TRY(theta, json::get_double_or(rope, "rope_theta", theta));
  if (!(theta > 0) || !std::isfinite(theta))
    return fail(ErrorCode::kInvalid, "rope_theta is {}", theta);
  TRY(std::string type, json::get_string_or(rope, "type", "default"));
  TRY(type, json::get_string_or(rope, "rope_type", type));

  RopeConfig config;
  config.settings.inv_freq = rope_frequencies(theta, head_dim);
  const json::value* sections = json::find(rope, "mrope_section");
  if (sections != nullptr) {
    TRY(config.settings.axis, section_axes(*sections, head_dim / 2, defaults.interleaved_sections));
    config.position_axes = 3;
  } else if (type == "mrope") {
    return fail(ErrorCode::kInvalid, "rope type mrope without mrope_section");
  }
  if (type == "llama3") {
    TRY_DO(scale_llama3(rope, config.settings.inv_freq));
  } else if (type == "su" || type == "longrope") {
    TRY_DO(scale_longrope(text, rope, config.settings));
  } else if (type == "linear") {
    TRY(const double factor, json::get_double(rope, "factor"));
    if (!(factor > 0)) return fail(ErrorCode::kInvalid, "rope_scaling.factor is {}", factor);
    for (float& frequency : config.settings.inv_freq) frequency /= static_cast<float>(factor);
  } else if (type == "dynamic") {
    TRY_DO(scale_dynamic(text, rope, theta, defaults, config.settings));
  } else if (type != "default" && type != "mrope") {
    return fail(ErrorCode::kUnsupported, "rope type \"{}\" is not done", type);
  }
  return config;
}

Result<DecoderConfig> parse_decoder(const json::object& config, const DecoderDefaults& defaults) {
  const json::object& text = text_section(config);
  DecoderConfig decoder;
  DecoderSettings& s = decoder.settings;
  TRY(s.hidden, json::get_int(text, "hidden_size"));
  TRY(s.intermediate, json::get_int(text, "intermediate_size"));
  TRY(s.heads, json::get_int(text, "num_attention_heads"));
  TRY(s.kv_heads, json::get_int_or(text, "num_key_value_heads", s.heads));
  TRY(s.vocab, json::get_int(text, "vocab_size"));
  if (s.heads < 1) return fail(ErrorCode::kInvalid, "num_attention_heads is {}", s.heads);
  const std::int64_t head_dim = defaults.head_dim > 0 ? defaults.head_dim : s.hidden / s.heads;
  TRY(s.head_dim, json::get_int_or(text, "head_dim", head_dim));
  if (json::find(text, "head_dim") == nullptr && defaults.head_dim == 0 && s.hidden % s.heads != 0)
    return fail(ErrorCode::kInvalid, "hidden_size {} is no multiple of num_attention_heads {}",
                s.hidden, s.heads);
  TRY(s.layers, layer_shapes(text, s.kv_heads, s.head_dim, defaults));
  TRY_DO(check_decoder(s));

  TRY(const double epsilon, json::get_double_or(text, "rms_norm_eps", defaults.norm_epsilon));
  s.norm.epsilon = static_cast<float>(epsilon);
  TRY(std::string activation,
      json::get_string_or(text, "hidden_act", std::string(defaults.activation)));
  TRY(activation, json::get_string_or(text, "hidden_activation", activation));
  TRY(s.activation, parse_activation(activation));
  s.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));

  // Current files say it beside text_config, older ones inside; either "true" ties.
  TRY(const bool tied_outer, json::get_bool_or(config, "tie_word_embeddings", defaults.tied_head));
  TRY(const bool tied_inner, json::get_bool_or(text, "tie_word_embeddings", defaults.tied_head));
  s.tied_head = tied_outer || tied_inner;

  TRY(decoder.max_position,
      json::get_int_or(text, "max_position_embeddings", defaults.max_position));
  if (decoder.max_position < 1)
    return fail(ErrorCode::kInvalid, "max_position_embeddings is {}", decoder.max_position);
  TRY(RopeConfig rope, parse_rope(text, s.head_dim, defaults));
  if (rope.settings.ntk_factor > 0) {
    decoder.usual_length = decoder.max_position;
    decoder.max_position = static_cast<std::int64_t>(rope.settings.ntk_factor *
                                                     static_cast<double>(decoder.max_position));
  }
  s.rope = std::move(rope.settings);
  decoder.position_axes = rope.position_axes;
  return decoder;
}

void describe_decoder(const DecoderConfig& decoder, ModelShape& shape) {
  shape.hidden = decoder.settings.hidden;
  shape.vocab = decoder.settings.vocab;
  shape.max_position = decoder.max_position;
  shape.usual_length = decoder.usual_length;
  shape.position_axes = decoder.position_axes;
  shape.short_length = decoder.settings.rope.short_length;
  shape.layers = decoder.settings.layers;
  shape.deepstack = decoder.settings.deepstack;
}

}  // namespace saccade

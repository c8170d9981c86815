#include "model/checkpoint/decoder_config.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

#include "model/checkpoint/checkpoint.h"

namespace saccade {
namespace {

Result<LayerKind> layer_kind(const json::value& type, const DecoderDefaults& defaults) {
  if (defaults.full_interval > 0) {
    if (type.is_string() && type.get_string() == "full_attention") return LayerKind::kFull;
    if (type.is_string() && type.get_string() == "linear_attention") return LayerKind::kRecurrent;
    return fail(ErrorCode::kUnsupported,
                "layer_types holds {}; full_attention and linear_attention are done",
                type.is_string() ? std::string_view(type.get_string()) : json::kind_name(type));
  }
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
      TRY(kinds[i], layer_kind(types->get_array()[i], defaults));
    }
    return kinds;
  }
  if (defaults.full_interval > 0) {
    TRY(const std::int64_t interval,
        json::get_int_or(text, "full_attention_interval", defaults.full_interval));
    if (interval < 1)
      return fail(ErrorCode::kInvalid, "full_attention_interval is {}, at least 1 is possible",
                  interval);
    for (std::int64_t i = 0; i < count; ++i)
      if ((i + 1) % interval != 0) kinds[static_cast<std::size_t>(i)] = LayerKind::kRecurrent;
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
  if (count < 1 || count > kMaxLayers)
    return fail(ErrorCode::kInvalid, "num_hidden_layers is {}, 1 to {} is possible", count,
                kMaxLayers);
  TRY(const std::vector<LayerKind> kinds, layer_kinds(text, count, defaults));
  TRY(const std::int64_t window, json::get_int_or(text, "sliding_window", defaults.sliding_window));
  std::vector<LayerShape> layers;
  for (const LayerKind kind : kinds) {
    const bool slides = kind == LayerKind::kSlidingWindow;
    if (slides && window < 1)
      return fail(ErrorCode::kInvalid, "sliding_window is {}, at least 1 is possible", window);
    if (kind == LayerKind::kRecurrent) {
      layers.push_back({.kind = kind});  // the family says what it keeps
      continue;
    }
    layers.push_back({kind, slides ? window : 0, kv_heads, head_dim});
  }
  return layers;
}

// mrope_section: how many pairs of a head turn by each axis, t, h, w.
using Sections = std::array<std::int64_t, 3>;

Result<Sections> parse_sections(const json::value& from) {
  constexpr std::int64_t kMost = 1 << 20;
  Sections sections{};
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid, "mrope_section is not three lengths of 0 to {}", kMost);
  };
  if (!from.is_array() || from.get_array().size() != sections.size()) return wrong();
  for (std::size_t axis = 0; axis < sections.size(); ++axis) {
    const json::value& length = from.get_array()[axis];
    if (!length.is_int64() || length.get_int64() < 0 || length.get_int64() > kMost) return wrong();
    sections[axis] = length.get_int64();
  }
  return sections;
}

// Pair p turns by the axis of the section that it lies in.
Result<std::vector<std::uint8_t>> section_axes(const Sections& sections, std::int64_t pairs) {
  if (sections[0] + sections[1] + sections[2] != pairs)
    return fail(ErrorCode::kInvalid,
                "mrope_section is [{}, {}, {}], which does not sum to the {} pairs that turn",
                sections[0], sections[1], sections[2], pairs);
  std::vector<std::uint8_t> axes;
  for (std::size_t axis = 0; axis < sections.size(); ++axis)
    axes.insert(axes.end(), static_cast<std::size_t>(sections[axis]),
                static_cast<std::uint8_t>(axis));
  return axes;
}

// Pairs 1, 4, 7, ... turn by h and 2, 5, 8, ... by w until there are as many as their sections are
// long; all others turn by t, whatever its section.
std::vector<std::uint8_t> interleaved_axes(const Sections& sections, std::int64_t pairs) {
  std::vector<std::uint8_t> axes(static_cast<std::size_t>(pairs));
  for (std::size_t axis = 1; axis < sections.size(); ++axis) {
    const auto end = static_cast<std::size_t>(std::min(pairs, 3 * sections[axis]));
    for (std::size_t pair = axis; pair < end; pair += 3)
      axes[pair] = static_cast<std::uint8_t>(axis);
  }
  return axes;
}

// Of positions on three axes, where there are such; nothing else turns by more than one.
Result<std::optional<std::vector<std::uint8_t>>> rope_axes(const json::object& rope,
                                                           std::string_view type,
                                                           std::int64_t pairs,
                                                           const DecoderDefaults& defaults) {
  std::optional<std::vector<std::uint8_t>> axes;
  const json::value* given = json::find(rope, "mrope_section");
  if (given != nullptr || defaults.sections != Sections{}) {
    Sections sections = defaults.sections;
    if (given != nullptr) {
      TRY(sections, parse_sections(*given));
    }
    if (defaults.interleaved_sections) {
      axes = interleaved_axes(sections, pairs);
    } else {
      TRY(axes, section_axes(sections, pairs));
    }
  } else if (type == "mrope") {
    return fail(ErrorCode::kInvalid, "rope type mrope without mrope_section");
  }
  return axes;
}

// One factor a pair, each over 0.
Result<std::vector<float>> rope_factors(const json::object& rope, std::string_view name,
                                        std::size_t pairs) {
  const json::value* list = json::find(rope, name);
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid, "rope_scaling.{} is not a list of {} factors, one a pair",
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

// The length of training: beside rope's section, in it, or max_position_embeddings, the first that
// there is.
Result<double> original_length(const json::object& text, const json::object& rope,
                               const DecoderDefaults& defaults) {
  TRY(const std::int64_t most,
      json::get_int_or(text, "max_position_embeddings", defaults.max_position));
  TRY(double original,
      json::get_double_or(rope, "original_max_position_embeddings", static_cast<double>(most)));
  TRY(original, json::get_double_or(text, "original_max_position_embeddings", original));
  if (!(original >= 1) || !(original <= 1e9))
    return fail(ErrorCode::kInvalid, "original_max_position_embeddings is {}, 1 to 1e9 is possible",
                original);
  return original;
}

// LongRoPE ("su" in its first checkpoints): each pair's wavelength has a factor for sequences up to
// the original length and another for longer ones; cos and sin grow with the logarithm of the
// stretch (`factor`, or what the lengths say), at every length.
Result<void> scale_longrope(const json::object& text, const json::object& rope,
                            const DecoderDefaults& defaults, RopeSettings& settings) {
  TRY(const std::int64_t most,
      json::get_int_or(text, "max_position_embeddings", defaults.max_position));
  TRY(const double original, original_length(text, rope, defaults));
  if (original < 2 || most < 1)
    return fail(ErrorCode::kInvalid,
                "original_max_position_embeddings is {}, max_position_embeddings {}", original,
                most);
  TRY(const double stretch,
      json::get_double_or(rope, "factor", static_cast<double>(most) / original));
  if (!(stretch > 0) || !std::isfinite(stretch))
    return fail(ErrorCode::kInvalid, "rope_scaling.factor is {}", stretch);
  const double grown = stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(original));
  TRY(const double scale, json::get_double_or(rope, "attention_factor", grown));
  settings.scale = static_cast<float>(scale);
  settings.short_length = static_cast<std::int64_t>(original);
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
Result<void> scale_llama3(const json::object& text, const json::object& rope,
                          const DecoderDefaults& defaults, std::vector<float>& inv_freq) {
  TRY(const double factor, json::get_double(rope, "factor"));
  TRY(const double low, json::get_double(rope, "low_freq_factor"));
  TRY(const double high, json::get_double(rope, "high_freq_factor"));
  TRY(const double original, original_length(text, rope, defaults));
  if (!(factor > 0) || !(low > 0) || !(high > low))
    return fail(ErrorCode::kInvalid,
                "rope_scaling: factor {}, low_freq_factor {}, high_freq_factor {}", factor, low,
                high);
  for (float& frequency : inv_freq) {
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < original / high) continue;
    const double kept =
        wavelength > original / low ? 0 : (original / wavelength - low) / (high - low);
    frequency = static_cast<float>(static_cast<double>(frequency) * ((1 - kept) / factor + kept));
  }
  return {};
}

// 0.1 m log(s) + 1, YaRN's growth of cos and sin.
double yarn_growth(double stretch, double m) {
  return stretch <= 1 ? 1 : 0.1 * m * std::log(stretch) + 1;
}

// A field whose null and 0 mean its default.
Result<double> nonzero_or(const json::object& rope, std::string_view name, double fallback) {
  TRY(const double value, json::get_double_or(rope, name, fallback));
  return value == 0 ? fallback : value;
}

// YaRN (arXiv:2309.00071): pairs that turn more than beta_fast times over the original length stay,
// those under beta_slow are divided by `factor`, and a ramp over the pairs between blends the two.
Result<void> scale_yarn(const json::object& text, const json::object& rope, double theta,
                        std::int64_t turned, const DecoderDefaults& defaults, RopeConfig& config) {
  TRY(const std::int64_t stated,
      json::get_int_or(text, "max_position_embeddings", defaults.max_position));
  TRY(const double original, original_length(text, rope, defaults));
  TRY(const double factor,
      json::get_double_or(rope, "factor", static_cast<double>(stated) / original));
  TRY(const double fast, nonzero_or(rope, "beta_fast", 32));
  TRY(const double slow, nonzero_or(rope, "beta_slow", 1));
  if (!(factor > 0) || !(factor <= 1024) || !(fast > 0) || !(slow > 0) || theta == 1)
    return fail(ErrorCode::kInvalid,
                "rope_scaling: factor {}, beta_fast {}, beta_slow {}, rope_theta {}", factor, fast,
                slow, theta);
  TRY(const double m, nonzero_or(rope, "mscale", 0));
  TRY(const double m_all, nonzero_or(rope, "mscale_all_dim", 0));
  const double grown = m != 0 && m_all != 0 ? yarn_growth(factor, m) / yarn_growth(factor, m_all)
                                            : yarn_growth(factor, 1);
  TRY(const double scale, json::get_double_or(rope, "attention_factor", grown));
  config.settings.scale = static_cast<float>(scale);
  config.scaled_length = static_cast<std::int64_t>(factor * original);

  const auto dim = static_cast<double>(turned);
  const auto pair_of = [&](double turns) {
    return dim * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  // Of this field null is false.
  const auto* const stated_truncate = rope.if_contains("truncate");
  const bool by_default = stated_truncate == nullptr || !stated_truncate->is_null();
  TRY(const bool truncate, json::get_bool_or(rope, "truncate", by_default));
  double low = pair_of(fast);
  double high = pair_of(slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < config.settings.inv_freq.size(); ++i) {
    float& frequency = config.settings.inv_freq[i];
    const float along =
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1 - std::clamp(along, 0.0f, 1.0f);
    frequency = frequency / static_cast<float>(factor) * (1 - kept) + frequency * kept;
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

// How many elements of a head turn: partial_rotary_factor of the rope's section or of the text.
Result<std::int64_t> turned_elements(const json::object& text, const json::object& rope,
                                     std::int64_t head_dim, const DecoderDefaults& defaults) {
  if (defaults.rotary_share == 0) return head_dim;
  TRY(double share, json::get_double_or(text, "partial_rotary_factor", defaults.rotary_share));
  TRY(share, json::get_double_or(rope, "partial_rotary_factor", share));
  const double turned = std::trunc(static_cast<double>(head_dim) * share);
  if (!(turned >= 2) || !(share <= 1) || static_cast<std::int64_t>(turned) % 2 != 0)
    return fail(ErrorCode::kInvalid,
                "partial_rotary_factor is {}, of which a head of {} turns no whole pairs", share,
                head_dim);
  return static_cast<std::int64_t>(turned);
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

Result<bool> has_tied_head(const json::object& config, const DecoderDefaults& defaults) {
  TRY(const bool outer, json::get_bool_or(config, "tie_word_embeddings", defaults.tied_head));
  TRY(const bool inner,
      json::get_bool_or(text_section(config), "tie_word_embeddings", defaults.tied_head));
  switch (defaults.tie_field) {
    case TieField::kInner:
      return inner;
    case TieField::kEither:
      return outer || inner;
    case TieField::kOuter:
      break;
  }
  return outer;
}

Result<RopeConfig> parse_rope(const json::object& text, std::int64_t head_dim,
                              const DecoderDefaults& defaults) {
  // Where both are, what is older counts, as in transformers.
  const json::value* found = json::find(text, "rope_scaling");
  if (found == nullptr || (found->is_object() && found->get_object().empty()))
    found = json::find(text, "rope_parameters");
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
  TRY(const std::int64_t turned, turned_elements(text, rope, head_dim, defaults));
  config.settings.inv_freq = rope_frequencies(theta, turned);
  TRY(auto axes, rope_axes(rope, type, turned / 2, defaults));
  if (axes) {
    config.settings.axis = *std::move(axes);
    config.position_axes = 3;
  }
  if (type == "llama3") {
    TRY_DO(scale_llama3(text, rope, defaults, config.settings.inv_freq));
  } else if (type == "su" || type == "longrope") {
    TRY_DO(scale_longrope(text, rope, defaults, config.settings));
  } else if (type == "linear") {
    TRY(const double factor, json::get_double(rope, "factor"));
    if (!(factor > 0)) return fail(ErrorCode::kInvalid, "rope_scaling.factor is {}", factor);
    for (float& frequency : config.settings.inv_freq) frequency /= static_cast<float>(factor);
  } else if (type == "yarn") {
    TRY_DO(scale_yarn(text, rope, theta, turned, defaults, config));
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

  TRY(s.tied_head, has_tied_head(config, defaults));

  TRY(decoder.max_position,
      json::get_int_or(text, "max_position_embeddings", defaults.max_position));
  if (decoder.max_position < 1 || decoder.max_position > kMaxPositions)
    return fail(ErrorCode::kInvalid, "max_position_embeddings is {}, 1 to {} is possible",
                decoder.max_position, kMaxPositions);
  TRY(RopeConfig rope, parse_rope(text, s.head_dim, defaults));
  if (rope.settings.ntk_factor > 0) {
    decoder.usual_length = decoder.max_position;
    decoder.max_position = static_cast<std::int64_t>(rope.settings.ntk_factor *
                                                     static_cast<double>(decoder.max_position));
  }
  decoder.max_position = std::max(decoder.max_position, rope.scaled_length);
  s.rope = std::move(rope.settings);
  decoder.position_axes = rope.position_axes;
  return decoder;
}

Result<void> read_biases(const json::object& text, DecoderSettings& settings) {
  TRY(settings.qkv_bias, json::get_bool_or(text, "attention_bias", false));
  settings.out_bias = settings.qkv_bias;
  TRY(settings.mlp_bias, json::get_bool_or(text, "mlp_bias", false));
  return {};
}

Result<void> read_experts(const json::object& text, const ExpertSettings& defaults,
                          DecoderSettings& settings) {
  constexpr std::int64_t kMaxExperts = 4096;
  ExpertSettings experts = defaults;
  TRY(experts.count, json::get_int_or(text, "num_local_experts", experts.count));
  TRY(experts.count, json::get_int_or(text, "num_experts", experts.count));
  TRY(experts.per_token, json::get_int_or(text, "num_experts_per_tok", experts.per_token));
  TRY(experts.intermediate, json::get_int_or(text, "moe_intermediate_size", experts.intermediate));
  TRY(experts.normalise, json::get_bool_or(text, "norm_topk_prob", experts.normalise));
  TRY(const std::int64_t step, json::get_int_or(text, "decoder_sparse_step", 1));
  if (experts.count < 0 || experts.count > kMaxExperts)
    return fail(ErrorCode::kInvalid, "num_experts is {}, 0 to {} is possible", experts.count,
                kMaxExperts);
  if (experts.count == 0) return {};
  if (experts.per_token < 1 || experts.per_token > experts.count)
    return fail(ErrorCode::kInvalid, "num_experts_per_tok is {}, 1 to num_experts = {} is possible",
                experts.per_token, experts.count);
  if (experts.intermediate < 1 || experts.intermediate > 1 << 20)
    return fail(ErrorCode::kInvalid, "moe_intermediate_size is {}, 1 to {} is possible",
                experts.intermediate, 1 << 20);
  const auto layers = static_cast<std::int64_t>(settings.layers.size());
  if (step < 1) return fail(ErrorCode::kInvalid, "decoder_sparse_step is {}", step);
  for (std::int64_t i = 0; i < layers; ++i) experts.layers.push_back((i + 1) % step == 0);
  if (const json::value* dense = json::find(text, "mlp_only_layers")) {
    if (!dense->is_array())
      return fail(ErrorCode::kInvalid, "mlp_only_layers is {}, a list is required",
                  json::kind_name(*dense));
    for (const json::value& layer : dense->get_array()) {
      if (!layer.is_int64() || layer.get_int64() < 0 || layer.get_int64() >= layers)
        return fail(ErrorCode::kInvalid, "mlp_only_layers names a layer that is none of {}",
                    layers);
      experts.layers[static_cast<std::size_t>(layer.get_int64())] = false;
    }
  }
  settings.experts = std::move(experts);
  return {};
}

Result<ModelShape> describe_model(std::string_view family, const Checkpoint& checkpoint,
                                  const DecoderConfig& decoder) {
  ModelShape shape;
  shape.family = family;
  shape.hidden = decoder.settings.hidden;
  shape.vocab = decoder.settings.vocab;
  shape.max_position = decoder.max_position;
  shape.usual_length = decoder.usual_length;
  shape.position_axes = decoder.position_axes;
  shape.short_length = decoder.settings.rope.short_length;
  shape.layers = decoder.settings.layers;
  shape.deepstack = decoder.settings.deepstack;
  TRY(shape.eos, eos_tokens(checkpoint));
  return shape;
}

}  // namespace saccade

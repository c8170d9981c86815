#include "model/gguf/gguf_config.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint/decoder_config.h"
#include "tensor/tensor.h"

namespace saccade {
namespace {

// One number of all layers, or an array with one a layer, which must then be equal.
Result<std::int64_t> get_same(const GgufModel& model, const std::string& key) {
  const GgufMetadata& metadata = model.metadata();
  const GgufValue* const value = metadata.find(key);
  if (value == nullptr || !std::holds_alternative<GgufArray>(*value)) return metadata.get_int(key);
  TRY(const std::vector<std::int64_t> each, metadata.get_ints(key));
  if (each.empty()) return fail(ErrorCode::kInvalid, "{} is an empty array", key);
  if (std::ranges::any_of(each, [&](std::int64_t one) { return one != each.front(); }))
    return fail(ErrorCode::kUnsupported, "{} differs from layer to layer, which is not done", key);
  return each.front();
}

// Extents of the text, by the names that transformers has for them.
Result<void> add_extents(const GgufModel& model, json::object& text) {
  struct Member {
    const char* from;
    const char* to;
  };
  for (const auto& [from, to] : {Member{"embedding_length", "hidden_size"},
                                 {"block_count", "num_hidden_layers"},
                                 {"feed_forward_length", "intermediate_size"},
                                 {"attention.head_count", "num_attention_heads"},
                                 {"context_length", "max_position_embeddings"}}) {
    TRY(text[to], get_same(model, model.key(from)));
  }
  const std::string kv_heads = model.key("attention.head_count_kv");
  if (model.metadata().has(kv_heads)) {
    TRY(text["num_key_value_heads"], get_same(model, kv_heads));
  }
  for (const char* const key : {"attention.key_length", "attention.value_length"}) {
    if (!model.metadata().has(model.key(key))) continue;
    TRY(const std::int64_t length, model.metadata().get_int(model.key(key)));
    const json::value* const other = json::find(text, "head_dim");
    if (other != nullptr && *other != json::value(length))
      return fail(ErrorCode::kUnsupported, "{} is {}, the keys' is {}", model.key(key), length,
                  other->get_int64());
    text["head_dim"] = length;
  }
  TRY(const double epsilon,
      model.metadata().get_double_or(model.key("attention.layer_norm_rms_epsilon"), 1e-6));
  text["rms_norm_eps"] = epsilon;
  const GgufTensor* const table = model.find("token_embd.weight").tensor;
  if (table == nullptr || table->shape.size() != 2)
    return fail(ErrorCode::kInvalid, "tensor token_embd.weight is missing, or no matrix");
  text["vocab_size"] = table->shape.front();
  return {};
}

// Floats of a small tensor; nothing where it is not there.
Result<std::vector<double>> gguf_numbers(const GgufModel& model, std::string_view name) {
  const auto [file, tensor] = model.find(name);
  std::vector<double> numbers;
  if (tensor == nullptr) return numbers;
  if (tensor->type != "F32")
    return fail(ErrorCode::kUnsupported, "tensor {} is {}; F32 is read", name, tensor->type);
  const std::span<const std::byte> bytes = model.files()[file].bytes(*tensor);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    numbers.push_back(static_cast<double>(value));
  }
  return numbers;
}

// Whether dividing the frequencies by `factors` is what Llama 3.1's rule does to them.
bool is_llama3(const std::vector<double>& factors, double theta, double low, double high,
               double length) {
  const double factor = *std::ranges::max_element(factors);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double wavelength =
        2 * std::numbers::pi *
        std::pow(theta, static_cast<double>(i) / static_cast<double>(factors.size()));
    double want = factor;
    if (wavelength < length / high) {
      want = 1;
    } else if (wavelength <= length / low) {
      const double kept = (length / wavelength - low) / (high - low);
      want = 1 / ((1 - kept) / factor + kept);
    }
    if (std::abs(want - factors[i]) > 1e-4 * want) return false;
  }
  return true;
}

// Factors of wavelengths, one a pair (rope_freqs.weight): converters write them in place of Llama
// 3.1's rule, whose numbers are those of every published file.
json::object scaling_of_factors(const std::vector<double>& factors, double theta,
                                std::int64_t length) {
  constexpr double kLow = 1;
  constexpr double kHigh = 4;
  constexpr std::int64_t kLength = 8192;
  if (is_llama3(factors, theta, kLow, kHigh, kLength))
    return {{"rope_type", "llama3"},
            {"factor", *std::ranges::max_element(factors)},
            {"low_freq_factor", kLow},
            {"high_freq_factor", kHigh},
            {"original_max_position_embeddings", kLength}};
  json::array list;
  for (const double factor : factors) list.emplace_back(factor);
  return {{"rope_type", "longrope"},
          {"short_factor", list},
          {"long_factor", list},
          {"attention_factor", 1.0},
          {"original_max_position_embeddings", length}};
}

// {arch}.rope.scaling.*; empty where positions are not scaled.
Result<json::object> read_scaling(const GgufModel& model) {
  const GgufMetadata& metadata = model.metadata();
  json::object scaling;
  TRY(const std::string_view type, metadata.get_string_or(model.key("rope.scaling.type"), "none"));
  TRY(const double factor, metadata.get_double_or(model.key("rope.scaling.factor"), 1));
  if (type == "none" || (type == "linear" && factor == 1)) return scaling;
  if (type != "linear" && type != "yarn")
    return fail(ErrorCode::kUnsupported, "{} is \"{}\"; linear and yarn are read",
                model.key("rope.scaling.type"), type);
  scaling = {{"rope_type", type}, {"factor", factor}};
  if (type == "linear") return scaling;
  const std::string length = model.key("rope.scaling.original_context_length");
  if (metadata.has(length)) {
    TRY(scaling["original_max_position_embeddings"], metadata.get_int(length));
  }
  for (const auto& [from, to] : {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                 {"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
    if (!metadata.has(model.key(from))) continue;
    TRY(scaling[to], metadata.get_double(model.key(from)));
  }
  // Of the growth of cos and sin, which both sides take.
  TRY(double share, metadata.get_double_or(model.key("rope.scaling.attn_factor"), 1));
  TRY(share, metadata.get_double_or(model.key("rope.scaling.yarn_attn_factor"), share));
  if (share != 1) scaling["attention_factor"] = share * (1 + 0.1 * std::log(std::max(factor, 1.0)));
  return scaling;
}

Result<void> add_rope(const GgufModel& model, json::object& text) {
  const GgufMetadata& metadata = model.metadata();
  TRY(const double theta, metadata.get_double_or(model.key("rope.freq_base"), 10000));
  text["rope_theta"] = theta;
  TRY(json::object scaling, read_scaling(model));
  TRY(const std::vector<double> factors, gguf_numbers(model, "rope_freqs.weight"));
  if (!factors.empty() && !scaling.empty())
    return fail(ErrorCode::kUnsupported, "rope_freqs.weight beside {} is not done",
                model.key("rope.scaling.type"));
  if (!factors.empty()) {
    TRY(const std::int64_t length, json::get_int(text, "max_position_embeddings"));
    scaling = scaling_of_factors(factors, theta, length);
  }
  TRY(const std::vector<std::int64_t> sections,
      metadata.get_ints(model.key("rope.dimension_sections")));
  if (sections.size() >= 3 && !model.projector_type().empty()) {
    if (json::find(scaling, "rope_type") == nullptr) scaling["rope_type"] = "default";
    scaling["mrope_section"] = json::array{sections[0], sections[1], sections[2]};
  }
  if (!scaling.empty()) text["rope_scaling"] = std::move(scaling);
  return {};
}

// As many elements of a head turn as it has, but for a family that says how many.
Result<void> check_turned(const GgufModel& model, const json::object& text) {
  const std::string key = model.key("rope.dimension_count");
  if (!model.metadata().has(key) || text.contains("partial_rotary_factor")) return {};
  TRY(const std::int64_t turned, model.metadata().get_int(key));
  TRY(const std::int64_t hidden, json::get_int(text, "hidden_size"));
  TRY(const std::int64_t heads, json::get_int(text, "num_attention_heads"));
  TRY(const std::int64_t head_dim,
      json::get_int_or(text, "head_dim", hidden / std::max<std::int64_t>(1, heads)));
  if (turned != head_dim)
    return fail(ErrorCode::kUnsupported,
                "{} is {}, a head has {}: that a part of it turns is not done", key, turned,
                head_dim);
  return {};
}

// What matrices are stored as, or, in blocks, what they are to be computed in.
std::string_view gguf_dtype(const GgufModel& model) {
  const GgufTensor* largest = nullptr;
  for (const GgufFile& file : model.files()) {
    for (const GgufTensor& tensor : file.header.tensors) {
      if (largest == nullptr || tensor.end - tensor.begin > largest->end - largest->begin)
        largest = &tensor;
    }
  }
  if (largest != nullptr && largest->type == "F32") return "float32";
  if (largest != nullptr && largest->type == "F16") return "float16";
  return "bfloat16";
}

// Special tokens by the names that config.json has for their ids.
Result<void> add_token_ids(const GgufModel& model, json::object& config) {
  for (const auto& [from, to] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                 {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                 {"tokenizer.ggml.padding_token_id", "pad_token_id"}}) {
    if (!model.metadata().has(from)) continue;
    TRY(config[to], model.metadata().get_int(from));
  }
  return {};
}

}  // namespace

Result<void> add_llama_text(const GgufModel& model, json::object& text) {
  const GgufMetadata& metadata = model.metadata();
  TRY(const std::int64_t experts, metadata.get_int_or(model.key("expert_count"), 0));
  if (experts > 0)
    return fail(ErrorCode::kUnsupported, "{} is {}: Mixtral is not done", model.key("expert_count"),
                experts);
  const std::string turned = model.key("rope.dimension_count");
  if (json::find(text, "head_dim") == nullptr && metadata.has(turned)) {
    TRY(text["head_dim"], metadata.get_int(turned));
  }
  text["attention_bias"] = model.find("blk.0.attn_q.bias").tensor != nullptr;
  text["mlp_bias"] = model.find("blk.0.ffn_up.bias").tensor != nullptr;
  return {};
}

Result<void> add_expert_text(const GgufModel& model, json::object& text) {
  const GgufMetadata& metadata = model.metadata();
  TRY(text["num_experts"], metadata.get_int(model.key("expert_count")));
  TRY(text["num_experts_per_tok"], metadata.get_int(model.key("expert_used_count")));
  const GgufTensor* first = nullptr;
  json::array dense;
  TRY(const std::int64_t layers, json::get_int(text, "num_hidden_layers"));
  for (std::int64_t i = 0; i < std::min(layers, kMaxLayers); ++i) {
    const GgufTensor* const experts =
        model.find(fmt::format("blk.{}.ffn_up_exps.weight", i)).tensor;
    if (experts == nullptr) dense.emplace_back(i);
    if (first == nullptr) first = experts;
  }
  if (first == nullptr || first->shape.size() != 3)
    return fail(ErrorCode::kInvalid, "no layer has a tensor ffn_up_exps of three extents");
  text["moe_intermediate_size"] = first->shape[1];
  text["mlp_only_layers"] = std::move(dense);
  TRY(text["norm_topk_prob"], metadata.get_bool_or(model.key("expert_weights_norm"), true));
  return {};
}

Result<void> add_qwen35_text(const GgufModel& model, json::object& text) {
  const GgufMetadata& metadata = model.metadata();
  for (const auto& [from, to] : {std::pair{"ssm.conv_kernel", "linear_conv_kernel_dim"},
                                 {"ssm.state_size", "linear_key_head_dim"},
                                 {"ssm.group_count", "linear_num_key_heads"},
                                 {"ssm.time_step_rank", "linear_num_value_heads"}}) {
    TRY(text[to], metadata.get_int(model.key(from)));
  }
  const std::int64_t heads = text["linear_num_value_heads"].get_int64();
  TRY(const std::int64_t values, metadata.get_int(model.key("ssm.inner_size")));
  if (heads < 1 || values % heads != 0)
    return fail(ErrorCode::kInvalid, "{} is {}, {} {}", model.key("ssm.inner_size"), values,
                model.key("ssm.time_step_rank"), heads);
  text["linear_value_head_dim"] = values / heads;
  TRY(text["full_attention_interval"],
      metadata.get_int_or(model.key("full_attention_interval"), 4));
  // Layers that guess several tokens ahead stand behind the others, and are not read.
  TRY(const std::int64_t layers, json::get_int(text, "num_hidden_layers"));
  TRY(const std::int64_t guessing, metadata.get_int_or(model.key("nextn_predict_layers"), 0));
  if (guessing < 0 || guessing >= layers)
    return fail(ErrorCode::kInvalid, "{} is {}, {} {}", model.key("nextn_predict_layers"), guessing,
                model.key("block_count"), layers);
  text["num_hidden_layers"] = layers - guessing;
  TRY(const std::int64_t head_dim, json::get_int_or(text, "head_dim", 256));
  TRY(const std::int64_t turned,
      metadata.get_int_or(model.key("rope.dimension_count"), head_dim / 4));
  if (head_dim < 1)
    return fail(ErrorCode::kInvalid, "{} is {}", model.key("attention.key_length"), head_dim);
  text["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(head_dim);
  return {};
}

// Its converter leaves out what llama.cpp knows by the size of the model.
Result<void> add_gemma_text(const GgufModel& model, json::object& text) {
  constexpr std::int64_t kLayersOf27B = 62;
  const GgufMetadata& metadata = model.metadata();
  TRY(const std::int64_t layers, json::get_int(text, "num_hidden_layers"));
  TRY(const std::int64_t hidden, json::get_int(text, "hidden_size"));
  TRY(const std::int64_t heads, json::get_int(text, "num_attention_heads"));
  TRY(const std::int64_t head_dim, json::get_int_or(text, "head_dim", 256));
  if (heads < 1)
    return fail(ErrorCode::kInvalid, "{} is {}", model.key("attention.head_count"), heads);
  double scalar = static_cast<double>(layers == kLayersOf27B ? hidden / heads : head_dim);
  TRY(const double scale, metadata.get_double_or(model.key("attention.scale"), 0));
  if (scale > 0) scalar = 1 / (scale * scale);
  text["query_pre_attn_scalar"] = scalar;
  TRY(text["sliding_window"], metadata.get_int(model.key("attention.sliding_window")));
  TRY(text["sliding_window_pattern"],
      metadata.get_int_or(model.key("attention.sliding_window_pattern"), 6));
  TRY(text["rope_local_base_freq"], metadata.get_double_or(model.key("rope.freq_base_swa"), 10000));
  return {};
}

Result<GgufConfig> read_gguf_config(const GgufModel& model, const GgufFamily& family) {
  GgufConfig read;
  json::object text;
  TRY_DO(add_extents(model, text));
  TRY_DO(add_rope(model, text));
  text["tie_word_embeddings"] = model.find("output.weight").tensor == nullptr;
  if (family.add_text != nullptr) TRY_DO(family.add_text(model, text));
  TRY_DO(check_turned(model, text));
  json::object& config = read.config;
  if (family.text_type.empty()) {
    config = std::move(text);
  } else {
    text["model_type"] = family.text_type;
    config["tie_word_embeddings"] = text["tie_word_embeddings"];
    config["text_config"] = std::move(text);
  }
  config["architectures"] = json::array{json::string(family.class_name)};
  config["model_type"] = family.model_type;
  config["torch_dtype"] = gguf_dtype(model);
  TRY_DO(add_token_ids(model, config));
  if (family.add_tower != nullptr) TRY_DO(family.add_tower(model, config, read.preprocessor));
  return read;
}

Result<json::object> read_gguf_generation(const GgufModel& model) {
  // Tokens that end an answer wherever they are control tokens, as llama.cpp has them.
  constexpr std::array<std::string_view, 9> kEnds = {
      "<|eot_id|>",      "<|im_end|>",         "<|end|>",
      "<end_of_turn>",   "<|endoftext|>",      "<|eom_id|>",
      "<|end_of_text|>", "<end_of_utterance>", "<EOT>"};
  constexpr std::int64_t kControl = 3;
  const GgufMetadata& metadata = model.metadata();
  std::vector<std::int64_t> ends;
  const auto add = [&](std::int64_t id) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  };
  for (const char* const key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                "tokenizer.ggml.eom_token_id"}) {
    if (!metadata.has(key)) continue;
    TRY(const std::int64_t id, metadata.get_int(key));
    add(id);
  }
  TRY(const auto tokens, metadata.get_strings("tokenizer.ggml.tokens"));
  TRY(const auto types, metadata.get_ints("tokenizer.ggml.token_type"));
  for (std::size_t id = 0; id < std::min(tokens.size(), types.size()); ++id) {
    if (types[id] == kControl && std::ranges::find(kEnds, tokens[id]) != kEnds.end())
      add(static_cast<std::int64_t>(id));
  }
  json::object generation;
  if (!ends.empty()) {
    json::array list;
    for (const std::int64_t id : ends) list.emplace_back(id);
    generation["eos_token_id"] = std::move(list);
  }
  struct Member {
    const char* from;
    const char* to;
  };
  for (const auto& [from, to] : {Member{"general.sampling.temp", "temperature"},
                                 {"general.sampling.top_p", "top_p"},
                                 {"general.sampling.min_p", "min_p"},
                                 {"general.sampling.penalty_repeat", "repetition_penalty"}}) {
    if (!metadata.has(from)) continue;
    TRY(generation[to], metadata.get_double(from));
  }
  if (metadata.has("general.sampling.top_k")) {
    TRY(generation["top_k"], metadata.get_int("general.sampling.top_k"));
  }
  return generation;
}

}  // namespace saccade

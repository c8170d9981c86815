// A GGUF's metadata as the config.json that transformers' class would have.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "model/gguf/gguf_family.h"
#include "model/gguf/gguf_model.h"

namespace saccade {

// config.json, and preprocessor_config.json where there is a tower. Errors name the key.
struct GgufConfig {
  json::object config;
  json::object preprocessor;
};
Result<GgufConfig> read_gguf_config(const GgufModel& model, const GgufFamily& family);

// generation_config.json: what ends an answer, and general.sampling's values.
Result<json::object> read_gguf_generation(const GgufModel& model);

// GgufFamily::add_text.
Result<void> add_llama_text(const GgufModel& model, json::object& text);
Result<void> add_expert_text(const GgufModel& model, json::object& text);
Result<void> add_qwen35_text(const GgufModel& model, json::object& text);
Result<void> add_gemma_text(const GgufModel& model, json::object& text);

}  // namespace saccade

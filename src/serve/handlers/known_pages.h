// What clients of vLLM and of llama-server ask about a server that generates: GET /tokenizer_info,
// /props and /slots.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "serve/router.h"

namespace saccade::serve {

struct KnownModel {
  std::string name;                // as requests name it
  std::string path;                // the checkpoint's folder
  std::string tokenizer;           // the folder of its tokenizer_config.json
  std::string chat_template = {};  // empty: none
  json::object tokens = {};        // "bos_token" and the like
  bool vision = false;
  bool video = false;
  std::int64_t max_model_len = 0;
  std::int64_t max_running = 0;
};

// tokenizer_config.json's members, with the chat template that is in use. kNotFound: there is none.
Result<std::string> tokenizer_info(const KnownModel& model);
// llama-server's shapes: its slots are the places of requests that run.
std::string props(const KnownModel& model, std::string_view version);
std::string slots(const KnownModel& model, std::int64_t running);

// Before the router's first handle().
void add_known_pages(Router& router, KnownModel model, std::function<std::int64_t()> running);

}  // namespace saccade::serve

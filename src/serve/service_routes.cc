// Which paths a model that generates answers, and by what.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "api/requests/similarity.h"
#include "serve/handlers/detokenize.h"
#include "serve/handlers/known_pages.h"
#include "serve/handlers/lora_routes.h"
#include "serve/handlers/metrics_page.h"
#include "serve/handlers/metrics_text.h"
#include "serve/handlers/playground.h"
#include "serve/service.h"

namespace saccade::serve {

// vLLM's: gateways read the block size and the number of blocks from it.
void Service::add_cache_config(MetricsText& page) const {
  const ModelShape& shape = processor_.shape();
  const EngineSettings& engine = engine_.settings();
  std::int64_t token_bytes = 0;  // of what is kept as long as its sequence
  for (const LayerShape& layer : shape.layers)
    if (layer.window == 0) token_bytes += 2 * layer.kv_heads * layer.head_dim;
  token_bytes *= static_cast<std::int64_t>(size_of(shape.cache_dtype));
  const auto bytes = static_cast<std::int64_t>(engine.kv_cache_bytes);
  const std::int64_t blocks = token_bytes > 0 ? bytes / (token_bytes * engine.block_size) : 0;
  const std::int64_t tokens = blocks * engine.block_size;
  const double longest = static_cast<double>(std::max<std::int64_t>(engine.max_model_len, 1));
  page.gauge(
      "vllm:cache_config_info", "The KV cache's configuration.", 1,
      {{"block_size", std::to_string(engine.block_size)},
       {"num_gpu_blocks", std::to_string(blocks)},
       {"kv_cache_size_tokens", std::to_string(tokens)},
       {"kv_cache_max_concurrency", fmt::format("{:.2f}", static_cast<double>(tokens) / longest)},
       {"cache_dtype", std::string(name_in(kKvDtypes, settings_.kv_dtype))},
       {"enable_prefix_caching", engine.prefix_caching ? "True" : "False"}});
}

void Service::add_known() {
  KnownModel model{.name = settings_.served_model_name.front(),
                   .path = settings_.model,
                   .tokenizer = settings_.tokenizer.empty() ? settings_.model : settings_.tokenizer,
                   .vision = processor_.shape().has_vision,
                   .video = processor_.shape().frames_per_grid > 0,
                   .max_model_len = engine_.settings().max_model_len,
                   .max_running = engine_.settings().max_sequences};
  if (const auto& loaded = builder_.loaded_template()) {
    model.chat_template = loaded->source;
    model.tokens = loaded->variables;
  }
  add_known_pages(router_, std::move(model),
                  [this] { return engine_.stats().num_requests_running; });
}

void Service::add_routes() {
  const auto work = [this](std::string_view path, auto handler,
                           api::ErrorShape errors = api::ErrorShape::kOpenAi) {
    router_.add_work(path, *this, handler, errors);
  };
  for (const std::string_view path : {"/v1/chat/completions", "/chat/completions"})
    work(path, &Service::chat);
  work("/v1/chat/completions/batch", &Service::chat_batch);
  for (const std::string_view path : {"/v1/completions", "/completions"})
    work(path, &Service::completions);
  for (const std::string_view path : {"/v1/responses", "/responses"})
    work(path, &Service::responses);
  work("/v1/responses/input_tokens", &Service::response_tokens);
  work("/invocations", &Service::invocations);
  responses_.add_routes(router_);
  work("/v1/messages", &Service::messages, api::ErrorShape::kMessages);
  work("/v1/messages/count_tokens", &Service::count_tokens, api::ErrorShape::kMessages);
  router_.add_refusal("/v1/embeddings", "Embeddings");
  router_.add_refusal("/pooling", "Pooling");
  for (const std::string_view path : api::kScorePaths) router_.add_refusal(path, "Score");
  for (const std::string_view path : api::kRerankPaths) router_.add_refusal(path, "Rerank");
  work("/tokenize", &Service::tokenize);
  router_.add_json("POST", "/detokenize", true, [this](const net::HttpRequest& request) {
    return detokenized(request.body, *builder_.tokenizer(), router_);
  });
  router_.add_status_routes([this] { return cards(); });
  if (adapters_ != nullptr) {
    router_.set_more_models([this](const std::string& name) { return adapters_->has(name); });
    if (settings_.lora.runtime_updates) add_lora_routes(router_, *adapters_);
  }
  if (settings_.page) add_playground(router_);
  router_.add_info_routes({.vision = processor_.shape().has_vision,
                           .max_model_len = engine_.settings().max_model_len,
                           .max_running = engine_.settings().max_sequences},
                          [this] {
                            const EngineStats stats = engine_.stats();
                            const auto preparing = static_cast<std::int64_t>(router_.preparing());
                            return api::ServerLoad{stats.num_requests_running,
                                                   stats.num_requests_waiting + preparing,
                                                   stats.kv_cache_usage};
                          });
  add_known();
  add_upkeep_routes();
}

// Metrics, and what is reset.
void Service::add_upkeep_routes() {
  router_.add_metrics([this] {
    return metrics_.render(
        {router_.preparing(), router_.held_bytes().used(), router_.held_bytes().limit(), sizer_});
  });
  router_.add({"POST", "/reset_prefix_cache",
               [this](const net::HttpRequest&, const Reply& reply) { reset_prefix_cache(reply); },
               true});
  router_.add({"POST", "/reset_mm_cache",
               [this](const net::HttpRequest&, const Reply& reply) {
                 engine_.reset_mm_cache();
                 router_.respond(reply, {200, "text/plain", "", {}});
               },
               true});
  for (const std::string_view path : {"/start_profile", "/stop_profile"}) {
    router_.add_json("POST", path, false, [](const net::HttpRequest&) -> Result<std::string> {
      return fail(ErrorCode::kUnsupported, "this server has no profiler to start or stop");
    });
  }
}

}  // namespace saccade::serve

#include "serve/handlers/lora_routes.h"

#include "api/pages/error_table.h"
#include "base/json.h"
#include "base/log.h"

namespace saccade::serve {
namespace {

// What both routes are sent.
struct Asked {
  LoraModule module;
  bool in_place = false;
};

Result<Asked> parse(Router& router, const std::string& body) {
  TRY(const json::value tree, json::parse(body));
  if (!tree.is_object()) return fail(ErrorCode::kInvalid, "the body is no JSON object");
  const json::object& members = tree.get_object();
  std::vector<std::string> unknown;
  for (const auto& member : members) {
    const std::string_view name(member.key());
    if (name == "is_3d_lora_weight" && member.value() == json::value(true))
      return fail(ErrorCode::kUnsupported, "is_3d_lora_weight true is not supported");
    if (name != "lora_name" && name != "lora_path" && name != "load_inplace" &&
        name != "lora_int_id" && name != "is_3d_lora_weight" && name != "base_model_name")
      unknown.emplace_back(name);
  }
  router.warn_unknown(unknown);
  Asked asked;
  TRY(asked.module.name, json::get_string_or(members, "lora_name", ""));
  TRY(asked.module.path, json::get_string_or(members, "lora_path", ""));
  TRY(asked.module.base_model_name, json::get_string_or(members, "base_model_name", ""));
  TRY(asked.in_place, json::get_bool_or(members, "load_inplace", false));
  return asked;
}

// As vLLM answers: a name that is wrong is the user's input, a folder that is wrong a bad request.
net::HttpResponse refusal(const Error& error, bool of_input) {
  const bool absent = error.code == ErrorCode::kNotFound;
  const int status = absent ? 404 : error.code == ErrorCode::kExhausted ? 503 : 400;
  const std::string_view type = absent     ? "NotFoundError"
                                : of_input ? "InvalidUserInput"
                                           : "BadRequestError";
  return json_response(api::error_body(status, type, error.message, api::ErrorShape::kOpenAi),
                       status);
}

net::HttpResponse success(const std::string& name, std::string_view what) {
  return {200,
          "text/plain; charset=utf-8",
          fmt::format("Success: LoRA adapter '{}' {} successfully.", name, what),
          {}};
}

}  // namespace

void add_lora_routes(Router& router, LoraAdapters& adapters) {
  router.add({"POST", "/v1/load_lora_adapter",
              [&](const net::HttpRequest& request, const Reply& reply) {
                const auto asked = parse(router, request.body);
                if (!asked) return router.respond(reply, refusal(asked.error(), false));
                const LoraModule& module = asked->module;
                const bool of_input = module.name.empty() || module.path.empty() ||
                                      (adapters.has(module.name) && !asked->in_place);
                const auto added = adapters.add(module, asked->in_place);
                router.respond(reply, added ? success(module.name, "added")
                                            : refusal(added.error(), of_input));
              },
              true, true});
  router.add({"POST", "/v1/unload_lora_adapter",
              [&](const net::HttpRequest& request, const Reply& reply) {
                const auto asked = parse(router, request.body);
                if (!asked) return router.respond(reply, refusal(asked.error(), false));
                const std::string& name = asked->module.name;
                Result<void> removed;
                if (name.empty()) {
                  removed = fail(ErrorCode::kInvalid,
                                 "'lora_name' needs to be provided to unload a LoRA adapter.");
                } else {
                  removed = adapters.remove(name);
                }
                if (removed) log::info("adapter '{}' has been unloaded", name);
                router.respond(reply,
                               removed ? success(name, "removed") : refusal(removed.error(), true));
              },
              true, true});
}

}  // namespace saccade::serve

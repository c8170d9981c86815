#include "serve/stored_responses.h"

#include <utility>

#include "api/response_writer.h"
#include "base/hash.h"
#include "cluster/access.h"

namespace saccade::serve {
namespace {

constexpr std::string_view kPrefix = "/v1/responses/";

// Nobody guesses it: it is what lets a client see the response.
std::string fresh_id() { return "resp_" + to_hex(sha256(cluster::random_bytes(32))).substr(0, 48); }

Error gone(std::string_view what, std::string_view id, std::string_view param) {
  return {ErrorCode::kNotFound,
          fmt::format("{} '{}' is not found: it was never stored, is deleted, or had to make room "
                      "(--response-store-bytes)",
                      what, id.substr(0, 128)),
          std::string(param)};
}

}  // namespace

// With keys a response is its key's; without, whoever has the id may see it: clients change
// addresses.
std::uint64_t StoredResponses::owner_of(const Reply& reply) const {
  return settings_.api_keys.empty() ? 0 : reply.client;
}

void StoredResponses::add_routes(Router& router) const {
  router.add({"GET", kPrefix,
              [this](const net::HttpRequest& request, const Reply& reply) { get(request, reply); },
              true});
  router.add(
      {"DELETE", kPrefix,
       [this](const net::HttpRequest& request, const Reply& reply) { remove(request, reply); },
       true});
}

void StoredResponses::get(const net::HttpRequest& request, const Reply& reply) const {
  const std::string id = request.path.substr(kPrefix.size());
  if (request.query.find("stream=true") != std::string::npos)
    return router_.respond_error(
        reply, {ErrorCode::kInvalid,
                "'stream' is not supported for a stored response: it is complete", "stream"});
  const auto found = store_->find(id, owner_of(reply));
  if (!found) return router_.respond_error(reply, gone("Response", id, "response_id"));
  router_.respond(reply, json_response(found->body));
}

void StoredResponses::remove(const net::HttpRequest& request, const Reply& reply) const {
  const std::string id = request.path.substr(kPrefix.size());
  if (!store_->remove(id, owner_of(reply)))
    return router_.respond_error(reply, gone("Response", id, "response_id"));
  router_.respond(reply, json_response(api::deleted_response(id)));
}

Result<StoredResponses::Begun> StoredResponses::begin(const net::HttpRequest& request,
                                                      const Reply& reply) const {
  TRY(api::ResponseRequest asked, api::parse_response_request(request.body));
  TRY_DO(router_.check_model(asked.model));
  if (store_->most_bytes() == 0) asked.store = false;
  std::vector<api::ItemText> history;
  if (asked.previous_response_id) {
    const std::string& id = *asked.previous_response_id;
    const auto previous = store_->find(id, owner_of(reply));
    if (!previous) return fail(gone("Previous response with id", id, "previous_response_id"));
    history = previous->history;
  }
  TRY_DO(api::add_conversation(asked, history));

  Begun begun;
  api::ResponseForm form;
  form.head = router_.head("resp_", "", asked.model);
  form.head.id = begun.id = fresh_id();
  form.stream = asked.chat.delivery.stream;
  form.settings = api::response_settings(asked);
  if (asked.store) {
    history.push_back(asked.input);
    // The input's bytes stay reserved until they are the store's.
    form.ended = [store = store_, id = begun.id, history = std::move(history),
                  owner = owner_of(reply),
                  reserved = request.reserved](const std::string& response, std::string items) {
      StoredResponse kept{response, history, owner};
      kept.history.push_back(std::make_shared<const std::string>(std::move(items)));
      store->put(id, std::move(kept));
    };
  }
  begun.writer = api::response_writer(std::move(form));
  begun.chat = std::move(asked.chat);
  return begun;
}

}  // namespace saccade::serve

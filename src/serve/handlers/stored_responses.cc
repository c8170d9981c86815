#include "serve/handlers/stored_responses.h"

#include <utility>

#include "api/answers/response_writer.h"
#include "api/requests/response_input.h"
#include "base/hash.h"
#include "cluster/access.h"

namespace saccade::serve {
namespace {

constexpr std::string_view kOne = "/v1/responses/{id}";
constexpr std::string_view kItems = "/v1/responses/{id}/input_items";
constexpr std::string_view kCancel = "/v1/responses/{id}/cancel";

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
  const auto route = [&](std::string_view method, std::string_view path,
                         void (StoredResponses::*handler)(const net::HttpRequest&, const Reply&)
                             const) {
    router.add({method, path,
                [this, handler](const net::HttpRequest& request, const Reply& reply) {
                  (this->*handler)(request, reply);
                },
                true});
  };
  route("GET", kOne, &StoredResponses::get);
  route("DELETE", kOne, &StoredResponses::remove);
  route("GET", kItems, &StoredResponses::input_items);
  route("POST", kCancel, &StoredResponses::cancel);
}

void StoredResponses::get(const net::HttpRequest& request, const Reply& reply) const {
  const std::string id(segment_of(kOne, request.path));
  if (request.query.find("stream=true") != std::string::npos)
    return router_.respond_error(
        reply, {ErrorCode::kInvalid,
                "'stream' is not supported for a stored response: it is complete", "stream"});
  const auto found = store_->find(id, owner_of(reply));
  if (!found) return router_.respond_error(reply, gone("Response", id, "response_id"));
  router_.respond(reply, json_response(found->body));
}

void StoredResponses::remove(const net::HttpRequest& request, const Reply& reply) const {
  const std::string id(segment_of(kOne, request.path));
  if (!store_->remove(id, owner_of(reply)))
    return router_.respond_error(reply, gone("Response", id, "response_id"));
  router_.respond(reply, json_response(api::deleted_response(id)));
}

void StoredResponses::input_items(const net::HttpRequest& request, const Reply& reply) const {
  const std::string id(segment_of(kItems, request.path));
  const auto found = store_->find(id, owner_of(reply));
  if (!found) return router_.respond_error(reply, gone("Response", id, "response_id"));
  const auto page = api::parse_item_page(request.query);
  if (!page) return router_.respond_error(reply, page.error());
  // The last is what was answered.
  const std::span<const api::ItemText> conversation(found->history);
  router_.respond(reply, api::input_items(conversation.first(conversation.size() - 1), id, *page));
}

// An answer that is stored has ended, and one that runs ends when its client leaves.
void StoredResponses::cancel(const net::HttpRequest& request, const Reply& reply) const {
  const std::string id(segment_of(kCancel, request.path));
  if (!store_->find(id, owner_of(reply)))
    return router_.respond_error(reply, gone("Response", id, "response_id"));
  router_.respond_error(reply, {ErrorCode::kInvalid,
                                "this response has ended: only one with 'background', which this "
                                "server does not have, could be cancelled",
                                "response_id"});
}

Result<StoredResponses::Asked> StoredResponses::read(const net::HttpRequest& request,
                                                     const Reply& reply) const {
  TRY(api::ResponseRequest asked, api::parse_response_request(request.body));
  TRY_DO(router_.check_model(asked.model));
  std::vector<api::ItemText> history;
  if (asked.previous_response_id) {
    const std::string& id = *asked.previous_response_id;
    const auto previous = store_->find(id, owner_of(reply));
    if (!previous) return fail(gone("Previous response with id", id, "previous_response_id"));
    history = previous->history;
  }
  TRY_DO(api::add_conversation(asked, history));
  return Asked{std::move(asked), std::move(history)};
}

Result<api::ChatRequest> StoredResponses::conversation(const net::HttpRequest& request,
                                                       const Reply& reply) const {
  TRY(Asked asked, read(request, reply));
  return std::move(asked.request.chat);
}

Result<StoredResponses::Begun> StoredResponses::begin(const net::HttpRequest& request,
                                                      const Reply& reply) const {
  TRY(Asked read_request, read(request, reply));
  api::ResponseRequest& asked = read_request.request;
  std::vector<api::ItemText>& history = read_request.history;
  if (store_->max_bytes() == 0) asked.store = false;

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

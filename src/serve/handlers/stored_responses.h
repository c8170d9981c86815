// What /v1/responses has beside an answer: conversations that go on, and GET, DELETE, input_items
// and cancel of what is kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/answers/answer_writer.h"
#include "api/requests/response_request.h"
#include "serve/handlers/response_store.h"
#include "serve/router.h"

namespace saccade::serve {

class StoredResponses {
 public:
  StoredResponses(const ServeSettings& settings, const Router& router)
      : settings_(settings),
        router_(router),
        store_(std::make_shared<ResponseStore>(settings.response_store_bytes)) {}

  void add_routes(Router& router) const;

  // A request whose conversation is complete: kNotFound names the response that is gone.
  // `reserved` is held while the input is.
  struct Begun {
    api::ChatRequest chat;
    std::string id;
    std::unique_ptr<api::AnswerWriter> writer;
  };
  Result<Begun> begin(const net::HttpRequest& request, const Reply& reply) const;
  // The same conversation, for its tokens to be counted.
  Result<api::ChatRequest> conversation(const net::HttpRequest& request, const Reply& reply) const;

 private:
  struct Asked {
    api::ResponseRequest request;        // its chat is the whole conversation
    std::vector<api::ItemText> history;  // before its input
  };
  Result<Asked> read(const net::HttpRequest& request, const Reply& reply) const;
  std::uint64_t owner_of(const Reply& reply) const;
  void get(const net::HttpRequest& request, const Reply& reply) const;
  void remove(const net::HttpRequest& request, const Reply& reply) const;
  void input_items(const net::HttpRequest& request, const Reply& reply) const;
  void cancel(const net::HttpRequest& request, const Reply& reply) const;

  const ServeSettings& settings_;
  const Router& router_;
  std::shared_ptr<ResponseStore> store_;  // answers that run use it
};

}  // namespace saccade::serve

#include "serve/handlers/detokenize.h"

#include "api/answers/responses.h"
#include "api/requests/tokenize_request.h"

namespace saccade::serve {

Result<std::string> detokenized(const std::string& body, const Tokenizer& tokenizer,
                                Router& router) {
  TRY(const api::DetokenizeRequest detokenize, api::parse_detokenize_request(body));
  TRY_DO(router.check_model(detokenize.model));
  router.warn_unknown(detokenize.unknown);
  std::vector<TokenId> ids;
  for (const std::int64_t id : detokenize.tokens) {
    if (id < 0 || id >= tokenizer.vocab_size()) {
      return fail(Error{
          ErrorCode::kInvalid,
          fmt::format("token id {} is outside the vocabulary of {}", id, tokenizer.vocab_size()),
          "tokens"});
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return api::detokenize_response(tokenizer.decode(ids, false));
}

}  // namespace saccade::serve

#include "serve/requests/limited_tokenizer.h"

namespace saccade::serve {

std::vector<TokenId> LimitedTokenizer::encode(std::string_view utf8,
                                              const EncodeOptions& options) const {
  if (ended_.stopped) return {};
  EncodeLimit limit;
  limit.max_tokens = static_cast<std::size_t>(max_tokens_);
  limit.cancelled = cancelled_;
  const auto* stoppable = dynamic_cast<const StoppableTokenizer*>(&inner_);
  std::vector<TokenId> ids = stoppable != nullptr ? stoppable->encode_within(utf8, options, limit)
                                                  : inner_.encode(utf8, options);
  if (!limit.stopped) return ids;
  ended_ = limit;
  return {};
}

Result<void> LimitedTokenizer::check() const {
  if (!ended_.stopped) return {};
  if (ended_.at_least == 0) return fail(ErrorCode::kCancelled, "the client went away");
  return fail(
      ErrorCode::kInvalid,
      "This model's maximum context length is {} tokens. However, your request has at least "
      "{} input tokens. Please reduce the length of the input messages.",
      max_tokens_, ended_.at_least);
}

}  // namespace saccade::serve

#include "model/text_model.h"

#include <memory>
#include <utility>

#include "model/prompts/placeholders.h"
#include "model/text_network.h"

namespace saccade {
namespace {

class TextProcessor final : public Processor {
 public:
  using Processor::Processor;

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    if (!images.empty()) return fail(ErrorCode::kUnsupported, "{} takes no images", shape().family);
    return wrap_tokens(encode_guarded(tokenizer, rendered, add_special_tokens));
  }
};

}  // namespace

Result<UnloadedModel> make_text_model(std::string_view family, const Checkpoint& checkpoint,
                                      DecoderConfig decoder, DecoderNames names) {
  TRY(ModelShape shape, describe_model(family, checkpoint, decoder));
  return UnloadedModel{
      std::make_unique<TextProcessor>(shape),
      make_network(std::move(shape), std::move(decoder.settings), std::move(names))};
}

}  // namespace saccade

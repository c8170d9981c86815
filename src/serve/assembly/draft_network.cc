#include "serve/assembly/draft_network.h"

#include <algorithm>

#include "base/text/printable.h"
#include "engine/drafting/draft_model.h"
#include "model/checkpoint/checkpoint.h"
#include "serve/assembly/quantization_choice.h"

namespace saccade::serve {
namespace {

Result<Model> load(const DraftSettings& settings, const ServedTokens& served, LoadOptions options,
                   Device& device) {
  TRY(const std::string directory, resolve_checkpoint(settings.model));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  options.text_layers = {};
  TRY_DO(choose_quantization(settings.quantization, checkpoint.config, options));
  TRY(const Family* family, family_of(checkpoint.config));
  if (family->create_encoder != nullptr)
    return fail(ErrorCode::kUnsupported, "{} embeds text and continues none", family->name);
  // Before its weights are: a wrong folder is told at once.
  TRY(const UnloadedModel sketch, create_model(checkpoint));
  const ModelShape& shape = sketch.shape();
  TRY_DO(DraftModel::check_shape(shape));
  auto tokenizer = load_tokenizer(checkpoint.files);
  if (!tokenizer && tokenizer.error().code != ErrorCode::kNotFound)
    return fail(std::move(tokenizer).error());
  TRY_DO(check_same_tokens(served, directory, tokenizer ? tokenizer->get() : nullptr, shape.vocab));

  // Asked of a model without four bits it is an error, and that was asked of the other model.
  if (options.int8_rows == Int8Rows::kBeforeFourBits && !options.four_bit_text)
    options.int8_rows = Int8Rows::kStated;
  options.head = {};
  options.parts = Parts::kText;
  return load_model(checkpoint, device, options);
}

}  // namespace

Result<Model> load_draft(const DraftSettings& settings, const ServedTokens& served,
                         LoadOptions options, Device& device) {
  auto model = load(settings, served, options, device);
  if (!model)
    return fail_within("--speculative-config, model " + settings.model, std::move(model).error());
  return model;
}

Result<void> check_same_tokens(const ServedTokens& served, const std::string& directory,
                               const Tokenizer* draft, std::int64_t vocab) {
  if (draft == nullptr) {
    if (vocab == served.vocab) return {};
    return fail(ErrorCode::kInvalid, "{} has {} tokens, the model in {} has {}", directory, vocab,
                served.directory, served.vocab);
  }
  // One may have more at the end, as placeholders of images are.
  const std::int32_t count = std::min(draft->vocab_size(), served.tokenizer->vocab_size());
  for (TokenId id = 0; id < count; ++id) {
    const std::string_view ours = served.tokenizer->piece(id);
    const std::string_view its = draft->piece(id);
    if (ours == its) continue;
    return fail(ErrorCode::kInvalid,
                "its tokens are others: token {} is \"{}\" in {}, and \"{}\" in {}", id,
                printable(its), directory, printable(ours), served.directory);
  }
  return {};
}

}  // namespace saccade::serve

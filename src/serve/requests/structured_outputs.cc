#include "serve/requests/structured_outputs.h"

namespace saccade::serve {
namespace {

grammar::Whitespace whitespace_of(api::StructuredOutput::Blanks blanks) {
  using Blanks = api::StructuredOutput::Blanks;
  if (blanks == Blanks::kAny) return grammar::Whitespace::kAny;
  if (blanks == Blanks::kNone) return grammar::Whitespace::kCompact;
  // A model that likes blanks writes nothing else until its tokens are spent.
  return grammar::Whitespace::kBounded;
}

grammar::GrammarSpec spec_of(const api::StructuredOutput& wanted,
                             api::StructuredOutput::Blanks by_default) {
  using From = api::StructuredOutput::Kind;
  using To = grammar::GrammarSpec::Kind;
  grammar::GrammarSpec spec;
  switch (wanted.kind) {
    case From::kJsonObject:
      spec.kind = To::kJsonObject;
      break;
    case From::kJsonSchema:
      spec.kind = To::kJsonSchema;
      break;
    case From::kRegex:
      spec.kind = To::kRegex;
      break;
    case From::kChoice:
      spec.kind = To::kChoice;
      break;
    case From::kGrammar:
      spec.kind = To::kEbnf;
      break;
    case From::kStructuralTag:
      spec.kind = To::kStructuralTag;
      break;
    case From::kDemandedCalls:
      spec.kind = To::kRequiredStructures;
      break;
  }
  spec.text = wanted.text;
  spec.choices = wanted.choices;
  const bool asked = wanted.blanks != api::StructuredOutput::Blanks::kDefault;
  spec.json.whitespace = whitespace_of(asked ? wanted.blanks : by_default);
  return spec;
}

}  // namespace

Result<std::shared_ptr<const grammar::CompiledGrammar>> StructuredOutputs::find(
    const api::StructuredOutput& wanted) const {
  std::call_once(made_, [&] {
    cache_.emplace(std::make_shared<const grammar::Vocabulary>(
                       *tokenizer_, static_cast<std::int32_t>(vocab_), eos_),
                   kMaxBytes);
  });
  auto found = cache_->find(spec_of(wanted, blanks_));
  if (found) return found;
  // Whatever is wrong with it is wrong with the request; its size is not that of a body.
  return fail(Error{ErrorCode::kInvalid,
                    fmt::format("'{}': {}", wanted.param, found.error().message), wanted.param});
}

}  // namespace saccade::serve

// The same answers with tokens guessed ahead as without: tokens, texts, log-probabilities and how
// they end, whatever else the engine does meanwhile.
#include "tests/property/engine_world.h"
#include "tests/support/letter_tokenizer.h"

namespace saccade {
namespace {

// A model that says the same again much of the time, so that guesses are right and wrong.
FakeModelOptions echoing(std::vector<LayerShape> layers) {
  FakeModelOptions options;
  options.layers = std::move(layers);
  options.echoes = 13;
  return options;
}

Changes guessing() {
  Changes changes;
  changes.guesses = true;
  changes.settings = [](Choices& choices, EngineSettings& settings) {
    settings.speculation.max_tokens = choices.between(1, 7);
    settings.speculation.shortest = choices.between(1, 2);
    settings.speculation.longest = settings.speculation.shortest + choices.pick(3);
  };
  changes.script = [](Choices& choices, Script& script) {
    SamplingParams& sampling = script.sampling;
    sampling.max_tokens = choices.between(1, 29);
    if (choices.coin()) sampling.ignore_eos = true;
    if (choices.coin()) sampling.logprobs = static_cast<int>(choices.pick(3));
    switch (choices.pick(8)) {
      case 0:
        sampling.frequency_penalty = 4;
        break;
      case 1:
        sampling.min_tokens = choices.between(1, 20);
        break;
      case 2:
        sampling.bad_words = std::vector<std::vector<TokenId>>{{41, 42}, {43}};
        break;
      case 3:
        sampling.logit_bias = std::vector<TokenBias>{{42, -9.0f}, {44, 6.0f}};
        break;
      case 4:
        sampling.stop_token_ids = std::vector<TokenId>{43};
        break;
      case 5:
        sampling.stop = std::vector<std::string>{"*+", ")"};
        script.tokenizer = std::make_shared<LetterTokenizer>();
        break;
      case 6:
        sampling.presence_penalty = 2;
        sampling.top_k = 3;
        break;
      default:
        break;
    }
  };
  return changes;
}

TEST(EngineSpeculation, FullAttention) {
  scenarios(echoing({full(), full()}), 60, Sight::kCausal, guessing());
}

TEST(EngineSpeculation, MixedWindows) {
  scenarios(echoing({window(9), full(), window(9), window(9)}), 60, Sight::kCausal, guessing());
}

TEST(EngineSpeculation, DifferentPages) {
  scenarios(
      echoing({{LayerKind::kFull, 0, 3, 8}, window(6), {LayerKind::kSlidingWindow, 14, 2, 8}}), 60,
      Sight::kCausal, guessing());
}

TEST(EngineSpeculation, BidirectionalPrefixes) {
  scenarios(echoing({full(), full(), window(12)}), 60, Sight::kPrefix, guessing());
}

// Guesses of another model: of one that says the same, of one that says the same only where text
// repeats, of one that is hardly ever right.
Changes drafted(const FakeModelOptions& draft) {
  Changes changes = guessing();
  changes.draft = draft;
  changes.settings = [](Choices& choices, EngineSettings& settings) {
    settings.speculation.max_tokens = choices.between(1, 7);
    // From a page to room for all.
    const std::int64_t page = settings.block_size * 2 * 2 * 8 * 4;
    if (choices.coin()) settings.speculation.draft.kv_cache_bytes = page * choices.between(1, 120);
    if (choices.pick(4) == 0) settings.speculation.draft.max_model_len = choices.between(2, 70);
  };
  return changes;
}

TEST(EngineSpeculation, DraftModelThatSaysTheSame) {
  scenarios(echoing({full(), full()}), 60, Sight::kCausal, drafted(echoing({full(), full()})));
}

TEST(EngineSpeculation, DraftModelOfOtherLayers) {
  FakeModelOptions draft = echoing({window(5), full()});
  draft.hidden = 4;
  draft.position_axes = 3;
  scenarios(echoing({window(9), full(), window(9), window(9)}), 60, Sight::kCausal, drafted(draft));
}

TEST(EngineSpeculation, DraftModelThatIsWrong) {
  FakeModelOptions draft;
  draft.vocab = 80;  // more than the model has
  Changes changes = drafted(draft);
  changes.guesses = false;  // hardly any is right
  scenarios(echoing({full(), full()}), 60, Sight::kPrefix, changes);
}

}  // namespace
}  // namespace saccade

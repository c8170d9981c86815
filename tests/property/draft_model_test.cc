// A draft model on its own: what it guesses whatever it has read before, how much it reads at once,
// and what becomes of its pages.
#include "engine/drafting/draft_model.h"

#include "tests/property/engine_world.h"

namespace saccade {
namespace {

using Tokens = std::vector<TokenId>;

Tokens text_of(Choices& choices, std::int64_t length) {
  Tokens tokens;
  for (std::int64_t i = 0; i < length; ++i)
    tokens.push_back(static_cast<TokenId>(choices.between(6, 40)));
  return tokens;
}

DraftPlan plan_of(std::int64_t max_tokens = 4) {
  DraftPlan plan;
  plan.max_tokens = max_tokens;
  plan.max_drafted = 8;
  plan.max_sequences = 8;
  plan.length = 2000;
  plan.vocab = 64;
  plan.block_tokens = 4;
  return plan;
}

// A draft model with what it needs.
class Draft {
 public:
  explicit Draft(const DraftSettings& settings = {}, DraftPlan plan = plan_of(),
                 const FakeModelOptions& options = {})
      : device_(engine_device("reference")), network_(options) {
    log::set_level(log::Level::kError);
    auto made = DraftModel::create(plan, settings, network_, *device_, clock_);
    if (made) {
      model_ = *std::move(made);
    } else {
      error_ = made.error();
    }
  }
  DraftModel& operator*() { return *model_; }
  DraftModel* operator->() { return model_.get(); }
  FakeModel& network() { return network_; }
  const Error& error() const { return error_; }

  DraftModel::Ask ask(DraftReader& reader, const Tokens& tokens, std::int64_t count,
                      std::int64_t compare_from = 1 << 20) {
    DraftModel::Ask ask;
    ask.reader = &reader;
    ask.tokens = tokens;
    ask.count = count;
    ask.compare_from = compare_from;
    model_->propose({&ask, 1});
    return ask;
  }

 private:
  VirtualClock clock_;
  std::unique_ptr<Device> device_;
  FakeModel network_;
  std::unique_ptr<DraftModel> model_;
  Error error_;
};

// What an engine says to it, greedily.
Tokens said(const Tokens& prompt, std::int64_t count) {
  Script script;
  script.ids = prompt;
  script.sampling.max_tokens = count;
  script.sampling.temperature = 0;
  script.sampling.ignore_eos = true;
  EngineSettings settings = roomy();
  settings.max_model_len = 1000;
  settings.kv_cache_bytes = 1 << 20;
  Bench bench(settings, {});
  const RequestId id = bench.submit(script);
  bench.run_out(false);
  return bench.requests().at(id).tokens;
}

constexpr std::size_t kPageBytes = 4 * 2 * 2 * 8 * 4;  // 4 tokens of the fake model's two layers

TEST(DraftModel, GuessesWhatTheModelSays) {
  Choices choices = Choices::random(1);
  Draft draft;
  for (int i = 0; i < 8; ++i) {
    const Tokens prompt = text_of(choices, choices.between(1, 40));
    DraftReader reader;
    const auto count = choices.between(1, 4);
    const DraftModel::Ask ask = draft.ask(reader, prompt, count);
    EXPECT_TRUE(ask.read);
    EXPECT_EQ(ask.draft, said(prompt, count));
    draft->release(reader);
  }
  EXPECT_EQ(draft->usage(), 0);
}

// Some guesses come, some do not, some are never tried: what is guessed next is what a fresh reader
// guesses, and what came is not read again.
TEST(DraftModel, WhatDidNotComeIsTakenBack) {
  Choices choices = Choices::random(2);
  Draft draft;
  Draft fresh;
  DraftReader reader;
  Tokens tokens = text_of(choices, 9);
  Tokens proposed;
  for (int round = 0; round < 60; ++round) {
    const auto hits =
        static_cast<std::size_t>(choices.pick(static_cast<std::int64_t>(proposed.size()) + 1));
    tokens.insert(tokens.end(), proposed.begin(),
                  proposed.begin() + static_cast<std::ptrdiff_t>(hits));
    if (hits == 0 || choices.coin()) tokens.push_back(static_cast<TokenId>(choices.between(6, 40)));
    if (round > 0) {
      EXPECT_LE(reader.unread(tokens), 2) << hits << " of " << proposed.size() << " came";
    }
    const auto count = choices.pick(5);
    proposed = draft.ask(reader, tokens, count).draft;
    DraftReader other;
    EXPECT_EQ(proposed, fresh.ask(other, tokens, count).draft);
    fresh->release(other);
  }
}

TEST(DraftModel, SaysOfTokensThatCameWhetherItWouldHaveGuessedThem) {
  Choices choices = Choices::random(3);
  Draft draft;
  const Tokens prompt = text_of(choices, 12);
  Tokens tokens = prompt;
  const Tokens answer = said(prompt, 10);
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  DraftReader reader;
  EXPECT_EQ(draft.ask(reader, tokens, 0, 12).hits, std::vector<bool>(10, true));
  // Another token than it says: it is the only one, as the rest follows from what is there.
  tokens.push_back(said(tokens, 1)[0] + 1);
  const Tokens rest = said(tokens, 30);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  std::vector<bool> expected(31, true);
  expected[0] = false;
  DraftReader other;
  const std::vector<bool> hits = draft.ask(other, tokens, 0, 22).hits;
  EXPECT_EQ(std::ssize(hits), DraftModel::kMaxCompared);
  EXPECT_EQ(hits, std::vector<bool>(expected.end() - std::ssize(hits), expected.end()));
  // Its own continuation from the other token on.
  const Tokens part(tokens.begin(), tokens.begin() + 24);
  DraftReader third;
  EXPECT_EQ(draft.ask(third, part, 0, 21).hits, (std::vector<bool>{true, false, true}));
}

// A long text is read in parts, and who is up to date does not wait for it.
TEST(DraftModel, ReadsLongTextsInParts) {
  Choices choices = Choices::random(4);
  Draft draft;
  const Tokens text = text_of(choices, 2 * DraftModel::kMaxRows + 50);
  Tokens shorter = text_of(choices, 20);
  DraftReader reader;
  DraftReader other;
  draft.ask(other, shorter, 0);
  for (int part = 0; part < 4; ++part) {
    shorter.push_back(7);
    std::vector<DraftModel::Ask> asks(2);
    asks[0] = {.reader = &reader, .tokens = text, .count = 2};
    asks[1] = {.reader = &other, .tokens = shorter, .count = 2};
    draft->propose(asks);
    EXPECT_EQ(asks[0].read, part >= 2) << part;
    EXPECT_EQ(asks[0].draft.size(), part >= 2 ? 2u : 0u) << part;
    EXPECT_EQ(asks[1].draft, said(shorter, 2)) << part;
    if (part == 2) {
      EXPECT_EQ(asks[0].draft, said(text, 2));
    }
  }
  EXPECT_EQ(draft.network().largest_batch(), DraftModel::kMaxRows);
}

TEST(DraftModel, WhoFindsNoPagesIsNotGuessed) {
  Choices choices = Choices::random(5);
  DraftSettings settings;
  settings.kv_cache_bytes = 10 * kPageBytes;
  Draft draft(settings);
  Tokens first = text_of(choices, 18);
  const Tokens second = text_of(choices, 30);
  DraftReader a;
  DraftReader b;
  EXPECT_EQ(draft.ask(a, first, 2).draft.size(), 2u);  // 5 pages
  EXPECT_EQ(draft->usage(), 0.5);
  const DraftModel::Ask refused = draft.ask(b, second, 2);  // would take 8
  EXPECT_FALSE(refused.read);
  EXPECT_TRUE(refused.draft.empty());
  EXPECT_EQ(draft->usage(), 0.5);
  draft->release(a);
  EXPECT_EQ(draft->usage(), 0);
  EXPECT_EQ(draft.ask(b, second, 2).draft, said(second, 2));
  EXPECT_EQ(draft.ask(a, Tokens(first.begin(), first.begin() + 6), 2).draft.size(), 2u);
  // It grows beyond what there is: its pages go to others.
  EXPECT_EQ(draft->usage(), 1);
  EXPECT_TRUE(draft.ask(a, first, 2).draft.empty());
  EXPECT_EQ(draft->usage(), 0.8);
  draft->release(b);
  EXPECT_EQ(draft.ask(a, first, 2).draft, said(first, 2));
}

TEST(DraftModel, ATokenThatTheModelHasNotEndsTheGuess) {
  Choices choices = Choices::random(6);
  DraftPlan plan = plan_of(4);
  plan.vocab = 30;
  Draft draft({}, plan);
  std::int64_t cut = 0;
  for (int i = 0; i < 20; ++i) {
    const Tokens prompt = text_of(choices, 10);
    Tokens expected = said(prompt, 4);
    expected.erase(std::ranges::find_if(expected, [](TokenId id) { return id >= 30; }),
                   expected.end());
    DraftReader reader;
    const Tokens proposed = draft.ask(reader, prompt, 4).draft;
    EXPECT_EQ(proposed, expected);
    cut += proposed.size() < 4 ? 1 : 0;
    draft->release(reader);
  }
  EXPECT_GT(cut, 0);
}

TEST(DraftModel, PlansAreBounded) {
  DraftSettings settings;
  settings.max_model_len = 30;
  EXPECT_EQ(Draft(settings)->length(), 30);
  EXPECT_EQ(Draft()->length(), 2000);
  FakeModelOptions options;
  options.max_position = 100;
  EXPECT_EQ(Draft({}, plan_of(), options)->length(), 100);
  // Of eight sequences of 100 tokens.
  EXPECT_EQ(Draft({}, plan_of(), options)->pool_bytes(),
            static_cast<std::int64_t>(8 * 25 * kPageBytes));
  settings.kv_cache_bytes = kPageBytes - 1;
  EXPECT_EQ(Draft(settings).error().code, ErrorCode::kTooLarge);
}

TEST(DraftModel, StatesAndCrossAttentionAreRefused) {
  FakeModelOptions options;
  options.layers = {full(), state(8)};
  EXPECT_NE(Draft({}, plan_of(), options).error().message.find("keeps a state"), std::string::npos);
  options.layers = {full(), across()};
  EXPECT_NE(Draft({}, plan_of(), options).error().message.find("across"), std::string::npos);
}

// One stream, times from a clock that the models move: ten milliseconds a step, three for the
// draft.
struct Timed {
  std::int64_t tokens = 0;
  Nanos time = 0;
  EngineStats stats;
};

Timed timed(const FakeModelOptions* draft, int steps_in_flight) {
  VirtualClock clock;
  FakeModelOptions options;
  options.max_position = 2000;
  options.on_forward = [&](const Batch& batch) {
    clock.advance(10 * kMillisecond + batch.ids.size() * kMillisecond / 2);
  };
  FakeModelOptions guessing = draft != nullptr ? *draft : FakeModelOptions();
  guessing.on_forward = [&](const Batch& batch) {
    clock.advance(3 * kMillisecond + batch.ids.size() * kMillisecond / 10);
  };
  FakeModel model(options);
  FakeModel other(guessing);
  const auto device = make_reference_device();
  EngineSettings settings = roomy();
  settings.max_model_len = 1600;
  settings.kv_cache_bytes = 1 << 20;
  settings.steps_in_flight = steps_in_flight;
  if (draft != nullptr) {
    settings.draft = &other;
    settings.speculation.max_tokens = 4;
  }
  const auto engine = *Engine::create(settings, model, *device, clock);
  Script script;
  script.ids = {6, 7, 8};
  script.sampling.max_tokens = 1500;
  script.sampling.temperature = 0;
  script.sampling.ignore_eos = true;
  Timed timed;
  const auto id = engine->submit(
      script.request(), [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
        timed.tokens += std::ssize(delta.tokens);
      });
  EXPECT_TRUE(id);
  while (engine->step()) {
  }
  timed.time = clock.now();
  timed.stats = engine->stats();
  return timed;
}

TEST(DraftModel, IsWorthItWhereItIsRightAndStopsWhereItIsNot) {
  log::set_level(log::Level::kError);
  for (const int steps : {1, 2}) {
    const Timed plain = timed(nullptr, steps);
    EXPECT_EQ(plain.tokens, 1500);
    const FakeModelOptions same;
    const Timed right = timed(&same, steps);
    EXPECT_EQ(right.tokens, 1500);
    // A step of 12.5 ms and four of the draft's, 3.1 each, give five tokens that took 10.5 each.
    EXPECT_LT(right.time, plain.time * 55 / 100);
    EXPECT_GT(right.stats.spec_decode_num_accepted_tokens, 1000u);
    FakeModelOptions wrong;
    wrong.hidden = 5;
    wrong.layers = {window(7)};
    const Timed lost = timed(&wrong, steps);
    EXPECT_EQ(lost.tokens, 1500);
    // Reading along takes a fiftieth; before that, while nothing is known of the model's steps, the
    // draft's four and four rows, 15 ms, are spent on each of some twenty.
    EXPECT_LT(lost.time, plain.time + plain.time / 50 + 20 * 15 * kMillisecond);
    EXPECT_GT(lost.stats.draft_tokens_read, 1000u);
    EXPECT_LT(lost.stats.spec_decode_num_draft_tokens, 20u * 4);
  }
}

}  // namespace
}  // namespace saccade

// Answers that a grammar holds, on the engine: whatever the steps, the pages and the batches are,
// each is of its grammar, ends where that lets it end, and is the same answer.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/local_engine.h"
#include "grammar/automaton/grammar_cache.h"
#include "tests/support/deferred_device.h"
#include "tests/support/fake_model.h"
#include "tests/support/letter_tokenizer.h"

namespace saccade {
namespace {

using grammar::GrammarSpec;

class Held : public testing::Test {
 protected:
  Held()
      : tokenizer_(std::make_shared<LetterTokenizer>()),
        grammars_(
            std::make_shared<const grammar::Vocabulary>(*tokenizer_, 128, std::vector<TokenId>{0}),
            std::size_t{64} << 20) {}

  std::shared_ptr<const grammar::CompiledGrammar> compile(GrammarSpec::Kind kind,
                                                          const std::string& text) {
    auto found = grammars_.find({kind, text, {}, {}});
    EXPECT_TRUE(found) << found.error().message;
    return found.value_or(nullptr);
  }
  std::shared_ptr<const grammar::CompiledGrammar> regex(const std::string& text) {
    return compile(GrammarSpec::Kind::kRegex, text);
  }

  struct Answer {
    std::string text;
    std::vector<TokenId> tokens;
    std::size_t logprobs = 0;
    FinishReason finish = FinishReason::kNone;
    std::string error;
    ErrorCode code = ErrorCode::kInternal;
  };

  Request request(std::shared_ptr<const grammar::CompiledGrammar> grammar, std::uint64_t seed,
                  std::int64_t max_tokens) const {
    std::vector<TokenId> ids;
    for (std::uint64_t i = 0; i < 5 + seed % 23; ++i)
      ids.push_back(static_cast<TokenId>(40 + (i * seed) % 60));
    Request made = fake_request(ids, {}, max_tokens);
    made.tokenizer = tokenizer_;
    made.sampling.grammar = std::move(grammar);
    made.sampling.seed = seed;
    return made;
  }

  // The answers of `requests` together, in their order.
  std::vector<Answer> answers(const EngineSettings& settings, std::vector<Request> requests,
                              std::size_t cancel = SIZE_MAX) {
    const auto device = engine_device("reference");
    FakeModelOptions options;
    options.vocab = 128;
    FakeModel model(options);
    SteadyClock clock;
    auto engine = Engine::create(settings, model, *device, clock);
    EXPECT_TRUE(engine) << engine.error().message;
    std::vector<Answer> answers(requests.size());
    std::size_t left = requests.size();
    std::vector<RequestId> ids;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto id = (*engine)->submit(
          std::move(requests[i]),
          [&answers, &left, i](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
            Answer& to = answers[i];
            to.text += delta.text;
            to.tokens.insert(to.tokens.end(), delta.tokens.begin(), delta.tokens.end());
            to.logprobs += delta.logprobs.size();
            to.finish = delta.finish;
            to.error = delta.error;
            to.code = delta.error_code;
            if (delta.finish != FinishReason::kNone) --left;
          });
      EXPECT_TRUE(id) << id.error().message;
      ids.push_back(*id);
    }
    for (int steps = 0; left > 0 && steps < 20000; ++steps) {
      if (steps == 3 && cancel < ids.size()) (*engine)->cancel(ids[cancel]);
      (*engine)->step();
    }
    EXPECT_EQ(left, 0u);
    preempted_ = (*engine)->stats().num_preemptions;
    return answers;
  }

  static bool is_of(const std::shared_ptr<const grammar::CompiledGrammar>& grammar,
                    const Answer& answer) {
    grammar::Matcher matcher(grammar);
    return matcher.accept_bytes(answer.text) &&
           (answer.finish == FinishReason::kLength || matcher.can_end());
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  grammar::GrammarCache grammars_;
  std::uint64_t preempted_ = 0;
};

TEST_F(Held, AnswersAreOfTheirGrammarsHoweverTheyAreComputed) {
  const std::vector<std::shared_ptr<const grammar::CompiledGrammar>> grammars = {
      regex("[a-z]{3,9}(, [0-9]{1,3}){0,4}"),
      regex("(yes|no|perhaps)!"),
      compile(GrammarSpec::Kind::kJsonSchema,
              R"({"type":"object","properties":{"a":{"type":"integer","minimum":-50,"maximum":900},
                  "b":{"type":"array","items":{"enum":["x","yz"]},"maxItems":4},
                  "c":{"type":"string","maxLength":6}},"required":["a","b"]})"),
      compile(GrammarSpec::Kind::kEbnf, "root ::= \"(\" root \")\" | [a-c]{2,4}"),
  };
  const auto requests = [&] {
    std::vector<Request> made;
    for (std::uint64_t i = 0; i < 24; ++i) {
      made.push_back(request(i % 6 == 5 ? nullptr : grammars[i % 6 % 4], i, 30));
      made.back().sampling.temperature = i % 3 == 0 ? 0 : 1;
      if (i % 4 == 1) made.back().sampling.logprobs = 2;
      if (i % 5 == 1) made.back().sampling.repetition_penalty = 1.3;
      if (i % 7 == 3) made.back().sampling.top_k = 3;
    }
    return made;
  };
  EngineSettings settings;
  settings.kv_cache_bytes = std::size_t{1} << 20;
  settings.max_model_len = 128;
  const std::vector<Answer> plain = answers(settings, requests());
  int complete = 0;
  for (std::uint64_t i = 0; i < plain.size(); ++i) {
    EXPECT_NE(plain[i].finish, FinishReason::kError) << plain[i].error;
    if (i % 4 == 1) {
      EXPECT_EQ(plain[i].logprobs, plain[i].tokens.size());
    }
    if (i % 6 == 5) continue;
    EXPECT_TRUE(is_of(grammars[i % 6 % 4], plain[i])) << plain[i].text;
    complete += plain[i].finish == FinishReason::kStop;
  }
  EXPECT_GT(complete, 10);
  std::uint64_t preempted = 0;
  for (const int in_flight : {1, 2}) {
    for (const std::int64_t budget : {7, 64}) {
      for (const std::size_t kv : {std::size_t{24} << 10, std::size_t{1} << 20}) {
        EngineSettings other = settings;
        other.steps_in_flight = in_flight;
        other.max_batched_tokens = budget;
        other.max_sequences = 6;
        other.block_size = 4;
        other.kv_cache_bytes = kv;
        const std::vector<Answer> again = answers(other, requests());
        preempted += preempted_;
        for (std::size_t i = 0; i < again.size(); ++i) {
          EXPECT_EQ(again[i].tokens, plain[i].tokens) << i << " " << again[i].error;
          EXPECT_EQ(again[i].finish, plain[i].finish) << i;
        }
      }
    }
  }
  EXPECT_GT(preempted, 0u);
}

// A client's own contradiction is its mistake, and the message names both sides of it.
TEST_F(Held, WhatTheRequestForbidsToItsGrammarIsNamed) {
  std::vector<Request> requests;
  const auto add = [&](const std::string& grammar) -> SamplingParams& {
    requests.push_back(request(regex(grammar), requests.size() + 1, 30));
    return requests.back().sampling;
  };
  std::vector<std::uint32_t> letters(4);
  for (const char c : std::string("bcd")) letters[static_cast<unsigned>(c) / 32] |= 1U << c % 32;
  add("a").bad_words = std::vector<std::vector<TokenId>>{{'a'}};
  add("ab").bad_words = std::vector<std::vector<TokenId>>{{'a', 'b'}};
  add("a").allowed_tokens = letters;
  add("[ab]").allowed_tokens = letters;
  requests.back().sampling.bad_words = std::vector<std::vector<TokenId>>{{'b'}};
  add("b").allowed_tokens = letters;  // and then no end is among them
  add("[ab]{3}").bad_words = std::vector<std::vector<TokenId>>{{'b'}};
  EngineSettings settings;
  settings.kv_cache_bytes = std::size_t{1} << 20;
  settings.max_model_len = 128;
  const std::vector<Answer> made = answers(settings, std::move(requests));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(made[i].finish, FinishReason::kError) << i;
    EXPECT_EQ(made[i].code, ErrorCode::kInvalid) << i << ": " << made[i].error;
    EXPECT_NE(made[i].error.find("grammar"), std::string::npos) << made[i].error;
    EXPECT_EQ(made[i].error.find("bad_words") != std::string::npos, i < 2 || i == 3)
        << made[i].error;
    EXPECT_EQ(made[i].error.find("allowed_token_ids") != std::string::npos, i >= 2)
        << made[i].error;
  }
  EXPECT_EQ(made[5].text, "aaa") << made[5].error;
}

TEST_F(Held, EndsWhereTheGrammarDoes) {
  const auto word = regex("[a-z]{4}");
  std::vector<Request> requests;
  requests.push_back(request(word, 1, 30));
  requests.push_back(request(word, 2, 30));  // min_tokens that the grammar has no room for
  requests.back().sampling.min_tokens = 20;
  requests.push_back(request(word, 3, 30));
  requests.back().sampling.ignore_eos = true;
  requests.push_back(request(word, 4, 2));  // cut
  requests.push_back(request(regex("[a-z]{2,30}"), 5, 30));
  requests.back().sampling.min_tokens = 12;
  requests.push_back(request(regex("ab(cd)+"), 6, 30));  // a stop string inside
  requests.back().sampling.stop = std::vector<std::string>{"bc"};
  requests.push_back(request(regex("[a-z]*"), 7, 500));
  requests.back().sampling.logit_bias = std::vector<TokenBias>{{0, -100.F}};
  EngineSettings settings;
  settings.kv_cache_bytes = std::size_t{1} << 20;
  settings.max_model_len = 128;
  const std::vector<Answer> made = answers(settings, std::move(requests), 6);
  for (const std::size_t whole : {0, 1, 2}) {
    EXPECT_EQ(made[whole].finish, FinishReason::kStop) << made[whole].error;
    EXPECT_EQ(made[whole].text.size(), 4u) << made[whole].text;
  }
  EXPECT_EQ(made[3].finish, FinishReason::kLength);
  EXPECT_EQ(made[3].text.size(), 2u);
  EXPECT_GE(made[4].text.size(), 12u);
  EXPECT_EQ(made[5].finish, FinishReason::kStop);
  EXPECT_EQ(made[5].text, "a");
  EXPECT_EQ(made[6].finish, FinishReason::kCancelled);
  EXPECT_LE(word.use_count(), 2);  // this one and the cache's
}

}  // namespace
}  // namespace saccade

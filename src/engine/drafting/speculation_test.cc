#include "engine/drafting/speculation.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace saccade {
namespace {

using Tokens = std::vector<TokenId>;

std::string error_of(std::string_view config) {
  const auto parsed = parse_speculative_config(config);
  return parsed ? "" : parsed.error().message;
}

TEST(SpeculativeConfig, IsVllms) {
  const auto all = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":7,"prompt_lookup_max":4,"prompt_lookup_min":2})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(*all, (SpeculationSettings{7, 2, 4}));
  EXPECT_EQ(*parse_speculative_config(R"({"method":"ngram","num_speculative_tokens":3})"),
            (SpeculationSettings{3, 5, 5}));
  EXPECT_EQ(*parse_speculative_config(
                R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":3})"),
            (SpeculationSettings{3, 3, 3}));
  EXPECT_EQ(*parse_speculative_config("{}"), SpeculationSettings{});
  EXPECT_EQ(*parse_speculative_config(R"({"model":"[ngram]","num_speculative_tokens":3})"),
            (SpeculationSettings{3, 5, 5}));
  SpeculationSettings draft{5, 0, 0};
  draft.draft.model = "org/small";
  EXPECT_EQ(*parse_speculative_config(R"({"model":"org/small","num_speculative_tokens":5})"),
            draft);
  draft.draft.revision = "v1";
  draft.draft.quantization = "int4";
  draft.draft.max_model_len = 900;
  draft.draft.kv_cache_bytes = 1 << 20;
  EXPECT_EQ(*parse_speculative_config(
                R"({"method":"draft_model","model":"org/small","num_speculative_tokens":5,)"
                R"("revision":"v1","quantization":"int4","max_model_len":900,)"
                R"("kv_cache_bytes":1048576})"),
            draft);
}

TEST(SpeculativeConfig, SaysWhatIsWrong) {
  const auto names = [](std::string_view config, std::string_view what) {
    EXPECT_NE(error_of(config).find(what), std::string::npos) << error_of(config);
  };
  names(R"({"method":"draft_model","num_speculative_tokens":3})", "model is missing");
  names(R"({"method":"ngram","model":"org/small","num_speculative_tokens":3})", "\"model\"");
  names(R"({"model":"org/small","num_speculative_tokens":3,"prompt_lookup_max":2})",
        "\"prompt_lookup_max\" is not supported with method draft_model");
  names(R"({"model":"org/small","num_speculative_tokens":3,"max_model_len":0})",
        "max_model_len is 0");
  names(R"({"method":"mtp","model":"org/small","num_speculative_tokens":3})", "method \"mtp\"");
  names(R"({"method":"eagle","num_speculative_tokens":3})", "method \"eagle\" is not supported");
  names(R"({"num_speculative_tokens":3})", "method \"\"");
  names(R"({"method":"ngram"})", "num_speculative_tokens is missing");
  names(R"({"method":"ngram","num_speculative_tokens":0})", "num_speculative_tokens is 0");
  names(R"({"method":"ngram","num_speculative_tokens":33})", "allowed 1 to 32");
  names(R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":17})", "1 to 16");
  names(R"({"method":"ngram","num_speculative_tokens":3,"rejection_sample_method":"x"})",
        "\"rejection_sample_method\"");
  names(R"({"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":2,)"
        R"("prompt_lookup_min":3})",
        "prompt_lookup_min is 3, over prompt_lookup_max 2");
  names("[]", "an array");
  names("ngram", "JSON");
}

constexpr SpeculationSettings kSettings = {4, 1, 3};

// Draft of a text that goes round in three, and of one that never repeats what it began.
TEST(Speculator, GuessesMoreTheMoreComesTrue) {
  Speculator speculator(kSettings);
  Tokens tokens = {1, 2, 3, 1, 2, 3};
  Tokens draft;
  speculator.next(tokens, 0.2, draft);
  EXPECT_EQ(draft, (Tokens{1, 2}));  // half come true, as far as anybody knows
  for (int i = 0; i < 20; ++i) {
    tokens.push_back(1 + i % 3);
    speculator.next(tokens, 0.2, draft);
  }
  EXPECT_GT(speculator.rate(), 0.9);
  EXPECT_EQ(draft.size(), 4u);
}

TEST(Speculator, StopsWhereNothingComesTrueAndBeginsAgainWhereItDoes) {
  Speculator speculator(kSettings);
  Rng rng(1);
  Tokens tokens;
  Tokens draft;
  for (int i = 0; i < 400; ++i) {
    tokens.push_back(static_cast<TokenId>(rng.below(30)));
    speculator.next(tokens, 0.2, draft);
  }
  EXPECT_LT(speculator.rate(), 0.2);
  EXPECT_TRUE(draft.empty());
  // It sees that draft tokens would be accepted without their being computed.
  int steps = 0;
  for (; draft.empty() && steps < 100; ++steps) {
    tokens.push_back(40 + steps % 2);
    speculator.next(tokens, 0.2, draft);
  }
  EXPECT_LT(steps, 10);
}

TEST(Speculator, ARowThatCostsAsMuchAsATokenIsNeverWorthIt) {
  Speculator speculator(kSettings);
  Tokens tokens;
  Tokens draft;
  for (int i = 0; i < 50; ++i) {
    tokens.push_back(1);
    speculator.next(tokens, 1.0, draft);
    EXPECT_TRUE(draft.empty());
  }
  speculator.next(tokens, 0, draft);  // nobody knows what it costs
  EXPECT_EQ(draft.size(), 4u);
}

// Neither on nor off at every token where the rate is about the price.
TEST(Speculator, BeginsLaterThanItStops) {
  Speculator speculator(kSettings);
  Rng rng(3);
  Tokens tokens = {1, 2};
  Tokens draft;
  int turns = 0;
  bool on = true;
  for (int i = 0; i < 2000; ++i) {
    tokens.push_back(rng.below(10) < 6 ? 1 : 2);
    speculator.next(tokens, 0.5, draft);
    turns += on != !draft.empty() ? 1 : 0;
    on = !draft.empty();
  }
  EXPECT_LT(turns, 400);
}

}  // namespace
}  // namespace saccade

#include "simulate/cost_model.h"

#include <gtest/gtest.h>

namespace saccade::simulate {
namespace {

TEST(CostModel, WrittenAndReadAgain) {
  CostModel costs;
  costs.machine = "two cores";
  costs.encode = {30, 0.048, 0.75e-6, 0};
  costs.step = {20, 0.5, 0.048, 1e-4, 0.8e-6};
  costs.prepare = {3, 7};
  costs.pixels = 9;
  costs.delivery = 0.4;
  costs.noise = 0.08;
  const auto read = parse_costs(to_json(costs));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(costs));
  EXPECT_DOUBLE_EQ(read->step_ms({2, 100, 1000, 5e5}), 20 + 1 + 0.01 + 48 + 0.4);
}

// A profile's prefill of n tokens in one step is what the profile says.
TEST(CostModel, OfAProfile) {
  cluster::Profile profile;
  profile.encode = {{256, 40}, {1024, 100}, {4096, 400}};
  profile.prefill = {{256, 30}, {1024, 80}, {4096, 300}};
  profile.fit();
  const auto costs = parse_costs(cluster::to_json(profile));
  ASSERT_TRUE(costs.has_value()) << costs.error().message;
  for (const double n : {100.0, 1000.0, 4000.0}) {
    EXPECT_NEAR(costs->step_ms({0, 0, static_cast<std::int64_t>(n), n * n / 2}),
                profile.prefill_cost.ms(n), 1e-6);
    EXPECT_NEAR(costs->prefill().ms(n), profile.prefill_cost.ms(n), 1e-6);
  }
}

TEST(CostModel, WhatIsWrongIsNamed) {
  const std::string good =
      R"({"format":"saccade.costs.v1","encode":{"base_ms":1},"step":{"base_ms":1}})";
  ASSERT_TRUE(parse_costs(good).has_value());
  for (const auto& [text, says] : {
           std::pair<const char*, const char*>{"[]", "object"},
           {R"({"format":"x"})", "'format' is 'x'"},
           {R"({"format":"saccade.costs.v1","step":{"base_ms":1}})", "'encode'"},
           {R"({"format":"saccade.costs.v1","encode":{},"step":{"base_ms":-1}})",
            "'step.base_ms' is -1"},
           {R"({"format":"saccade.costs.v1","encode":{},"step":{"base_ms":1e300}})",
            "'step.base_ms'"},
           {R"({"format":"saccade.costs.v1","encode":{},"step":{}})", "in no time"},
           {R"({"format":"saccade.costs.v1","encode":{},"step":{"base_ms":1},"noise":3})",
            "'noise' is 3, 0 to 2"},
           {R"({"format":"saccade.costs.v1","encode":{"base_ms":"1"},"step":{"base_ms":1}})",
            "base_ms"},
       }) {
    const auto costs = parse_costs(text);
    ASSERT_FALSE(costs.has_value()) << text;
    EXPECT_NE(costs.error().message.find(says), std::string::npos)
        << text << ": " << costs.error().message;
  }
}

}  // namespace
}  // namespace saccade::simulate

#include "simulate/cluster_spec.h"

#include <gtest/gtest.h>

namespace saccade::simulate {
namespace {

TEST(ClusterSpec, CountsAndRoles) {
  for (const auto& [text, encoders, pds] : {std::tuple("2E1PD", 2, 1),
                                            {"1E1PD", 1, 1},
                                            {"4PD", 0, 4},
                                            {"PD", 0, 1},
                                            {"EPD", 1, 1},
                                            {"E3PD", 1, 3},
                                            {"256E256PD", 256, 256}}) {
    const auto spec = parse_cluster_spec(text);
    ASSERT_TRUE(spec.has_value()) << text << ": " << spec.error().message;
    EXPECT_EQ(spec->encoders, encoders) << text;
    EXPECT_EQ(spec->pds, pds) << text;
    const auto again = parse_cluster_spec(spec->text());
    ASSERT_TRUE(again.has_value()) << spec->text();
    EXPECT_EQ(again->text(), spec->text());
  }
}

TEST(ClusterSpec, WhatIsWrongIsNamed) {
  for (const auto& [text, says] : {std::pair("", "not of the form"),
                                   {"2E", "not of the form"},
                                   {"2X1PD", "not of the form"},
                                   {"1PD2E", "not of the form"},
                                   {"2E1PDx", "not of the form"},
                                   {"-1PD", "\"-1PD\""},
                                   {"0PD", "number of PDs is \"0PD\", 1 to 256"},
                                   {"0E1PD", "number of encoders is \"0E1PD\", 1 to 256"},
                                   {"257PD", "1 to 256"},
                                   {"99999999999999PD", "1 to 256"},
                                   {"2e1pd", "not of the form"}}) {
    const auto spec = parse_cluster_spec(text);
    ASSERT_FALSE(spec.has_value()) << text;
    EXPECT_NE(spec.error().message.find(says), std::string::npos)
        << text << ": " << spec.error().message;
  }
}

}  // namespace
}  // namespace saccade::simulate

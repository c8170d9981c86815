#include "bench/load/server/metrics_page.h"

#include <gtest/gtest.h>

namespace saccade::bench {
namespace {

TEST(MetricsPage, Series) {
  const auto page = parse_metrics_page(
      "# HELP vllm:running Requests.\n# TYPE vllm:running gauge\n"
      "vllm:running{model=\"a b\",say=\"\\\"}\\\\\"} 3.0\n"
      "plain 12 1717774200000\r\n"
      "  padded\t-1.5e-3\n\n"
      "h_bucket{le=\"+Inf\"} 7\nh_sum 2.5\nh_count 7\n"
      "gone NaN\nfar +Inf\n"
      "last 1 # {trace=\"x\"} 0.5");
  ASSERT_TRUE(page) << page.error().message;
  const std::vector<std::pair<std::string, double>> want = {
      {"vllm:running{model=\"a b\",say=\"\\\"}\\\\\"}", 3},
      {"plain", 12},
      {"padded", -0.0015},
      {"h_sum", 2.5},
      {"h_count", 7},
      {"last", 1}};
  EXPECT_EQ(*page, want);
  EXPECT_EQ(parse_metrics_page("h_bucket{le=\"1\"} 7\n", {.buckets = true})->size(), 1u);
  EXPECT_TRUE(parse_metrics_page("")->empty());
}

TEST(MetricsPage, WhatIsNotOne) {
  for (const char* bad : {"<html>\n", "{\"detail\":\"Not Found\"}", "a\n", "a{x=\"1\" 2\n", "a b\n",
                          "a 1 soon\n", "9a 1\n", "a{} \n"})
    EXPECT_FALSE(parse_metrics_page(bad)) << bad;
  const auto third = parse_metrics_page("a 1\nb 2\nc\n");
  ASSERT_FALSE(third);
  EXPECT_NE(third.error().message.find("line 3"), std::string::npos);
  EXPECT_FALSE(parse_metrics_page("a 1\nb 1\nc 1\n", {.max_series = 2}));
}

}  // namespace
}  // namespace saccade::bench

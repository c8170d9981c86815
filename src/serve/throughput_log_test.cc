#include "serve/throughput_log.h"

#include <gtest/gtest.h>

namespace saccade::serve {
namespace {

TEST(ThroughputLine, SaysTokensASecond) {
  EngineStats before;
  before.prompt_tokens = 1000;
  before.prompt_tokens_cached = 100;
  before.generation_tokens = 50;
  EngineStats after = before;
  after.prompt_tokens = 1300;
  after.prompt_tokens_cached = 130;
  after.generation_tokens = 100;
  after.num_requests_running = 3;
  after.num_requests_waiting = 2;
  after.kv_cache_usage = 0.255;
  EXPECT_EQ(throughput_line(before, after, 10.0),
            "prompt 30.0 tokens/s (30 of 300 cached), generation 5.0 tokens/s, 3 running, 2 "
            "waiting, KV cache 25.5 % in use");
}

TEST(ThroughputLine, AnIdleServerSaysNothing) {
  EngineStats same;
  same.prompt_tokens = 7;
  EXPECT_EQ(throughput_line(same, same, 10.0), "");
  EngineStats waiting = same;
  waiting.num_requests_waiting = 1;  // stuck is not idle
  EXPECT_NE(throughput_line(same, waiting, 10.0), "");
}

}  // namespace
}  // namespace saccade::serve

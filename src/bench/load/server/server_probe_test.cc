#include "bench/load/server/server_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recording_server.h"

namespace saccade::bench {
namespace {

using testing::HasSubstr;

ServerProbe probe_of(const test::RecordingServer& server) {
  ServerTarget target;
  target.base_url = "http://127.0.0.1:" + std::to_string(server.port());
  return ServerProbe::create(std::move(target)).value();
}

// vLLM reads `prompt`, llama-server `content`: each finds its own.
TEST(ServerProbe, AsksForACountInEveryServersWords) {
  const test::RecordingServer server(R"({"count":3,"tokens":[5,6,7]})");
  ServerProbe probe = probe_of(server);
  EXPECT_EQ(probe.count_tokens("m", "a \"b\"", true), 3);
  ASSERT_EQ(server.bodies().size(), 1U);
  const std::string body = server.bodies()[0];
  for (const char* member : {R"("prompt":"a \"b\"")", R"("content":"a \"b\"")",
                             R"("add_special_tokens":true)", R"("add_special":true)"})
    EXPECT_THAT(body, HasSubstr(member));
}

TEST(ServerProbe, ATextOfNoTokensIsNoCount) {
  const test::RecordingServer server(R"({"tokens":[]})");
  ServerProbe probe = probe_of(server);
  EXPECT_EQ(probe.count_tokens("m", "", false), 0);
  const auto none = probe.count_tokens("m", "text", false);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("counts 0 tokens of 4 bytes"));
}

}  // namespace
}  // namespace saccade::bench

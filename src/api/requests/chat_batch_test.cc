#include "api/requests/chat_batch.h"

#include <gtest/gtest.h>

namespace saccade::api {
namespace {

TEST(ChatBatch, EachConversationHasTheOtherMembersAndRoomForThem) {
  const std::string body =
      R"({"messages": [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]],
          "chat_template_kwargs": {"x": ")" +
      std::string(1000, 'x') + R"("}})";
  const ByteBudget room(body.size() + 1'500);
  auto reserved = room.reserve(body.size());
  ASSERT_TRUE(reserved);
  const auto two = parse_chat_batch(body, &*reserved);
  ASSERT_TRUE(two) << two.error().message;
  ASSERT_EQ(two->size(), 2u);
  EXPECT_EQ(two->back().messages.front().text(), "b");
  EXPECT_EQ(two->back().chat_template_kwargs.size(), 1u);
  EXPECT_GT(reserved->bytes(), body.size() + 1'000);

  const ByteBudget less(body.size() + 500);
  reserved = less.reserve(body.size());
  const auto refused = parse_chat_batch(body, &*reserved);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace saccade::api

#include "bench/datasets/conversation.h"

#include <gtest/gtest.h>

namespace saccade::bench {
namespace {

SharedImage image(const std::string& name) {
  EncodedImage encoded;
  encoded.url = name;
  return std::make_shared<const EncodedImage>(encoded);
}

Prompt turn(int conversation, const std::string& text, const std::vector<std::string>& images) {
  Prompt prompt;
  prompt.conversation = conversation;
  prompt.max_tokens = 7;
  prompt.messages = {{.parts = {{.text = text}}}};
  for (const std::string& name : images) prompt.messages[0].parts.push_back({.image = image(name)});
  return prompt;
}

std::string shown(const std::vector<ChatMessage>& messages) {
  std::string out;
  for (const ChatMessage& message : messages) {
    out += message.role.substr(0, 1) + ":";
    for (const ContentPart& part : message.parts)
      out += part.image != nullptr ? "<" + part.image->url + ">" : part.text;
    out += " ";
  }
  return out;
}

TEST(Conversation, QuestionsAndServedAnswers) {
  const std::vector<Prompt> turns = {turn(0, "q0", {"a", "b"}), turn(0, "q1", {"c"}),
                                     turn(0, "q2", {"d", "e"})};
  const std::vector<std::string> answers = {"s0", "s1"};
  EXPECT_EQ(shown(conversation_messages(turns, answers, TurnImages::kOwnMessage)),
            "u:q0<a><b> a:s0 u:q1<c> a:s1 u:q2<d><e> ");
  EXPECT_EQ(shown(conversation_messages(turns, answers, TurnImages::kFirstMessage)),
            "u:q0<d><e> a:s0 u:q1 a:s1 u:q2 ");
}

TEST(Conversation, TurnsFollowEachOther) {
  Conversations conversations({turn(5, "q0", {}), turn(5, "q1", {}), turn(9, "x", {})},
                              {.model = "m"}, TurnImages::kOwnMessage);
  EXPECT_EQ(conversations.count(), 2u);
  const auto first = conversations.first_turns();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].prompt, 2u);
  EXPECT_EQ(first[1].max_tokens, 7);
  RequestRecord ended;
  ended.conversation = 0;
  ended.turn = 0;
  const auto next = conversations.next(ended, "served");
  ASSERT_TRUE(next);
  EXPECT_EQ(next->request.prompt, 1u);
  EXPECT_EQ(next->request.turn, 1);
  EXPECT_NE(join(next->request.body).find(R"({"role":"assistant","content":"served"})"),
            std::string::npos);
  ended.turn = 1;
  EXPECT_FALSE(conversations.next(ended, "served again"));
  ended.conversation = 1;
  ended.turn = 0;
  EXPECT_FALSE(conversations.next(ended, "x"));
}

}  // namespace
}  // namespace saccade::bench

#include "chat/conversation.h"

#include <gtest/gtest.h>

#include "chat/answer_stream.h"
#include "chat/terminal.h"

namespace saccade::chat {
namespace {

json::value body_of(const Conversation& conversation) {
  return json::parse(bench::join(conversation.body())).value();
}

std::string roles(const Conversation& conversation) {
  std::string said;
  const json::value body = body_of(conversation);
  for (const json::value& message : body.at("messages").as_array())
    said += message.at("role").as_string()[0];
  return said;
}

TEST(Conversation, TurnsComeAndGo) {
  Conversation conversation;
  EXPECT_FALSE(conversation.retry());
  EXPECT_FALSE(conversation.undo());
  conversation.set_system("be brief");
  conversation.ask("one");
  conversation.answered("1");
  conversation.ask("two");
  EXPECT_EQ(roles(conversation), "suau");
  conversation.answered("");  // failed: as if it had not been asked
  EXPECT_EQ(roles(conversation), "sua");
  EXPECT_TRUE(conversation.retry());
  EXPECT_EQ(roles(conversation), "su");
  conversation.answered("once more");
  EXPECT_TRUE(conversation.undo());
  EXPECT_EQ(roles(conversation), "s");
}

TEST(Conversation, ImagesGoWithTheNextQuestion) {
  Conversation conversation;
  const auto missing = conversation.add_image("/nowhere/a.png");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/nowhere/a.png"), std::string::npos);
  ASSERT_TRUE(conversation.add_image("data/glimpse/000-read.png"));
  ASSERT_TRUE(conversation.add_image("https://example.org/b.png"));
  conversation.ask("what?");
  const json::value body = body_of(conversation);
  const auto& parts = body.at("messages").at(0).at("content").as_array();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(parts[0].at("image_url").at("url").as_string().starts_with("data:image/png;base64,"));
  EXPECT_EQ(parts[1].at("image_url").at("url").as_string(), "https://example.org/b.png");
  EXPECT_EQ(parts[2].at("text").as_string(), "what?");
  ASSERT_TRUE(conversation.add_image("https://example.org/c.png"));
  EXPECT_EQ(conversation.drop_images(), 1u);
  EXPECT_EQ(conversation.drop_images(), 0u);
}

TEST(Conversation, FieldsOfEveryRequest) {
  Conversation conversation;
  conversation.set_field("temperature", "0.5");
  conversation.set_field("stop", "no JSON");
  conversation.set_field("seed", "1");
  conversation.set_field("seed", "");
  conversation.ask("x");
  const json::value body = body_of(conversation);
  EXPECT_EQ(body.at("temperature").as_double(), 0.5);
  EXPECT_EQ(body.at("stop").as_string(), "no JSON");
  EXPECT_FALSE(body.as_object().contains("seed"));
  EXPECT_TRUE(body.at("stream").as_bool());
}

TEST(AnswerStream, RefusalsAsTheServerWroteThem) {
  EXPECT_EQ(refusal_of(400, R"({"error": {"message": "'top_p' is 2", "code": 400}})"),
            "400: 'top_p' is 2");
  EXPECT_EQ(refusal_of(502, "<html>bad gateway"), "502: <html>bad gateway");
}

TEST(AnswerStream, FactsOfWhatIsKnown) {
  AnswerEnd end;
  EXPECT_EQ(facts_of(end), "");
  end.usage = {.prompt = 58, .completion = 11, .image = 32};
  end.first_token = 48 * kMillisecond;
  end.duration = end.first_token + kSecond;
  end.stopped = true;
  EXPECT_EQ(facts_of(end),
            "58 tokens in (32 of images), 11 out, first token after 48 ms, 10.0 tokens/s, stopped");
}

TEST(Terminal, WhatOthersWroteCommandsNothing) {
  EXPECT_EQ(printable("a\x1b]0;title\x07\tb\r\n\x7f"), "a]0;title\tb\n");
  EXPECT_EQ(printable("x\xc2\x9b"
                      "31my \xc2\xa9 grün 日"),
            "x31my © grün 日");
}

}  // namespace
}  // namespace saccade::chat

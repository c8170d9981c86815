#include "text/templates/final_message.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <initializer_list>

#include "text/templates/chat_template.h"

namespace saccade {
namespace {

constexpr std::string_view kKeeps =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}|<|end|>{% endfor %}";
constexpr std::string_view kTrims =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}|<|end|>{% endfor %}";
constexpr std::string_view kPartsTemplate =
    "{% for m in messages %}<|{{ m.role }}|>{% for p in m.content %}{{ p.text or '[]' }}"
    "{% endfor %}|<|end|>{% endfor %}";

std::string continued(std::string_view source, json::value content) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  json::array messages;
  messages.push_back(json::object{{"role", "assistant"}, {"content", std::move(content)}});
  auto mark = FinalMessage::mark(messages);
  if (!mark) return mark.error().message;
  auto rendered = parsed->render(messages, {});
  EXPECT_TRUE(rendered) << rendered.error().message;
  auto cut = mark->cut(*std::move(rendered));
  return cut ? *cut : cut.error().message;
}

TEST(FinalMessage, IsCutBehindItsTextWhateverClosesTheTurn) {
  for (const char* text :
       {"|", "<", ">", "end", "<|end|>", "|<|end", "OK", "a\nb", "", "CONTINUED"})
    for (const std::string_view source : {kKeeps, kTrims})
      EXPECT_EQ(continued(source, text), "<|assistant|>" + std::string(text)) << source;
}

TEST(FinalMessage, WhiteSpaceIsAsTheTemplateLeavesIt) {
  EXPECT_EQ(continued(kKeeps, "OK! "), "<|assistant|>OK! ");
  EXPECT_EQ(continued(kKeeps, "\n OK!\n\n"), "<|assistant|>\n OK!\n\n");
  EXPECT_EQ(continued(kTrims, "OK! "), "<|assistant|>OK!");
  EXPECT_EQ(continued(kTrims, "\n OK!\n\n"), "<|assistant|>OK!");
  EXPECT_EQ(continued(kKeeps, "  "), "<|assistant|>  ");
}

TEST(FinalMessage, OfPartsTheLastTextGoesOn) {
  const auto part = [](const char* text) { return json::object{{"type", "text"}, {"text", text}}; };
  const json::object image{{"type", "image"}};
  EXPECT_EQ(continued(kPartsTemplate, json::array{part("a "), part("b ")}), "<|assistant|>a b ");
  EXPECT_EQ(continued(kPartsTemplate, json::array{part("|"), image}), "<|assistant|>|");
  EXPECT_EQ(continued(kPartsTemplate, json::array{image}),
            "continue_final_message is set, and the final message has no text");
}

TEST(FinalMessage, WhatTheTemplateDoesNotShowIsRefused) {
  const std::string refusal =
      "continue_final_message is set, and the template does not show the final message's text as "
      "it is";
  EXPECT_EQ(continued("{{ messages[0].role }}", "OK"), refusal);
  EXPECT_EQ(continued("{{ messages[0].content | upper }}", "OK"), refusal);
  EXPECT_EQ(continued("{{ messages[0].content.split('</think>')[-1] }}", "<think>a</think>b"),
            refusal);
  EXPECT_EQ(continued(kKeeps, nullptr),
            "continue_final_message is set, and the final message has no text");
}

}  // namespace
}  // namespace saccade

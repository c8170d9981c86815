#include "text/templates/content_format.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

namespace saccade {
namespace {

json::array parse_messages(std::string_view text) { return json::parse(text)->as_array(); }

// What a conversation looks like, or "refused: " and why.
std::string seen(std::string_view source, std::string_view messages) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  json::array arranged = parse_messages(messages);
  const auto told = ContentFormat::of(*parsed, {});
  if (!told) return "refused: " + told.error().message;
  const ContentFormat& format = *told;
  const auto done = format.arrange(arranged, [](std::string_view type, int image) {
    return fmt::format("<{} {}>", type, image);
  });
  if (!done) return "refused: " + done.error().message;
  const auto rendered = parsed->render(arranged, {});
  if (!rendered) return "refused: " + rendered.error().message;
  const auto checked = format.check(
      arranged, *rendered, [&](const json::array& other) { return parsed->render(other, {}); });
  return checked ? *rendered : "refused: " + checked.error().message;
}

constexpr std::string_view kOfParts =
    "{% for m in messages %}{{ m.role }}:{% for p in m.content %}"
    "{% if p['type'] == 'text' %}{{ p['text'] }}{% else %}[{{ p['type'] }}]{% endif %}"
    "{% endfor %};{% endfor %}";
constexpr std::string_view kOfStrings =
    "{% for m in messages %}{{ m['role'] + ':' + m['content'] + ';' }}{% endfor %}";
constexpr std::string_view kOfBoth =
    "{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }}s{% else %}"
    "{% for p in m.content %}{{ p['text'] }}p{% endfor %}{% endif %};{% endfor %}";

constexpr std::string_view kString = R"([{"role": "user", "content": "hi"}])";
constexpr std::string_view kParts =
    R"([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])";

TEST(ContentFormat, TextTakesTheFormThatTheTemplateShows) {
  EXPECT_EQ(seen(kOfParts, kString), "user:hi;");
  EXPECT_EQ(seen(kOfParts, kParts), "user:hi;");
  EXPECT_EQ(seen(kOfStrings, kString), "user:hi;");
  EXPECT_EQ(seen(kOfStrings, kParts), "user:hi;");
  EXPECT_EQ(seen(kOfBoth, kString), "user:his;");
  EXPECT_EQ(seen(kOfBoth, kParts), "user:hip;");
  // A list printed as it stands is no prompt.
  EXPECT_EQ(seen("{{ messages[0]['content'] }}", kParts), "hi");
  EXPECT_EQ(seen("{{ messages[0]['content'] | tojson }}", kParts), "\"hi\"");
}

// Each is rendered some eighty times before the first request.
TEST(ContentFormat, TemplatesThatTakeTheirTimeAreRefused) {
  for (const char* const slow :
       {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(2000) %}{% for b in range(40) %}{{ b }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(t='aaaaaaaa') %}{% for a in range(30) %}"
        "{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
        "{{ 'a' * 60000000 }}",
        "{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
        "{{ m(25) }}"})
    EXPECT_EQ(
        seen(slow, kString),
        "refused: chat template: it takes over 4000000 steps for conversations of a few words")
        << slow;
}

TEST(ContentFormat, EveryRoleIsToldApart) {
  // Gemma-3 reads a system message's string, Mistral's tools answer with one, all others have
  // parts.
  constexpr std::string_view kMixed =
      "{% for m in messages %}{{ m.role }}:{% if m.role in ['system', 'tool'] %}"
      "{{ m.content + '' }}{% else %}{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endif %}"
      ";{% endfor %}";
  EXPECT_EQ(seen(kMixed, R"([{"role": "system", "content": [{"type": "text", "text": "one"}]},
                             {"role": "user", "content": "two"},
                             {"role": "assistant", "content": "three"},
                             {"role": "tool", "content": [{"type": "text", "text": "four"}]}])"),
            "system:one;user:two;assistant:three;tool:four;");
}

TEST(ContentFormat, ImagesOfJoinedPartsAreNumberedOverAllMessages) {
  EXPECT_EQ(seen(kOfStrings, R"([{"role": "user", "content": [{"type": "image"}, {"type": "image"},
                                   {"type": "text", "text": "a"}]},
                                 {"role": "user", "content": [{"type": "video"}, {"type": "image"}]}])"),
            "user:<image 0><image 1>a;user:<video 2><image 2>;");
}

TEST(ContentFormat, TextThatNoFormShowsIsRefusedByItsRole) {
  constexpr std::string_view kUsersAlone =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(
      seen(kUsersAlone, R"([{"role": "user", "content": "a"},
                                  {"role": "tool", "content": "12 degrees"}])"),
      "refused: the chat template leaves out the text of a message whose role is 'tool', as a "
      "string and as parts");
  EXPECT_NE(seen("hello", kString).find("'user'"), std::string::npos);
  // Nothing is lost of a call without words.
  EXPECT_EQ(seen(kUsersAlone, R"([{"role": "user", "content": "a"},
                                  {"role": "assistant", "content": ""},
                                  {"role": "assistant", "content": null}])"),
            "a");
}

// A role of the client's own: a word of it may stand elsewhere in a prompt that leaves it out.
TEST(ContentFormat, OwnRolesAreShownOrRefusedHoweverShortTheyAre) {
  constexpr std::string_view kUsers =
      "Answer.{% for m in messages %}{% if m.role in ['user', 'critic'] %}{{ m.content }};"
      "{% endif %}{% endfor %}";
  const auto of = [&](const std::string& role, const std::string& content) {
    return seen(kUsers, R"([{"role": "user", "content": "a r"}, {"role": ")" + role +
                            R"(", "content": )" + content + "}]");
  };
  EXPECT_EQ(of("critic", R"("r")"), "Answer.a r;r;");
  EXPECT_EQ(of("judge", R"("r")"),
            "refused: the chat template leaves out the text of a message whose role is 'judge', as "
            "a string and as parts");
  EXPECT_EQ(of("judge", R"([{"type": "text", "text": "a"}])"),
            "refused: the chat template leaves out the text of a message whose role is 'judge', as "
            "a string and as parts");
  EXPECT_EQ(of("judge", R"(" ")"), "Answer.a r;");
  // Nobody can tell what a template that reads the texts would do.
  EXPECT_EQ(seen("{% if messages[0].content != 'r' %}{{ raise_exception('r') }}{% endif %}"
                 "{{ messages[0].content }}",
                 R"([{"role": "judge", "content": "r"}])"),
            "r");
}

// A role that no probe could show is looked at in the conversation itself.
TEST(ContentFormat, WhatProbesCannotTellIsToldByTheConversation) {
  constexpr std::string_view kThirdAlone =
      "{% if messages | length < 4 %}{{ raise_exception('short') }}{% endif %}"
      "{{ messages[2].content }}";
  constexpr std::string_view kFour =
      R"([{"role": "user", "content": "c"}, {"role": "user", "content": "c"},
          {"role": "user", "content": " c "}, {"role": "user", "content": "c"}])";
  constexpr std::string_view kOther =
      R"([{"role": "user", "content": "c"}, {"role": "user", "content": "d"},
          {"role": "user", "content": "c"}, {"role": "user", "content": "c"}])";
  EXPECT_EQ(seen(kThirdAlone, kFour), " c ");
  EXPECT_NE(seen(kThirdAlone, kOther).find("refused: the chat template leaves out"),
            std::string::npos);
  EXPECT_EQ(seen("{{ raise_exception('no') }}", kString), "refused: no");
}

}  // namespace
}  // namespace saccade

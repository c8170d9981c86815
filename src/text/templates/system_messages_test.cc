#include "text/templates/system_messages.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>

namespace saccade {
namespace {

// What the template makes of messages in their places, or why not.
std::string seen_system(std::string_view source, std::string_view messages) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  const auto found = ContentFormat::of(*parsed, {});
  EXPECT_TRUE(found) << found.error().message;
  const ContentFormat& format = *found;
  json::array placed = json::parse(messages)->as_array();
  SystemMessages::of(*parsed, format, {}).arrange(placed);
  if (auto done = format.arrange(placed, [](std::string_view, int) { return "[]"; }); !done)
    return done.error().message;
  const auto rendered = parsed->render(placed, {});
  return rendered ? *rendered : rendered.error().message;
}

constexpr std::string_view kAnyRole =
    "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
constexpr std::string_view kDeveloper =
    "{% for m in messages %}{% if m.role == 'developer' %}D:{{ m.content }};"
    "{% else %}{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}";
constexpr std::string_view kOneInFront =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}"
    "{% elif m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('no') }}{% endif %}"
    "{{ m.role }}:{{ m.content }};{% endfor %}";
constexpr std::string_view kFirstOfParts =
    "{% if messages[0].role == 'system' %}S:{% for p in messages[0].content %}{{ p.text }}"
    "{% endfor %};{% endif %}{% for m in messages %}{% if m.role not in ['system', 'developer'] %}"
    "{{ m.role }}:{% for p in m.content %}{{ p.text or '[]' }}{% endfor %};{% endif %}{% endfor %}";
constexpr std::string_view kNoSystem =
    "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('no ' + m.role) }}{% endif %}{{ m.content }}{% endfor %}";

constexpr std::string_view kConversation =
    R"([{"role": "system", "content": "s"}, {"role": "developer", "content": "d"},
        {"role": "user", "content": "u"}])";

TEST(SystemMessages, ADevelopersAreTheSystemsWhereTheTemplateKnowsNone) {
  EXPECT_EQ(seen_system(kAnyRole, kConversation), "system:s\n\nd;user:u;");
  EXPECT_EQ(seen_system(kOneInFront, kConversation), "system:s\n\nd;user:u;");
  EXPECT_EQ(seen_system(kFirstOfParts, kConversation), "S:s\n\nd;user:u;");
  EXPECT_EQ(seen_system(kDeveloper, kConversation), "system:s;D:d;user:u;");
  constexpr std::string_view kLate =
      R"([{"role": "user", "content": "u"}, {"role": "developer", "content": "d"},
          {"role": "developer", "content": [{"type": "text", "text": "e"}]}])";
  EXPECT_EQ(seen_system(kOneInFront, kLate), "system:d\n\ne;user:u;");
  EXPECT_EQ(seen_system(kNoSystem, kLate), "no system");
}

TEST(SystemMessages, LaterOnesStayWhereTheyAreShown) {
  constexpr std::string_view kThree =
      R"([{"role": "system", "content": "a"}, {"role": "system", "content": "b"},
          {"role": "user", "content": "u"}, {"role": "system", "content": "c"}])";
  EXPECT_EQ(seen_system(kAnyRole, kThree), "system:a;system:b;user:u;system:c;");
  EXPECT_EQ(seen_system(kOneInFront, kThree), "system:a\n\nb\n\nc;user:u;");
  EXPECT_EQ(seen_system(kFirstOfParts, kThree), "S:a\n\nb\n\nc;user:u;");
}

TEST(SystemMessages, OneWithAnImageStays) {
  EXPECT_EQ(seen_system(kAnyRole, R"([{"role": "user", "content": "u"},
                               {"role": "developer", "content": [{"type": "image"}]}])"),
            "user:u;system:[];");
}

}  // namespace
}  // namespace saccade

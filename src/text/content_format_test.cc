#include "text/content_format.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

bool takes_parts(std::string_view source) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return takes_content_parts(*parsed, {});
}

TEST(ContentFormat, PartsAreReadWhereTheTemplateReadsThem) {
  EXPECT_TRUE(takes_parts(
      "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(
      takes_parts("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                  "{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endif %}{% endfor %}"));
}

TEST(ContentFormat, StringsAreJoinedForTemplatesThatAddThem) {
  EXPECT_FALSE(takes_parts("{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}"));
  EXPECT_FALSE(takes_parts("{% for m in messages %}{{ m['content'] }}{% endfor %}"));
  EXPECT_FALSE(takes_parts("{{ messages[0].content | trim }}"));
}

// Nothing to be told from a template that shows neither.
TEST(ContentFormat, ATemplateThatShowsNothingIsGivenParts) {
  EXPECT_TRUE(takes_parts("hello"));
  EXPECT_TRUE(takes_parts("{{ raise_exception('no') }}"));
}

}  // namespace
}  // namespace saccade

// Hostile templates: each ends with an error that says which bound it ran into, soon, on a small
// stack.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "base/hash.h"
#include "text/jinja/builtins/globals.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/syntax/parser.h"

namespace saccade::jinja {
namespace {

Result<std::string> render(const std::string& source, const RenderLimits& limits = {}) {
  TRY(const Program program, parse(source));
  RenderState state(limits, 0);
  Variables variables;
  add_globals(state, variables);
  return Interpreter(state, variables).run(program);
}

std::string times(int count, const std::string& piece) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

// Threads of the server have 8 MiB; AddressSanitizer needs several times the stack of a release.
void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{4} << 20);
  pthread_t thread;
  const auto run = [](void* context) -> void* {
    (*static_cast<const std::function<void()>*>(context))();
    return nullptr;
  };
  ASSERT_EQ(
      pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&work))),
      0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

struct Hostile {
  std::string what;
  std::string source;
  std::string says;  // part of the error
};

std::string case_name(const testing::TestParamInfo<Hostile>& hostile) {
  std::string name;
  for (const char c : hostile.param.what) name += c == ' ' ? '_' : c;
  return name;
}

class JinjaLimits : public testing::TestWithParam<Hostile> {};

TEST_P(JinjaLimits, EndWithAnError) {
  on_small_stack([] {
    RenderLimits limits;  // small, so that the test is quick
    limits.max_steps = 300'000;
    limits.max_string_bytes = std::size_t{1} << 20;
    limits.max_output_bytes = std::size_t{1} << 20;
    limits.max_live_bytes = std::int64_t{32} << 20;
    const auto text = render(GetParam().source, limits);
    ASSERT_FALSE(text) << text->substr(0, 200);
    EXPECT_EQ(text.error().code, ErrorCode::kInvalid);
    EXPECT_NE(text.error().message.find(GetParam().says), std::string::npos)
        << text.error().message.substr(0, 300);
  });
}

const std::string kDeep = "nest deeper than the limit";
const std::string kDeepRun = "nests deeper than the limit";
const std::string kSteps = "steps";
const std::string kBytes = "bytes";

INSTANTIATE_TEST_SUITE_P(
    Nesting, JinjaLimits,
    testing::Values(
        Hostile{"parentheses", "{{ " + times(20000, "(") + "1" + times(20000, ")") + " }}", kDeep},
        Hostile{"lists", "{{ " + times(20000, "[") + times(20000, "]") + " }}", kDeep},
        Hostile{"dicts", "{{ " + times(5000, "{1:") + "1" + times(5000, "}") + " }}", kDeep},
        Hostile{"nots", "{{ " + times(20000, "not ") + "1 }}", kDeep},
        Hostile{"minuses", "{{ " + times(20000, "- ") + "1 }}", kDeep},
        Hostile{"sums", "{{ 1" + times(20000, "+1") + " }}", kDeep},
        Hostile{"ands", "{{ 1" + times(20000, " and 1") + " }}", kDeep},
        Hostile{"ifs", "{{ 1" + times(20000, " if 1") + " }}", kDeep},
        Hostile{"elses", "{{ 1" + times(20000, " if 1 else 1") + " }}", kDeep},
        Hostile{"attributes", "{{ a" + times(20000, ".a") + " }}", kDeep},
        Hostile{"subscripts", "{{ a" + times(20000, "[0]") + " }}", kDeep},
        Hostile{"calls", "{{ a" + times(20000, "()") + " }}", kDeep},
        Hostile{"nested calls", "{{ " + times(20000, "a(") + times(20000, ")") + " }}", kDeep},
        Hostile{"filters", "{{ a" + times(20000, "|e") + " }}", kDeep},
        Hostile{"tests", "{{ " + times(5000, "a is in (") + times(5000, ")") + " }}", kDeep},
        Hostile{"powers", "{{ 1" + times(20000, "**1") + " }}", kDeep},
        Hostile{"statements", times(5000, "{% if 1 %}") + times(5000, "{% endif %}"), kDeep},
        Hostile{"loops", times(5000, "{% for a in [1] %}") + times(5000, "{% endfor %}"), kDeep},
        Hostile{"targets", "{% for " + times(5000, "(") + "a" + times(5000, ",)") + " in b %}",
                kDeep},
        Hostile{"macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", kDeepRun},
        Hostile{"macro in arguments", "{% macro f(x) %}{{ f(f(x)) }}{% endmacro %}{{ f(1) }}",
                kDeepRun},
        Hostile{"macro default", "{% macro f(x=f()) %}{% endmacro %}{{ f() }}", kDeepRun},
        Hostile{"caller",
                "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
                kDeepRun},
        Hostile{"recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
                kDeepRun},
        Hostile{"values",
                "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}"
                "{% endfor %}{{ ns.x }}",
                "values nest deeper"},
        Hostile{"generators",
                "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}"
                "{% set ns.x = ns.x | map('string') %}{% endfor %}{{ ns.x | list }}",
                "values nest deeper"},
        Hostile{"a namespace in itself", "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
                "values nest deeper"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Size, JinjaLimits,
    testing::Values(
        Hostile{"string", "{{ 'a' * 10 ** 12 }}", kBytes},
        Hostile{"string in doublings",
                "{% set ns = namespace(x='abcdefgh') %}{% for i in range(99) %}"
                "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
                kBytes},
        Hostile{"list", "{{ [0] * 10 ** 12 }}", kSteps},
        Hostile{"list in doublings",
                "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}"
                "{% set ns.x = ns.x + ns.x %}{% endfor %}",
                kSteps},
        Hostile{"range", "{{ range(10 ** 9) }}", "Range too big"},
        Hostile{"far range", "{{ range(10 ** 30) }}", "Range too big"},
        Hostile{"percent width", "{{ '%1000000000d' % 1 }}", kBytes},
        Hostile{"percent precision", "{{ '%.1000000000f' % 1 }}", "precision"},
        Hostile{"percent star", "{{ '%*d' % (10 ** 9, 1) }}", kBytes},
        Hostile{"format width", "{{ '{:>1000000000}'.format(1) }}", kBytes},
        Hostile{"format digits", "{{ '{:99999999999999999999}'.format(1) }}", "digits"},
        Hostile{"format nested", "{{ '{:{}}'.format(1, 10 ** 9) }}", kBytes},
        Hostile{"center", "{{ 'a' | center(10 ** 10) }}", kBytes},
        Hostile{"ljust", "{{ 'a'.ljust(10 ** 30) }}", kBytes},
        Hostile{"zfill", "{{ 'a'.zfill(10 ** 10) }}", kBytes},
        Hostile{"expandtabs", "{{ 'a\\t'.expandtabs(10 ** 10) }}", kBytes},
        Hostile{"indent", "{{ 'a\\nb' | indent(10 ** 10) }}", kBytes},
        Hostile{"tojson indent", "{{ [1] | tojson(indent=10 ** 9) }}", "indent"},
        Hostile{"batch", "{{ [1] | batch(10 ** 10, 0) | list }}", kSteps},
        Hostile{"slice", "{{ [1] | slice(10 ** 10) | list }}", kSteps},
        Hostile{"replace",
                "{% set a = 'a' * 10000 %}{{ a.replace('a', a) }}{{ a | replace('a', a) }}",
                kBytes},
        Hostile{"join", "{{ ('a' * 100000).join('b' * 1000) }}", kBytes},
        Hostile{"integer", "{{ 10 ** 100 }}", "integer"},
        Hostile{"integer factor", "{{ 2 ** 126 * 4 }}", "integer"},
        Hostile{"integer literal", "{{ 1" + times(100, "0") + " }}", "integer"},
        Hostile{"list that is small but shows large",
                "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
                "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
                kSteps},
        Hostile{"list that is small but compares long",
                "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}"
                "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
                "{{ ns.x == ns.y }}",
                kSteps},
        Hostile{"key that is small but hashes long",
                "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}"
                "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
                kSteps},
        Hostile{"json",
                "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
                "{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}",
                kBytes},
        Hostile{"loops",
                "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                kSteps},
        Hostile{"loop filter",
                "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}"
                "{% endfor %}",
                kSteps},
        Hostile{"memory",
                "{% set ns = namespace(x=[]) %}{% for a in range(99999) %}"
                "{% set ns.x = [ns.x | length, 'a' * 900000] %}{% endfor %}",
                kSteps},
        Hostile{"output", "{% for a in range(99999) %}{{ 'a' * 10000 }}{% endfor %}", kBytes},
        Hostile{"searches",
                "{% set a = 'a' * 1000000 %}{% for i in range(99999) %}"
                "{% set b = ('a' * 500000 ~ 'b') in a %}{% endfor %}",
                kSteps},
        Hostile{"strftime", "{{ strftime_now('%99999d') }}", kBytes},
        Hostile{"source", times(1 << 20, "ab"), kBytes}),
    case_name);

TEST(JinjaLimitsEdge, DeepButAllowedRuns) {
  on_small_stack([] {
    const auto expression = render("{{ " + times(140, "(1+") + "1" + times(140, ")") + " }}");
    ASSERT_TRUE(expression) << expression.error().message;
    EXPECT_EQ(*expression, "141");
    const auto statements = render(times(59, "{% if 1 %}") + "x" + times(59, "{% endif %}"));
    ASSERT_TRUE(statements) << statements.error().message;
    EXPECT_EQ(*statements, "x");
    const auto calls =
        render("{% macro f(n) %}{% if n %}({{ f(n - 1) }}){% endif %}{% endmacro %}{{ f(60) }}");
    ASSERT_TRUE(calls) << calls.error().message;
    EXPECT_EQ(calls->size(), 120u);
  });
}

TEST(JinjaLimitsEdge, ReleasedMemoryCanBeUsedAgain) {
  RenderLimits limits;
  limits.max_live_bytes = 1 << 20;
  const auto text = render(
      "{% set ns = namespace(x='') %}{% for i in range(100) %}{% set ns.x = 'a' * 300000 %}"
      "{% endfor %}{{ ns.x | length }}",
      limits);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "300000");
  const auto held = render(
      "{% set ns = namespace(x=[]) %}{% for i in range(100) %}"
      "{% set ns.x = ns.x + ['a' * 300000] %}{% endfor %}",
      limits);
  ASSERT_FALSE(held);
  EXPECT_NE(held.error().message.find("holds"), std::string::npos) << held.error().message;
}

TEST(JinjaLimitsEdge, ErrorsNameTheLine) {
  const auto unknown = render("a\nb{{ 1 | nosuch }}");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "line 2: No filter named 'nosuch'.");
  const auto test = render("\n\n{{ 1 is nosuch }}");
  ASSERT_FALSE(test);
  EXPECT_EQ(test.error().message, "line 3: No test named 'nosuch'.");
  const auto tag = render("\n{% nosuch %}");
  ASSERT_FALSE(tag);
  EXPECT_EQ(tag.error().message, "line 2: Encountered unknown tag 'nosuch'.");
  const auto operation = render("\n{% if 1 %}\n{{ 1 + 'a' }}{% endif %}");
  ASSERT_FALSE(operation);
  EXPECT_EQ(operation.error().message,
            "line 3: unsupported operand type(s) for +: 'int' and 'str'");
  const auto raised = render("\n{{ raise_exception('No: ' ~ 1) }}");
  ASSERT_FALSE(raised);
  EXPECT_EQ(raised.error().message, "No: 1");
  const auto elsewhere = render("{% include 'x' %}");
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kUnsupported);
}

TEST(JinjaLimitsEdge, SourceMustBeUtf8) {
  EXPECT_FALSE(render("\xFF"));
  EXPECT_FALSE(render("{{ '\xED\xA0\x80' }}"));
  EXPECT_EQ(*render("{{ '\xC3\xA9' }}"), "\xC3\xA9");
}

// mix64() backwards.
std::uint64_t unmixed(std::uint64_t x) {
  const auto inverse = [](std::uint64_t odd) {  // of a product, by Newton's steps
    std::uint64_t found = odd;
    for (int i = 0; i < 6; ++i) found *= 2 - odd * found;
    return found;
  };
  const auto unshifted = [](std::uint64_t y, int bits) {
    std::uint64_t found = y;
    for (int i = 0; i < 64; i += bits) found = y ^ (found >> bits);
    return found;
  };
  x = unshifted(x, 31) * inverse(0x94d049bb133111ebULL);
  x = unshifted(x, 27) * inverse(0xbf58476d1ce4e5b9ULL);
  return unshifted(x, 30);
}

// A client could send a dictionary of keys that all have one hash, and look-ups would take the
// square of their number. It cannot know the hash that is used.
TEST(JinjaKeys, KeysOfOneHashWithoutItsSeedAreKeysOfMany) {
  const auto key = [](std::uint64_t first) {  // 16 bytes, the second eight made to fit the first
    const std::uint64_t state = hash_combine(hash_combine(0, 16), first);
    const std::uint64_t second = unmixed(unmixed(7) - 0x9e3779b97f4a7c15ULL - state);
    std::string bytes(16, '\0');
    std::memcpy(bytes.data(), &first, 8);
    std::memcpy(bytes.data() + 8, &second, 8);
    return bytes;
  };
  RenderState state({}, 0);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(hash64(key(i)), hash64(key(0)));
    seen.insert(hash(state, state.string(key(i))).value_or(0));
  }
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace saccade::jinja

#include "grammar/schema/json_schema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "grammar/automaton/grammar_cache.h"
#include "grammar/automaton/matcher.h"
#include "grammar/schema/schema_merge.h"
#include "text/unicode/unicode.h"

namespace saccade::grammar {
namespace {

std::shared_ptr<const Vocabulary> vocabulary() {
  static const auto made = [] {
    std::vector<std::string> pieces;
    for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    for (const char* piece : {"{\"", "\":", "\",", "\"}", " \"", "name", "true", "null", "00", "12",
                              "\\u", "}]", ", ", "\"a\"", "é", "日本", "ab"}) {
      pieces.emplace_back(piece);
    }
    const auto end = static_cast<TokenId>(pieces.size());
    pieces.emplace_back("<end>");
    return std::make_shared<const Vocabulary>(pieces, std::vector<TokenId>{end});
  }();
  return made;
}

Result<std::shared_ptr<const CompiledGrammar>> try_compile(std::string_view schema,
                                                           JsonOptions options = {}) {
  GrammarCache cache(vocabulary(), std::size_t{1} << 20);
  return cache.find({GrammarSpec::Kind::kJsonSchema, std::string(schema), {}, options});
}

std::shared_ptr<const CompiledGrammar> compile(std::string_view schema, JsonOptions options = {}) {
  auto compiled = try_compile(schema, options);
  EXPECT_TRUE(compiled) << schema << ": " << compiled.error().message;
  return compiled.value_or(nullptr);
}

std::string error_of(std::string_view schema) {
  const auto compiled = try_compile(schema);
  return compiled ? "" : compiled.error().message;
}

bool valid(std::string_view schema, std::string_view text, JsonOptions options = {}) {
  Matcher matcher(compile(schema, options));
  return matcher.accept_bytes(text) && matcher.can_end();
}

TEST(JsonSchema, ObjectsInTheOrderOfTheSchema) {
  const char* schema =
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},
          "c":{"type":"null"}},"required":["b"]})";
  EXPECT_TRUE(valid(schema, R"({"a":"x","b":1,"c":null})"));
  EXPECT_TRUE(valid(schema, "{ \"b\" :\n -10 }"));
  EXPECT_FALSE(valid(schema, R"({"b":1,"a":"x"})"));
  EXPECT_FALSE(valid(schema, R"({"a":"x"})"));
  EXPECT_FALSE(valid(schema, R"({"b":1,})"));
  EXPECT_FALSE(valid(schema, R"({"b":1,"d":2})"));
  EXPECT_TRUE(valid(schema, R"({"b": 1, "c": null})", {.whitespace = Whitespace::kCompact}));
  EXPECT_FALSE(valid(schema, R"({"b":1})", {.whitespace = Whitespace::kCompact}));
  EXPECT_TRUE(valid(R"({"type":"object","properties":{"a":{}}})", "{ }"));
}

TEST(JsonSchema, OtherMembers) {
  const char* schema =
      R"({"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}})";
  EXPECT_TRUE(valid(schema, R"({"ab":null,"a":1,"abc":2,"é":3,"\n":4})"));
  EXPECT_FALSE(valid(schema, R"({"ab":1})"));
  EXPECT_FALSE(valid(schema, R"({"x":1,"ab":null})"));  // the schema's own come first
  EXPECT_FALSE(valid(schema, R"({"a\u0062":1})"));      // "ab" by another name
  EXPECT_TRUE(valid(R"({"type":"object"})", R"({"x":[1,{"y":{}}]})"));
  EXPECT_TRUE(
      valid(R"({"properties":{"a":{"type":"null"}}})", R"({"a":null,"z":1})", {.strict = false}));
  EXPECT_TRUE(valid(R"({"type":"object","required":["q"]})", R"({"q":1})"));
}

// Whatever the names that it lacks: keys of others are a frame of their own beside longer ones.
TEST(JsonSchema, OtherMembersComeFirstWhereNoOthersAre) {
  for (const char* schema :
       {R"({"type":"object","properties":{"a":{}},"additionalProperties":true})",
        R"({"type":"object","properties":{"alpha":{}},"additionalProperties":true})",
        R"({"properties":{"foo":{"type":"integer"},"bar":{}},"additionalProperties":true})"}) {
    EXPECT_TRUE(valid(schema, R"({"quux":true,"x":[]})")) << schema;
    EXPECT_TRUE(valid(schema, R"({"!":1})")) << schema;
    EXPECT_TRUE(valid(schema, "{}")) << schema;
  }
  EXPECT_TRUE(valid(R"({"properties":{"alpha":{},"beta":{}},"additionalProperties":true})",
                    R"({"beta":1,"alphabet":2})"));
}

TEST(JsonSchema, Arrays) {
  const char* counted = R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":4})";
  EXPECT_FALSE(valid(counted, "[1]"));
  EXPECT_TRUE(valid(counted, "[1, 2]"));
  EXPECT_TRUE(valid(counted, "[1,2,3,4]"));
  EXPECT_FALSE(valid(counted, "[1,2,3,4,5]"));
  const char* prefix =
      R"({"type":"array","prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"boolean"},
          "minItems":1,"maxItems":3})";
  EXPECT_FALSE(valid(prefix, "[]"));
  EXPECT_TRUE(valid(prefix, R"(["a"])"));
  EXPECT_TRUE(valid(prefix, R"(["a",null,true])"));
  EXPECT_FALSE(valid(prefix, R"(["a",null,true,true])"));
  EXPECT_TRUE(valid(R"({"type":"array","items":{"type":"null"},"maxItems":0})", "[ ]"));
  EXPECT_TRUE(
      valid(R"({"type":"array","items":{"type":"null"},"minItems":0,"maxItems":1000000000})",
            "[null,null]"));
  EXPECT_TRUE(valid(R"({"items":[{"type":"null"}],"additionalItems":false})", "[null]"));
  EXPECT_FALSE(valid(R"({"items":[{"type":"null"}],"additionalItems":false})", "[null,1]"));
}

TEST(JsonSchema, Strings) {
  EXPECT_TRUE(valid(R"({"type":"string"})", R"("a\"\u00e9é\/")"));
  EXPECT_FALSE(valid(R"({"type":"string"})", "\"a\nb\""));
  EXPECT_TRUE(valid(R"({"type":"string","maxLength":2})", R"("\ud83d\uDE00\ud7ff")"));
  EXPECT_FALSE(valid(R"({"type":"string"})", R"("\ud83d")"));
  EXPECT_FALSE(valid(R"({"type":"string"})", R"("\ude00\ud83d")"));
  EXPECT_TRUE(valid(R"({"type":"string","minLength":2,"maxLength":3})", R"("é\n")"));
  EXPECT_FALSE(valid(R"({"type":"string","minLength":2,"maxLength":3})", R"("abcd")"));
  EXPECT_TRUE(valid(R"({"type":"string","pattern":"^[a-z]+\\d$"})", R"("ab1")"));
  EXPECT_FALSE(valid(R"({"type":"string","pattern":"^[a-z]+\\d$"})", R"("ab")"));
  EXPECT_TRUE(valid(R"({"type":"string","pattern":"b"})", R"("abc\n")"));
  EXPECT_TRUE(
      valid(R"({"type":"string","format":"date-time"})", R"("2024-02-28T23:59:59.5+01:00")"));
  EXPECT_FALSE(valid(R"({"type":"string","format":"date"})", R"("2024-02-30")"));
  EXPECT_TRUE(
      valid(R"({"type":"string","format":"uuid"})", R"("123e4567-e89b-12d3-a456-426614174000")"));
  EXPECT_TRUE(valid(R"({"type":"string","format":"ipv6"})", R"("2001:db8::1")"));
  EXPECT_TRUE(valid(R"({"type":"string","format":"email"})", R"("a.b@example.org")"));
  EXPECT_TRUE(valid(R"({"type":"string","format":"duration"})", R"("P1Y2M3DT4H")"));
}

TEST(JsonSchema, NumbersBetweenBounds) {
  const struct {
    std::int64_t min, max;
  } kRanges[] = {{0, 9}, {-5, 120}, {17, 1003}, {-1200, -7}, {99, 101}, {0, 0}, {-1, 1}};
  for (const auto& [min, max] : kRanges) {
    const std::string schema =
        fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", min, max);
    const auto grammar = compile(schema);
    for (std::int64_t at = -1500; at <= 1500; ++at) {
      Matcher matcher(grammar);
      const bool ok = matcher.accept_bytes(fmt::format("{}", at)) && matcher.can_end();
      ASSERT_EQ(ok, min <= at && at <= max) << at << " of " << schema;
    }
  }
  const struct {
    const char* keywords;
    double min, max;
    bool above, below;
  } kReals[] = {{R"("minimum":-5.5,"exclusiveMaximum":12)", -5.5, 12, false, true},
                {R"("exclusiveMinimum":0.25,"maximum":0.375)", 0.25, 0.375, true, false},
                {R"("minimum":1.5)", 1.5, 1e300, false, false},
                {R"("exclusiveMaximum":-2.75)", -1e300, -2.75, false, true},
                {R"("exclusiveMinimum":0,"exclusiveMaximum":1)", 0, 1, true, true}};
  for (const auto& range : kReals) {
    const auto grammar = compile(fmt::format(R"({{"type":"number",{}}})", range.keywords));
    for (int at = -12000; at <= 13000; at += 25) {
      const double value = at / 1000.0;
      std::string text = fmt::format("{:.3f}", value);
      if (text == "-0.000") continue;
      Matcher matcher(grammar);
      const bool ok = matcher.accept_bytes(text) && matcher.can_end();
      const bool expected = (range.above ? value > range.min : value >= range.min) &&
                            (range.below ? value < range.max : value <= range.max);
      ASSERT_EQ(ok, expected) << text << " with " << range.keywords;
    }
  }
  EXPECT_TRUE(valid(R"({"type":"integer","exclusiveMinimum":3})", "4"));
  EXPECT_FALSE(valid(R"({"type":"integer","exclusiveMinimum":3})", "3"));
  EXPECT_TRUE(valid(R"({"type":"number"})", "-0.5e+10"));
  EXPECT_FALSE(valid(R"({"type":"number"})", "01"));
}

TEST(JsonSchema, Combinations) {
  const char* tree =
      R"({"$defs":{"node":{"type":"object","properties":{"value":{"type":"integer"},
          "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},
          "required":["value","next"],"additionalProperties":false}},"$ref":"#/$defs/node"})";
  EXPECT_TRUE(valid(tree, R"({"value":1,"next":{"value":2,"next":null}})"));
  EXPECT_FALSE(valid(tree, R"({"value":1})"));
  EXPECT_TRUE(
      valid(R"({"allOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]},
                        {"properties":{"b":{"type":"null"}}}]})",
            R"({"a":null,"b":null})"));
  EXPECT_TRUE(valid(R"({"type":["string","null"],"enum":["a",null,3]})", "null"));
  EXPECT_FALSE(valid(R"({"type":["string","null"],"enum":["a",null,3]})", "3"));
  EXPECT_TRUE(valid(R"({"const":{"a":[1,2.5,"é"]}})", R"({"a":[1,2.5,"é"]})"));
  const char* one =
      R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},
                        {"type":"object","properties":{"k":{"const":"b"},"n":{"type":"null"}},
                         "required":["k"]}]})";
  EXPECT_TRUE(valid(one, R"({"k":"b","n":null})"));
  EXPECT_FALSE(valid(one, R"({"k":"a","n":null})"));
  EXPECT_TRUE(valid(R"({"type":"integer","anyOf":[{"minimum":10},{"maximum":-10}]})", "-11"));
  EXPECT_FALSE(valid(R"({"type":"integer","anyOf":[{"minimum":10},{"maximum":-10}]})", "0"));
}

TEST(JsonSchema, ItemsSpeakOfThePrefixOfASchemaJoinedToThem) {
  for (const char* schema :
       {R"({"allOf":[{"prefixItems":[{"minimum":3}]}],"items":{"minimum":5}})",
        R"({"items":{"minimum":5},"allOf":[{"prefixItems":[{"minimum":3}]}]})",
        R"({"allOf":[{"items":{"minimum":5}},{"prefixItems":[{"minimum":3}]}]})"}) {
    EXPECT_FALSE(valid(schema, "[3,5]", {.strict = false})) << schema;
    EXPECT_FALSE(valid(schema, "[5,3]", {.strict = false})) << schema;
    EXPECT_TRUE(valid(schema, "[5,6,7]", {.strict = false})) << schema;
  }
  const char* both =
      R"({"allOf":[{"prefixItems":[{"minimum":3}],"items":{"maximum":9}}],"items":{"minimum":5}})";
  EXPECT_TRUE(valid(both, "[50,9]"));
  EXPECT_FALSE(valid(both, "[50,10]"));
  EXPECT_FALSE(valid(both, "[4,9]"));
  EXPECT_FALSE(valid(both, "[5,4]"));
  const char* none = R"({"allOf":[{"prefixItems":[{"minimum":3}]}],"items":false})";
  EXPECT_TRUE(valid(none, "[]"));
  EXPECT_FALSE(valid(none, "[5]"));
}

// Every number of up to three digits and two decimals, beside arithmetic on integers.
TEST(JsonSchema, Multiples) {
  const std::pair<const char*, int> kSteps[] = {{"1", 100},   {"2", 200},   {"3", 300},
                                                {"7", 700},   {"60", 6000}, {"0.5", 50},
                                                {"0.25", 25}, {"0.01", 1},  {"1.5", 150}};
  for (const auto& [step, hundredths] : kSteps) {
    for (const char* type : {"number", "integer"}) {
      const std::string schema = fmt::format(R"({{"type":"{}","multipleOf":{}}})", type, step);
      const auto compiled = compile(schema);
      ASSERT_TRUE(compiled) << schema;
      for (int value = 0; value < 25'000; value += value < 1'000 ? 1 : 37) {
        std::string text = fmt::format("{}", value / 100);
        if (value % 10 != 0) {
          text += fmt::format(".{:02}", value % 100);
        } else if (value % 100 != 0) {
          text += fmt::format(".{}", value % 100 / 10);
        }
        const bool whole = value % 100 == 0;
        const bool expected =
            value % hundredths == 0 && (whole || std::string_view(type) == "number");
        for (const std::string sign : {"", "-"}) {
          Matcher matcher(compiled);
          EXPECT_EQ(matcher.accept_bytes(sign + text) && matcher.can_end(), expected)
              << schema << " " << sign << text;
        }
      }
    }
  }
}

TEST(JsonSchema, MultiplesBetweenBounds) {
  const char* cents = R"({"type":"number","exclusiveMinimum":0,"multipleOf":0.01})";
  for (const char* good : {"0.01", "0.1", "12", "3.50"}) EXPECT_TRUE(valid(cents, good)) << good;
  for (const char* bad : {"0", "0.00", "0.001", "-1", "00.1", "1."})
    EXPECT_FALSE(valid(cents, bad)) << bad;
  const char* hours = R"({"type":"number","minimum":-0.5,"maximum":1.1,"multipleOf":0.25})";
  for (const char* good : {"-0.5", "-0.25", "0", "0.75", "1"})
    EXPECT_TRUE(valid(hours, good)) << good;
  for (const char* bad : {"-0.75", "1.25", "0.3", "2"}) EXPECT_FALSE(valid(hours, bad)) << bad;
  const char* tens = R"({"type":"integer","exclusiveMinimum":10,"maximum":40,"multipleOf":10})";
  EXPECT_TRUE(valid(tens, "20") && valid(tens, "40"));
  EXPECT_FALSE(valid(tens, "10") || valid(tens, "50") || valid(tens, "25"));
}

TEST(JsonSchema, MembersThatNoListNames) {
  const char* by_pattern =
      R"({"type":"object","patternProperties":{"^x-[a-z]+$":{"type":"integer"}}})";
  EXPECT_TRUE(valid(by_pattern, R"({"x-a":1,"x-bc":2})"));
  EXPECT_TRUE(valid(by_pattern, "{}"));
  EXPECT_FALSE(valid(by_pattern, R"({"x-a":"1"})"));
  const char* named = R"({"$defs":{"n":{"enum":["a","b"]}},"type":"object",
      "propertyNames":{"$ref":"#/$defs/n"},"additionalProperties":{"type":"null"}})";
  EXPECT_TRUE(valid(named, R"({"b":null,"a":null})"));
  EXPECT_FALSE(valid(named, R"({"c":null})"));
  const char* few = R"({"type":"object","minProperties":1,"maxProperties":2})";
  EXPECT_TRUE(valid(few, R"({"a":1,"b":[]})"));
  EXPECT_FALSE(valid(few, "{}"));
  EXPECT_FALSE(valid(few, R"({"a":1,"b":2,"c":3})"));
  EXPECT_TRUE(valid(R"({"type":"object","maxProperties":0})", "{}"));
  EXPECT_FALSE(valid(R"({"type":"object","maxProperties":0})", R"({"a":1})"));
  // What zod writes of a record, and counts that the list meets anyway.
  EXPECT_TRUE(
      valid(R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{}})",
            R"({"any name":[]})"));
  EXPECT_TRUE(valid(R"({"type":"object","properties":{"a":{}},"required":["a"],"minProperties":1,
      "maxProperties":1,"additionalProperties":false})",
                    R"({"a":1})"));
}

TEST(JsonSchema, FormatsThatAreRemarksAndThoseWithin) {
  EXPECT_TRUE(valid(R"({"type":"string","format":"binary","maxLength":3})", R"("abc")"));
  EXPECT_FALSE(valid(R"({"type":"string","format":"binary","maxLength":3})", R"("abcd")"));
  EXPECT_TRUE(valid(R"({"type":"string","format":"uri-reference"})", R"("http://a.b/c?d#e")"));
  EXPECT_TRUE(valid(R"({"type":"string","format":"relative-json-pointer"})", R"("1/a/b")"));
  EXPECT_TRUE(valid(R"({"type":"string","format":"relative-json-pointer"})", R"("0#")"));
  EXPECT_FALSE(valid(R"({"type":"string","format":"relative-json-pointer"})", R"("/a")"));
}

TEST(JsonSchema, RefusesByNameAndPath) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"type":"object","properties":{"a":{"type":"array","contains":{}}}})",
       "schema #/properties/a: 'contains' is not supported"},
      {R"({"type":"integer","multipleOf":0})", "'multipleOf' must be a number above 0"},
      {R"({"type":"integer","multipleOf":1001})", "'multipleOf' of over"},
      {R"({"type":"number","multipleOf":0.0000000001})", "over 9 decimals"},
      {R"({"type":"integer","multipleOf":2,"maximum":4})", "a bound on one side"},
      {R"({"type":"integer","multipleOf":2,"minimum":0,"maximum":4000})", "limit 1024"},
      {R"({"type":"integer","multipleOf":10,"minimum":1,"maximum":9})", "no multiple"},
      {R"({"type":"object","minProperties":2})", "'minProperties' 2"},
      {R"({"type":"object","properties":{"a":{}},"patternProperties":{"b":{}}})",
       "beside 'properties'"},
      {R"({"type":"object","patternProperties":{"a":{},"b":{}}})", "other than one pattern"},
      {R"({"type":"object","maxProperties":0,"minProperties":1})", "no object"},
      {R"({"not":{}})", "'not'"},
      {R"({"type":"array","items":{"type":"string","format":"regex"}})",
       "#/items: the format 'regex'"},
      {R"j({"type":"string","pattern":"(?=a)"})j", "#/pattern: regex: look-around"},
      {R"({"$ref":"#/nowhere"})", "'#/nowhere' leads nowhere"},
      {R"({"$ref":"http://example.org/x"})", "only references within"},
      {R"({"type":"thing"})", "'thing' is not a type"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "'oneOf' whose schemas 0 and 1"},
      {R"({"type":"object","properties":{"self":{"$ref":"#"}},"required":["self"]})",
       "no finite text"},
      {R"({"$ref":"#"})", "no finite text"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "no integer is from 5 to 4"},
      {R"({"type":"array","minItems":5,"maxItems":4})", "at least 5 and at most 4"},
      {R"({"type":"string","pattern":"a","maxLength":4})", "more than one of"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "'pattern' in two schemas"},
      {R"([1])", "must be an object or a boolean"},
      {R"({"enum":[]})", "'enum' has no value"},
      {R"({"type":"integer","minimum":1e30})", "an integer's bound beyond"},
  };
  for (const auto& [schema, message] : kCases) {
    EXPECT_NE(error_of(schema).find(message), std::string::npos)
        << schema << ": " << error_of(schema);
  }
}

// What the schema says, checked in a way that shares nothing with the grammar.
bool validates(const json::value& root, const json::value& schema, const json::value& at) {
  if (schema.is_bool()) return schema.get_bool();
  const json::object& keywords = schema.get_object();
  const auto get = [&](const char* name) { return json::find(keywords, name); };
  if (const auto* pointer = get("$ref")) {
    return validates(root, **resolve_pointer(root, std::string_view(pointer->get_string())), at);
  }
  if (const auto* any = get("anyOf")) {
    bool some = false;
    for (const auto& one : any->get_array()) some |= validates(root, one, at);
    if (!some) return false;
  }
  if (const auto* listed = get("enum")) {
    bool some = false;
    for (const auto& one : listed->get_array()) some |= one == at;
    return some;
  }
  if (const auto* type = get("type")) {
    const std::string_view name = type->get_string();
    const bool whole = at.is_int64() || at.is_uint64();
    if (name == "object" && !at.is_object()) return false;
    if (name == "array" && !at.is_array()) return false;
    if (name == "string" && !at.is_string()) return false;
    if (name == "integer" && !whole) return false;
    if (name == "number" && !at.is_number()) return false;
    if (name == "boolean" && !at.is_bool()) return false;
    if (name == "null" && !at.is_null()) return false;
  }
  if (at.is_string()) {
    const std::string_view text = at.get_string();
    std::int64_t length = 0;
    for (const char byte : text) length += (byte & 0xC0) != 0x80;
    if (get("minLength") && length < get("minLength")->get_int64()) return false;
    if (get("maxLength") && length > get("maxLength")->get_int64()) return false;
  }
  if (at.is_number()) {
    const double value = at.to_number<double>();
    if (get("minimum") && value < get("minimum")->to_number<double>()) return false;
    if (get("maximum") && value > get("maximum")->to_number<double>()) return false;
  }
  if (at.is_array()) {
    const auto count = static_cast<std::int64_t>(at.get_array().size());
    if (get("minItems") && count < get("minItems")->get_int64()) return false;
    if (get("maxItems") && count > get("maxItems")->get_int64()) return false;
    for (const auto& item : at.get_array()) {
      if (get("items") && !validates(root, *get("items"), item)) return false;
    }
  }
  if (at.is_object()) {
    const auto* properties = get("properties");
    for (const auto& member : at.get_object()) {
      const auto* own = properties ? json::find(properties->get_object(), member.key()) : nullptr;
      const auto* other = get("additionalProperties");
      if (own && !validates(root, *own, member.value())) return false;
      if (!own && properties && !other) return false;  // strict
      if (!own && other && !validates(root, *other, member.value())) return false;
    }
    if (const auto* required = get("required")) {
      for (const auto& name : required->get_array()) {
        if (!at.get_object().contains(name.get_string())) return false;
      }
    }
  }
  return true;
}

TEST(JsonSchema, WalksOverMasksAlwaysValidate) {
  const char* kSchemas[] = {
      R"({"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":12},
          "age":{"type":"integer","minimum":0,"maximum":150},
          "tags":{"type":"array","items":{"enum":["x","y","zé"]},"minItems":1,"maxItems":3},
          "score":{"type":"number","minimum":-1.5,"maximum":2.25}},"required":["name","tags"],
          "additionalProperties":false})",
      R"({"$defs":{"t":{"type":"object","properties":{"v":{"type":"boolean"},
          "kids":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":2}},"required":["v"]}},
          "$ref":"#/$defs/t"})",
      R"({"anyOf":[{"type":"array","items":{"type":"null"},"minItems":2,"maxItems":60},
          {"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}},
          {"type":"string","maxLength":2}]})",
  };
  Rng rng(11);
  for (const char* text : kSchemas) {
    SCOPED_TRACE(text);
    const auto schema = json::parse(text);
    ASSERT_TRUE(schema);
    const auto grammar = compile(text);
    const Vocabulary& tokens = grammar->vocabulary();
    std::vector<std::uint32_t> words(tokens.words());
    int complete = 0;
    for (int walk = 0; walk < 60; ++walk) {
      Matcher matcher(grammar);
      std::string answer;
      for (int step = 0; step < 400 && !matcher.ended(); ++step) {
        ASSERT_TRUE(matcher.fill_mask(words)) << "nothing may follow " << answer;
        std::vector<TokenId> allowed;
        for (TokenId token = 0; token < tokens.size(); ++token) {
          const bool blank = tokens.piece(token) == " " || tokens.piece(token) == "\n" ||
                             tokens.piece(token) == "\t" || tokens.piece(token) == "\r";
          const bool in_mask = words[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1;
          if (in_mask && (!blank || rng.below(4) == 0)) allowed.push_back(token);
        }
        if (allowed.empty()) continue;
        TokenId token = allowed[rng.below(allowed.size())];
        if (matcher.can_end() && rng.below(3) == 0) token = tokens.end_tokens()[0];
        ASSERT_TRUE(matcher.accept(token));
        answer += tokens.piece(token);
      }
      if (!matcher.ended()) continue;  // cut
      ++complete;
      const auto value = json::parse(answer);
      ASSERT_TRUE(value) << answer << ": " << value.error().message;
      ASSERT_TRUE(validates(*schema, *schema, *value)) << answer;
    }
    EXPECT_GT(complete, 5);
  }
}

TEST(JsonSchema, HostileSchemasAreBounded) {
  std::string deep;
  for (int i = 0; i < 30; ++i) deep += R"({"type":"array","items":)";
  deep += "{}" + std::string(30, '}');
  EXPECT_EQ(error_of(deep), "");
  std::string wide = R"({"type":"object","properties":{)";
  for (int i = 0; i < 300; ++i) {
    wide += fmt::format(R"({}"property_{}":{{"type":"string"}})", i ? "," : "", i);
  }
  EXPECT_EQ(error_of(wide + "}}"), "");
  std::string many = R"({"anyOf":[)";
  for (int i = 0; i < 200; ++i) many += fmt::format(R"({}{{"const":{}}})", i ? "," : "", i);
  EXPECT_NE(error_of(many + "]}").find("200 schemas, limit 128"), std::string::npos);
  // References that double at each level: each is compiled once.
  std::string doubling = R"({"$defs":{"d0":{"type":"null"})";
  for (int i = 1; i < 40; ++i) {
    doubling += fmt::format(
        R"(,"d{}":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d{}"}},"b":{{"$ref":"#/$defs/d{}"}}}}}})",
        i, i - 1, i - 1);
  }
  EXPECT_EQ(error_of(doubling + R"(},"$ref":"#/$defs/d39"})"), "");
  EXPECT_NE(error_of(R"({"allOf":[{"$ref":"#"}]})"), "");
  // References with something beside them are joined anew each time: doubling again.
  EXPECT_NE(error_of(R"({"type":"object","properties":{"a":{"$ref":"#","minItems":1},
                         "b":{"$ref":"#","minItems":2}}})"),
            "");
  EXPECT_NE(error_of(R"({"type":"string","minLength":1e12})").find("over"), std::string::npos);
}

// Each of these takes more than the budget, in another part of the compiler.
TEST(JsonSchema, CompilingEndsAtTheBudget) {
  const auto listed = [](int count, const std::function<std::string(int)>& at) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? "," : "") + at(i);
    return text;
  };
  const std::pair<std::string, const char*> kCases[] = {
      {R"({"enum":[)" + listed(60000, [](int i) { return fmt::format("\"n{}\"", i); }) + "]}",
       "131072 states"},
      {R"({"enum":[)" + listed(140000, [](int i) { return fmt::format("{}", i); }) + "]}",
       "131072 expressions"},
      {R"({"type":"array","minItems":9000,"prefixItems":[)" +
           listed(9000, [](int) { return "{}"; }) + "]}",
       "134217728 bytes"},
      {R"({"type":"array","prefixItems":[)" + listed(2000, [](int) { return "{}"; }) + "]}",
       "nests over 1000 deep"},
      {R"({"oneOf":[)" +
           listed(128,
                  [&](int i) {
                    return R"({"enum":[)" +
                           listed(700, [&](int j) { return fmt::format("{}", 700 * i + j); }) +
                           "]}";
                  }) +
           "]}",
       "67108864 steps"},
      {R"({"type":"object","properties":{)" +
           listed(9000, [](int i) { return fmt::format("\"property_{}\":{{}}", i); }) + "}}",
       "131072 states"},
      {R"({"description":")" + std::string(std::size_t{1} << 20, 'x') + R"("})", "limit 1048576"},
  };
  for (const auto& [schema, message] : kCases) {
    EXPECT_NE(error_of(schema).find(message), std::string::npos)
        << schema.substr(0, 60) << ": " << error_of(schema);
  }
  // A chain of references does not nest, and a long path is cut in the message.
  std::string chain = R"({"$defs":{"d0":{"type":"null"})";
  for (int i = 1; i < 400; ++i) {
    chain += fmt::format(R"(,"d{}":{{"type":"array","items":{{"$ref":"#/$defs/d{}"}}}})", i, i - 1);
  }
  EXPECT_EQ(error_of(chain + R"(},"$ref":"#/$defs/d399"})"), "");
  const std::string name(5000, 'n');
  const std::string error =
      error_of(fmt::format(R"({{"properties":{{"{}":{{"not":{{}}}}}}}})", name));
  EXPECT_NE(error.find("'not' is not supported"), std::string::npos);
  EXPECT_LT(error.size(), 400u);
}

// An object's members may come in any number that their order allows, however many there are.
TEST(JsonSchema, ManyOptionalMembers) {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 400; ++i) {
    schema += fmt::format(R"({}"member_{}":{{"type":"integer"}})", i ? "," : "", i);
  }
  const auto grammar = compile(schema + R"(},"required":["member_17","member_200"]})");
  const auto ok = [&](std::string_view text) {
    Matcher matcher(grammar);
    return matcher.accept_bytes(text) && matcher.can_end();
  };
  EXPECT_TRUE(ok(R"({"member_17":1,"member_200":2})"));
  EXPECT_TRUE(ok(R"({"member_1":0,"member_17":1,"member_19":3,"member_200":2,"member_399":4})"));
  EXPECT_FALSE(ok(R"({"member_17":1})"));
  EXPECT_FALSE(ok(R"({"member_17":1,"member_16":1)"));
  EXPECT_FALSE(ok(R"({"member_18":1)"));
  EXPECT_FALSE(ok(R"({"member_17":1,"member_200":2,"member_200":2)"));
  EXPECT_FALSE(ok("{}"));
}

TEST(JsonSchema, StructuralTags) {
  GrammarCache cache(vocabulary(), std::size_t{1} << 20);
  const std::string tags =
      R"({"structures":[{"begin":"<f=a>","schema":{"type":"integer"},"end":"</f>"},
          {"begin":"<f=b>","schema":{"type":"null"},"end":"</f>"}],"triggers":["<f="]})";
  const auto grammar = cache.find({GrammarSpec::Kind::kStructuralTag, tags, {}, {}});
  ASSERT_TRUE(grammar) << grammar.error().message;
  const auto ok = [&](std::string_view text) {
    Matcher matcher(*grammar);
    return matcher.accept_bytes(text) && matcher.can_end();
  };
  EXPECT_TRUE(ok("plain <f text <<f=a>12</f> and <f=b>null</f>é"));
  EXPECT_FALSE(ok("<f=c>"));
  EXPECT_FALSE(ok("<f=a>null</f>"));
  EXPECT_FALSE(ok("<f=a>1</f"));
}

TEST(GrammarCache, CompilesOnceAndForgetsTheOldest) {
  GrammarCache cache(vocabulary(), 40000);
  const auto spec = [](int i) {
    return GrammarSpec{GrammarSpec::Kind::kRegex, fmt::format("[a-z]{{3}}{}", i), {}, {}};
  };
  const auto first = cache.find(spec(0));
  ASSERT_TRUE(first);
  EXPECT_EQ(cache.find(spec(0))->get(), first->get());
  for (int i = 1; i < 200; ++i) ASSERT_TRUE(cache.find(spec(i)));
  EXPECT_LT(cache.size(), 150u);
  EXPECT_LE(cache.bytes(), 40000u);
  EXPECT_NE(cache.find(spec(0))->get(), first->get());
  EXPECT_FALSE(cache.find({GrammarSpec::Kind::kRegex, "(", {}, {}}));
  EXPECT_FALSE(cache.find({GrammarSpec::Kind::kChoice, "", {}, {}}));
  const auto choice = cache.find({GrammarSpec::Kind::kChoice, "", {"yes", "no"}, {}});
  ASSERT_TRUE(choice);
  Matcher matcher(*choice);
  EXPECT_TRUE(matcher.accept_bytes("no"));
  EXPECT_TRUE(matcher.can_end());
}

}  // namespace
}  // namespace saccade::grammar

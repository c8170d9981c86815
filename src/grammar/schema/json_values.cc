#include "grammar/schema/json_values.h"

#include <string>

namespace saccade::grammar {
namespace {

const std::vector<CharacterRange> kJsonDigits = {{'0', '9'}};
const std::vector<CharacterRange> kHex = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};

}  // namespace

JsonValues::JsonValues(Grammar& grammar, Whitespace whitespace) : grammar_(grammar) {
  if (whitespace == Whitespace::kBounded) grammar.bound_blanks();
  if (whitespace != Whitespace::kCompact) {
    blank_ =
        grammar.repeat(grammar.characters({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}), 0, kUnbounded);
    comma_ = grammar.sequence({blank_, grammar.text(","), blank_});
    colon_ = grammar.sequence({blank_, grammar.text(":"), blank_});
  } else {
    blank_ = grammar.text("");
    comma_ = grammar.text(", ");
    colon_ = grammar.text(": ");
  }
}

NodeId JsonValues::character() {
  if (!character_) {
    const NodeId raw = grammar_.characters(complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
    const NodeId hex = grammar_.characters(kHex);
    const NodeId letter = grammar_.characters({{'"', '"'},
                                               {'/', '/'},
                                               {'\\', '\\'},
                                               {'b', 'b'},
                                               {'f', 'f'},
                                               {'n', 'n'},
                                               {'r', 'r'},
                                               {'t', 't'}});
    const NodeId unit = grammar_.text("u");
    const NodeId d = grammar_.characters({{'D', 'D'}, {'d', 'd'}});
    const NodeId not_d =
        grammar_.characters({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
    const NodeId high = grammar_.characters({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
    const NodeId low = grammar_.characters({{'C', 'F'}, {'c', 'f'}});
    // Surrogates in pairs alone: many readers refuse others.
    const NodeId code = grammar_.sequence(
        {unit, grammar_.choice({grammar_.sequence({not_d, hex, hex, hex}),
                                grammar_.sequence({d, grammar_.characters({{'0', '7'}}), hex, hex}),
                                grammar_.sequence({d, high, hex, hex, grammar_.text("\\u"), d, low,
                                                   hex, hex})})});
    character_ = grammar_.choice(
        {raw, grammar_.sequence({grammar_.text("\\"), grammar_.choice({letter, code})})});
  }
  return *character_;
}

NodeId JsonValues::string() {
  if (!string_) {
    const NodeId quote = grammar_.text("\"");
    string_ = grammar_.add_rule(
        "string", grammar_.sequence({quote, grammar_.repeat(character(), 0, kUnbounded), quote}));
  }
  return grammar_.call(*string_);
}

NodeId JsonValues::integer() {
  if (!integer_) {
    const NodeId digit = grammar_.characters(kJsonDigits);
    const NodeId positive = grammar_.sequence(
        {grammar_.characters({{'1', '9'}}), grammar_.repeat(digit, 0, kUnbounded)});
    integer_ = grammar_.add_rule(
        "integer",
        grammar_.choice({grammar_.text("0"),
                         grammar_.sequence({grammar_.optional(grammar_.text("-")), positive})}));
  }
  return grammar_.call(*integer_);
}

NodeId JsonValues::number() {
  if (!number_) {
    const NodeId digits = grammar_.repeat(grammar_.characters(kJsonDigits), 1, kUnbounded);
    const NodeId whole = grammar_.choice(
        {grammar_.text("0"),
         grammar_.sequence({grammar_.characters({{'1', '9'}}),
                            grammar_.repeat(grammar_.characters(kJsonDigits), 0, kUnbounded)})});
    const NodeId fraction = grammar_.sequence({grammar_.text("."), digits});
    const NodeId exponent = grammar_.sequence(
        {grammar_.characters({{'E', 'E'}, {'e', 'e'}}),
         grammar_.optional(grammar_.characters({{'+', '+'}, {'-', '-'}})), digits});
    number_ = grammar_.add_rule(
        "number", grammar_.sequence({grammar_.optional(grammar_.text("-")), whole,
                                     grammar_.optional(fraction), grammar_.optional(exponent)}));
  }
  return grammar_.call(*number_);
}

void JsonValues::declare_values() {
  if (any_) return;
  any_ = grammar_.declare("value");
  object_ = grammar_.declare("object");
  array_ = grammar_.declare("array");
  const NodeId value = grammar_.call(*any_);
  const auto listed = [&](NodeId item) {
    return grammar_.sequence(
        {item, grammar_.repeat(grammar_.sequence({comma_, item}), 0, kUnbounded)});
  };
  const auto bracketed = [&](std::string_view open, NodeId items, std::string_view close) {
    return grammar_.choice(
        {grammar_.sequence({grammar_.text(open), blank_, items, blank_, grammar_.text(close)}),
         grammar_.sequence({grammar_.text(open), blank_, grammar_.text(close)})});
  };
  grammar_.define(*object_, bracketed("{", listed(member(string(), value)), "}"));
  grammar_.define(*array_, bracketed("[", listed(value), "]"));
  grammar_.define(*any_, grammar_.choice({string(), number(), grammar_.call(*object_),
                                          grammar_.call(*array_), grammar_.text("true"),
                                          grammar_.text("false"), grammar_.text("null")}));
}

NodeId JsonValues::any() {
  declare_values();
  return grammar_.call(*any_);
}

NodeId JsonValues::any_object() {
  declare_values();
  return grammar_.call(*object_);
}

NodeId JsonValues::any_array() {
  declare_values();
  return grammar_.call(*array_);
}

NodeId JsonValues::member(NodeId key, NodeId value) {
  return grammar_.sequence({key, colon_, value});
}

NodeId JsonValues::key(std::string_view name) {
  std::string quoted;
  json::append_quoted(quoted, name);
  return grammar_.text(quoted);
}

NodeId JsonValues::object(NodeId members) {
  return grammar_.sequence({grammar_.text("{"), blank_, members, blank_, grammar_.text("}")});
}

NodeId JsonValues::constant(const json::value& value) {
  std::string text;
  json::JsonWriter(text).value(value);
  return grammar_.text(text);
}

}  // namespace saccade::grammar

#include "grammar/grammar_spec.h"

#include "base/json.h"
#include "grammar/frontends/ebnf_parser.h"
#include "grammar/frontends/regex_parser.h"
#include "grammar/frontends/required_structures.h"
#include "grammar/frontends/structural_tag.h"

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxChoices = 10000;
constexpr std::size_t kMaxChoiceBytes = std::size_t{1} << 17;
constexpr std::size_t kMaxSchemaBytes = std::size_t{1} << 20;

Result<Grammar> parse_choices(const std::vector<std::string>& choices) {
  std::size_t bytes = 0;
  for (const std::string& choice : choices) bytes += choice.size();
  if (choices.empty()) return fail(ErrorCode::kInvalid, "choice: there are none");
  if (choices.size() > kMaxChoices || bytes > kMaxChoiceBytes) {
    return fail(ErrorCode::kTooLarge, "choice: {} of {} bytes, limits {} and {}", choices.size(),
                bytes, kMaxChoices, kMaxChoiceBytes);
  }
  Grammar grammar;
  std::vector<NodeId> ways;
  for (const std::string& choice : choices) ways.push_back(grammar.text(choice));
  grammar.set_root(grammar.add_rule("root", grammar.choice(ways)));
  return grammar;
}

Result<Grammar> parse_whole_regex(const std::string& text) {
  Grammar grammar;
  TRY(const NodeId body, parse_regex(grammar, text));
  grammar.set_root(grammar.add_rule("root", body));
  return grammar;
}

// A schema or tags, as JSON.
Result<json::value> parse_json(std::string_view name, const std::string& text) {
  if (text.size() > kMaxSchemaBytes) {
    return fail(ErrorCode::kTooLarge, "{}: {} bytes, limit {}", name, text.size(), kMaxSchemaBytes);
  }
  auto parsed = json::parse(text);
  if (!parsed) return fail_within(name, std::move(parsed).error());
  return parsed;
}

}  // namespace

Digest GrammarSpec::digest() const {
  Sha256 hash;
  const auto add = [&](std::string_view part) {
    const std::uint64_t length = part.size();
    hash.update(std::string_view(reinterpret_cast<const char*>(&length), sizeof(length)));
    hash.update(part);
  };
  const char settings[] = {static_cast<char>(kind), static_cast<char>(json.whitespace),
                           static_cast<char>(json.strict)};
  add(std::string_view(settings, sizeof(settings)));
  add(text);
  for (const std::string& choice : choices) add(choice);
  return hash.finish();
}

Result<Grammar> parse_spec(const GrammarSpec& spec) {
  switch (spec.kind) {
    case GrammarSpec::Kind::kJsonObject:
      return json_object_grammar(spec.json);
    case GrammarSpec::Kind::kJsonSchema: {
      TRY(const json::value schema, parse_json("schema", spec.text));
      return json_schema_grammar(schema, spec.json);
    }
    case GrammarSpec::Kind::kRegex:
      return parse_whole_regex(spec.text);
    case GrammarSpec::Kind::kChoice:
      return parse_choices(spec.choices);
    case GrammarSpec::Kind::kEbnf:
      return parse_ebnf(spec.text);
    case GrammarSpec::Kind::kStructuralTag: {
      TRY(const json::value tags, parse_json("structural_tag", spec.text));
      return structural_tag_grammar(tags, spec.json);
    }
    case GrammarSpec::Kind::kRequiredStructures: {
      TRY(const json::value wanted, parse_json("structures", spec.text));
      return required_structures_grammar(wanted, spec.json);
    }
  }
  return fail(ErrorCode::kInternal, "a kind of grammar that is not known");
}

}  // namespace saccade::grammar

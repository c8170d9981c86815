#include "grammar/frontends/required_structures.h"

#include <boost/json/array.hpp>
#include <string>
#include <vector>

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxStructures = 1024;
constexpr std::int64_t kMaxRepeats = 1024;

Result<NodeId> add_structure(Grammar& grammar, const json::value& from,
                             const JsonOptions& options) {
  if (!from.is_object())
    return fail(ErrorCode::kInvalid, "a structure is {}, an object is required",
                json::kind_name(from));
  TRY(const std::string begin, json::get_string(from.get_object(), "begin"));
  TRY(const std::string end, json::get_string(from.get_object(), "end"));
  const json::value* schema = json::find(from.get_object(), "schema");
  if (schema == nullptr) return fail(ErrorCode::kInvalid, "'{}' has no 'schema'", begin);
  auto content = add_json_schema(grammar, *schema, options);
  if (!content) return fail_within(begin, std::move(content).error());
  return grammar.sequence({grammar.text(begin), *content, grammar.text(end)});
}

}  // namespace

Result<Grammar> required_structures_grammar(const json::value& wanted, const JsonOptions& options) {
  if (!wanted.is_object())
    return fail(ErrorCode::kInvalid, "structures: {}, an object is required",
                json::kind_name(wanted));
  const json::object& from = wanted.get_object();
  TRY(const std::string begin, json::get_string_or(from, "begin", ""));
  TRY(const std::string separator, json::get_string_or(from, "separator", ""));
  TRY(const std::string end, json::get_string_or(from, "end", ""));
  TRY(const std::int64_t most, json::get_int_or(from, "most", 1));
  if (most < 1 || most > kMaxRepeats)
    return fail(ErrorCode::kInvalid, "structures: 'most' is {}, 1 to {} are possible", most,
                kMaxRepeats);
  const json::value* listed = json::find(from, "structures");
  if (listed == nullptr || !listed->is_array() || listed->get_array().empty())
    return fail(ErrorCode::kInvalid, "structures: there are none");
  if (listed->get_array().size() > kMaxStructures)
    return fail(ErrorCode::kTooLarge, "{} structures, limit {}", listed->get_array().size(),
                kMaxStructures);

  Grammar grammar;
  std::vector<NodeId> ways;
  for (const json::value& each : listed->get_array()) {
    TRY(const NodeId way, add_structure(grammar, each, options));
    ways.push_back(way);
  }
  const RuleId one = grammar.add_rule("structure", grammar.choice(ways));
  const NodeId next = grammar.sequence({grammar.text(separator), grammar.call(one)});
  const NodeId all = grammar.sequence(
      {grammar.text(begin), grammar.call(one),
       grammar.repeat(next, 0, static_cast<std::uint32_t>(most - 1)), grammar.text(end)});
  grammar.set_root(grammar.add_rule("root", all));
  TRY_DO(grammar.check_budget());
  return grammar;
}

}  // namespace saccade::grammar

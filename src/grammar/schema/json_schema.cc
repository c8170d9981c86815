#include "grammar/schema/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grammar/schema/json_values.h"
#include "grammar/schema/member_keys.h"
#include "grammar/schema/schema_error.h"
#include "grammar/schema/schema_merge.h"
#include "grammar/schema/schema_numbers.h"
#include "grammar/schema/schema_strings.h"

namespace saccade::grammar {
namespace {

using json::array;
using json::object;
using json::value;

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxAlternatives = 128;  // below StackSets::kMaxTops
// Joining copies schemas: how many values may be copied in all, about.
constexpr std::size_t kMaxJoinedValues = 1'000'000;
constexpr std::size_t kMaxNameBytes = std::size_t{16} << 10;

// Keywords by the type that they restrict.
constexpr std::array<std::string_view, 7> kObjectKeywords = {
    "properties",    "required",      "additionalProperties", "patternProperties",
    "propertyNames", "minProperties", "maxProperties"};
constexpr std::array<std::string_view, 5> kArrayKeywords = {"items", "prefixItems", "minItems",
                                                            "maxItems", "additionalItems"};
constexpr std::array<std::string_view, 7> kOtherKeywords = {"type",  "enum",  "const", "$ref",
                                                            "allOf", "anyOf", "oneOf"};

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <std::size_t N>
bool has_any(const object& schema, const std::array<std::string_view, N>& names) {
  return std::any_of(schema.begin(), schema.end(),
                     [&](const auto& member) { return among(names, member.key()); });
}

bool passes_over(std::string_view keyword, const value& given) {
  // What restricts nothing as given.
  if (keyword == "uniqueItems" && given.is_bool() && !given.get_bool()) return true;
  if (keyword == "nullable" && given.is_bool() && !given.get_bool()) return true;
  return only_describes(keyword);
}

class SchemaCompiler {
 public:
  SchemaCompiler(const value& root, const JsonOptions& options, Grammar& grammar)
      : root_(root), options_(options), grammar_(grammar), json_(grammar, options.whitespace) {}

  Result<NodeId> compile() {
    joins_left_ = std::max<std::size_t>(16, kMaxJoinedValues / count_values(root_));
    TRY(const NodeId whole, reference("#", "#"));
    while (!referred_.empty()) {
      const auto [pointer, target, rule] = std::move(referred_.front());
      referred_.pop_front();
      TRY(const NodeId body, schema(*target, pointer, 0));
      grammar_.define(rule, body);
    }
    return whole;
  }

 private:
  // What is referred to is compiled once, after all that is being compiled, so that a chain of
  // references does not nest.
  Result<NodeId> reference(std::string_view pointer, const std::string& path) {
    const auto [found, fresh] = references_.try_emplace(std::string(pointer), 0);
    if (fresh) {
      const auto target = resolve_pointer(root_, pointer);
      if (!target) return refuse_schema_at(path, target.error());
      found->second = grammar_.declare(std::string(pointer));
      referred_.push_back({std::string(pointer), *target, found->second});
    }
    return grammar_.call(found->second);
  }

  Result<NodeId> schema(const value& from, const std::string& path, int depth) {
    if (depth > 4 * kMaxDepth) {
      return refuse_schema(ErrorCode::kTooLarge, path, "nested over {} deep", 4 * kMaxDepth);
    }
    TRY_DO(grammar_.check_budget());
    if (from.is_bool()) return from.get_bool() ? json_.any() : grammar_.choice({});
    if (!from.is_object()) {
      return refuse_schema(ErrorCode::kInvalid, path,
                           "a schema must be an object or a boolean, not {}",
                           json::kind_name(from));
    }
    const object& keywords = from.get_object();
    TRY_DO(check_keywords(keywords, path));
    if (keywords.contains("$ref") || keywords.contains("allOf") || keywords.contains("anyOf") ||
        keywords.contains("oneOf")) {
      return combined(keywords, path, depth);
    }
    if (const auto at = keywords.find("const"); at != keywords.end()) {
      return constants(keywords, array{at->value()}, "const", path);
    }
    if (const value* listed = json::find(keywords, "enum")) {
      if (!listed->is_array())
        return refuse_schema(ErrorCode::kInvalid, path, "'enum' must be an array");
      return constants(keywords, listed->get_array(), "enum", path);
    }
    TRY(const std::vector<std::string> types, types_of(keywords, path));
    if (types.empty()) return json_.any();
    std::vector<NodeId> ways;
    for (const std::string& type : types) {
      TRY(const NodeId way, typed(keywords, type, path, depth));
      ways.push_back(way);
    }
    return grammar_.choice(ways);
  }

  static Result<void> check_keywords(const object& keywords, const std::string& path) {
    for (const auto& member : keywords) {
      const std::string_view name = member.key();
      const bool known = among(kObjectKeywords, name) || among(kArrayKeywords, name) ||
                         among(kStringKeywords, name) || among(kNumberKeywords, name) ||
                         among(kOtherKeywords, name) || passes_over(name, member.value());
      if (!known)
        return refuse_schema(ErrorCode::kUnsupported, path, "'{}' is not supported", name);
    }
    return {};
  }

  // Without `type`, those that the other keywords speak of; none of these: empty, any value.
  static Result<std::vector<std::string>> types_of(const object& keywords,
                                                   const std::string& path) {
    std::vector<std::string> types;
    if (const value* type = json::find(keywords, "type")) {
      const array listed = type->is_array() ? type->get_array() : array{*type};
      for (const value& name : listed) {
        if (!name.is_string()) {
          return refuse_schema(ErrorCode::kInvalid, path,
                               "'type' must be a name or a list of names");
        }
        types.emplace_back(name.get_string());
      }
      if (types.empty()) return refuse_schema(ErrorCode::kInvalid, path, "no 'type' is left");
      return types;
    }
    if (has_any(keywords, kObjectKeywords)) types.emplace_back("object");
    if (has_any(keywords, kArrayKeywords)) types.emplace_back("array");
    if (has_any(keywords, kStringKeywords)) types.emplace_back("string");
    if (has_any(keywords, kNumberKeywords)) types.emplace_back("number");
    return types;
  }

  Result<NodeId> typed(const object& keywords, const std::string& type, const std::string& path,
                       int depth) {
    if (type == "object") return object_of(keywords, path, depth);
    if (type == "array") return array_of(keywords, path, depth);
    if (type == "string") return schema_string(grammar_, json_, keywords, path);
    if (type == "integer" || type == "number")
      return schema_number(grammar_, json_, keywords, type, path);
    if (type == "boolean") return grammar_.choice({grammar_.text("true"), grammar_.text("false")});
    if (type == "null") return grammar_.text("null");
    return refuse_schema(ErrorCode::kInvalid, path, "'{}' is not a type", type);
  }

  Result<NodeId> constants(const object& keywords, const array& values, std::string_view keyword,
                           const std::string& path) {
    for (const auto& member : keywords) {
      const std::string_view name = member.key();
      if (name == keyword || name == "type" || passes_over(name, member.value())) continue;
      return refuse_schema(ErrorCode::kUnsupported, path, "'{}' beside '{}'", name, keyword);
    }
    std::vector<std::string> types;
    if (keywords.contains("type")) {
      TRY(types, types_of(keywords, path));
    }
    std::vector<NodeId> ways;
    for (const value& at : values) {
      const bool allowed =
          types.empty() ||
          std::any_of(types.begin(), types.end(), [&](const auto& type) { return is(at, type); });
      if (allowed) ways.push_back(json_.constant(at));
    }
    if (ways.empty()) return refuse_schema(ErrorCode::kInvalid, path, "'{}' has no value", keyword);
    return grammar_.choice(ways);
  }

  static bool is(const value& at, const std::string& type) {
    if (at.is_string()) return type == "string";
    if (at.is_bool()) return type == "boolean";
    if (at.is_null()) return type == "null";
    if (at.is_array()) return type == "array";
    if (at.is_object()) return type == "object";
    return type == "number" ||
           (type == "integer" &&
            (!at.is_double() || at.get_double() == std::floor(at.get_double())));
  }

  // $ref, allOf, anyOf and oneOf, with what stands beside them joined in.
  Result<NodeId> combined(const object& keywords, const std::string& path, int depth) {
    object rest;
    for (const auto& member : keywords) {
      const std::string_view name = member.key();
      const bool combines = name == "$ref" || name == "allOf" || name == "anyOf" || name == "oneOf";
      if (!combines && !only_describes(name)) rest.emplace(name, member.value());
    }
    const value* pointer = json::find(keywords, "$ref");
    const value* all = json::find(keywords, "allOf");
    const value* any = json::find(keywords, "anyOf");
    const value* one = json::find(keywords, "oneOf");
    if (any && one) return refuse_schema(ErrorCode::kUnsupported, path, "'oneOf' beside 'anyOf'");
    if (pointer && !pointer->is_string()) {
      return refuse_schema(ErrorCode::kInvalid, path, "'$ref' must be a string");
    }
    if (pointer && rest.empty() && !all && !any && !one) {
      return reference(std::string_view(pointer->get_string()), path);
    }
    value joined = rest;
    if (pointer) {
      TRY(joined, joined_with(joined, *pointer_schema(*pointer), path));
    }
    if (all) {
      if (!all->is_array() || all->get_array().empty()) {
        return refuse_schema(ErrorCode::kInvalid, path, "'allOf' must be an array of schemas");
      }
      for (const value& part : all->get_array()) {
        TRY(joined, joined_with(joined, part, path));
      }
    }
    if (!any && !one) return keep(std::move(joined), path, depth);
    return alternatives(any ? *any : *one, one != nullptr, joined, path, depth);
  }

  const value* pointer_schema(const value& pointer) {
    return &kept_.emplace_back(object{{"$ref", pointer}});
  }

  // `part` with its own reference followed, joined to `with`.
  Result<value> joined_with(const value& with, const value& part, const std::string& path) {
    if (joins_left_-- == 0) {
      return refuse_schema(ErrorCode::kTooLarge, path,
                           "too many schemas to join by 'allOf', or beside '$ref' or 'anyOf'");
    }
    value other = part;
    for (int i = 0; other.is_object() && other.get_object().contains("$ref"); ++i) {
      if (i > kMaxDepth || !other.get_object().at("$ref").is_string()) {
        return refuse_schema(ErrorCode::kUnsupported, path, "a '$ref' that leads to itself");
      }
      const auto target =
          resolve_pointer(root_, std::string_view(other.get_object().at("$ref").get_string()));
      if (!target) return refuse_schema_at(path, target.error());
      object rest = other.get_object();
      rest.erase("$ref");
      auto both = merge_schemas(**target, rest, grammar_.budget());
      if (!both) return refuse_schema_at(path, both.error());
      other = *std::move(both);
    }
    auto both = merge_schemas(with, other, grammar_.budget());
    if (!both) return refuse_schema_at(path, both.error());
    return *std::move(both);
  }

  Result<NodeId> keep(value&& made, const std::string& path, int depth) {
    return schema(kept_.emplace_back(std::move(made)), path, depth + 1);
  }

  Result<NodeId> alternatives(const value& listed, bool one, const value& with,
                              const std::string& path, int depth) {
    const std::string_view name = one ? "oneOf" : "anyOf";
    if (!listed.is_array() || listed.get_array().empty()) {
      return refuse_schema(ErrorCode::kInvalid, path, "'{}' must be an array of schemas", name);
    }
    const array& schemas = listed.get_array();
    if (schemas.size() > kMaxAlternatives) {
      return refuse_schema(ErrorCode::kTooLarge, path, "'{}' has {} schemas, limit {}", name,
                           schemas.size(), kMaxAlternatives);
    }
    for (std::size_t i = 0; one && i < schemas.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (exclude_each_other(root_, schemas[j], schemas[i], grammar_.budget())) continue;
        TRY_DO(grammar_.check_budget());
        return refuse_schema(
            ErrorCode::kUnsupported, path,
            "'oneOf' whose schemas {} and {} are not seen to exclude each other: use "
            "'anyOf', or a required property with a 'const' of its own in each",
            j, i);
      }
    }
    std::vector<NodeId> ways;
    for (std::size_t i = 0; i < schemas.size(); ++i) {
      const std::string at = fmt::format("{}/{}/{}", path, name, i);
      if (with.is_object() && with.get_object().empty()) {
        TRY(const NodeId way, schema(schemas[i], at, depth + 1));
        ways.push_back(way);
      } else {
        TRY(value both, joined_with(with, schemas[i], at));
        TRY(const NodeId way, keep(std::move(both), at, depth));
        ways.push_back(way);
      }
    }
    return grammar_.choice(ways);
  }

  // Objects whose members are alike and are named by no list: patternProperties, propertyNames,
  // counts of members. Of patternProperties members alone that match: others would have to be known
  // not to.
  Result<NodeId> map_of(const object& keywords, const std::string& path, int depth) {
    TRY(const auto min, schema_count(keywords, "minProperties", path));
    TRY(const auto max, schema_count(keywords, "maxProperties", path));
    if (min.value_or(0) > 1)
      return refuse_schema(ErrorCode::kUnsupported, path,
                           "'minProperties' {}: at most 1 can be held to, as names may repeat",
                           *min);
    const value* patterns = json::find(keywords, "patternProperties");
    const value* names = json::find(keywords, "propertyNames");
    const value* additional = json::find(keywords, "additionalProperties");
    NodeId key = json_.string();
    const value* content = additional;
    std::string where = path + "/additionalProperties";
    if (patterns) {
      if (names || !patterns->is_object() || patterns->get_object().size() != 1)
        return refuse_schema(ErrorCode::kUnsupported, path,
                             "'patternProperties' of other than one pattern, or beside "
                             "'propertyNames'");
      const auto& only = *patterns->get_object().begin();
      TRY(key, schema_string(grammar_, json_, object{{"pattern", only.key()}}, path));
      content = &only.value();
      where = path + "/patternProperties";
    } else if (names) {
      TRY(value strings, joined_with(object{{"type", "string"}}, *names, path));
      TRY(key, keep(std::move(strings), path + "/propertyNames", depth));
    }
    NodeId inside = json_.any();
    if (content) {
      TRY(inside, schema(*content, where, depth + 1));
    }
    const bool none = content && content->is_bool() && !content->get_bool();
    if ((none || max == 0u) && min.value_or(0) > 0)
      return refuse_schema(ErrorCode::kInvalid, path, "no object has as many members");
    const NodeId empty = grammar_.sequence({grammar_.text("{"), json_.blank(), grammar_.text("}")});
    if (none || max == 0u) return empty;
    const NodeId member = json_.member(key, inside);
    const std::uint32_t more = max.value_or(kUnbounded) == kUnbounded ? kUnbounded : *max - 1;
    const NodeId full = json_.object(grammar_.sequence(
        {member, grammar_.repeat(grammar_.sequence({json_.comma(), member}), 0, more)}));
    return min.value_or(0) > 0 ? full : grammar_.choice({full, empty});
  }

  // Whether map_of() is to hold what stands beside `properties` too. Counts that these meet anyway
  // say nothing more.
  static Result<bool> is_map(const object& keywords, const std::string& path) {
    static constexpr std::array<std::string_view, 4> kMapKeywords = {
        "patternProperties", "propertyNames", "minProperties", "maxProperties"};
    if (!has_any(keywords, kMapKeywords)) return false;
    const value* properties = json::find(keywords, "properties");
    const value* required = json::find(keywords, "required");
    const value* additional = json::find(keywords, "additionalProperties");
    const auto count = [](const value* of) -> std::size_t {
      if (of && of->is_object()) return of->get_object().size();
      return of && of->is_array() ? of->get_array().size() : 0;
    };
    if (count(properties) == 0 && count(required) == 0) return true;
    TRY(const auto min, schema_count(keywords, "minProperties", path));
    TRY(const auto max, schema_count(keywords, "maxProperties", path));
    const bool closed = additional && additional->is_bool() && !additional->get_bool();
    const bool met = min.value_or(0) <= std::min<std::size_t>(1, count(required)) &&
                     (!max || (closed && count(properties) <= *max));
    if (met && !keywords.contains("patternProperties") && !keywords.contains("propertyNames"))
      return false;
    return refuse_schema(ErrorCode::kUnsupported, path,
                         "'patternProperties', 'propertyNames', 'minProperties' or "
                         "'maxProperties' beside 'properties' or 'required'");
  }

  Result<NodeId> object_of(const object& keywords, const std::string& path, int depth) {
    static const object kNone;
    const value* given = json::find(keywords, "properties");
    if (given && !given->is_object()) {
      return refuse_schema(ErrorCode::kInvalid, path, "'properties' must be an object");
    }
    TRY(const bool map, is_map(keywords, path));
    if (map) return map_of(keywords, path, depth);
    const object& properties = given ? given->get_object() : kNone;
    TRY(const std::vector<std::string> required, required_of(keywords, path));
    const std::set<std::string, std::less<>> needed(required.begin(), required.end());
    const value* additional = json::find(keywords, "additionalProperties");
    const bool closed =
        additional ? additional->is_bool() && !additional->get_bool() : options_.strict && given;
    if (!given && required.empty() && !additional) return json_.any_object();

    std::vector<NodeId> members;
    std::vector<char> optional;
    std::vector<std::string> names;
    const auto other_value = [&]() -> Result<NodeId> {
      if (!additional) return json_.any();
      return schema(*additional, path + "/additionalProperties", depth + 1);
    };
    for (const auto& property : properties) {
      const std::string_view name = property.key();
      TRY(const NodeId content,
          schema(property.value(), fmt::format("{}/properties/{}", path, name), depth + 1));
      members.push_back(json_.member(json_.key(name), content));
      optional.push_back(!needed.contains(name));
      names.emplace_back(name);
    }
    for (const std::string& name : required) {
      if (properties.contains(name)) continue;
      if (additional && closed) {
        return refuse_schema(
            ErrorCode::kInvalid, path,
            "'{}' is required, is not in 'properties', and 'additionalProperties' is false", name);
      }
      TRY(const NodeId content, other_value());
      members.push_back(json_.member(json_.key(name), content));
      optional.push_back(0);
      names.push_back(name);
    }
    if (!closed) {
      std::size_t name_bytes = 0;
      for (const std::string& name : names) name_bytes += name.size();
      if (name_bytes > kMaxNameBytes) {
        return refuse_schema(ErrorCode::kTooLarge, path,
                             "names of {} bytes beside 'additionalProperties', limit {}",
                             name_bytes, kMaxNameBytes);
      }
      TRY(const NodeId content, other_value());
      const NodeId key = names.empty() ? json_.string() : other_member_key(grammar_, json_, names);
      const NodeId other = json_.member(key, content);
      members.push_back(grammar_.sequence(
          {other, grammar_.repeat(grammar_.sequence({json_.comma(), other}), 0, kUnbounded)}));
      optional.push_back(1);
    }
    const bool may_be_empty =
        std::all_of(optional.begin(), optional.end(), [](char at) { return at != 0; });
    const NodeId empty = grammar_.sequence({grammar_.text("{"), json_.blank(), grammar_.text("}")});
    if (members.empty()) return empty;
    const NodeId full = json_.object(grammar_.separated(json_.comma(), members, optional));
    // The blanks of an empty object are one stretch; `full` covers it where nothing is required.
    return may_be_empty && options_.whitespace == Whitespace::kCompact
               ? grammar_.choice({full, empty})
               : full;
  }

  static Result<std::vector<std::string>> required_of(const object& keywords,
                                                      const std::string& path) {
    std::vector<std::string> names;
    std::set<std::string> known;
    const value* required = json::find(keywords, "required");
    if (!required) return names;
    const bool named = required->is_array() &&
                       std::all_of(required->get_array().begin(), required->get_array().end(),
                                   [](const value& at) { return at.is_string(); });
    if (!named)
      return refuse_schema(ErrorCode::kInvalid, path, "'required' must be an array of names");
    for (const value& name : required->get_array()) {
      const std::string text(name.get_string());
      if (known.insert(text).second) names.push_back(text);
    }
    return names;
  }

  Result<NodeId> array_of(const object& keywords, const std::string& path, int depth) {
    static const array kNone;
    const value* prefix_given = json::find(keywords, "prefixItems");
    const value* items = json::find(keywords, "items");
    if (items && items->is_array()) {  // as drafts before 2020-12 write it
      prefix_given = items;
      items = json::find(keywords, "additionalItems");
    }
    if (prefix_given && !prefix_given->is_array()) {
      return refuse_schema(ErrorCode::kInvalid, path, "'prefixItems' must be an array");
    }
    const array& prefix = prefix_given ? prefix_given->get_array() : kNone;
    TRY(const auto min_given, schema_count(keywords, "minItems", path));
    TRY(const auto max_given, schema_count(keywords, "maxItems", path));
    const std::uint32_t min = min_given.value_or(0);
    std::uint32_t max = max_given.value_or(kUnbounded);
    const auto fixed = static_cast<std::uint32_t>(prefix.size());
    const bool closed =
        items ? items->is_bool() && !items->get_bool() : options_.strict && prefix_given;
    if (closed) max = std::min(max, fixed);
    if (min > max) {
      return refuse_schema(ErrorCode::kInvalid, path,
                           "no array has at least {} and at most {} items", min, max);
    }
    if (!items && !prefix_given && min == 0 && max == kUnbounded) return json_.any_array();
    const NodeId empty = grammar_.sequence({grammar_.text("["), json_.blank(), grammar_.text("]")});
    if (max == 0) return empty;

    NodeId item = 0;
    if (!closed) {
      TRY(item, items ? schema(*items, path + "/items", depth + 1) : json_.any());
    }
    // From the end: what may follow when so many items have been written.
    NodeId rest = grammar_.text("");
    if (!closed && max > fixed) {
      const NodeId next = grammar_.sequence({json_.comma(), item});
      const std::uint32_t first = fixed == 0 ? 1 : 0;  // the first item has no comma
      const std::uint32_t least = min > fixed ? min - fixed - (min > 0 ? first : 0) : 0;
      const std::uint32_t most = max == kUnbounded ? kUnbounded : max - fixed - first;
      rest = grammar_.repeat(next, least, most);
      if (fixed == 0) rest = grammar_.sequence({item, rest});
    }
    for (std::uint32_t i = std::min(fixed, max); i-- > 0;) {
      TRY(const NodeId at, schema(prefix[i], fmt::format("{}/prefixItems/{}", path, i), depth + 1));
      rest = grammar_.sequence(i > 0 ? std::vector<NodeId>{json_.comma(), at, rest}
                                     : std::vector<NodeId>{at, rest});
      if (i > 0 && i >= min) rest = grammar_.optional(rest);
    }
    const NodeId full = grammar_.sequence(
        {grammar_.text("["), json_.blank(), rest, json_.blank(), grammar_.text("]")});
    return min == 0 ? grammar_.choice({full, empty}) : full;
  }

  const value& root_;
  const JsonOptions options_;
  Grammar& grammar_;
  JsonValues json_;
  struct Referred {
    std::string pointer;
    const value* target;
    RuleId rule;
  };
  std::map<std::string, RuleId> references_;
  std::deque<Referred> referred_;  // to be compiled
  std::size_t joins_left_ = 0;
  std::deque<value> kept_;  // joined schemas; addresses stay
};

}  // namespace

Result<Grammar> json_schema_grammar(const value& schema, const JsonOptions& options) {
  Grammar grammar;
  TRY(const NodeId body, add_json_schema(grammar, schema, options));
  grammar.set_root(grammar.add_rule("root", body));
  return grammar;
}

Result<NodeId> add_json_schema(Grammar& grammar, const value& schema, const JsonOptions& options) {
  TRY(const NodeId body, SchemaCompiler(schema, options, grammar).compile());
  TRY_DO(grammar.check_budget());
  return body;
}

Grammar json_object_grammar(const JsonOptions& options) {
  Grammar grammar;
  JsonValues values(grammar, options.whitespace);
  grammar.set_root(grammar.add_rule("root", values.any_object()));
  return grammar;
}

}  // namespace saccade::grammar

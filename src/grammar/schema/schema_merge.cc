#include "grammar/schema/schema_merge.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace saccade::grammar {
namespace {

using json::array;
using json::object;
using json::value;

constexpr int kMaxReferences = 32;

std::set<std::string> types_of(const value& schema) {
  static const std::set<std::string> kAll = {"null",   "boolean", "integer", "number",
                                             "string", "array",   "object"};
  std::set<std::string> types;
  const value* type = schema.is_object() ? json::find(schema.get_object(), "type") : nullptr;
  if (!type) return kAll;
  const auto add = [&](const value& name) {
    if (!name.is_string()) return;
    types.insert(std::string(name.get_string()));
    if (name.get_string() == "number") types.insert("integer");
  };
  if (type->is_array()) {
    for (const value& name : type->get_array()) add(name);
  } else {
    add(*type);
  }
  return types;
}

bool has_number(const std::set<std::string>& types) { return types.contains("number"); }

// What `schema` lists as valid; nothing where it does not.
std::optional<std::span<const value>> values_of(const value& schema) {
  if (!schema.is_object()) return std::nullopt;
  if (const auto at = schema.get_object().find("const"); at != schema.get_object().end()) {
    return std::span(&at->value(), 1);
  }
  const value* listed = json::find(schema.get_object(), "enum");
  if (!listed || !listed->is_array()) return std::nullopt;
  return std::span(listed->get_array().begin(), listed->get_array().end());
}

// For comparing each value of one with each of the other.
bool charge_pairs(std::span<const value> a, std::span<const value> b, Budget& budget) {
  std::size_t left = 0;
  std::size_t right = 0;
  for (const value& at : a) left += count_values(at);
  for (const value& at : b) right += count_values(at);
  return budget.charge(Budget::kSteps, left * (1 + b.size()) + right * (1 + a.size()));
}

const value* follow(const value& root, const value* schema) {
  for (int i = 0; i < kMaxReferences && schema->is_object(); ++i) {
    const value* reference = json::find(schema->get_object(), "$ref");
    if (!reference || !reference->is_string()) break;
    const auto target = resolve_pointer(root, std::string_view(reference->get_string()));
    if (!target) break;
    schema = *target;
  }
  return schema;
}

bool requires_member(const object& schema, std::string_view name) {
  const value* required = json::find(schema, "required");
  if (!required || !required->is_array()) return false;
  return std::any_of(required->get_array().begin(), required->get_array().end(),
                     [&](const value& at) { return at.is_string() && at.get_string() == name; });
}

std::int64_t required_count(const object& schema) {
  const value* required = json::find(schema, "required");
  return required && required->is_array() ? static_cast<std::int64_t>(required->get_array().size())
                                          : 0;
}

// `steps`: how much more may be looked at before it is left open.
bool exclude(const value& root, const value* a, const value* b, int depth, std::int64_t& steps,
             Budget& budget) {
  if (depth > 4 || --steps < 0 || !budget.charge(Budget::kSteps, 32)) return false;
  a = follow(root, a);
  b = follow(root, b);
  if (!a->is_object() || !b->is_object()) return false;
  const auto left = types_of(*a);
  const auto right = types_of(*b);
  if (std::none_of(left.begin(), left.end(), [&](const auto& at) { return right.contains(at); })) {
    return true;
  }
  const auto left_values = values_of(*a);
  const auto right_values = values_of(*b);
  if (left_values && right_values) {
    if (!charge_pairs(*left_values, *right_values, budget)) return false;
    return std::none_of(left_values->begin(), left_values->end(), [&](const value& at) {
      return std::find(right_values->begin(), right_values->end(), at) != right_values->end();
    });
  }
  const bool objects = left == std::set<std::string>{"object"} && left == right;
  const value* left_members = json::find(a->get_object(), "properties");
  const value* right_members = json::find(b->get_object(), "properties");
  if (!objects || !left_members || !right_members || !left_members->is_object() ||
      !right_members->is_object()) {
    return false;
  }
  for (const auto& member : left_members->get_object()) {
    const auto other = right_members->get_object().find(member.key());
    if (other == right_members->get_object().end()) continue;
    const std::int64_t compared = required_count(a->get_object()) + required_count(b->get_object());
    steps -= compared;
    if (steps < 0 || !budget.charge(Budget::kSteps, static_cast<std::uint64_t>(compared))) {
      return false;
    }
    if (!requires_member(a->get_object(), member.key()) ||
        !requires_member(b->get_object(), member.key())) {
      continue;
    }
    if (exclude(root, &member.value(), &other->value(), depth + 1, steps, budget)) return true;
  }
  return false;
}

array united(const array& a, const array& b) {
  array both = a;
  for (const value& at : b) {
    if (std::find(both.begin(), both.end(), at) == both.end()) both.push_back(at);
  }
  return both;
}

value shared_types(const value& a, const value& b) {
  const auto left = types_of(object{{"type", a}});
  const auto right = types_of(object{{"type", b}});
  array shared;
  for (const std::string& type : left) {
    if (!right.contains(type)) continue;
    const bool implied = type == "integer" && has_number(left) && has_number(right);
    if (!implied) shared.emplace_back(type);
  }
  return shared.size() == 1 ? shared[0] : value(shared);
}

object merged_members(const object& a, const object& b) {
  object both = a;
  for (const auto& member : b) {
    const auto at = both.find(member.key());
    if (at == both.end()) {
      both.emplace(member.key(), member.value());
    } else if (at->value() != member.value()) {
      at->value() = object{{"allOf", array{at->value(), member.value()}}};
    }
  }
  return both;
}

std::optional<double> number_of(const value& at) {
  if (at.is_int64()) return static_cast<double>(at.get_int64());
  if (at.is_uint64()) return static_cast<double>(at.get_uint64());
  if (at.is_double()) return at.get_double();
  return std::nullopt;
}

// Nothing: these cannot be joined.
std::optional<value> joined(std::string_view keyword, const value& a, const value& b) {
  if (a == b) return a;
  if (keyword == "type") return shared_types(a, b);
  if (keyword == "required" && a.is_array() && b.is_array()) {
    return united(a.get_array(), b.get_array());
  }
  if (keyword == "properties" && a.is_object() && b.is_object()) {
    return merged_members(a.get_object(), b.get_object());
  }
  if (keyword == "enum" && a.is_array() && b.is_array()) {
    array both;
    for (const value& at : a.get_array()) {
      const array& other = b.get_array();
      if (std::find(other.begin(), other.end(), at) != other.end()) both.push_back(at);
    }
    return both;
  }
  const auto left = number_of(a);
  const auto right = number_of(b);
  if (left && right) {
    constexpr std::string_view kLower[] = {"minimum", "exclusiveMinimum", "minLength", "minItems"};
    constexpr std::string_view kUpper[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems"};
    if (std::find(std::begin(kLower), std::end(kLower), keyword) != std::end(kLower)) {
      return *left > *right ? a : b;
    }
    if (std::find(std::begin(kUpper), std::end(kUpper), keyword) != std::end(kUpper)) {
      return *left < *right ? a : b;
    }
  }
  return std::nullopt;
}

// `additionalProperties` speaks of the `properties` beside it alone.
bool closes_other(const object& closed, const object& other) {
  const value* additional = json::find(closed, "additionalProperties");
  const bool open = !additional || (additional->is_bool() && additional->get_bool());
  const value* members = json::find(other, "properties");
  if (open || !members || !members->is_object()) return false;
  const value* own = json::find(closed, "properties");
  return std::any_of(
      members->get_object().begin(), members->get_object().end(), [&](const auto& member) {
        return !own || !own->is_object() || !own->get_object().contains(member.key());
      });
}

// `items` where it speaks of every element, as no `prefixItems` stands beside it.
const value* items_of_all(const object& schema) {
  const value* items = json::find(schema, "items");
  return schema.contains("prefixItems") || (items && items->is_array()) ? nullptr : items;
}

bool has_prefix(const object& schema) {
  const value* prefix = json::find(schema, "prefixItems");
  return prefix && prefix->is_array();
}

// `prefixed` under which every element is valid under `items` too.
Result<object> with_items(const object& prefixed, const value& items, Budget& budget) {
  const std::size_t copied =
      count_values(items) * (1 + prefixed.at("prefixItems").get_array().size());
  budget.charge(Budget::kSteps, 8 * copied);
  budget.charge(Budget::kBytes, 64 * copied);
  TRY_DO(budget.check());
  const auto under_both = [&](value& at) { at = object{{"allOf", array{at, items}}}; };
  object made = prefixed;
  for (value& at : made["prefixItems"].get_array()) under_both(at);
  if (made.contains("items")) {
    under_both(made["items"]);
  } else {
    made.emplace("items", items);
  }
  return made;
}

}  // namespace

bool only_describes(std::string_view keyword) {
  constexpr std::array<std::string_view, 24> kKeywords = {"title",
                                                          "description",
                                                          "default",
                                                          "examples",
                                                          "example",
                                                          "$comment",
                                                          "$schema",
                                                          "$id",
                                                          "id",
                                                          "$defs",
                                                          "definitions",
                                                          "deprecated",
                                                          "readOnly",
                                                          "writeOnly",
                                                          "discriminator",
                                                          "contentEncoding",
                                                          "contentMediaType",
                                                          "markdownDescription",
                                                          "propertyOrdering",
                                                          "strict",
                                                          "$anchor",
                                                          "externalDocs",
                                                          "xml",
                                                          "name"};
  return keyword.starts_with("x-") ||
         std::find(kKeywords.begin(), kKeywords.end(), keyword) != kKeywords.end();
}

Result<const value*> resolve_pointer(const value& root, std::string_view reference) {
  if (!reference.starts_with('#') || (reference.size() > 1 && reference[1] != '/')) {
    return fail(ErrorCode::kUnsupported,
                "$ref '{}': only references within the schema, '#/...', are followed", reference);
  }
  const value* at = &root;
  for (std::string_view rest = reference.substr(1); !rest.empty();) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    std::string name;
    for (std::size_t i = 0; i < end; ++i) {
      if (rest[i] == '~' && i + 1 < end && (rest[i + 1] == '0' || rest[i + 1] == '1')) {
        name += rest[++i] == '0' ? '~' : '/';
      } else {
        name += rest[i];
      }
    }
    rest.remove_prefix(end);
    const value* next = nullptr;
    if (at->is_object()) {
      if (const auto found = at->get_object().find(name); found != at->get_object().end()) {
        next = &found->value();
      }
    } else if (at->is_array() && !name.empty() && name.size() < 9 &&
               name.find_first_not_of("0123456789") == std::string::npos) {
      const auto index = static_cast<std::size_t>(std::stoul(name));
      if (index < at->get_array().size()) next = &at->get_array()[index];
    }
    if (!next) return fail(ErrorCode::kInvalid, "$ref '{}' leads nowhere", reference);
    at = next;
  }
  return at;
}

std::size_t count_values(const value& from) {
  std::size_t count = 1;
  if (from.is_array()) {
    for (const value& at : from.get_array()) count += count_values(at);
  } else if (from.is_object()) {
    for (const auto& member : from.get_object()) count += count_values(member.value());
  }
  return count;
}

Result<value> merge_schemas(const value& a, const value& b, Budget& budget) {
  if (a.is_bool()) return a.get_bool() ? b : a;
  if (b.is_bool()) return b.get_bool() ? a : b;
  if (!a.is_object() || !b.is_object()) {
    return fail(ErrorCode::kInvalid, "a schema must be an object or a boolean");
  }
  if (closes_other(a.get_object(), b.get_object()) ||
      closes_other(b.get_object(), a.get_object())) {
    return fail(ErrorCode::kUnsupported,
                "'additionalProperties' that closes off the 'properties' of a schema joined to it");
  }
  for (const auto& [prefixed, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const value* items = items_of_all(other->get_object());
    if (!items || !has_prefix(prefixed->get_object())) continue;
    TRY(const object joined_items, with_items(prefixed->get_object(), *items, budget));
    object rest = other->get_object();
    rest.erase("items");
    return merge_schemas(joined_items, rest, budget);
  }
  const std::size_t copied = count_values(a) + count_values(b);
  budget.charge(Budget::kSteps, 8 * copied);
  budget.charge(Budget::kBytes, 64 * copied);
  TRY_DO(budget.check());
  object both = a.get_object();
  for (const auto& member : b.get_object()) {
    const auto at = both.find(member.key());
    if (at == both.end()) {
      both.emplace(member.key(), member.value());
      continue;
    }
    if (only_describes(member.key())) continue;
    if (at->value().is_array() && member.value().is_array()) {
      const array& left = at->value().get_array();
      const array& right = member.value().get_array();
      charge_pairs({left.begin(), left.end()}, {right.begin(), right.end()}, budget);
      TRY_DO(budget.check());
    }
    auto value = joined(member.key(), at->value(), member.value());
    if (!value) {
      return fail(ErrorCode::kUnsupported, "'{}' in two schemas that are joined",
                  std::string_view(member.key()));
    }
    at->value() = *std::move(value);
  }
  return both;
}

bool exclude_each_other(const value& root, const value& a, const value& b, Budget& budget) {
  std::int64_t steps = 10000;
  return exclude(root, &a, &b, 0, steps, budget);
}

}  // namespace saccade::grammar

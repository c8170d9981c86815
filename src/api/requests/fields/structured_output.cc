#include "api/requests/fields/structured_output.h"

#include <utility>

#include "api/requests/fields/fields.h"

namespace saccade::api {
namespace {

using Kind = StructuredOutput::Kind;

// A schema or tags: an object, or its JSON as a string.
Result<std::string> json_text(const json::value& from, const std::string& param) {
  if (from.is_string()) return std::string(from.get_string());
  if (!from.is_object() && !from.is_bool()) {
    return invalid(param, "'{}' is {}, an object or its JSON as a string is required", param,
                   json::kind_name(from));
  }
  std::string text;
  json::JsonWriter(text).value(from);
  return text;
}

Result<std::vector<std::string>> choices_of(const json::value& from, const std::string& param) {
  if (!from.is_array() || from.get_array().empty()) {
    return invalid(param, "'{}' is {}, an array of at least one string is required", param,
                   json::kind_name(from));
  }
  std::vector<std::string> choices;
  for (const json::value& choice : from.get_array()) {
    if (!choice.is_string()) {
      return invalid(param, "'{}' holds {}, strings are required", param, json::kind_name(choice));
    }
    choices.emplace_back(choice.get_string());
  }
  return choices;
}

// Several members may ask; one may be heard.
class Wish {
 public:
  Result<void> add(Kind kind, const json::value& from, const std::string& param) {
    if (wish_) {
      return invalid(param, "'{}' and '{}' both ask for the answer's form, one may", wish_->param,
                     param);
    }
    StructuredOutput wish;
    wish.kind = kind;
    wish.param = param;
    switch (kind) {
      case Kind::kJsonObject:
      case Kind::kDemandedCalls:  // of no member that is read here
        break;
      case Kind::kJsonSchema:
      case Kind::kStructuralTag: {
        TRY(wish.text, json_text(from, param));
        break;
      }
      case Kind::kChoice: {
        TRY(wish.choices, choices_of(from, param));
        break;
      }
      case Kind::kRegex:
      case Kind::kGrammar:
        if (!from.is_string() || from.get_string().empty()) {
          return invalid(param, "'{}' is {}, a string that is not empty is required", param,
                         json::kind_name(from));
        }
        wish.text = from.get_string();
        break;
    }
    wish_ = std::move(wish);
    return {};
  }
  std::optional<StructuredOutput>& get() { return wish_; }

 private:
  std::optional<StructuredOutput> wish_;
};

Result<void> add_response_format(Fields& fields, Wish& wish) {
  const json::value* given = fields.take("response_format");
  if (given == nullptr) return {};
  const json::value* type = given->is_object() ? json::find(given->get_object(), "type") : nullptr;
  if (type == nullptr || !type->is_string()) {
    return invalid("response_format", "'response_format' must be an object with a 'type'");
  }
  const std::string_view name = type->get_string();
  if ((name == "text" || name == "json_object") &&
      json::find(given->get_object(), "json_schema") != nullptr) {
    return invalid("response_format",
                   "'response_format.json_schema' is of the type 'json_schema', the type is '{}'",
                   name);
  }
  if (name == "text") return {};
  if (name == "json_object") {
    // llama.cpp's form of a schema.
    const json::value* inside = json::find(given->get_object(), "schema");
    if (inside != nullptr) return wish.add(Kind::kJsonSchema, *inside, "response_format.schema");
    return wish.add(Kind::kJsonObject, *given, "response_format");
  }
  if (name == "structural_tag") return wish.add(Kind::kStructuralTag, *given, "response_format");
  if (name != "json_schema") {
    return invalid("response_format",
                   "'response_format' has the type '{}'; text, json_object, json_schema and "
                   "structural_tag are known",
                   name.substr(0, 40));
  }
  const json::value* wrapped = json::find(given->get_object(), "json_schema");
  const json::value* schema = wrapped != nullptr && wrapped->is_object()
                                  ? json::find(wrapped->get_object(), "schema")
                                  : nullptr;
  if (schema == nullptr) {
    return invalid("response_format",
                   "'response_format' of type 'json_schema' needs 'json_schema' with a 'schema'");
  }
  return wish.add(Kind::kJsonSchema, *schema, "response_format");
}

Result<void> add_structured_outputs(Fields& fields, Wish& wish) {
  TRY(const json::object* given, fields.object("structured_outputs"));
  if (given == nullptr) return {};
  Fields inner(*given);
  const std::string within = "structured_outputs.";
  constexpr std::pair<const char*, Kind> kMembers[] = {{"json", Kind::kJsonSchema},
                                                       {"regex", Kind::kRegex},
                                                       {"choice", Kind::kChoice},
                                                       {"grammar", Kind::kGrammar},
                                                       {"structural_tag", Kind::kStructuralTag}};
  for (const auto& [name, kind] : kMembers) {
    if (const json::value* value = inner.take(name)) {
      TRY_DO(wish.add(kind, *value, within + name));
    }
  }
  TRY(const auto any_object, inner.boolean("json_object"));
  if (any_object.value_or(false)) {
    TRY_DO(wish.add(Kind::kJsonObject, {}, within + "json_object"));
  }
  TRY(const auto compact, inner.boolean("disable_any_whitespace"));
  using Blanks = StructuredOutput::Blanks;
  if (wish.get() && compact) wish.get()->blanks = *compact ? Blanks::kNone : Blanks::kAny;
  return {};
}

}  // namespace

Result<std::optional<StructuredOutput>> take_structured_output(Fields& fields) {
  Wish wish;
  TRY_DO(add_response_format(fields, wish));
  TRY_DO(add_structured_outputs(fields, wish));
  constexpr std::pair<const char*, Kind> kGuided[] = {{"guided_json", Kind::kJsonSchema},
                                                      {"guided_regex", Kind::kRegex},
                                                      {"guided_choice", Kind::kChoice},
                                                      {"guided_grammar", Kind::kGrammar},
                                                      // llama.cpp's and SGLang's names.
                                                      {"json_schema", Kind::kJsonSchema},
                                                      {"grammar", Kind::kGrammar},
                                                      {"regex", Kind::kRegex},
                                                      {"ebnf", Kind::kGrammar}};
  for (const auto& [name, kind] : kGuided) {
    const json::value* value = fields.take(name);
    if (value == nullptr) continue;
    // What older clients send where they want nothing.
    const bool empty = (value->is_string() && value->get_string().empty()) ||
                       (value->is_array() && value->get_array().empty()) ||
                       (value->is_object() && value->get_object().empty()) ||
                       (value->is_bool() && !value->get_bool());
    if (!empty) TRY_DO(wish.add(kind, *value, name));
  }
  return std::move(wish.get());
}

}  // namespace saccade::api

#include "text/pipeline/post_processor.h"

#include <algorithm>

#include "text/models/token_table.h"
#include "text/pipeline/step_members.h"

namespace saccade {
namespace {

// Longer results would need more than one text; a file must not multiply what a client sends.
constexpr int kMaxTextRepeats = 4;
constexpr std::size_t kMaxTemplates = 16;
constexpr std::size_t kMaxSpecialTokens = 1024;

Result<TokenId> checked_id(const json::value& v) {
  if (v.is_int64() && v.get_int64() >= 0 && v.get_int64() <= TokenTable::kMaxId) {
    return static_cast<TokenId>(v.get_int64());
  }
  return fail(ErrorCode::kInvalid, "an id must be an integer from 0 to {}", TokenTable::kMaxId);
}

// {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, looked up by its name.
Result<std::vector<TokenId>> special_ids(const json::object& special_tokens,
                                         const std::string& name) {
  const json::value* special = json::find(special_tokens, name);
  const json::value* ids = special != nullptr && special->is_object()
                               ? json::find(special->get_object(), "ids")
                               : nullptr;
  if (ids == nullptr || !ids->is_array()) {
    return fail(ErrorCode::kInvalid, "special_tokens has no ids for \"{}\"", name);
  }
  if (ids->get_array().size() > kMaxSpecialTokens) {
    return fail(ErrorCode::kTooLarge, "\"{}\" stands for {} tokens, limit {}", name,
                ids->get_array().size(), kMaxSpecialTokens);
  }
  std::vector<TokenId> result;
  for (const json::value& item : ids->get_array()) {
    TRY(const TokenId id, checked_id(item));
    result.push_back(id);
  }
  return result;
}

}  // namespace

// TemplateProcessing: "single" is a list of {"SpecialToken": {"id"}} and {"Sequence": {"id": "A"}}.
Result<PostProcessor::Template> PostProcessor::parse_template(const json::object& from) {
  const json::value* single = json::find(from, "single");
  const json::value* special = json::find(from, "special_tokens");
  if (single == nullptr || !single->is_array() || special == nullptr || !special->is_object()) {
    return fail(ErrorCode::kInvalid, "'single' must be an array and 'special_tokens' an object");
  }
  Template parts;
  int texts = 0;
  for (const json::value& item : single->get_array()) {
    const json::object* object = item.is_object() ? &item.get_object() : nullptr;
    const json::value* token = object ? json::find(*object, "SpecialToken") : nullptr;
    const json::value* sequence = object ? json::find(*object, "Sequence") : nullptr;
    const json::value* part = token ? token : sequence;
    if (part == nullptr || !part->is_object()) {
      return fail(ErrorCode::kInvalid, "'single' holds neither a SpecialToken nor a Sequence");
    }
    TRY(const std::string id, json::get_string(part->get_object(), "id"));
    if (token) {
      TRY(std::vector<TokenId> ids, special_ids(special->get_object(), id));
      parts.push_back({false, std::move(ids)});
    } else if (id == "A" && ++texts <= kMaxTextRepeats) {
      parts.push_back({true, {}});
    } else {
      return fail(ErrorCode::kInvalid,
                  "'single' uses the sequence \"{}\" or repeats it over {} times", id,
                  kMaxTextRepeats);
    }
    if (parts.size() > kMaxSpecialTokens) {
      return fail(ErrorCode::kTooLarge, "'single' has over {} parts", kMaxSpecialTokens);
    }
  }
  return parts;
}

// BertProcessing and RobertaProcessing: cls, the text, sep.
Result<PostProcessor::Template> PostProcessor::parse_pair_ends(const json::object& from) {
  Template parts(3);
  parts[1].is_text = true;
  for (const auto& [name, index] : {std::pair{"cls", 0}, std::pair{"sep", 2}}) {
    const json::value* pair = json::find(from, name);
    if (pair == nullptr || !pair->is_array() || pair->get_array().size() != 2) {
      return fail(ErrorCode::kInvalid, "'{}' must be [token, id]", name);
    }
    TRY(const TokenId id, checked_id(pair->get_array()[1]));
    parts[static_cast<std::size_t>(index)].special = {id};
  }
  return parts;
}

Result<PostProcessor> PostProcessor::parse(const json::value& from) {
  if (!from.is_object()) {
    return fail(ErrorCode::kInvalid, "post_processor is {}, an object is required",
                json::kind_name(from));
  }
  const json::object& object = from.get_object();
  TRY(const std::string type, json::get_string(object, "type"));
  PostProcessor result;
  if (type == "ByteLevel") return result;  // moves offsets only
  if (type == "TemplateProcessing" || type == "BertProcessing" || type == "RobertaProcessing") {
    auto parts = type == "TemplateProcessing" ? parse_template(object) : parse_pair_ends(object);
    if (!parts) return fail_within("post_processor " + type, std::move(parts).error());
    result.templates_.push_back(*std::move(parts));
    return result;
  }
  if (type != "Sequence") {
    return fail(ErrorCode::kUnsupported, "post_processor {}: this type is not supported", type);
  }
  auto steps = steps_of(object, "processors");
  if (!steps) return fail_within("post_processor Sequence", std::move(steps).error());
  for (const json::value& step : **steps) {
    TRY(PostProcessor inner, parse(step));
    for (Template& parts : inner.templates_) result.templates_.push_back(std::move(parts));
    if (result.templates_.size() > kMaxTemplates) {
      return fail(ErrorCode::kTooLarge, "post_processor Sequence: over {} templates",
                  kMaxTemplates);
    }
  }
  int repeats = 1;
  for (const Template& parts : result.templates_) {
    int texts = 0;
    for (const Part& part : parts) texts += part.is_text ? 1 : 0;
    repeats *= std::max(texts, 1);
    if (repeats > kMaxTextRepeats) {
      return fail(ErrorCode::kTooLarge, "post_processor Sequence: repeats the text over {} times",
                  kMaxTextRepeats);
    }
  }
  return result;
}

void PostProcessor::apply(std::vector<TokenId>& ids, bool add_special_tokens) const {
  for (const Template& parts : templates_) {
    std::vector<TokenId> result;
    result.reserve(ids.size() + parts.size());
    for (const Part& part : parts) {
      if (part.is_text) {
        result.insert(result.end(), ids.begin(), ids.end());
      } else if (add_special_tokens) {
        result.insert(result.end(), part.special.begin(), part.special.end());
      }
    }
    ids = std::move(result);
  }
}

}  // namespace saccade

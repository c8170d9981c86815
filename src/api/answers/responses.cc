#include "api/answers/responses.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text/utf8.h"

namespace saccade::api {
namespace {

using json::JsonWriter;

void write_usage(JsonWriter& w, const Usage& usage) {
  w.begin_object();
  w.member("prompt_tokens", usage.prompt_tokens);
  w.member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  w.member("completion_tokens", usage.completion_tokens);
  w.key("prompt_tokens_details");
  w.begin_object();
  w.member("cached_tokens", usage.cached_tokens);
  w.member("image_tokens", usage.image_tokens);
  if (usage.video_tokens > 0) w.member("video_tokens", usage.video_tokens);
  w.end_object();
  if (usage.reasoning_tokens) {
    w.key("completion_tokens_details");
    w.begin_object();
    w.member("reasoning_tokens", *usage.reasoning_tokens);
    w.end_object();
  }
  w.end_object();
}

void write_metrics(JsonWriter& w, const StageTimes* times) {
  if (times == nullptr) return;
  w.key("metrics");
  w.begin_object();
  for (const auto& [stage, nanoseconds] : times->stages) {
    if (nanoseconds >= 0) w.member(stage, nanoseconds);
  }
  w.end_object();
}

// JSON has no infinity: what cannot happen is -9999, as vLLM writes it.
double finite(double logprob) { return logprob >= -9999.0 ? logprob : -9999.0; }

void write_bytes(JsonWriter& w, std::string_view token) {
  w.key("bytes");
  w.begin_array();
  for (const char c : token) w.value(static_cast<std::int64_t>(static_cast<unsigned char>(c)));
  w.end_array();
}

void write_chat_logprobs(JsonWriter& w, const std::vector<LogprobEntry>& entries) {
  w.begin_object();
  w.key("content");
  write_logprobs(w, entries);
  w.end_object();
}

// The older shape of /v1/completions: parallel lists.
void write_text_logprobs(JsonWriter& w, const std::vector<LogprobEntry>& entries,
                         std::int64_t text_offset) {
  w.begin_object();
  w.key("text_offset");
  w.begin_array();
  for (const auto& entry : entries) {
    w.value(text_offset);
    text_offset += character_count(entry.token);
  }
  w.end_array();
  w.key("token_logprobs");
  w.begin_array();
  for (const auto& entry : entries) {
    if (entry.unscored) {
      w.null();
    } else {
      w.value(finite(entry.logprob));
    }
  }
  w.end_array();
  w.key("tokens");
  w.begin_array();
  for (const auto& entry : entries) w.value(std::string_view(entry.token));
  w.end_array();
  w.key("top_logprobs");
  w.begin_array();
  for (const auto& entry : entries) {
    if (entry.unscored) {
      w.null();
      continue;
    }
    w.begin_object();
    // Tokens that are parts of characters may look the same: the likeliest has the name.
    std::vector<std::string> names;
    const auto add = [&](std::string_view token, double logprob) {
      std::string name;
      json::append_quoted(name, token);
      if (std::ranges::find(names, name) != names.end()) return;
      names.push_back(std::move(name));
      w.member(token, finite(logprob));
    };
    for (const auto& top : entry.top) add(top.token, top.logprob);
    add(entry.token, entry.logprob);
    w.end_object();
  }
  w.end_array();
  w.end_object();
}

void write_prompt_ids(JsonWriter& w, const ChoiceText& choice, bool or_null = false) {
  if (choice.prompt_token_ids == nullptr && !or_null) return;
  w.key("prompt_token_ids");
  if (choice.prompt_token_ids == nullptr) return w.null();
  w.begin_array();
  for (const std::int32_t id : *choice.prompt_token_ids) w.value(id);
  w.end_array();
}

// An object for each token: {"42": {"logprob", "rank", "decoded_token"}, ...}; of a whole answer
// null where nobody asked.
void write_prompt_logprobs(JsonWriter& w, const ChoiceText& choice) {
  w.key("prompt_logprobs");
  if (!choice.prompt_logprobs) return w.null();
  w.begin_array();
  for (const std::vector<PromptLogprob>& entries : *choice.prompt_logprobs) {
    if (entries.empty()) {
      w.null();
      continue;
    }
    w.begin_object();
    for (const PromptLogprob& entry : entries) {
      w.key(fmt::format("{}", entry.id));
      w.begin_object();
      w.member("logprob", finite(entry.logprob));
      w.member("rank", entry.rank);
      w.member("decoded_token", std::string_view(entry.token));
      w.end_object();
    }
    w.end_object();
  }
  w.end_array();
}

void write_ending(JsonWriter& w, const ChoiceText& choice) {
  w.key("finish_reason");
  if (choice.finish_reason.empty()) {
    w.null();
  } else {
    w.value(choice.finish_reason);
  }
  w.key("stop_reason");
  if (choice.stop_string) {
    w.value(std::string_view(*choice.stop_string));
  } else if (choice.stop_token) {
    w.value(*choice.stop_token);
  } else {
    w.null();
  }
  if (choice.token_ids) {
    w.key("token_ids");
    w.begin_array();
    for (const std::int64_t id : *choice.token_ids) w.value(id);
    w.end_array();
  }
}

void write_head(JsonWriter& w, const AnswerHead& head, std::string_view object) {
  w.member("id", std::string_view(head.id));
  w.member("object", object);
  w.member("created", head.created);
  w.member("model", std::string_view(head.model));
}

// What follows a choice's message or delta.
void end_chat_choice(JsonWriter& w, const ChoiceText& choice) {
  w.key("logprobs");
  if (choice.logprobs) {
    write_chat_logprobs(w, *choice.logprobs);
  } else {
    w.null();
  }
  write_ending(w, choice);
  w.end_object();
}

// What a message or a delta says: content may be absent beside something else.
void write_said(JsonWriter& w, const ChoiceText& choice, bool whole) {
  const bool silent = choice.text.empty() && (!choice.calls.empty() || !choice.reasoning.empty());
  if (!silent) {
    w.member("content", std::string_view(choice.text));
  } else if (whole) {
    w.key("content");
    w.null();
  }
  // vLLM's name, and what it was before, which other servers have.
  for (const std::string_view name : {"reasoning", "reasoning_content"})
    if (!choice.reasoning.empty()) w.member(name, std::string_view(choice.reasoning));
  if (choice.calls.empty()) return;
  w.key("tool_calls");
  w.begin_array();
  for (const ToolCallText& call : choice.calls) {
    w.begin_object();
    if (!whole) w.member("index", call.index);
    if (!call.id.empty()) {
      w.member("id", std::string_view(call.id));
      w.member("type", std::string_view("function"));
    }
    w.key("function");
    w.begin_object();
    if (!call.id.empty()) w.member("name", std::string_view(call.name));
    w.member("arguments", std::string_view(call.arguments));
    w.end_object();
    w.end_object();
  }
  w.end_array();
}

void write_chat_choice(JsonWriter& w, const ChoiceText& choice) {
  w.begin_object();
  w.member("index", choice.index);
  w.key("message");
  w.begin_object();
  w.member("role", std::string_view("assistant"));
  write_said(w, choice, true);
  w.key("refusal");
  w.null();
  w.end_object();
  end_chat_choice(w, choice);
}

void write_text_choice(JsonWriter& w, const ChoiceText& choice, bool whole) {
  w.begin_object();
  w.member("index", choice.index);
  w.member("text", std::string_view(choice.text));
  w.key("logprobs");
  if (choice.logprobs) {
    write_text_logprobs(w, *choice.logprobs, choice.text_offset);
  } else {
    w.null();
  }
  write_ending(w, choice);
  if (whole) write_prompt_logprobs(w, choice);
  write_prompt_ids(w, choice, whole);
  w.end_object();
}

void write_whole_text_choice(JsonWriter& w, const ChoiceText& choice) {
  write_text_choice(w, choice, true);
}

// What tells the answers of two APIs apart.
struct AnswerShape {
  std::string_view object;
  void (*write_choice)(JsonWriter& w, const ChoiceText& choice);
  bool of_chat;
};
constexpr AnswerShape kChatAnswer = {"chat.completion", write_chat_choice, true};
constexpr AnswerShape kTextAnswer = {"text_completion", write_whole_text_choice, false};

std::string whole(const AnswerHead& head, const AnswerShape& shape,
                  std::span<const ChoiceText> choices, const Usage& usage,
                  const StageTimes* times) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  write_head(w, head, shape.object);
  w.key("choices");
  w.begin_array();
  for (const auto& choice : choices) shape.write_choice(w, choice);
  w.end_array();
  w.key("usage");
  write_usage(w, usage);
  // A chat's stand beside its choices, which have one prompt.
  if (shape.of_chat) {
    write_prompt_logprobs(w, choices.front());
    write_prompt_ids(w, choices.front());
    if (choices.front().prompt_text) w.member("prompt_text", *choices.front().prompt_text);
  }
  write_metrics(w, times);
  w.end_object();
  return out;
}

void write_card(JsonWriter& w, const ModelCard& model) {
  w.begin_object();
  w.member("id", std::string_view(model.id));
  w.member("object", std::string_view("model"));
  w.member("created", model.created);
  w.member("owned_by", std::string_view("saccade"));
  w.member("root", std::string_view(model.root));
  w.key("parent");
  if (model.parent.empty()) {
    w.null();
  } else {
    w.value(std::string_view(model.parent));
  }
  w.member("max_model_len", model.max_model_len);
  w.key("permission");
  w.begin_array();
  w.end_array();
  w.key("capabilities");
  w.begin_object();
  w.member("vision", model.vision);
  w.member("video", model.video);
  w.member("tools", model.tools);
  if (model.embeds) w.member("embeddings", true);
  w.end_object();
  if (model.vision) w.member("max_image_tokens", model.max_image_tokens);
  w.end_object();
}

}  // namespace

void write_logprobs(JsonWriter& w, std::span<const LogprobEntry> entries) {
  w.begin_array();
  for (const auto& entry : entries) {
    w.begin_object();
    w.member("token", std::string_view(entry.token));
    w.member("logprob", finite(entry.logprob));
    write_bytes(w, entry.token);
    w.key("top_logprobs");
    w.begin_array();
    for (const auto& top : entry.top) {
      w.begin_object();
      w.member("token", std::string_view(top.token));
      w.member("logprob", finite(top.logprob));
      write_bytes(w, top.token);
      w.end_object();
    }
    w.end_array();
    w.end_object();
  }
  w.end_array();
}

std::string chat_completion(const AnswerHead& head, std::span<const ChoiceText> choices,
                            const Usage& usage, const StageTimes* times) {
  return whole(head, kChatAnswer, choices, usage, times);
}

std::string text_completion(const AnswerHead& head, std::span<const ChoiceText> choices,
                            const Usage& usage, const StageTimes* times) {
  return whole(head, kTextAnswer, choices, usage, times);
}

std::string chat_chunk(const AnswerHead& head, const ChoiceText& choice, bool first,
                       const Usage* usage) {
  std::string out = "data: ";
  JsonWriter w(out);
  w.begin_object();
  write_head(w, head, "chat.completion.chunk");
  w.key("choices");
  w.begin_array();
  w.begin_object();
  w.member("index", choice.index);
  w.key("delta");
  w.begin_object();
  if (first) w.member("role", std::string_view("assistant"));
  write_said(w, choice, false);
  w.end_object();
  end_chat_choice(w, choice);
  w.end_array();
  write_prompt_ids(w, choice);
  if (choice.prompt_text) w.member("prompt_text", *choice.prompt_text);
  if (usage != nullptr) {
    w.key("usage");
    write_usage(w, *usage);
  }
  w.end_object();
  out += "\n\n";
  return out;
}

std::string text_chunk(const AnswerHead& head, const ChoiceText& choice, const Usage* usage) {
  std::string out = "data: ";
  JsonWriter w(out);
  w.begin_object();
  write_head(w, head, "text_completion");
  w.key("choices");
  w.begin_array();
  write_text_choice(w, choice, false);
  w.end_array();
  if (usage != nullptr) {
    w.key("usage");
    write_usage(w, *usage);
  }
  w.end_object();
  out += "\n\n";
  return out;
}

std::string usage_chunk(const AnswerHead& head, bool chat, const Usage& usage,
                        const StageTimes* times) {
  std::string out = "data: ";
  JsonWriter w(out);
  w.begin_object();
  write_head(w, head, chat ? "chat.completion.chunk" : "text_completion");
  w.key("choices");
  w.begin_array();
  w.end_array();
  w.key("usage");
  write_usage(w, usage);
  write_metrics(w, times);
  w.end_object();
  out += "\n\n";
  return out;
}

std::string model_list(std::span<const ModelCard> models) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  w.member("object", std::string_view("list"));
  w.key("data");
  w.begin_array();
  for (const auto& model : models) write_card(w, model);
  w.end_array();
  w.end_object();
  return out;
}

std::string model_card(const ModelCard& model) {
  std::string out;
  JsonWriter w(out);
  write_card(w, model);
  return out;
}

std::string tokenize_response(std::span<const std::int32_t> tokens, std::int64_t max_model_len,
                              const std::vector<std::string>* token_strs,
                              std::span<const std::int64_t> image_tokens,
                              std::span<const std::int64_t> video_tokens) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  w.member("count", static_cast<std::int64_t>(tokens.size()));
  w.member("max_model_len", max_model_len);
  w.key("tokens");
  w.begin_array();
  for (const std::int32_t id : tokens) w.value(id);
  w.end_array();
  w.key("token_strs");
  if (token_strs == nullptr) {
    w.null();
  } else {
    w.begin_array();
    for (const auto& text : *token_strs) w.value(std::string_view(text));
    w.end_array();
  }
  const auto counts = [&w](std::string_view name, std::span<const std::int64_t> each) {
    w.key(name);
    w.begin_array();
    for (const std::int64_t count : each) w.value(count);
    w.end_array();
  };
  counts("image_tokens", image_tokens);
  if (!video_tokens.empty()) counts("video_tokens", video_tokens);
  w.end_object();
  return out;
}

std::string detokenize_response(std::string_view prompt) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  w.member("prompt", prompt);
  w.end_object();
  return out;
}

}  // namespace saccade::api

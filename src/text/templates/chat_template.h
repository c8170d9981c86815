// Renders a conversation with the checkpoint's own Jinja template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/named_files.h"
#include "base/result.h"

namespace saccade {

// What transformers' apply_chat_template gives a template, besides the messages.
struct ChatTemplateOptions {
  bool add_generation_prompt = true;
  const json::array* tools = nullptr;  // null: `tools` is none
  const json::array* documents = nullptr;
  // bos_token, eos_token, chat_template_kwargs: seen as globals, where none of the above has the
  // name
  json::object variables;
  std::int64_t now_unix_seconds = 0;  // what strftime_now() shows (UTC)
  // Of several renderings together: the steps that are left, fewer afterwards, none where they did
  // not suffice. Null: each may take what a conversation may.
  std::int64_t* steps_left = nullptr;
};

// Parsed once, immutable, any thread. Rendering is bounded in steps and output bytes: kInvalid says
// which bound.
class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // messages: [{"role": ..., "content": string or parts, ...}]. A template's raise_exception is
  // kInvalid with its text.
  Result<std::string> render(const json::array& messages, const ChatTemplateOptions& options) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

// The template of a checkpoint: chat_template.jinja, chat_template.json, else `chat_template` of
// tokenizer_config.json. kNotFound when it has none. `variables` are load_special_tokens().
struct LoadedChatTemplate {
  std::string source;
  json::object variables;
};
Result<LoadedChatTemplate> load_chat_template(const NamedFiles& files);

// The special tokens that a template may name, also of a checkpoint without a template: from
// tokenizer_config.json, special_tokens_map.json, else the tokens of tokenizer.json that
// config.json's bos_token_id and the like point at.
Result<json::object> load_special_tokens(const NamedFiles& files);

}  // namespace saccade

#include "bench/load/request_body.h"

#include "base/hash.h"
#include "base/json_scopes.h"
#include "base/rng.h"

namespace saccade::bench {
namespace {

// Text grows in `text`; a shared blob ends the piece.
class PieceWriter {
 public:
  std::string text;

  void share(net::SharedBytes blob) {
    flush();
    pieces_.push_back(std::move(blob));
  }
  BodyPieces finish() {
    flush();
    return std::move(pieces_);
  }

 private:
  void flush() {
    if (text.empty()) return;
    pieces_.push_back(std::make_shared<const std::string>(std::move(text)));
    text.clear();
  }
  BodyPieces pieces_;
};

void write_image(PieceWriter& out, const EncodedImage& image) {
  out.text += R"({"type":"image_url","image_url":{"url":)";
  if (image.base64 != nullptr) {
    out.text += "\"data:" + image.media_type + ";base64,";
    out.share(image.base64);
    out.text += '"';
  } else {
    json::append_quoted(out.text, image.url);
  }
  out.text += "}}";
}

bool is_text_alone(const ChatMessage& message) {
  return message.parts.size() == 1 && message.parts[0].image == nullptr;
}

void write_message(PieceWriter& out, const ChatMessage& message, bool always_parts) {
  out.text += R"({"role":)";
  json::append_quoted(out.text, message.role);
  out.text += R"(,"content":)";
  if (!always_parts && is_text_alone(message)) {
    json::append_quoted(out.text, message.parts[0].text);
  } else {
    out.text += '[';
    for (std::size_t i = 0; i < message.parts.size(); ++i) {
      if (i > 0) out.text += ',';
      const ContentPart& part = message.parts[i];
      if (part.image != nullptr) {
        write_image(out, *part.image);
        continue;
      }
      out.text += R"({"type":"text","text":)";
      json::append_quoted(out.text, part.text);
      out.text += '}';
    }
    out.text += ']';
  }
  out.text += '}';
}

void write_messages(PieceWriter& out, const BodySettings& settings,
                    std::span<const ChatMessage> history, const Prompt& prompt) {
  out.text += R"("messages":[)";
  bool first = true;
  for (const auto& messages : {history, std::span<const ChatMessage>(prompt.messages)}) {
    for (const ChatMessage& message : messages) {
      if (!first) out.text += ',';
      first = false;
      write_message(out, message, settings.always_parts);
    }
  }
  out.text += ']';
}

void write_prompt_text(PieceWriter& out, std::span<const ChatMessage> history,
                       const Prompt& prompt) {
  out.text += R"("prompt":)";
  if (!prompt.token_ids.empty()) {
    json::JsonWriter w(out.text);
    json::put_array(w, prompt.token_ids);
    return;
  }
  std::string text;
  for (const auto& messages : {history, std::span<const ChatMessage>(prompt.messages)})
    for (const ChatMessage& message : messages)
      for (const ContentPart& part : message.parts) text += part.text;
  json::append_quoted(out.text, text);
}

// The fields behind the prompt, each with a comma before it.
class FieldWriter {
 public:
  FieldWriter(std::string& out, const json::object& replaced) : out_(out), replaced_(replaced) {}

  template <typename T>
  void field(std::string_view name, const T& value) {
    if (replaced_.contains(boost::json::string_view(name.data(), name.size()))) return;
    raw_key(name);
    json::JsonWriter(out_).value(value);
  }
  template <typename T>
  void field(std::string_view name, const std::optional<T>& value) {
    if (value) field(name, *value);
  }
  void extras() {
    for (const auto& member : replaced_) {
      raw_key(member.key());
      json::JsonWriter(out_).value(member.value());
    }
  }

 private:
  void raw_key(std::string_view name) {
    out_ += ',';
    json::append_quoted(out_, name);
    out_ += ':';
  }
  std::string& out_;
  const json::object& replaced_;
};

void write_stream_options(FieldWriter& fields, const BodySettings& s) {
  fields.field("stream", s.stream);
  if (!s.stream || (!s.include_usage && !s.continuous_usage_stats)) return;
  json::object options;
  options["include_usage"] = s.include_usage;
  if (s.continuous_usage_stats) options["continuous_usage_stats"] = true;
  fields.field("stream_options", json::value(options));
}

}  // namespace

std::uint64_t size_of(const BodyPieces& body) {
  std::uint64_t bytes = 0;
  for (const auto& piece : body) bytes += piece->size();
  return bytes;
}

const std::string& model_of(const BodySettings& settings, std::size_t index) {
  const std::vector<std::string>& loras = settings.lora_modules;
  if (loras.empty()) return settings.model;
  const std::size_t drawn = settings.lora_in_turn
                                ? index
                                : Rng(hash_combine(settings.lora_seed, index)).below(loras.size());
  return loras[drawn % loras.size()];
}

BodyPieces encode_body(const BodySettings& settings, std::span<const ChatMessage> history,
                       const Prompt& prompt, std::size_t index) {
  const BodySettings& s = settings;
  PieceWriter out;
  out.text += R"({"model":)";
  json::append_quoted(out.text, model_of(s, index));
  out.text += ',';
  const bool chat = s.endpoint == Endpoint::kChat;
  if (chat)
    write_messages(out, s, history, prompt);
  else
    write_prompt_text(out, history, prompt);

  FieldWriter fields(out.text, s.extra);
  fields.field("temperature", s.temperature);
  fields.field("top_p", s.top_p);
  fields.field("top_k", s.top_k);
  fields.field("min_p", s.min_p);
  fields.field("frequency_penalty", s.frequency_penalty);
  fields.field("presence_penalty", s.presence_penalty);
  fields.field("repetition_penalty", s.repetition_penalty);
  if (prompt.max_tokens != kUnknownTokens)
    fields.field(chat ? std::string_view(s.max_tokens_key) : "max_tokens", prompt.max_tokens);
  fields.field("logprobs", s.logprobs);
  write_stream_options(fields, s);
  if (s.ignore_eos) fields.field("ignore_eos", true);
  fields.extras();
  out.text += '}';
  return out.finish();
}

std::string join(const BodyPieces& body) {
  std::string text;
  text.reserve(size_of(body));
  for (const auto& piece : body) text += *piece;
  return text;
}

PromptRecord describe(const Prompt& prompt, bool keep_text) {
  PromptRecord record;
  record.row_id = prompt.row_id;
  record.label = prompt.label;
  record.reference = prompt.reference;
  record.text_tokens = prompt.text_tokens;
  record.predicted_image_tokens = prompt.predicted_image_tokens;
  // What is hashed is unambiguous: every string is preceded by its length.
  Sha256 hash;
  const auto add = [&](std::string_view kind, std::string_view text) {
    hash.update(fmt::format("{}{}:", kind, text.size()));
    hash.update(text);
  };
  for (const ChatMessage& message : prompt.messages) {
    add("role", message.role);
    for (const ContentPart& part : message.parts) {
      if (part.image != nullptr) {
        add("image", part.image->sha256);
        record.images.push_back(
            {part.image->width, part.image->height, part.image->bytes, part.image->sha256});
        continue;
      }
      add("text", part.text);
      if (!keep_text) continue;
      if (!record.text.empty()) record.text += '\n';
      record.text += part.text;
    }
  }
  for (const std::int32_t id : prompt.token_ids) hash.update(fmt::format("id{},", id));
  record.content_hash = to_hex(hash.finish());
  return record;
}

std::string dataset_hash(std::span<const PromptRecord> prompts) {
  Sha256 hash;
  for (const PromptRecord& prompt : prompts) {
    hash.update(prompt.content_hash);
    hash.update("\n");
  }
  return to_hex(hash.finish());
}

}  // namespace saccade::bench

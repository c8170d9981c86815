#include "api/answers/messages_writer.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answers/block_writer.h"
#include "api/pages/error_table.h"

namespace saccade::api {
namespace {

using json::JsonWriter;

class MessagesWriter final : public BlockWriter {
 public:
  explicit MessagesWriter(MessagesForm form)
      : BlockWriter(form.stream), head_(std::move(form.head)) {}

  std::string add(AnswerPiece&& piece, const Usage* usage) override {
    if (!std::exchange(started_, true)) {
      event("message_start", [&](JsonWriter& w) {
        w.key("message");
        Usage read = usage != nullptr ? *usage : Usage();
        read.completion_tokens = 0;  // said at the end
        write_message(w, read, false);
      });
      event("ping", [](JsonWriter&) {});
    }
    bool thought = false;
    for (SaidPart& part : piece.said) {
      thought = thought || part.kind == SaidPart::Kind::kReasoning;
      say(std::move(part));
    }
    if (thought) thinking_tokens_ += piece.tokens;
    if (!piece.rest.finish_reason.empty()) finish_reason_ = piece.rest.finish_reason;
    if (piece.rest.stop_string) stop_sequence_ = std::move(piece.rest.stop_string);
    return take_events();
  }

  std::string finish(const Usage& usage, const StageTimes*) override {
    close();
    if (!stream()) {
      std::string body;
      JsonWriter w(body);
      write_message(w, usage, true);
      return body;
    }
    event("message_delta", [&](JsonWriter& w) {
      w.key("delta");
      w.begin_object();
      write_stop(w, true);
      w.end_object();
      w.key("usage");
      write_usage(w, usage);
    });
    event("message_stop", [](JsonWriter&) {});
    return take_events();
  }

  std::string fail(const Error& error) override {
    return "event: error\ndata: " + error_body(error, ErrorShape::kMessages) + "\n\n";
  }

 private:
  void write_open(const Block& block) override {
    event("content_block_start", [&](JsonWriter& w) {
      w.member("index", index());
      w.key("content_block");
      write_block(w, block);
    });
  }

  // A stream's blocks are never shown whole.
  void write_delta(Block& block, std::string_view text) override {
    if (!stream()) block.text += text;
    event("content_block_delta", [&](JsonWriter& w) {
      w.member("index", index());
      w.key("delta");
      w.begin_object();
      const auto [type, member] = block.kind == SaidPart::Kind::kText
                                      ? std::pair("text_delta", "text")
                                  : block.kind == SaidPart::Kind::kReasoning
                                      ? std::pair("thinking_delta", "thinking")
                                      : std::pair("input_json_delta", "partial_json");
      w.member("type", type);
      w.member(member, text);
      w.end_object();
    });
  }

  void write_close(const Block& block) override {
    event("content_block_stop", [&](JsonWriter& w) { w.member("index", index()); });
    if (stream()) return;
    JsonWriter w(blocks_.emplace_back());
    write_block(w, block);
  }

  static void write_block(JsonWriter& w, const Block& block) {
    w.begin_object();
    switch (block.kind) {
      case SaidPart::Kind::kReasoning:
        w.member("type", "thinking");
        w.member("thinking", std::string_view(block.text));
        w.member("signature", "");  // nothing is signed here, and nothing checked
        break;
      case SaidPart::Kind::kCallBegin: {
        w.member("type", "tool_use");
        w.member("id", std::string_view(block.call_id));
        w.member("name", std::string_view(block.name));
        w.key("input");
        // As the model wrote it, its order and its numbers. A call that was cut is no JSON.
        const auto parsed = json::parse(block.text);
        w.raw(parsed && parsed->is_object() ? std::string_view(block.text) : "{}");
        break;
      }
      default:
        w.member("type", "text");
        w.member("text", std::string_view(block.text));
        w.key("citations");
        w.null();
        break;
    }
    w.end_object();
  }

  void write_message(JsonWriter& w, const Usage& usage, bool ended) const {
    w.begin_object();
    w.member("id", std::string_view(head_.id));
    w.member("type", "message");
    w.member("role", "assistant");
    w.member("model", std::string_view(head_.model));
    w.key("content");
    w.begin_array();
    for (const std::string& block : blocks_) w.raw(block);
    w.end_array();
    write_stop(w, ended);
    w.key("usage");
    write_usage(w, usage);
    w.end_object();
  }

  void write_stop(JsonWriter& w, bool ended) const {
    w.key("stop_reason");
    if (ended) {
      w.value(stop_reason());
    } else {
      w.null();
    }
    w.key("stop_sequence");
    if (ended && stop_sequence_) {
      w.value(std::string_view(*stop_sequence_));
    } else {
      w.null();
    }
  }

  std::string_view stop_reason() const {
    if (stop_sequence_) return "stop_sequence";
    if (finish_reason_ == "tool_calls") return "tool_use";
    if (finish_reason_ == "length") return "max_tokens";
    return "end_turn";
  }

  // What came from the cache is not counted among the input's tokens: the three make the prompt.
  void write_usage(JsonWriter& w, const Usage& usage) const {
    w.begin_object();
    w.member("input_tokens", usage.prompt_tokens - usage.cached_tokens);
    w.member("cache_creation_input_tokens", 0);
    w.member("cache_read_input_tokens", usage.cached_tokens);
    w.member("output_tokens", usage.completion_tokens);
    w.key("output_tokens_details");
    w.begin_object();
    w.member("thinking_tokens", thinking_tokens_);
    w.end_object();
    w.end_object();
  }

  const AnswerHead head_;
  bool started_ = false;
  std::vector<std::string> blocks_;  // that are complete; not of a stream
  std::int64_t thinking_tokens_ = 0;
  std::string finish_reason_;
  std::optional<std::string> stop_sequence_;
};

}  // namespace

std::unique_ptr<AnswerWriter> messages_writer(MessagesForm form) {
  return std::make_unique<MessagesWriter>(std::move(form));
}

}  // namespace saccade::api

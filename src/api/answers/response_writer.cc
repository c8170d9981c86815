#include "api/answers/response_writer.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answers/block_writer.h"

namespace saccade::api {
namespace {

using json::JsonWriter;

std::string_view prefix_of(SaidPart::Kind kind) {
  return kind == SaidPart::Kind::kText        ? "msg_"
         : kind == SaidPart::Kind::kReasoning ? "rs_"
                                              : "fc_";
}

void write_counts(JsonWriter& w, const Usage& usage) {
  w.begin_object();
  w.member("input_tokens", usage.prompt_tokens);
  w.key("input_tokens_details");
  w.begin_object();
  w.member("cached_tokens", usage.cached_tokens);
  w.member("cache_write_tokens", 0);
  w.member("image_tokens", usage.image_tokens);
  w.end_object();
  w.member("output_tokens", usage.completion_tokens);
  w.key("output_tokens_details");
  w.begin_object();
  w.member("reasoning_tokens", usage.reasoning_tokens.value_or(0));
  w.end_object();
  w.member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  w.end_object();
}

class ResponseWriter final : public BlockWriter {
 public:
  explicit ResponseWriter(ResponseForm form) : BlockWriter(form.stream), form_(std::move(form)) {}

  std::string add(AnswerPiece&& piece, const Usage*) override {
    if (!std::exchange(started_, true)) {
      state_event("response.created", "in_progress", nullptr, nullptr);
      state_event("response.in_progress", "in_progress", nullptr, nullptr);
    }
    keep_logprobs(piece);
    for (SaidPart& part : piece.said) say(std::move(part));
    if (!piece.rest.finish_reason.empty()) finish_reason_ = piece.rest.finish_reason;
    return take_events();
  }

  std::string finish(const Usage& usage, const StageTimes*) override {
    const bool complete = finish_reason_ == "stop" || finish_reason_ == "tool_calls";
    if (index() == 0 && !is_open()) open({});
    take_rest();
    if (!complete) item_status_ = "incomplete";
    close();
    const std::string response =
        state_event(complete ? "response.completed" : "response.incomplete",
                    complete ? "completed" : "incomplete", &usage, nullptr);
    if (form_.ended) form_.ended(response, all_items());
    return stream() ? take_events() : response;
  }

  std::string fail(const Error& error) override {
    take_rest();
    item_status_ = "incomplete";
    close();
    state_event("response.failed", "failed", nullptr, &error);
    return take_events();
  }

 private:
  // Those of tokens that are text, or a part of it whose end is not known yet. Behind thoughts and
  // calls a token without text is taken for theirs.
  void keep_logprobs(AnswerPiece& piece) {
    if (!piece.rest.logprobs) return;
    const bool silent = piece.said.empty() && (!is_open() || is_open(SaidPart::Kind::kText));
    const bool text = std::ranges::any_of(
        piece.said, [](const SaidPart& part) { return part.kind == SaidPart::Kind::kText; });
    if (!silent && !text) return;
    std::ranges::move(*piece.rest.logprobs, std::back_inserter(pending_));
  }

  // The tokens that `text`, the open text's newest, is made of: no mark's before it, which may be
  // several, and none behind it, which may yet be a mark's. What is new of it, for its event.
  std::span<const LogprobEntry> take_logprobs(std::string_view text) {
    std::string tokens;
    for (const LogprobEntry& entry : pending_) tokens += entry.token;
    std::size_t begin = tokens.rfind(text);
    std::size_t end = begin + text.size();
    // Written in another way: a broken character.
    if (begin == std::string::npos) {
      begin = 0;
      end = tokens.size();
    }
    const std::size_t before = logprobs_.size();
    std::size_t at = 0;
    std::size_t taken = 0;
    for (; taken < pending_.size() && at < end; ++taken) {
      at += pending_[taken].token.size();
      if (at > begin || before > 0) logprobs_.push_back(std::move(pending_[taken]));
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(taken));
    return std::span(logprobs_).subspan(before);
  }

  // An answer's last tokens have no text: its end, or a stop string.
  void take_rest() {
    if (!is_open(SaidPart::Kind::kText)) return;
    std::ranges::move(pending_, std::back_inserter(logprobs_));
    pending_.clear();
  }

  void write_open(const Block& block) override {
    const std::string_view id = form_.head.id;
    id_ = fmt::format("{}{}_{}", prefix_of(block.kind), id.substr(id.find('_') + 1), index());
    logprobs_.clear();
    event("response.output_item.added", [&](JsonWriter& w) {
      w.member("output_index", index());
      w.key("item");
      write_item(w, block, "in_progress", true);
    });
    if (block.kind != SaidPart::Kind::kCallBegin) part_event("response.content_part.added", block);
  }

  void write_delta(Block& block, std::string_view text) override {
    block.text += text;
    const bool is_text = block.kind == SaidPart::Kind::kText;
    text_event(
        is_text                                    ? "response.output_text.delta"
        : block.kind == SaidPart::Kind::kReasoning ? "response.reasoning_text.delta"
                                                   : "response.function_call_arguments.delta",
        block, "delta", text, is_text ? take_logprobs(text) : std::span<const LogprobEntry>());
  }

  void write_close(const Block& block) override {
    if (block.kind == SaidPart::Kind::kCallBegin) {
      text_event("response.function_call_arguments.done", block, "arguments", block.text, {});
    } else {
      text_event(block.kind == SaidPart::Kind::kText ? "response.output_text.done"
                                                     : "response.reasoning_text.done",
                 block, "text", block.text, logprobs_);
      part_event("response.content_part.done", block);
    }
    std::string& item = items_.emplace_back();
    JsonWriter writer(item);
    write_item(writer, block, item_status_, false);
    event("response.output_item.done", [&](JsonWriter& w) {
      w.member("output_index", index());
      w.key("item");
      w.raw(item);
    });
  }

  // The one part of a message or of thoughts.
  void write_part(JsonWriter& w, const Block& block) const {
    w.begin_object();
    if (block.kind == SaidPart::Kind::kText) {
      w.member("type", "output_text");
      w.member("text", std::string_view(block.text));
      w.key("annotations");
      w.begin_array();
      w.end_array();
      w.key("logprobs");
      write_logprobs(w, logprobs_);
    } else {
      w.member("type", "reasoning_text");
      w.member("text", std::string_view(block.text));
    }
    w.end_object();
  }

  // `begun`: as it is first shown, before its content.
  void write_item(JsonWriter& w, const Block& block, std::string_view status, bool begun) const {
    w.begin_object();
    w.member("id", std::string_view(id_));
    if (block.kind == SaidPart::Kind::kCallBegin) {
      w.member("type", "function_call");
      w.member("call_id", std::string_view(block.call_id));
      w.member("name", std::string_view(block.name));
      w.member("arguments", std::string_view(block.text));
    } else {
      const bool message = block.kind == SaidPart::Kind::kText;
      w.member("type", message ? "message" : "reasoning");
      if (message) {
        w.member("role", "assistant");
      } else {
        w.key("summary");
        w.begin_array();
        w.end_array();
      }
      w.key("content");
      w.begin_array();
      if (!begun) write_part(w, block);
      w.end_array();
    }
    w.member("status", status);
    w.end_object();
  }

  void text_event(std::string_view type, const Block& block, std::string_view member,
                  std::string_view text, std::span<const LogprobEntry> logprobs) {
    event(type, [&](JsonWriter& w) {
      place(w);
      if (block.kind == SaidPart::Kind::kCallBegin) {
        if (member == "arguments") w.member("name", std::string_view(block.name));
      } else {
        w.member("content_index", 0);
      }
      w.member(member, text);
      if (block.kind == SaidPart::Kind::kText) {
        w.key("logprobs");
        write_logprobs(w, logprobs);
      }
    });
  }

  void part_event(std::string_view type, const Block& block) {
    event(type, [&](JsonWriter& w) {
      place(w);
      w.member("content_index", 0);
      w.key("part");
      write_part(w, block);
    });
  }

  void place(JsonWriter& w) const {
    w.member("item_id", std::string_view(id_));
    w.member("output_index", index());
  }

  // An event with the whole response, which it returns.
  std::string state_event(std::string_view type, std::string_view status, const Usage* usage,
                          const Error* error) {
    std::string response;
    if (!stream() && usage == nullptr) return response;  // nobody sees it
    JsonWriter w(response);
    w.begin_object();
    w.member("id", std::string_view(form_.head.id));
    w.member("object", "response");
    w.member("created_at", form_.head.created);
    w.member("status", status);
    w.member("model", std::string_view(form_.head.model));
    w.key("output");
    w.raw(all_items());
    w.key("error");
    if (error != nullptr) {
      w.begin_object();
      w.member("code", "server_error");
      w.member("message", std::string_view(error->message));
      w.end_object();
    } else {
      w.null();
    }
    w.key("incomplete_details");
    if (status == "incomplete" && finish_reason_ == "length") {
      w.begin_object();
      w.member("reason", "max_output_tokens");
      w.end_object();
    } else {
      w.null();
    }
    w.key("usage");
    if (usage != nullptr) {
      write_counts(w, *usage);
    } else {
      w.null();
    }
    response += ',';
    response += form_.settings;
    w.end_object();
    event(type, [&](JsonWriter& inner) {
      inner.key("response");
      inner.raw(response);
    });
    return response;
  }

  std::string all_items() const {
    std::string all;
    JsonWriter w(all);
    w.begin_array();
    for (const std::string& item : items_) w.raw(item);
    w.end_array();
    return all;
  }

  template <typename Members>
  void event(std::string_view type, const Members& members) {
    BlockWriter::event(type, [&](JsonWriter& w) {
      w.member("sequence_number", sequence_++);
      members(w);
    });
  }

  ResponseForm form_;
  bool started_ = false;
  std::int64_t sequence_ = 0;
  std::vector<std::string> items_;  // that are complete
  // Of the open item.
  std::string id_;
  std::vector<LogprobEntry> logprobs_;          // of a text, where they are asked for
  std::string_view item_status_ = "completed";  // once it is closed
  std::vector<LogprobEntry> pending_;           // of tokens whose text has not come
  std::string finish_reason_;
};

}  // namespace

std::string response_settings(const ResponseRequest& request) {
  std::string object;
  JsonWriter w(object);
  const auto given = [&](std::string_view name, const json::value& v) {
    w.key(name);
    w.value(v);
  };
  const auto maybe = [&](std::string_view name, const auto& v) {
    w.key(name);
    if (v) {
      w.value(*v);
    } else {
      w.null();
    }
  };
  const SamplingFields& sampling = request.chat.sampling;
  w.begin_object();
  w.member("background", false);
  w.key("instructions");
  if (request.instructions) {
    w.value(std::string_view(*request.instructions));
  } else {
    w.null();
  }
  maybe("max_output_tokens", sampling.max_tokens);
  given("metadata", request.metadata.is_null() ? json::value(json::object()) : request.metadata);
  w.member("parallel_tool_calls", request.chat.tools.list ? request.chat.tools.parallel : true);
  w.key("previous_response_id");
  if (request.previous_response_id) {
    w.value(std::string_view(*request.previous_response_id));
  } else {
    w.null();
  }
  given("reasoning", request.reasoning.is_null()
                         ? json::value(json::object{{"effort", nullptr}, {"summary", nullptr}})
                         : request.reasoning);
  w.member("store", request.store);
  w.member("top_logprobs", request.chat.top_logprobs);
  maybe("temperature", sampling.temperature);
  w.key("text");
  w.begin_object();
  given("format", request.text_format.is_null() ? json::value(json::object{{"type", "text"}})
                                                : request.text_format);
  w.end_object();
  given("tool_choice", request.tool_choice.is_null() ? json::value("auto") : request.tool_choice);
  given("tools", request.tools.is_null() ? json::value(json::array()) : request.tools);
  maybe("top_p", sampling.top_p);
  w.member("truncation", "disabled");
  given("user", request.user);
  w.end_object();
  return object.substr(1, object.size() - 2);
}

std::unique_ptr<AnswerWriter> response_writer(ResponseForm form) {
  return std::make_unique<ResponseWriter>(std::move(form));
}

std::string deleted_response(const std::string& id) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  w.member("id", std::string_view(id));
  w.member("object", "response");
  w.member("deleted", true);
  w.end_object();
  return out;
}

}  // namespace saccade::api

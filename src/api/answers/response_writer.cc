#include "api/answers/response_writer.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace saccade::api {
namespace {

using json::JsonWriter;

// What is being said: a message, thoughts or a call.
struct Item {
  SaidPart::Kind kind = SaidPart::Kind::kText;  // kText, kReasoning or kCallBegin
  std::string id;
  std::string text;  // of a call: its arguments
  std::string name;  // of a call
  std::string call_id;
  std::vector<LogprobEntry> logprobs;  // of a text, where they are asked for
};

std::string_view prefix_of(SaidPart::Kind kind) {
  return kind == SaidPart::Kind::kText        ? "msg_"
         : kind == SaidPart::Kind::kReasoning ? "rs_"
                                              : "fc_";
}

// The one part of a message or of thoughts.
void write_part(JsonWriter& w, const Item& item) {
  w.begin_object();
  if (item.kind == SaidPart::Kind::kText) {
    w.member("type", "output_text");
    w.member("text", std::string_view(item.text));
    w.key("annotations");
    w.begin_array();
    w.end_array();
    w.key("logprobs");
    write_logprobs(w, item.logprobs);
  } else {
    w.member("type", "reasoning_text");
    w.member("text", std::string_view(item.text));
  }
  w.end_object();
}

// `begun`: as it is first shown, before its content.
void write_item(JsonWriter& w, const Item& item, std::string_view status, bool begun) {
  w.begin_object();
  w.member("id", std::string_view(item.id));
  if (item.kind == SaidPart::Kind::kCallBegin) {
    w.member("type", "function_call");
    w.member("call_id", std::string_view(item.call_id));
    w.member("name", std::string_view(item.name));
    w.member("arguments", std::string_view(item.text));
  } else {
    const bool message = item.kind == SaidPart::Kind::kText;
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
    if (!begun) write_part(w, item);
    w.end_array();
  }
  w.member("status", status);
  w.end_object();
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

class ResponseWriter final : public AnswerWriter {
 public:
  explicit ResponseWriter(ResponseForm form) : form_(std::move(form)) {}

  std::string add(AnswerPiece&& piece, const Usage*) override {
    if (!std::exchange(started_, true)) {
      state_event("response.created", "in_progress", nullptr, nullptr);
      state_event("response.in_progress", "in_progress", nullptr, nullptr);
    }
    keep_logprobs(piece);
    for (SaidPart& part : piece.said) say(std::move(part));
    if (!piece.rest.finish_reason.empty()) finish_reason_ = piece.rest.finish_reason;
    return std::exchange(events_, {});
  }

  std::string finish(const Usage& usage, const StageTimes*) override {
    const bool complete = finish_reason_ == "stop" || finish_reason_ == "tool_calls";
    const std::string_view status = complete ? "completed" : "incomplete";
    if (items_.empty() && !open_) open({SaidPart::Kind::kText, "", -1, ""});
    take_rest();
    close(status);
    const std::string response = state_event(
        complete ? "response.completed" : "response.incomplete", status, &usage, nullptr);
    if (form_.ended) form_.ended(response, all_items());
    return form_.stream ? std::exchange(events_, {}) : response;
  }

  std::string fail(const Error& error) override {
    take_rest();
    close("incomplete");
    state_event("response.failed", "failed", nullptr, &error);
    return std::exchange(events_, {});
  }

 private:
  // Those of tokens that are text, or a part of it whose end is not known yet. Behind thoughts and
  // calls a token without text is taken for theirs.
  void keep_logprobs(AnswerPiece& piece) {
    if (!piece.rest.logprobs) return;
    const bool silent = piece.said.empty() && (!open_ || open_->kind == SaidPart::Kind::kText);
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
    std::vector<LogprobEntry>& all = open_->logprobs;
    const std::size_t before = all.size();
    std::size_t at = 0;
    std::size_t taken = 0;
    for (; taken < pending_.size() && at < end; ++taken) {
      at += pending_[taken].token.size();
      if (at > begin || before > 0) all.push_back(std::move(pending_[taken]));
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(taken));
    return std::span(all).subspan(before);
  }

  // An answer's last tokens have no text: its end, or a stop string.
  void take_rest() {
    if (!open_ || open_->kind != SaidPart::Kind::kText) return;
    std::ranges::move(pending_, std::back_inserter(open_->logprobs));
    pending_.clear();
  }

  void say(SaidPart&& part) {
    switch (part.kind) {
      case SaidPart::Kind::kText:
      case SaidPart::Kind::kReasoning:
        if (part.text.empty()) return;
        if (!open_ || open_->kind != part.kind) {
          close("completed");
          open(part);
        }
        grow(part.text);
        break;
      case SaidPart::Kind::kCallBegin:
        close("completed");
        open(part);
        break;
      case SaidPart::Kind::kArguments:
        if (open_ && open_->kind == SaidPart::Kind::kCallBegin) grow(part.text);
        break;
      case SaidPart::Kind::kCallEnd:
        if (open_ && open_->kind == SaidPart::Kind::kCallBegin) close("completed");
        break;
    }
  }

  void open(const SaidPart& part) {
    Item item;
    item.kind = part.kind;
    const std::string_view id = form_.head.id;
    item.id =
        fmt::format("{}{}_{}", prefix_of(part.kind), id.substr(id.find('_') + 1), items_.size());
    if (part.kind == SaidPart::Kind::kCallBegin) {
      item.name = part.text;
      item.call_id = part.id;
    }
    open_ = std::move(item);
    event("response.output_item.added", [&](JsonWriter& w) {
      w.member("output_index", index());
      w.key("item");
      write_item(w, *open_, "in_progress", true);
    });
    if (part.kind != SaidPart::Kind::kCallBegin) part_event("response.content_part.added");
  }

  void grow(std::string_view text) {
    open_->text += text;
    const bool is_text = open_->kind == SaidPart::Kind::kText;
    text_event(is_text ? "response.output_text.delta"
               : open_->kind == SaidPart::Kind::kReasoning
                   ? "response.reasoning_text.delta"
                   : "response.function_call_arguments.delta",
               "delta", text, is_text ? take_logprobs(text) : std::span<const LogprobEntry>());
  }

  void close(std::string_view status) {
    if (!open_) return;
    if (open_->kind == SaidPart::Kind::kCallBegin) {
      text_event("response.function_call_arguments.done", "arguments", open_->text, {});
    } else {
      text_event(open_->kind == SaidPart::Kind::kText ? "response.output_text.done"
                                                      : "response.reasoning_text.done",
                 "text", open_->text, open_->logprobs);
      part_event("response.content_part.done");
    }
    std::string item;
    JsonWriter writer(item);
    write_item(writer, *open_, status, false);
    event("response.output_item.done", [&](JsonWriter& w) {
      w.member("output_index", index());
      w.key("item");
      w.raw(item);
    });
    items_.push_back(std::move(item));
    open_.reset();
  }

  void text_event(std::string_view type, std::string_view member, std::string_view text,
                  std::span<const LogprobEntry> logprobs) {
    event(type, [&](JsonWriter& w) {
      place(w);
      if (open_->kind == SaidPart::Kind::kCallBegin) {
        if (member == "arguments") w.member("name", std::string_view(open_->name));
      } else {
        w.member("content_index", 0);
      }
      w.member(member, text);
      if (open_->kind == SaidPart::Kind::kText) {
        w.key("logprobs");
        write_logprobs(w, logprobs);
      }
    });
  }

  void part_event(std::string_view type) {
    event(type, [&](JsonWriter& w) {
      place(w);
      w.member("content_index", 0);
      w.key("part");
      write_part(w, *open_);
    });
  }

  void place(JsonWriter& w) const {
    w.member("item_id", std::string_view(open_->id));
    w.member("output_index", index());
  }
  std::int64_t index() const { return static_cast<std::int64_t>(items_.size()); }

  // An event with the whole response, which it returns.
  std::string state_event(std::string_view type, std::string_view status, const Usage* usage,
                          const Error* error) {
    std::string response;
    if (!form_.stream && usage == nullptr) return response;  // nobody sees it
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
    if (!form_.stream) return;
    fmt::format_to(std::back_inserter(events_), "event: {}\ndata: ", type);
    JsonWriter w(events_);
    w.begin_object();
    w.member("type", type);
    w.member("sequence_number", sequence_++);
    members(w);
    w.end_object();
    events_ += "\n\n";
  }

  ResponseForm form_;
  bool started_ = false;
  std::string events_;  // of this piece
  std::int64_t sequence_ = 0;
  std::vector<std::string> items_;  // that are complete
  std::optional<Item> open_;
  std::vector<LogprobEntry> pending_;  // of tokens whose text has not come
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

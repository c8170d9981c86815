// Answers that are written as blocks one after the other (Messages: content blocks, Responses:
// items): which block a piece goes on with, where one ends and the next begins.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/answers/answer_writer.h"

namespace saccade::api {

class BlockWriter : public AnswerWriter {
 protected:
  struct Block {
    SaidPart::Kind kind = SaidPart::Kind::kText;  // kText, kReasoning or kCallBegin
    std::string name = {};                        // of a call
    std::string call_id = {};
    std::string text = {};  // of a call: its arguments; what write_delta() keeps
  };

  explicit BlockWriter(bool stream) : stream_(stream) {}

  virtual void write_open(const Block& block) = 0;
  virtual void write_delta(Block& block, std::string_view text) = 0;
  virtual void write_close(const Block& block) = 0;

  void say(SaidPart&& part) {
    switch (part.kind) {
      case SaidPart::Kind::kText:
      case SaidPart::Kind::kReasoning:
        if (part.text.empty()) return;
        if (!is_open(part.kind)) open({part.kind});
        write_delta(*open_, part.text);
        break;
      case SaidPart::Kind::kCallBegin:
        open({part.kind, std::move(part.text), std::move(part.id)});
        break;
      case SaidPart::Kind::kArguments:
        if (is_open(SaidPart::Kind::kCallBegin)) write_delta(*open_, part.text);
        break;
      case SaidPart::Kind::kCallEnd:
        if (is_open(SaidPart::Kind::kCallBegin)) close();
        break;
    }
  }
  void open(Block block) {
    close();
    open_ = std::move(block);
    write_open(*open_);
  }
  void close() {
    if (!open_) return;
    write_close(*open_);
    open_.reset();
    ++index_;
  }

  bool stream() const { return stream_; }
  bool is_open() const { return open_.has_value(); }
  bool is_open(SaidPart::Kind kind) const { return open_ && open_->kind == kind; }
  std::int64_t index() const { return index_; }  // of the open block, or of the next

  // Of a stream: `members` writes what stands beside the type.
  template <typename Members>
  void event(std::string_view type, const Members& members) {
    if (!stream_) return;
    fmt::format_to(std::back_inserter(events_), "event: {}\ndata: ", type);
    json::JsonWriter w(events_);
    w.begin_object();
    w.member("type", type);
    members(w);
    w.end_object();
    events_ += "\n\n";
  }
  std::string take_events() { return std::exchange(events_, {}); }

 private:
  const bool stream_;
  std::string events_;  // since they were taken
  std::optional<Block> open_;
  std::int64_t index_ = 0;
};

}  // namespace saccade::api

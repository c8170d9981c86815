#include "api/answers/completion_writer.h"

#include <iterator>
#include <utility>

#include "api/pages/error_table.h"

namespace saccade::api {
namespace {

// Puts what is said behind what a choice has.
void append(std::vector<SaidPart>&& said, ChoiceText& to) {
  for (SaidPart& part : said) {
    switch (part.kind) {
      case SaidPart::Kind::kText:
        to.text += part.text;
        break;
      case SaidPart::Kind::kReasoning:
        to.reasoning += part.text;
        break;
      case SaidPart::Kind::kCallBegin:
        to.calls.push_back({part.call, std::move(part.id), std::move(part.text), ""});
        break;
      case SaidPart::Kind::kArguments:
        if (to.calls.empty() || to.calls.back().index != part.call)
          to.calls.push_back({part.call, "", "", ""});
        to.calls.back().arguments += part.text;
        break;
      case SaidPart::Kind::kCallEnd:
        break;
    }
  }
}

class CompletionStream final : public AnswerWriter {
 public:
  explicit CompletionStream(CompletionForm form) : form_(std::move(form)) {}

  std::string add(AnswerPiece&& piece, const Usage* usage) override {
    // Clients count chunks as tokens: a token without text (special, or a part of a character) is
    // one with empty text.
    if (piece.tokens == 0 && piece.said.empty() && piece.rest.finish_reason.empty()) return {};
    ChoiceText choice = std::move(piece.rest);
    append(std::move(piece.said), choice);
    if (!form_.chat) return text_chunk(form_.head, choice, usage);
    const auto index = static_cast<std::size_t>(choice.index);
    if (started_.size() <= index) started_.resize(index + 1);
    const bool first = !started_[index];
    started_[index] = true;
    return chat_chunk(form_.head, choice, first, usage);
  }

  std::string finish(const Usage& usage, const StageTimes* times) override {
    std::string events;
    if (form_.include_usage || times != nullptr)
      events = usage_chunk(form_.head, form_.chat, usage, times);
    return events += kStreamEnd;
  }

  std::string fail(const Error& error) override { return "data: " + error_body(error) + "\n\n"; }

 private:
  CompletionForm form_;
  std::vector<bool> started_;  // of each choice
};

class WholeCompletion final : public AnswerWriter {
 public:
  WholeCompletion(CompletionForm form, std::size_t choices)
      : form_(std::move(form)), choices_(choices) {}

  std::string add(AnswerPiece&& piece, const Usage*) override {
    ChoiceText& choice = choices_[static_cast<std::size_t>(piece.rest.index)];
    append(std::move(piece.said), choice);
    ChoiceText& rest = piece.rest;
    choice.index = rest.index;
    if (rest.logprobs) gather(*std::move(rest.logprobs), choice.logprobs);
    if (rest.prompt_logprobs) choice.prompt_logprobs = std::move(rest.prompt_logprobs);
    if (rest.prompt_token_ids) choice.prompt_token_ids = std::move(rest.prompt_token_ids);
    if (rest.prompt_text) choice.prompt_text = std::move(rest.prompt_text);
    if (rest.token_ids) gather(*std::move(rest.token_ids), choice.token_ids);
    choice.finish_reason = rest.finish_reason;
    if (rest.stop_string) choice.stop_string = std::move(rest.stop_string);
    if (rest.stop_token) choice.stop_token = rest.stop_token;
    return {};
  }

  std::string finish(const Usage& usage, const StageTimes* times) override {
    return form_.chat ? chat_completion(form_.head, choices_, usage, times)
                      : text_completion(form_.head, choices_, usage, times);
  }

  std::string fail(const Error&) override { return {}; }

 private:
  template <typename T>
  static void gather(std::vector<T>&& more, std::optional<std::vector<T>>& into) {
    if (!into) into.emplace();
    into->insert(into->end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  }

  CompletionForm form_;
  std::vector<ChoiceText> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> completion_stream(CompletionForm form) {
  return std::make_unique<CompletionStream>(std::move(form));
}

std::unique_ptr<AnswerWriter> whole_completion(CompletionForm form, std::size_t choices) {
  return std::make_unique<WholeCompletion>(std::move(form), choices);
}

}  // namespace saccade::api

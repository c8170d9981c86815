#include "serve/requests/answer.h"

#include <algorithm>
#include <utility>

#include "base/text/utf8.h"

namespace saccade::serve {
namespace {

std::string_view reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

std::string name_of(TokenId id, const AnswerForm& form) {
  return form.tokens_as_ids ? fmt::format("token_id:{}", id)
                            : std::string(form.tokenizer->piece(id));
}

api::LogprobEntry named(const TokenLogprob& from, const AnswerForm& form) {
  api::LogprobEntry entry;
  entry.token = name_of(from.token, form);
  entry.id = from.token;
  entry.logprob = from.logprob;
  for (const auto& [id, logprob] : from.top) {
    entry.top.push_back(api::TopLogprob{name_of(id, form), id, logprob});
  }
  return entry;
}

}  // namespace

Answer::Answer(AnswerForm form, std::unique_ptr<api::AnswerWriter> writer, int prompts,
               int per_prompt, net::Responder responder)
    : form_(std::move(form)),
      writer_(std::move(writer)),
      per_prompt_(per_prompt),
      responder_(std::move(responder)),
      choices_(static_cast<std::size_t>(prompts * per_prompt)),
      unfinished_(prompts * per_prompt) {}

bool Answer::add(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return false;
  ids_.push_back(id);
  return true;
}

std::vector<RequestId> Answer::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  return std::exchange(ids_, {});
}

void Answer::read_as(const tools::ParserForm& form, bool parallel_calls) {
  call_format_ = form.calls;
  tells_thoughts_ = form.reasoning != nullptr;
  parallel_calls_ = parallel_calls;
  for (Choice& choice : choices_) choice.parser = std::make_unique<tools::AnswerParser>(form);
}

std::vector<api::SaidPart> Answer::read(int index, Choice& choice, Delta& delta) const {
  using Kind = api::SaidPart::Kind;
  std::vector<api::SaidPart> said;
  const bool first = !std::exchange(choice.started, true);
  const Echo* echo = first ? echo_of(static_cast<std::size_t>(index)) : nullptr;
  if (echo != nullptr) said.push_back({Kind::kText, echo->text, -1, ""});
  if (!choice.parser) {
    if (!delta.text.empty()) said.push_back({Kind::kText, std::move(delta.text), -1, ""});
    return said;
  }
  tools::AnswerEvents events;
  choice.parser->feed(delta.text, events);
  if (delta.finish != FinishReason::kNone) choice.parser->finish(events);
  if (std::ranges::any_of(events.list(), [](const tools::AnswerEvent& event) {
        return event.kind == tools::AnswerEvent::Kind::kReasoning;
      }))
    choice.reasoning_tokens += static_cast<std::int64_t>(delta.tokens.size());
  for (const tools::AnswerEvent& event : events.list()) {
    if (event.call > 0 && !parallel_calls_) continue;
    switch (event.kind) {
      case tools::AnswerEvent::Kind::kContent:
        said.push_back({Kind::kText, event.text, -1, ""});
        break;
      case tools::AnswerEvent::Kind::kReasoning:
        if (!form_.include_reasoning) break;
        said.push_back({Kind::kReasoning, event.text, -1, ""});
        break;
      case tools::AnswerEvent::Kind::kCallBegin: {
        const std::string seed = fmt::format("{}/{}", form_.id, index);
        said.push_back({Kind::kCallBegin, event.text, event.call,
                        tools::call_id(*call_format_, seed, event.call)});
        break;
      }
      case tools::AnswerEvent::Kind::kArguments:
        said.push_back({Kind::kArguments, event.text, event.call, ""});
        break;
      case tools::AnswerEvent::Kind::kCallEnd:
        said.push_back({Kind::kCallEnd, "", event.call, ""});
        break;
    }
  }
  return said;
}

std::string_view Answer::finish_name(const Choice& choice) const {
  const bool called = choice.parser && choice.parser->calls() > 0;
  return called && choice.finish == FinishReason::kStop ? "tool_calls" : reason_name(choice.finish);
}

const Answer::Echo* Answer::echo_of(std::size_t choice) const {
  return echo_.empty() ? nullptr : &echo_[choice / static_cast<std::size_t>(per_prompt_)];
}

void Answer::echo_logprobs(int index, const Delta& delta,
                           std::vector<api::LogprobEntry>& entries) const {
  api::LogprobEntry& first = entries.emplace_back();
  first.id = echo_of(static_cast<std::size_t>(index))->first;
  first.token = name_of(static_cast<TokenId>(first.id), form_);
  first.unscored = true;
  for (const TokenLogprob& logprob : delta.prompt_logprobs) {
    api::LogprobEntry& entry = entries.emplace_back(named(logprob, form_));
    if (entry.top.size() > *form_.echo_logprobs) entry.top.resize(*form_.echo_logprobs);
  }
  for (api::LogprobEntry& entry : entries) entry.echoed = true;
}

// Of each token but the first: itself, then the likeliest that are not it.
std::vector<std::vector<api::PromptLogprob>> Answer::prompt_logprobs(const Delta& delta) const {
  std::vector<std::vector<api::PromptLogprob>> all(1);
  for (const TokenLogprob& from : delta.prompt_logprobs) {
    auto& entries = all.emplace_back();
    const auto add = [&](TokenId id, float logprob, std::int64_t rank) {
      entries.push_back({id, std::string(form_.tokenizer->piece(id)), logprob, rank});
    };
    add(from.token, from.logprob, from.rank);
    std::int64_t rank = 0;
    for (const auto& [id, logprob] : from.top) {
      ++rank;
      if (id != from.token) add(id, logprob, rank);
    }
  }
  return all;
}

api::AnswerPiece Answer::piece_of(int index, Delta&& delta, Choice& choice) const {
  api::AnswerPiece made;
  if (form_.prompt_alone) {
    delta.text.clear();
    delta.tokens.clear();
    delta.logprobs.clear();
    delta.stop_string.clear();
    delta.stop_token.reset();
    if (choice.finish == FinishReason::kStop) choice.finish = FinishReason::kLength;
    choice.usage.completion_tokens = 0;
  }
  const bool first = !choice.started;
  made.said = read(index, choice, delta);
  made.tokens = static_cast<std::int64_t>(delta.tokens.size());
  api::ChoiceText& piece = made.rest;
  piece.index = index;
  piece.finish_reason = finish_name(choice);
  if (!delta.stop_string.empty()) piece.stop_string = std::move(delta.stop_string);
  if (delta.stop_token) piece.stop_token = *delta.stop_token;
  if (form_.logprobs) {
    piece.logprobs.emplace();
    if (first && form_.echo_logprobs) echo_logprobs(index, delta, *piece.logprobs);
    for (const auto& logprob : delta.logprobs) piece.logprobs->push_back(named(logprob, form_));
  }
  if (first && form_.prompt_logprobs) piece.prompt_logprobs = prompt_logprobs(delta);
  if (form_.return_token_ids) piece.token_ids.emplace(delta.tokens.begin(), delta.tokens.end());
  if (first && !prompts_.empty()) {
    const ShownPrompt& prompt = prompts_[static_cast<std::size_t>(index / per_prompt_)];
    piece.prompt_token_ids = prompt.ids;
    if (form_.return_prompt_text) piece.prompt_text = prompt.text;
  }
  // By tokens, not by text: what may become a stop string is held back, its tokens are not.
  piece.text_offset = choice.text_offset;
  if (piece.logprobs) {
    for (const auto& entry : *piece.logprobs) choice.text_offset += character_count(entry.token);
  }
  return made;
}

void Answer::fail(const Delta& delta, std::vector<net::StreamWrite>& writes) {
  failed_ = true;
  const Error error{delta.error_code, delta.error, {}};
  if (stream_started_) {
    writes.push_back({responder_, writer_->fail(error), true});
    return;
  }
  net::HttpResponse response{api::kind_of(error.code).status, "application/json",
                             api::error_body(error, form_.errors), form_.headers};
  if (api::kind_of(error.code).retry) response.headers.emplace_back("Retry-After", "1");
  responder_.respond(std::move(response));
}

bool Answer::on_delta(int index, Delta&& delta, const RequestUsage& usage,
                      const RequestTimes& times, std::vector<net::StreamWrite>& writes) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  choice.usage = usage;
  choice.finish = delta.finish;
  const bool finished = delta.finish != FinishReason::kNone;
  const bool last = finished && --unfinished_ == 0;
  if (cancelled_ || failed_) return last;
  if (delta.finish == FinishReason::kError) {
    fail(delta, writes);
    return last;
  }

  std::optional<api::Usage> so_far;
  if (form_.usage_with_pieces) so_far = total_usage();
  std::string text =
      writer_->add(piece_of(index, std::move(delta), choice), so_far ? &*so_far : nullptr);
  if (last) {
    std::optional<api::StageTimes> stages;
    if (form_.metrics) stages = stage_times(times);
    text += writer_->finish(total_usage(), stages ? &*stages : nullptr);
  }
  if (!form_.stream) {
    if (last) responder_.respond({200, "application/json", std::move(text), form_.headers});
    return last;
  }
  if (text.empty()) return last;
  if (!std::exchange(stream_started_, true)) responder_.start_stream(form_.headers);
  writes.push_back({responder_, std::move(text), last});
  return last;
}

api::Usage Answer::total_usage() const {
  api::Usage total;
  if (tells_thoughts_) total.reasoning_tokens = 0;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const RequestUsage& usage = choices_[i].usage;
    total.completion_tokens += usage.completion_tokens;
    if (total.reasoning_tokens) *total.reasoning_tokens += choices_[i].reasoning_tokens;
    if (i % static_cast<std::size_t>(per_prompt_) != 0) continue;  // choices of one prompt share it
    total.prompt_tokens += usage.prompt_tokens;
    total.cached_tokens += usage.cached_tokens;
    total.image_tokens += usage.image_tokens;
    total.video_tokens += usage.video_tokens;
  }
  return total;
}

api::StageTimes Answer::stage_times(const RequestTimes& times) const {
  api::StageTimes stages;
  const auto stage = [&](std::string_view name, Nanos at) {
    if (at != 0) stages.stages.emplace_back(name, at - times.arrival);
  };
  stages.stages.emplace_back("arrival", 0);
  stage("media_done", times.media_done);
  stage("preprocessed", times.preprocessed);
  stage("queued", times.queued);
  stage("encode_start", times.encode_start);
  stage("encode_end", times.encode_end);
  stage("first_scheduled", times.first_scheduled);
  stage("first_token", times.first_token);
  stage("finished", times.finished);
  return stages;
}

}  // namespace saccade::serve

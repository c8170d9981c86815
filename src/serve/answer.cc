#include "serve/answer.h"

#include <algorithm>
#include <utility>

#include "api/error_table.h"

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

api::LogprobEntry named(const TokenLogprob& from, const AnswerForm& form) {
  const auto name = [&](TokenId id) {
    return form.tokens_as_ids ? fmt::format("token_id:{}", id)
                              : std::string(form.tokenizer->piece(id));
  };
  api::LogprobEntry entry;
  entry.token = name(from.token);
  entry.id = from.token;
  entry.logprob = from.logprob;
  for (const auto& [id, logprob] : from.top) {
    entry.top.push_back(api::TopLogprob{name(id), id, logprob});
  }
  return entry;
}

}  // namespace

Answer::Answer(AnswerForm form, int prompts, int per_prompt, net::Responder responder)
    : form_(std::move(form)),
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
  parallel_calls_ = parallel_calls;
  for (Choice& choice : choices_) choice.parser = std::make_unique<tools::AnswerParser>(form);
}

void Answer::read(int index, Choice& choice, Delta& delta, api::ChoiceText& into) const {
  if (!choice.parser) {
    into.text = std::move(delta.text);
    return;
  }
  tools::AnswerEvents events;
  choice.parser->feed(delta.text, events);
  if (delta.finish != FinishReason::kNone) choice.parser->finish(events);
  for (const tools::AnswerEvent& event : events.list()) {
    using Kind = tools::AnswerEvent::Kind;
    if (event.kind == Kind::kContent) into.text += event.text;
    if (event.kind == Kind::kReasoning) into.reasoning += event.text;
    if (event.call > 0 && !parallel_calls_) continue;
    if (event.kind == Kind::kCallBegin) {
      const std::string seed = fmt::format("{}/{}", form_.head.id, index);
      into.calls.push_back(
          {event.call, tools::call_id(*call_format_, seed, event.call), event.text, ""});
    } else if (event.kind == Kind::kArguments) {
      if (into.calls.empty() || into.calls.back().index != event.call)
        into.calls.push_back({event.call, "", "", ""});
      into.calls.back().arguments += event.text;
    }
  }
}

std::string_view Answer::finish_name(const Choice& choice) const {
  const bool called = choice.parser && choice.parser->calls() > 0;
  return called && choice.finish == FinishReason::kStop ? "tool_calls" : reason_name(choice.finish);
}

const std::string* Answer::echo_of(std::size_t choice) const {
  return echo_.empty() ? nullptr : &echo_[choice / static_cast<std::size_t>(per_prompt_)];
}

api::ChoiceText Answer::piece_of(int index, Delta&& delta, Choice& choice) const {
  api::ChoiceText piece;
  piece.index = index;
  read(index, choice, delta, piece);
  piece.finish_reason = finish_name(choice);
  if (!delta.stop_string.empty()) piece.stop_string = std::move(delta.stop_string);
  if (delta.stop_token) piece.stop_token = *delta.stop_token;
  if (form_.logprobs) {
    piece.logprobs.emplace();
    for (const auto& logprob : delta.logprobs) piece.logprobs->push_back(named(logprob, form_));
  }
  if (form_.return_token_ids) piece.token_ids.emplace(delta.tokens.begin(), delta.tokens.end());
  // By tokens, not by text: what may become a stop string is held back, its tokens are not.
  piece.text_offset = choice.text_offset;
  if (piece.logprobs) {
    for (const auto& entry : *piece.logprobs)
      choice.text_offset += api::character_count(entry.token);
  }
  return piece;
}

void Answer::stream_delta(int index, Delta&& delta, Choice& choice, std::string& events) {
  // Clients count chunks as tokens: a token without text (special, or a part of a character) is
  // one with empty text.
  if (delta.tokens.empty() && delta.finish == FinishReason::kNone) return;
  const bool first = !std::exchange(choice.started, true);
  const std::string* echo = first ? echo_of(static_cast<std::size_t>(index)) : nullptr;
  if (echo != nullptr) delta.text.insert(0, *echo);
  const api::ChoiceText piece = piece_of(index, std::move(delta), choice);
  std::optional<api::Usage> usage;
  if (form_.continuous_usage) usage = total_usage();
  events += form_.chat ? api::chat_chunk(form_.head, piece, first, usage ? &*usage : nullptr)
                       : api::text_chunk(form_.head, piece, usage ? &*usage : nullptr);
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
    failed_ = true;
    const Error error{delta.error_code, delta.error, {}};
    if (stream_started_) {
      writes.push_back({responder_, "data: " + api::error_body(error) + "\n\n", true});
    } else {
      net::HttpResponse response{api::kind_of(error.code).status, "application/json",
                                 api::error_body(error), form_.headers};
      if (error.code == ErrorCode::kUnavailable) response.headers.emplace_back("Retry-After", "1");
      responder_.respond(std::move(response));
    }
    return last;
  }

  if (form_.stream) {
    std::string events;
    stream_delta(index, std::move(delta), choice, events);
    if (last) {
      if (form_.include_usage || form_.metrics) {
        const api::StageTimes stages = stage_times(times);
        events += api::usage_chunk(form_.head, form_.chat, total_usage(),
                                   form_.metrics ? &stages : nullptr);
      }
      events += api::kStreamEnd;
    }
    if (events.empty()) return last;
    if (!std::exchange(stream_started_, true)) responder_.start_stream(form_.headers);
    writes.push_back({responder_, std::move(events), last});
    return last;
  }

  api::ChoiceText said;
  read(index, choice, delta, said);
  choice.text += said.text;
  choice.reasoning += said.reasoning;
  for (api::ToolCallText& call : said.calls) {
    if (!call.id.empty()) {
      choice.calls.push_back(std::move(call));
    } else {
      choice.calls.back().arguments += call.arguments;
    }
  }
  choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
  for (const auto& logprob : delta.logprobs) choice.logprobs.push_back(named(logprob, form_));
  if (!delta.stop_string.empty()) choice.stop_string = std::move(delta.stop_string);
  if (delta.stop_token) choice.stop_token = *delta.stop_token;
  if (last) responder_.respond({200, "application/json", body(times), form_.headers});
  return last;
}

api::Usage Answer::total_usage() const {
  api::Usage total;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const RequestUsage& usage = choices_[i].usage;
    total.completion_tokens += usage.completion_tokens;
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

std::string Answer::body(const RequestTimes& times) {
  std::vector<api::ChoiceText> pieces;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    api::ChoiceText piece;
    piece.index = static_cast<int>(i);
    const std::string* echo = echo_of(i);
    piece.text = echo == nullptr ? std::move(choice.text) : *echo + choice.text;
    piece.reasoning = std::move(choice.reasoning);
    piece.calls = std::move(choice.calls);
    piece.finish_reason = finish_name(choice);
    piece.stop_string = std::move(choice.stop_string);
    piece.stop_token = choice.stop_token;
    if (form_.logprobs) piece.logprobs = std::move(choice.logprobs);
    if (form_.return_token_ids) piece.token_ids = std::move(choice.tokens);
    pieces.push_back(std::move(piece));
  }
  const api::StageTimes stages = stage_times(times);
  const api::StageTimes* metrics = form_.metrics ? &stages : nullptr;
  return form_.chat ? api::chat_completion(form_.head, pieces, total_usage(), metrics)
                    : api::text_completion(form_.head, pieces, total_usage(), metrics);
}

}  // namespace saccade::serve

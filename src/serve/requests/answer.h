// One HTTP request's answer in the making: collects the deltas of its choices and becomes events or
// a body.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/answers/answer_writer.h"
#include "api/pages/error_table.h"
#include "engine/request.h"
#include "net/server/http_server.h"
#include "tools/answer_parser.h"

namespace saccade::serve {

// How the answer is made; fixed before the first delta. How it looks is its writer's.
struct AnswerForm {
  std::string id;  // "chatcmpl-...", of the log and of calls of tools
  bool stream = false;
  bool usage_with_pieces = false;
  bool metrics = false;
  bool return_token_ids = false;
  bool return_prompt_text = false;
  bool include_reasoning = true;  // false: thoughts are left out
  bool logprobs = false;
  bool prompt_logprobs = false;  // in a member of their own
  // Before those of the answer, of an echoed prompt: how many are listed beside each token's own.
  std::optional<std::size_t> echo_logprobs = std::nullopt;
  bool prompt_alone = false;                                 // what is generated is left out
  bool tokens_as_ids = false;                                // logprobs name tokens "token_id:42"
  api::ErrorShape errors = api::ErrorShape::kOpenAi;         // before a stream has begun
  std::vector<std::pair<std::string, std::string>> headers;  // of the response (CORS)
  std::shared_ptr<const Tokenizer> tokenizer;
};

// Threads: built on a worker, deltas on the engine thread, cancel() on an I/O thread.
class Answer {
 public:
  // `prompts` prompts with `per_prompt` choices each; choice = prompt * per_prompt + k.
  Answer(AnswerForm form, std::unique_ptr<api::AnswerWriter> writer, int prompts, int per_prompt,
         net::Responder responder);

  // Engine thread. Text for the wire is appended to `writes`, which the caller hands over once a
  // step. True when this was the last choice's end.
  bool on_delta(int choice, Delta&& delta, const RequestUsage& usage, const RequestTimes& times,
                std::vector<net::StreamWrite>& writes);

  // Before the first delta: one more header of the response.
  void add_header(std::string name, std::string value) {
    form_.headers.emplace_back(std::move(name), std::move(value));
  }
  // Before the first delta: what is put before the answers of the next prompt; for all or none.
  struct Echo {
    std::string text;
    TokenId first = 0;  // of the prompt
  };
  void echo_next(Echo echo) { echo_.push_back(std::move(echo)); }

  // Before the first delta: the next prompt, which return_token_ids and return_prompt_text show;
  // for all or none.
  struct ShownPrompt {
    std::shared_ptr<const std::vector<TokenId>> ids;
    std::string text;
  };
  void show_next(ShownPrompt prompt) { prompts_.push_back(std::move(prompt)); }

  // Before the first delta: text is read as `form` says; calls after the first are left out where
  // they may not be parallel.
  void read_as(const tools::ParserForm& form, bool parallel_calls);

  bool stream() const { return form_.stream; }
  const std::string& id() const { return form_.id; }

  // The engine requests behind the choices, so that a disconnect cancels them whenever it comes.
  // add() is false when the client has already gone: the caller then cancels `id` itself.
  [[nodiscard]] bool add(RequestId id);
  // Marks the answer cancelled and returns what has to be cancelled in the engine.
  std::vector<RequestId> cancel();
  const std::atomic<bool>& cancelled() const { return cancelled_; }

 private:
  struct Choice {
    std::unique_ptr<tools::AnswerParser> parser;  // null: all text is content
    FinishReason finish = FinishReason::kNone;
    RequestUsage usage;
    bool started = false;
    std::int64_t text_offset = 0;
    std::int64_t reasoning_tokens = 0;
  };

  // The text and the calls of a delta; it ends the choice where it says so.
  std::vector<api::SaidPart> read(int index, Choice& choice, Delta& delta) const;
  std::string_view finish_name(const Choice& choice) const;
  const Echo* echo_of(std::size_t choice) const;
  void echo_logprobs(int index, const Delta& delta, std::vector<api::LogprobEntry>& entries) const;
  std::vector<std::vector<api::PromptLogprob>> prompt_logprobs(const Delta& delta) const;
  api::AnswerPiece piece_of(int index, Delta&& delta, Choice& choice) const;
  void fail(const Delta& delta, std::vector<net::StreamWrite>& writes);
  api::Usage total_usage() const;
  api::StageTimes stage_times(const RequestTimes& times) const;

  AnswerForm form_;  // fixed with the first delta
  const std::unique_ptr<api::AnswerWriter> writer_;
  const tools::ToolCallFormat* call_format_ = nullptr;
  bool tells_thoughts_ = false;
  bool parallel_calls_ = true;
  const int per_prompt_;
  const net::Responder responder_;
  std::vector<Echo> echo_;            // one a prompt, or none
  std::vector<ShownPrompt> prompts_;  // likewise
  std::vector<Choice> choices_;       // engine thread
  int unfinished_;
  bool stream_started_ = false;
  bool failed_ = false;

  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::vector<RequestId> ids_;  // guarded by mutex_
};

}  // namespace saccade::serve

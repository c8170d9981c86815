// A request as the engine sees it: complete before it is submitted; everything else about it is
// derived.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/shared.h"
#include "engine/images/image_source.h"
#include "engine/request_progress.h"
#include "model/prompts/prompt.h"

namespace saccade {

class LoraAdapter;
namespace grammar {
class CompiledGrammar;
}

using RequestId = std::uint64_t;
using ClientId = std::uint64_t;  // who asks: equal for all requests of one API key, or address

using TokenBias = std::pair<TokenId, float>;

// vLLM's names and defaults.
struct SamplingParams {
  double temperature = 1.0;  // 0: greedy
  double top_p = 1.0;
  std::int64_t top_k = 0;  // 0 or -1: off
  double min_p = 0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<std::uint64_t> seed;
  std::int64_t max_tokens = 16;
  std::int64_t min_tokens = 0;
  bool ignore_eos = false;
  Shared<std::vector<std::string>> stop;
  Shared<std::vector<TokenId>> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  Shared<std::vector<TokenBias>> logit_bias;
  // Bits by token: t may come where bit t % 32 of word t / 32 is set. Empty: all may.
  Shared<std::vector<std::uint32_t>> allowed_tokens;
  // Each one, or more in a row, that must not be generated; none is empty.
  Shared<std::vector<std::vector<TokenId>>> bad_words;
  std::optional<int> logprobs;  // alternatives per token; 0: the chosen one alone; absent: none
  // The same of the prompt's tokens, all of which are computed for it: no prefix cache is read.
  std::optional<int> prompt_logprobs;
  // Listed beside each generated token in place of the most likely ones, where logprobs is set.
  Shared<std::vector<TokenId>> logprob_token_ids;
  // What the answer is held to, made for the model's vocabulary; null: free text. It ends the
  // answer under ignore_eos too.
  std::shared_ptr<const grammar::CompiledGrammar> grammar;

  // Which tokens may come next depends on those that came last.
  bool looks_back() const;
};

// An image of a request, or a group of a video's frames: where it stands and what it is.
struct RequestImage {
  ImageSpan span;
  // SHA-256 of the original bytes; of a group, over those of its frames. Of the bytes as they came,
  // not of pixels: it is known before anything is decoded, so that a stored embedding is found for
  // the price of a hash, and whoever has the bytes, on another machine too, names them alike. Equal
  // pixels in different files are two images. How they are processed is in ImageLayout::key.
  Digest content{};
  ImageLayout layout;  // of what the encoder takes: a group has grid_t 1
  std::shared_ptr<const ImageSource> source;
};

// Nanoseconds on the SteadyClock; 0 where it has not happened. Names of the API's `metrics` member.
struct RequestTimes {
  Nanos arrival = 0;
  Nanos media_done = 0;
  Nanos preprocessed = 0;
  Nanos queued = 0;
  Nanos encode_start = 0;
  Nanos encode_end = 0;
  Nanos first_scheduled = 0;
  Nanos first_token = 0;
  Nanos finished = 0;
};

enum class FinishReason { kNone, kStop, kLength, kCancelled, kError };

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;  // most likely first, or logprob_token_ids
  std::int32_t rank = 0;  // of a prompt's token: 1 where none is likelier or as likely
};

// What a step delivers for one sequence.
struct Delta {
  std::string text;  // certainly complete UTF-8
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;  // one a token when asked
  // When asked, with the first token: of the prompt's tokens but the first, before which is none.
  std::vector<TokenLogprob> prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  std::string stop_string;  // the stop string that matched, if one did
  std::optional<TokenId> stop_token;
  std::string error;  // with kError
  ErrorCode error_code = ErrorCode::kInternal;
};

// Fixed at submission; counters live in the engine. A copy is small: choices of one prompt share
// it, its images and the lists of their sampling.
struct Request {
  RequestId id = 0;
  Shared<Prompt> prompt;
  Shared<std::vector<RequestImage>> images;
  SamplingParams sampling;
  std::int64_t priority = 0;  // lower runs earlier under --scheduling-policy priority
  ClientId client = 0;        // who shares with whom under --fairness client
  std::string cache_salt;
  std::shared_ptr<const LoraAdapter> adapter;  // null: the model as it is
  RequestTimes times;                          // up to `queued`
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<RequestProgress> progress;  // of as many images; may be null
  int answers = 1;  // that its prompt is asked for, on the first of them; 0 on the others
};

// Numbers of one finished or running sequence.
struct RequestUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t image_tokens = 0;
  std::int64_t video_tokens = 0;
};

inline bool SamplingParams::looks_back() const {
  for (const std::vector<TokenId>& word : *bad_words) {
    if (word.size() > 1) return true;
  }
  return grammar != nullptr;
}

// Receives deltas on the engine thread, in order; the one with finish != kNone is the last. Must
// not block.
using Sink = std::function<void(RequestId id, Delta&& delta, const RequestUsage& usage,
                                const RequestTimes& times)>;

}  // namespace saccade

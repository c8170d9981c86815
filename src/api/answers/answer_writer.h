// How an answer looks on the wire: each API has a writer of its own for the same pieces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/answers/responses.h"
#include "base/result.h"

namespace saccade::api {

// What an answer says, in order: a part goes on where the last one of its kind and call ended.
struct SaidPart {
  enum class Kind : std::uint8_t {
    kText,
    kReasoning,
    kCallBegin,  // `text`: the function's name; `id`: the call's
    kArguments,  // `text`: more of the JSON
    kCallEnd,
  };
  Kind kind = Kind::kText;
  std::string text;
  int call = -1;  // of calls: counted from 0 in one choice
  std::string id;
};

// What one step brings of one choice.
struct AnswerPiece {
  std::vector<SaidPart> said;
  std::int64_t tokens = 0;
  ChoiceText rest;  // all but text, reasoning and calls; the last piece has a finish_reason
};

// One answer. Called in the order of the pieces, on one thread.
class AnswerWriter {
 public:
  AnswerWriter() = default;
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;
  virtual ~AnswerWriter() = default;

  // The events of a streamed answer; of a whole one nothing yet. `usage` is there where the
  // answer's form asks for it with every piece.
  virtual std::string add(AnswerPiece&& piece, const Usage* usage) = 0;
  // After the last piece: a stream's last events, or the whole body. `times` may be null.
  virtual std::string finish(const Usage& usage, const StageTimes* times) = 0;
  // The last events of a stream that cannot go on.
  virtual std::string fail(const Error& error) = 0;
};

}  // namespace saccade::api

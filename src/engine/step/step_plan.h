// What one step will do: a value that plan() returns, launch() and settle() take back.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/admission/sequence.h"

namespace saccade {

// Tokens [begin, begin + count) of one sequence.
struct PlannedRows {
  Sequence* sequence = nullptr;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool samples = false;  // the last row's logits give the next token
  // Of count, the last: Sequence::draft's first, each of which samples too.
  std::int64_t drafts = 0;

  std::int64_t end() const { return begin + count - drafts; }  // of the tokens that are no drafts
  std::int64_t sampled() const { return samples ? 1 + drafts : 0; }  // rows
};

// An image to be encoded. The sequence is one that wants it; others may share the key.
struct EncodeRequest {
  Sequence* sequence = nullptr;
  int image = 0;  // index into Sequence::images
};

struct StepPlan {
  std::vector<PlannedRows> rows;  // a sequence at most once
  std::vector<KvCopy> copies;     // to run before the forward, in order
  std::vector<EncodeRequest> encodes;
  std::vector<Sequence*> started;    // admitted in this step
  std::vector<Sequence*> preempted;  // back among the waiting
  std::int64_t tokens = 0;
  std::int64_t decode_rows = 0;     // those of drafts too
  std::int64_t context_tokens = 0;  // in the cache before the step, summed over rows' sequences
  bool blocked_on_memory = false;   // something waited for pages
  bool blocked_on_budget = false;   // something waited for the token budget
  bool empty() const { return rows.empty(); }
};

}  // namespace saccade

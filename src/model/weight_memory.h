// What a model's weights take, and how much of them a token reads, before any is loaded: follows
// from a checkpoint's small files. What `saccade fit` says is made of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "model/checkpoint/checkpoint.h"
#include "model/families.h"

namespace saccade {

// How many parameters a model has, by what becomes of them.
struct ParameterCounts {
  std::int64_t text = 0;     // of the text's layers, experts aside
  std::int64_t experts = 0;  // of all of them
  double active = 1;         // the share of its experts that a token goes through
  std::int64_t head = 0;     // with the embedding, where these are one matrix
  std::int64_t tower = 0;    // of the vision tower's layers
  std::int64_t other = 0;    // embeddings, norms, patches, projectors
  std::int64_t layers = 0;   // of the text

  std::int64_t all() const { return text + experts + head + tower + other; }
};

// Of a model that generates text; kUnsupported of a sentence encoder.
Result<ParameterCounts> parameter_counts(const Checkpoint& checkpoint);

// The small files of a published size of a family, as make-dummy writes them. The directory is
// empty: it is for what reads no tokenizer.
Result<Checkpoint> published_checkpoint(const Family& family, std::string_view size);

// In memory once they are loaded on a CPU: bf16, and what `options` makes of it.
double weight_bytes(const ParameterCounts& parameters, const LoadOptions& options);
// Read by a step of one sequence that computes one token: not the embedding, which gives one row,
// nor the tower.
double token_bytes(const ParameterCounts& parameters, const LoadOptions& options);
// What such a step takes on a CPU whose memory is read at `bandwidth` bytes a second, in seconds:
// within a fifth of what servers did (benchmarks/results/fit.md).
double token_seconds(const ParameterCounts& parameters, const LoadOptions& options,
                     double bandwidth);

}  // namespace saccade

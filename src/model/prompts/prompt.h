// A prompt as a model takes it: token ids, their positions, where images stand, and what attends
// both ways.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/token_interval.h"
#include "text/tokenizer.h"

namespace saccade {

// Placeholders in the prompt: token begin + i takes embedding row first_row + i of image `index`.
// A family that writes text between an image's rows has several spans for it. The encoder's inputs
// are numbered: an image is one, a video is one for each group of frames.
struct ImageSpan {
  std::int64_t begin = 0;
  std::int64_t tokens = 0;
  int index = 0;
  std::int64_t first_row = 0;
};

struct Prompt {
  std::vector<TokenId> ids;
  std::vector<std::vector<std::int32_t>> positions;  // [position_axes][ids]
  std::int64_t position_delta = 0;  // position of generated token at index i is i + position_delta
  std::vector<ImageSpan> images;    // ascending
  // An image stands as one token, which keeps an embedding of its own; its rows are attended to
  // from there on (cross_images.h).
  bool cross_attends = false;
  std::int64_t bidirectional_prefix = 0;  // tokens; 0: causal
  // Tokens that see each other both ways in a prompt that is causal otherwise: SequenceSpan's.
  std::vector<TokenInterval> both_ways;
};

// What sees each other both ways is computed in one step. One past the last token that a step which
// begins at token `begin` has to reach; `begin` if it may end anywhere.
std::int64_t least_step_end(const Prompt& prompt, std::int64_t begin);
// The last place up to `end` where it may end; `begin` if there is none after it.
std::int64_t last_step_end(const Prompt& prompt, std::int64_t begin, std::int64_t end);
// Most tokens that ever have to be computed in one step.
std::int64_t least_step_tokens(const Prompt& prompt);

}  // namespace saccade

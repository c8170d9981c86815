// Which rows of images a text token attends to where layers attend across (Llama 3.2 Vision), and
// where those rows' keys stand: transformers' rule of the model's cross-attention mask
// (get_cross_attention_token_mask of models/mllama). A token sees the image whose token came last,
// and with it those whose tokens stand right before that one; what comes before the first image
// sees none.
//
// A sequence's images make a stream of their own, in the order of their tokens, in which images
// that are ever seen together follow each other without a gap and begin at a block of the cache: so
// what a token sees is always the first rows of a run of blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/prompts/prompt.h"
#include "ops/device.h"

namespace saccade {

struct CrossImage {
  int index = 0;           // of the request's images
  std::int64_t token = 0;  // its place in the prompt: its keys are made in the step of this token
  std::int64_t end = 0;    // tokens [token, end) see the rows [run, first + rows) of the stream
  std::int64_t run = 0;    // a multiple of the block size
  std::int64_t first = 0;  // in the stream
  std::int64_t rows = 0;
};

// rows[i]: of image i. Empty unless the prompt attends across.
std::vector<CrossImage> lay_out_cross_images(const Prompt& prompt,
                                             std::span<const std::int64_t> rows,
                                             std::int64_t block_tokens);
// Length of the stream, a multiple of the block size.
std::int64_t stream_length(std::span<const CrossImage> images, std::int64_t block_tokens);

// The part of a step that layers of cross attention need of one block table, added sequence by
// sequence. Spans refer to the tables.
struct CrossSpans {
  std::vector<SequenceSpan> seeing;  // as Batch::spans
  std::vector<SequenceSpan> images;  // as Batch::image_spans

  void clear();
  // Tokens [begin, end) of a sequence. `table` is of its stream.
  void add(std::span<const CrossImage> of, std::int64_t begin, std::int64_t end,
           std::span<const std::int32_t> table, std::int64_t block_tokens);
};

// Rows of the batch, in which tokens [begin, end) of a sequence stand from `first_row` on, that see
// an image.
void add_seeing_rows(std::span<const CrossImage> of, std::int64_t begin, std::int64_t end,
                     std::int64_t first_row, std::vector<std::int32_t>& rows);

}  // namespace saccade

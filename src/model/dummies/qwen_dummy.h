// What the tokenizers of Qwen's checkpoints of random weights have alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/dummies/dummy_sizes.h"

namespace saccade {

// Of tokenizer.json, all sizes.
extern const std::string_view kQwenPattern;

// Tokens, template and tokenizer class of a checkpoint that sees images; `pieces` come before the
// special tokens. <|endoftext|> is at `pieces`, <|im_end|> at + 2, <|vision_start|> at + 9,
// <|vision_end|> + 10, <|vision_pad|> + 11, <|image_pad|> + 12, <|video_pad|> + 13.
void describe_qwen_vision_tokenizer(std::int64_t pieces, DummyCheckpoint& checkpoint);

// preprocessor_config.json as published.
std::string qwen_preprocessor_config(std::string_view processor_class);

}  // namespace saccade

// What Qwen's checkpoints of random weights have alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/dummies/dummy_sizes.h"

namespace saccade {

// Of tokenizer.json, all sizes.
extern const std::string_view kQwenPattern;

// Special tokens follow the pieces, in one order: <|endoftext|> is at `pieces`, <|im_end|> at + 2,
// <|vision_start|> at + 9, <|vision_end|> + 10, <|vision_pad|> + 11, <|image_pad|> + 12,
// <|video_pad|> + 13, <think> + 24. How many of them a tokenizer has:
constexpr std::size_t kQwenTextTokens = 3;
constexpr std::size_t kQwenVisionTokens = 14;
constexpr std::size_t kQwen25Tokens = 22;
constexpr std::size_t kQwen3Tokens = 26;

std::span<const std::string_view> qwen_special_tokens();

// Tokens, template and tokenizer class.
void describe_qwen_tokenizer(std::int64_t pieces, std::size_t special_tokens,
                             std::string_view chat_template, DummyCheckpoint& checkpoint);

// What the published templates give for messages without tools, with images and videos as parts.
// Qwen2-VL's and Qwen2.5-VL's begin with a system message of their own, Qwen3-VL's does not.
std::string qwen_vision_template(bool default_system);
// The same of Qwen3: thoughts of earlier turns are left out, enable_thinking false closes the
// answer's before it begins.
extern const std::string_view kQwen3Template;

// generation_config.json with the members of `sampling`.
std::string qwen_generation_config(std::int64_t pieces, std::string_view sampling);

// preprocessor_config.json as published.
std::string qwen_preprocessor_config(std::string_view processor_class);

}  // namespace saccade

// genai-bench's scenario language: how long inputs and outputs are, and which images go with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/rng.h"

namespace saccade::bench {

// A length in tokens.
struct LengthLaw {
  enum class Kind { kFixed, kNormal, kUniform };
  Kind kind = Kind::kFixed;
  double a = 0;  // fixed: the length; normal: mean; uniform: lowest
  double b = 0;  // normal: standard deviation; uniform: highest, included
};

// D(in,out)  N(mean,sd)/(mean,sd)  U(low,high)/(low,high)  E(tokens)  R(document,query)
// I(width,height[,images])  dataset
struct Scenario {
  enum class Kind { kText, kEmbedding, kRerank, kImage, kDataset };
  Kind kind = Kind::kDataset;
  LengthLaw input;   // text and embedding; rerank: the document
  LengthLaw output;  // text; rerank: the query
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::int32_t images = 1;
  std::string text;  // as written, blanks removed: in file names
};

// kInvalid says what the language is. U(high)/(high) is from 1.
Result<Scenario> parse_scenario(std::string_view text);

// At least 1.
std::int32_t draw_length(const LengthLaw& law, Rng& rng);

}  // namespace saccade::bench

// How alike are two answers? Lexical measures, and the angle between their embeddings where
// somebody makes those.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/metrics/text_embedder.h"

namespace saccade::bench {

struct Overlap {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

// ROUGE-L: longest common subsequence of lower-case alphanumeric words. Two empty texts are 0, as
// in the usual package.
Overlap rouge_l(std::string_view prediction, std::string_view reference);

// F1 over the words that both have, after SQuAD's normalisation (lower case, no punctuation, no
// articles). 1 when both are empty then, 0 when one is.
Overlap token_f1(std::string_view prediction, std::string_view reference);

// The letter (or digit) of the last "Answer: X" (or "Answer: (X)") in a text; none without one.
std::optional<char> answer_letter(std::string_view text);

// Means over the pairs of a result file: genai-bench's JSON (generated_text, answer_text) or a run
// log with texts kept. What to print. With an embedder also the mean cosine of each answer's
// embedding and its reference's.
Result<std::string> similarity_report(const std::string& path, const Embedder& embedder = {});

}  // namespace saccade::bench

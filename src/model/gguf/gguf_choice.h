// Which of many GGUF files are one model: a repository of the hub holds a model in several types,
// each in one file or in several, and its tower in some more.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace saccade {

// A pattern is, without regard to case, the name of a file, a part of it between its dashes, dots
// or underscores ("Q4_K_M"), or, with * and ?, a form that all of it has.
struct GgufWanted {
  std::string model = {};      // pattern; empty: the only one, else Q4_K_M
  std::string projector = {};  // pattern; empty: the one that has lost least
  bool text_alone = false;     // no projector
};

struct GgufChoice {
  std::vector<std::string> model;                  // its files in their order
  std::string projector = {};                      // empty: there is none, or none is wanted
  std::vector<std::string> other_projectors = {};  // that it went before
};

// `files` may have folders in front and be of any kind. Of several projectors one in the model's
// folder goes before others, and then BF16 before F16, F32, and what is quantised. kNotFound where
// nothing fits or a part is missing, kInvalid where several do: both name what there is.
Result<GgufChoice> choose_gguf(const std::vector<std::string>& files, const GgufWanted& wanted);

// gguf_place() of the files below `folder`.
std::string gguf_place(const std::string& folder, const GgufChoice& choice);

// For the log: what is taken, and why this projector.
std::string line_of(const GgufChoice& choice);

}  // namespace saccade

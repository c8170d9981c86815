// Sentence embeddings in this process, for `saccade bench similarity`.
#pragma once

#include <string>

#include "base/result.h"
#include "bench/metrics/text_embedder.h"

namespace saccade {

// Loads a sentence encoder: a folder, or ORG/NAME in HF_HOME. Texts beyond its length are cut.
Result<bench::Embedder> load_embedder(const std::string& model);

}  // namespace saccade

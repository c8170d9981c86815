// What checkpoints of random weights of Mistral's families have alike: Tekken's tokens and the
// chat format of Mistral Small 3.
#pragma once

#include <cstdint>
#include <string>

#include "model/dummies/dummy_sizes.h"

namespace saccade {

// Special tokens have the first ids of the vocabulary, where Tekken has them: <s> is 1, </s> 2,
// [IMG] 10, <pad> 11, [IMG_BREAK] 12, [IMG_END] 13.
void describe_tekken(std::int64_t vocab, DummyCheckpoint& checkpoint);

// generation_config.json.
std::string tekken_generation_config();

}  // namespace saccade

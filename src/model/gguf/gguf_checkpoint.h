// A GGUF as a checkpoint: its metadata as the small files of one.
#pragma once

#include "base/result.h"
#include "model/checkpoint/checkpoint.h"
#include "model/gguf/gguf_paths.h"

namespace saccade {

// Checkpoint::directory becomes gguf_place(paths). Errors name the file.
Result<Checkpoint> open_gguf_checkpoint(const GgufPaths& paths);

}  // namespace saccade

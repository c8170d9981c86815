// A golden file (tools/goldens): what the reference computed for one prompt, and comparing a model
// with it tap by tap.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/adapters/lora_adapter.h"
#include "model/checkpoint/safetensors.h"
#include "model/model.h"
#include "ops/device.h"
#include "text/tokenizer.h"

namespace saccade {

// A file, or the frames of a video.
struct GoldenImage {
  std::vector<std::string> sources;  // paths of the originals: one, or as many as frames
  std::vector<std::string> pixels;   // of the resized ones; empty when the golden has none
  std::vector<std::int64_t> grid;    // [t, h, w] in patches
  double fps = 0;                    // of a video; 0: an image
};

// Some rows of a tap, in the order of the taps of a forward.
struct GoldenTap {
  std::string name;
  std::vector<std::int32_t> rows;  // which; of logits: the prompt's last ones
  std::int64_t cols = 0;
  std::vector<float> values;  // [rows, cols]
};

struct Golden {
  std::string path;
  std::string rendered;  // the prompt as text, one placeholder an image or video
  std::vector<GoldenImage> images;
  std::vector<TokenId> ids;
  std::vector<std::vector<std::int32_t>> positions;  // [axes][ids]
  std::vector<TokenId> greedy;
  std::vector<GoldenTap> taps;
  std::map<std::string, std::string> notes;  // versions of the reference
  json::array messages;
};

Result<Golden> read_golden(const std::string& path);

// What came out at one stage. `error` is the largest difference over the row's largest magnitude,
// worst row; exact stages (ids, pixels, greedy) count differing elements instead.
struct StageResult {
  std::string name;
  bool exact = false;
  double error = 0;
  std::int64_t worst_row = 0;
  std::string note;  // why it could not be compared, or the first difference
};

struct GoldenReport {
  std::vector<StageResult> stages;
  // The first stage that is over `tolerance`, differs, or could not be compared; null when all
  // agree.
  const StageResult* first_divergence(double tolerance) const;
};

// Pixels, prompt, positions, every tap of one prefill, and the greedy tokens. Reserves the model.
// `adapter`: of this model, or null.
Result<GoldenReport> compare_with_golden(const Model& model, Device& device,
                                         const Tokenizer& tokenizer, const Golden& golden,
                                         const LoraAdapter* adapter = nullptr);

// The images and videos of a golden, decoded and prepared.
struct GoldenMedia {
  std::vector<ImageLayout> layouts;     // one an image or video
  std::vector<PreparedImage> prepared;  // one an image, one a group of a video's frames
  std::vector<std::string> names;       // of `prepared`: what it was made from
};
Result<GoldenMedia> prepare_golden_media(const Processor& processor, const Golden& golden);

}  // namespace saccade

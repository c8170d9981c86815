// The requests of DashInfer-VLM's benchmark script, sample by sample.
#pragma once

#include <string>
#include <vector>

#include "bench/datasets/dataset.h"

namespace saccade::bench {

struct DashInferSettings {
  std::string prompt_file;  // JSON lines or an array: {"conversations": [{human}, {gpt}, ...]}
  std::string image_folder;
  std::int32_t req_nums = 100;
  std::int32_t image_nums_mean = 3;
  std::int32_t image_nums_range = 1;
  std::int32_t response_mean = 120;
  std::int32_t response_len_range = 64;
  std::int32_t multi_turn = 0;  // turns before the last
  bool wrap_images = false;     // begin again when the images run out, instead of failing
  bool file_urls = true;        // images as file:// URLs; otherwise their bytes
};

// Lengths and image counts as Python's random.seed(0xCADE) gives them: value by value uniform on
// [mean - range // 2, mean + range // 2], all response lengths first, then all image counts.
// Nothing is drawn for a range of 0. Thus 3 +- 1 images is always 3.
struct DashInferSamples {
  std::vector<std::int32_t> response_lens;
  std::vector<std::int32_t> image_nums;
};
Result<DashInferSamples> dashinfer_samples(const DashInferSettings& settings);

// req_nums conversations of multi_turn + 1 turns. Questions come from the end of the file; images
// of up to 28 * 28 * 1024 pixels in path order (the script takes the file system's order), one
// after the other over all turns. Every turn's images go with the conversation's first message: a
// prompt's `messages` hold its own question, its images the parts behind the text, last image
// first. max_tokens is the conversation's response length.
Result<Dataset> dashinfer_dataset(const DashInferSettings& settings, const DatasetContext& context);

}  // namespace saccade::bench

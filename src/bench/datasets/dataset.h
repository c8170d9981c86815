// Prompts for a run, made up or read. Every loader gives rows their names and keeps their order, so
// that a run can be repeated and its log says what was asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/datasets/image_source.h"
#include "bench/datasets/prompt.h"
#include "bench/datasets/text_source.h"
#include "bench/traces/trace.h"

namespace saccade::bench {

struct Dataset {
  std::string name;
  std::string path;
  std::vector<Prompt> prompts;
  std::vector<std::string> notes;  // what was resolved (intervals, rows dropped): shown to people
};

// What every dataset needs. `text` makes and counts text.
struct DatasetContext {
  TextSource* text = nullptr;
  std::size_t num_prompts = 1000;
  std::uint64_t seed = 0;
  ImageEncoding encoding;
  int threads = 1;  // of image encoding
};

struct RandomSettings {
  std::int32_t input_len = 1024;
  std::int32_t output_len = 128;
  std::int32_t prefix_len = 0;  // shared by all prompts
  double range_ratio = 0;       // see RangeMeaning
  RangeMeaning meaning = RangeMeaning::kAround;
  bool one_token_repeated = false;  // one random token, as often as it takes
  // With one_token_repeated: the special tokens that a completion begins with are part of
  // input_len.
  bool special_tokens_count = false;
};
Result<Dataset> random_dataset(const RandomSettings& settings, const DatasetContext& context);

// Images of random prompts.
struct ImageBucket {
  std::int32_t width = 0;
  std::int32_t height = 0;
  double probability = 0;
};
struct RandomImagesSettings {
  RandomSettings text;
  std::int32_t images = 1;        // a prompt
  double images_range_ratio = 0;  // around `images`, as vLLM means it
  std::int32_t max_images = 255;
  std::vector<ImageBucket> buckets = {{256, 256, 0.5}, {1280, 720, 0.5}};
  ImagePattern pattern = ImagePattern::kNoise;
  ImageReuse reuse;
};
Result<Dataset> random_images_dataset(const RandomImagesSettings& settings,
                                      const DatasetContext& context);
// vLLM's bucket table: "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5}", (height, width, frames).
// Probabilities are normalised; videos (frames above 1) are kUnsupported.
Result<std::vector<ImageBucket>> parse_image_buckets(std::string_view text);

struct PrefixSettings {
  std::int32_t prefix_len = 256;
  std::int32_t suffix_len = 256;
  std::int32_t output_len = 128;
  std::int32_t num_prefixes = 10;
  // Share of all prompt tokens that a cache of unlimited size would hit; replaces num_prefixes.
  double target_hit_rate = -1;  // below 0: not asked
};
Result<Dataset> prefix_dataset(const PrefixSettings& settings, const DatasetContext& context);

// "Pick lines from a poem" prompts: lines of `path`, or made-up ones.
struct SonnetSettings {
  std::string path;
  std::int32_t input_len = 550;
  std::int32_t output_len = 150;
  std::int32_t prefix_len = 200;
};
Result<Dataset> sonnet_dataset(const SonnetSettings& settings, const DatasetContext& context);

// Prompts with the lengths of a trace's rows. Rows with prefix blocks get the text of their blocks,
// the same for the same id in every run; rows with images get images of that size and little text,
// since their token count includes the images.
struct TraceTextSettings {
  std::int32_t block_tokens = 512;
  std::int32_t image_width = 512;
  std::int32_t image_height = 512;
  std::int32_t default_input_len = 256;  // for traces without lengths
  std::int32_t default_output_len = 128;
};
Result<Dataset> trace_dataset(const Trace& trace, const TraceTextSettings& settings,
                              const DatasetContext& context);

// A genai-bench scenario (scenario.h); kDataset is for the caller to load.
Result<Dataset> scenario_dataset(std::string_view scenario, const DatasetContext& context);

}  // namespace saccade::bench

// MMMU-Pro, subset "vision": the question is in the picture. As published (Parquet) or as a folder.
#pragma once

#include <string>

#include "bench/datasets/dataset.h"

namespace saccade::bench {

struct MmmuProSettings {
  // A Parquet file; a directory with SUBSET/SPLIT-*.parquet or SPLIT-*.parquet, or with SPLIT.jsonl
  // or metadata.jsonl and image files; or a hub id ("MMMU/MMMU_Pro"), looked up in the local cache
  // of the hub's client (HF_HUB_CACHE, HF_HOME, ~/.cache/huggingface). Nothing is downloaded.
  std::string path = "MMMU/MMMU_Pro";
  std::string subset = "vision";
  std::string split = "test";
  std::int32_t output_len = 200;
};

// The instruction that goes with each picture.
std::string_view mmmu_pro_instruction();

// `num_prompts` distinct rows, drawn by a seeded shuffle; text before image; every image decoded
// and encoded anew as JPEG, quality 75. Row ids are the dataset's own. The published client
// shuffles a second time without a seed, so that its rows cannot be had again.
Result<Dataset> mmmu_pro_dataset(const MmmuProSettings& settings, const DatasetContext& context);

// SPLIT.jsonl or metadata.jsonl in a folder of a dataset; empty: it has neither.
std::string find_row_list(const std::string& folder, const std::string& split);

// The Parquet files of a dataset in a directory or in the hub's cache, sorted by name.
Result<std::vector<std::string>> find_parquet(const std::string& path, const std::string& subset,
                                              const std::string& split);

}  // namespace saccade::bench

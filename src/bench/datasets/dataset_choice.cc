#include "bench/datasets/dataset_choice.h"

#include <algorithm>
#include <filesystem>

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

RowChoice rows_of(const DataChoice& choice) {
  return {.shuffle = !choice.disable_shuffle, .oversample = !choice.no_oversample};
}

Result<Dataset> needs_path(std::string_view name) {
  return fail(ErrorCode::kInvalid, "--dataset-name {} needs --dataset-path", name);
}

bool is_mmmu_pro(const std::string& path) {
  return path.find("MMMU_Pro") != std::string::npos || path.find("mmmu_pro") != std::string::npos ||
         path.find("MMMU-Pro") != std::string::npos;
}

Result<RandomImagesSettings> random_settings(const DataChoice& choice, std::string_view compat) {
  RandomImagesSettings settings = choice.random;
  const bool up_to = compat == "vllm-2024" || compat == "sglang";
  settings.text.meaning = up_to ? RangeMeaning::kUpTo : RangeMeaning::kAround;
  settings.text.range_ratio = choice.range_ratio.value_or(compat == "vllm-2024" ? 1.0 : 0.0);
  settings.text.input_len = choice.input_len.value_or(settings.text.input_len);
  settings.text.output_len = choice.output_len.value_or(settings.text.output_len);
  TRY(settings.pattern, parse_image_pattern(choice.image_pattern));
  if (!choice.image_buckets.empty()) {
    TRY(settings.buckets, parse_image_buckets(choice.image_buckets));
  }
  return settings;
}

// ShareGPT-4o's rows: SPLIT.jsonl or metadata.jsonl beside its images in a folder copy, else
// Parquet.
Result<std::string> captions_of(const DataChoice& choice) {
  const std::string split = choice.hf_split.empty() ? "train" : choice.hf_split;
  if (std::string list = find_row_list(choice.path, split); !list.empty()) return list;
  TRY(const auto files, find_parquet(choice.path, choice.hf_subset, split));
  return files.front();
}

Result<Dataset> hub_dataset(const DataChoice& choice, const DatasetContext& context) {
  if (choice.path.empty()) return needs_path("hf");
  if (choice.path.find("ShareGPT-4o") != std::string::npos) {
    TRY(const std::string path, captions_of(choice));
    return caption_dataset({.path = path,
                            .image_folder = choice.image_folder,
                            .row_by_request_number = choice.row_by_request_number},
                           context);
  }
  if (is_mmmu_pro(choice.path) || fs::is_directory(choice.path)) {
    MmmuProSettings settings;
    settings.path = choice.path;
    if (!choice.hf_subset.empty()) settings.subset = choice.hf_subset;
    if (!choice.hf_split.empty()) settings.split = choice.hf_split;
    if (choice.hf_output_len >= 0) settings.output_len = choice.hf_output_len;
    settings.output_len = choice.output_len.value_or(settings.output_len);
    return mmmu_pro_dataset(settings, context);
  }
  return fail(ErrorCode::kUnsupported,
              "--dataset-path {}: of the hub's datasets MMMU_Pro and ShareGPT-4o are read; give "
              "others as --dataset-name custom with JSON lines",
              choice.path);
}

Result<Dataset> file_dataset(const DataChoice& choice, const DatasetContext& context) {
  const std::string& name = choice.name;
  if (choice.path.empty() && name != "sonnet" && name != "tokens") return needs_path(name);
  if (name == "sharegpt")
    return sharegpt_dataset({.path = choice.path,
                             .output_len = choice.output_len.value_or(choice.sharegpt_output_len),
                             .rows = rows_of(choice)},
                            context);
  if (name == "sonnet") {
    SonnetSettings settings = choice.sonnet;
    settings.path = choice.path;
    settings.input_len = choice.input_len.value_or(settings.input_len);
    settings.output_len = choice.output_len.value_or(settings.output_len);
    return sonnet_dataset(settings, context);
  }
  if (name == "custom" || name == "custom_mm" || name == "custom_image")
    return custom_dataset({.path = choice.path,
                           .image_folder = choice.image_folder,
                           .output_len = choice.output_len.value_or(choice.custom_output_len),
                           .rows = rows_of(choice)},
                          context);
  if (name == "multi-turn")
    return multi_turn_dataset({.path = choice.path,
                               .output_len = choice.output_len.value_or(choice.custom_output_len),
                               .max_turns = choice.max_turns},
                              context);
  if (name == "sharegpt4o")
    return caption_dataset({.path = choice.path,
                            .image_folder = choice.image_folder,
                            .row_by_request_number = choice.row_by_request_number},
                           context);
  TokensSettings settings = choice.tokens;
  settings.path = choice.path;
  settings.max_input_len = choice.input_len.value_or(settings.max_input_len);
  settings.output_len = choice.output_len.value_or(settings.output_len);
  return tokens_dataset(settings, context);
}

// Lengths of a trace whose arrivals are not replayed.
Result<Dataset> lengths_dataset(const DataChoice& choice, const LoadChoice& load,
                                const DatasetContext& context) {
  if (choice.path.empty()) return needs_path(choice.name);
  TRY(const Trace trace, read_trace(choice.path, load.labels));
  return trace_dataset(trace, choice.trace_text, context);
}

Result<Dataset> chosen_dataset(const DataChoice& choice, const LoadChoice& load, const Trace* trace,
                               const DatasetContext& context, std::string_view compat) {
  const std::string& name = choice.name;
  if (!choice.scenario.empty() && choice.scenario != "dataset")
    return scenario_dataset(choice.scenario, context);
  if (name == "trace" || name == "timed_trace" ||
      (trace != nullptr && name == "random" && trace->rows.front().input_tokens >= 0)) {
    if (trace != nullptr) return trace_dataset(*trace, choice.trace_text, context);
    return lengths_dataset(choice, load, context);
  }
  if (name == "burstgpt") return lengths_dataset(choice, load, context);
  if (name == "random") {
    TRY(const RandomImagesSettings settings, random_settings(choice, compat));
    return random_dataset(settings.text, context);
  }
  if (name == "random-mm") {
    TRY(const RandomImagesSettings settings, random_settings(choice, compat));
    return random_images_dataset(settings, context);
  }
  if (name == "prefix_repetition" || name == "prefix-repetition") {
    PrefixSettings settings = choice.prefix;
    settings.output_len = choice.output_len.value_or(settings.output_len);
    return prefix_dataset(settings, context);
  }
  if (name == "hf") return hub_dataset(choice, context);
  TRY_DO(check_dataset_name(choice));
  return file_dataset(choice, context);
}

}  // namespace

Result<void> check_dataset_name(const DataChoice& choice) {
  for (const char* const known :
       {"random", "random-mm", "prefix_repetition", "prefix-repetition", "sharegpt", "sharegpt4o",
        "sonnet", "custom", "custom_mm", "custom_image", "hf", "multi-turn", "tokens", "trace",
        "timed_trace", "burstgpt"})
    if (choice.name == known) return {};
  return fail(ErrorCode::kInvalid,
              "--dataset-name '{}' is not known; known are random, random-mm, prefix_repetition, "
              "sharegpt, sharegpt4o, sonnet, custom, custom_image, hf, multi-turn, tokens, trace, "
              "timed_trace, burstgpt",
              choice.name);
}

Result<Dataset> load_dataset(const DataChoice& choice, const LoadChoice& load, const Trace* trace,
                             const DatasetContext& context, std::string_view compat) {
  TRY(Dataset dataset, chosen_dataset(choice, load, trace, context, compat));
  if (!choice.images_first) return dataset;
  for (Prompt& prompt : dataset.prompts)
    for (ChatMessage& message : prompt.messages)
      std::ranges::stable_partition(message.parts,
                                    [](const ContentPart& part) { return part.image != nullptr; });
  return dataset;
}

Result<Trace> load_trace(const LoadChoice& load) {
  std::string path = load.trace;
  const bool is_peak =
      !path.empty() && path.size() <= 3 &&
      std::all_of(path.begin(), path.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_peak && !fs::exists(path)) {
    std::error_code code;
    const fs::path program = fs::read_symlink("/proc/self/exe", code).parent_path();
    const std::string file = fmt::format("peak{}.txt", path);
    for (const fs::path& place :
         {program / "../share/saccade/traces", program / "../../data/traces",
          fs::path("data/traces"), fs::path("datasets")}) {
      if (!fs::exists(place / file)) continue;
      path = (place / file).string();
      break;
    }
  }
  TRY(const Trace whole, read_trace(path, load.labels));
  TRY(TraceCut part, cut(whole, load.window));
  if (load.gap_after_last && part.trace.format == TraceFormat::kGaps)
    part.trace.rows.push_back(part.trace.rows.back());
  return std::move(part.trace);
}

std::string resolved_compat(const ServeSettings& settings) {
  if (settings.output.compat != "auto") return settings.output.compat;
  return settings.data.name == "hf" && is_mmmu_pro(settings.data.path) ? "vllm-2024" : "saccade";
}

}  // namespace saccade::bench

// Datasets read from files. Malformed rows are kInvalid with file and line (or row) named.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/datasets/dataset.h"

namespace saccade::bench {

// Rows of a file that has more or fewer than were asked for, drawn as vLLM's client does.
struct RowChoice {
  bool shuffle = true;  // as Python's random.seed(seed); random.shuffle(rows)
  // Fewer rows than prompts: random.seed(seed), then random.choice(rows) for each that is missing.
  bool oversample = true;
};

// ShareGPT: [{"conversations": [{"from", "value"}, ...]}, ...]. First two turns; dropped when
// either has fewer than 4 tokens, the prompt over 1024, or both over 2048. As in vLLM's client the
// tokenizer's special tokens (BOS) count, also in the answer's length that is asked for.
struct ShareGptSettings {
  std::string path;
  std::int32_t output_len = -1;  // -1: as long as the row's answer
  RowChoice rows;
};
Result<Dataset> sharegpt_dataset(const ShareGptSettings& settings, const DatasetContext& context);

// JSON lines: "prompt" (text) or "messages" (OpenAI), with optional "output_tokens", "image_files"
// (paths below image_folder, or URLs), "reference", "id", "label".
struct CustomSettings {
  std::string path;
  std::string image_folder;       // empty: the file's own directory
  std::int32_t output_len = 256;  // -1: the row's output_tokens
  RowChoice rows;
};
Result<Dataset> custom_dataset(const CustomSettings& settings, const DatasetContext& context);

// Every user turn of a conversation, asked one after the other: rows {"id", "messages": [...]} or
// {"conversations": [...]}, JSON lines or an array. Assistant turns are references.
struct MultiTurnSettings {
  std::string path;
  std::int32_t output_len = 256;
  std::int32_t max_turns = 0;  // 0: all
};
Result<Dataset> multi_turn_dataset(const MultiTurnSettings& settings,
                                   const DatasetContext& context);

// Pre-tokenised prompts: .jsonl (rows [ids] or {"tok_inputs": [ids]}), .pkl, .parquet
// (column tok_inputs); without a path, random ids of length max_input_len.
struct TokensSettings {
  std::string path;
  std::string column = "tok_inputs";
  std::int32_t max_input_len = 1024;  // longer prompts are cut
  std::int32_t output_len = 1024;
  std::int32_t vocab_size = 32'000;  // of random ids
};
Result<Dataset> tokens_dataset(const TokensSettings& settings, const DatasetContext& context);

// ShareGPT-4o and its like: an image and a conversation a row; the first human turn is asked, the
// answer is the reference. JSON lines or an array with "image" (a path below image_folder) and
// "conversations", or Parquet with image.bytes.
struct CaptionSettings {
  std::string path;
  std::string image_folder;
  // Row of request i: floor(Random(i).random() * rows), as the published fork draws it; rows may
  // repeat, and `seed` has no effect. Otherwise a permutation by seed.
  bool row_by_request_number = false;
  bool reencode = true;  // as JPEG; otherwise the file's own bytes
};
Result<Dataset> caption_dataset(const CaptionSettings& settings, const DatasetContext& context);

// A conversation row in ShareGPT's form.
struct SharedTurn {
  bool human = false;
  std::string text;
};

// The rows that `choice` picks of `available`, `wanted` of them (fewer without oversampling).
std::vector<std::size_t> choose_rows(std::size_t available, std::size_t wanted,
                                     const RowChoice& choice, std::uint64_t seed);

// A file with one JSON array, or JSON lines: calls visit(row, line) per row until it fails; line is
// 0 for arrays. Errors name the file.
Result<void> for_each_json_row(
    const std::string& path,
    const std::function<Result<void>(const json::value&, std::size_t)>& visit);

}  // namespace saccade::bench

#include "bench/datasets/mmmu_pro.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "bench/datasets/dataset_files.h"
#include "bench/datasets/parquet_file.h"
#include "bench/datasets/text_file.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

// A question, its picture still as it lies in the file.
struct Question {
  std::string id;
  std::string answer;
  std::string image;
};

std::vector<std::string> matching(const fs::path& directory, const std::string& prefix,
                                  const std::string& extension) {
  std::vector<std::string> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && entry.path().extension() == extension)
      found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path hub_cache() {
  if (const char* cache = std::getenv("HF_HUB_CACHE")) return cache;
  if (const char* home = std::getenv("HF_HOME")) return fs::path(home) / "hub";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : ".") / ".cache/huggingface/hub";
}

// The newest snapshot of a hub dataset; empty when there is none.
fs::path snapshot_of(const std::string& id) {
  std::string folder = "datasets--" + id;
  for (std::size_t slash = folder.find('/'); slash != std::string::npos; slash = folder.find('/'))
    folder.replace(slash, 1, "--");
  fs::path newest;
  fs::file_time_type when = fs::file_time_type::min();
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(hub_cache() / folder / "snapshots", code)) {
    const auto written = fs::last_write_time(entry.path(), code);
    if (newest.empty() || written > when) {
      newest = entry.path();
      when = written;
    }
  }
  return newest;
}

Result<std::vector<Question>> questions_of_parquet(const std::vector<std::string>& paths,
                                                   const DatasetContext& context) {
  std::vector<std::unique_ptr<ParquetFile>> files;
  std::vector<std::pair<std::size_t, std::size_t>> all;  // file, row
  for (const std::string& path : paths) {
    TRY(auto file, ParquetFile::open(path));
    for (std::size_t row = 0; row < static_cast<std::size_t>(file->rows()); ++row)
      all.emplace_back(files.size(), row);
    files.push_back(std::move(file));
  }
  const auto chosen =
      choose_rows(all.size(), context.num_prompts, {.oversample = false}, context.seed);
  // Read in file order, one row group after the other; keep the drawn order.
  std::vector<std::size_t> order(chosen.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return all[chosen[a]] < all[chosen[b]]; });
  std::vector<Question> questions(chosen.size());
  for (const std::size_t i : order) {
    const auto& [file, row] = all[chosen[i]];
    Question& question = questions[i];
    if (files[file]->has("id")) {
      TRY(question.id, files[file]->bytes("id", row));
    } else {
      question.id = fmt::format("row {}", row);
    }
    if (files[file]->has("answer")) {
      TRY(question.answer, files[file]->bytes("answer", row));
    }
    TRY(question.image, files[file]->bytes("image.bytes", row));
  }
  return questions;
}

// Rows {"id", "image": path, "answer"} beside their images.
Result<std::vector<Question>> questions_of_folder(const fs::path& list,
                                                  const DatasetContext& context) {
  std::vector<Question> all;
  TRY_DO(for_each_json_row(list.string(), [&](const json::value& v, std::size_t) -> Result<void> {
    if (!v.is_object()) return fail(ErrorCode::kInvalid, "the row is {}", json::kind_name(v));
    const json::object& row = v.get_object();
    Question question;
    TRY(question.id, json::get_string_or(row, "id", fmt::format("row {}", all.size())));
    TRY(question.answer, json::get_string_or(row, "answer", ""));
    // The hub's image folders say "file_name".
    TRY(question.image,
        json::get_string(row, json::find(row, "image") != nullptr ? "image" : "file_name"));
    all.push_back(std::move(question));
    return {};
  }));
  const auto chosen =
      choose_rows(all.size(), context.num_prompts, {.oversample = false}, context.seed);
  std::vector<Question> questions;
  for (const std::size_t row : chosen) {
    Question question = all[row];
    TRY(question.image, read_image_file((list.parent_path() / question.image).string()));
    questions.push_back(std::move(question));
  }
  return questions;
}

}  // namespace

std::string_view mmmu_pro_instruction() {
  return "Answer with the option letter from the given choices directly. The last line of your "
         "response should be of the following format: 'Answer: $LETTER' (without quotes) where "
         "LETTER is one of options.";
}

std::string find_row_list(const std::string& folder, const std::string& split) {
  for (const std::string& name : {split + ".jsonl", std::string("metadata.jsonl")})
    if (const fs::path list = fs::path(folder) / name; fs::is_regular_file(list))
      return list.string();
  return {};
}

Result<std::vector<std::string>> find_parquet(const std::string& path, const std::string& subset,
                                              const std::string& split) {
  if (fs::is_regular_file(path)) return std::vector<std::string>{path};
  fs::path root = path;
  if (!fs::is_directory(root)) root = snapshot_of(path);
  if (!root.empty()) {
    for (const fs::path& directory : {root / subset, root, root / "data"}) {
      auto found = matching(directory, split + "-", ".parquet");
      if (!found.empty()) return found;
    }
  }
  return fail(ErrorCode::kNotFound,
              "dataset {} (subset {}, split {}) is not here: looked for {}-*.parquet in {} and in "
              "the hub's cache {}. Download it once (huggingface-cli download {} --repo-type "
              "dataset), or give a directory with --dataset-path",
              path, subset, split, split, path, hub_cache().string(), path);
}

Result<Dataset> mmmu_pro_dataset(const MmmuProSettings& settings, const DatasetContext& context) {
  Dataset dataset{.name = "mmmu_pro", .path = settings.path, .prompts = {}, .notes = {}};
  std::vector<Question> questions;
  if (const std::string list = find_row_list(settings.path, settings.split); !list.empty()) {
    TRY(questions, questions_of_folder(list, context));
  } else {
    TRY(const auto paths, find_parquet(settings.path, settings.subset, settings.split));
    TRY(questions, questions_of_parquet(paths, context));
  }
  if (questions.empty()) return fail(ErrorCode::kInvalid, "{}: no rows", settings.path);
  TRY(const auto images, make_images(questions.size(), context.threads, [&](std::size_t i) {
        return wrap_image(questions[i].image, questions[i].id, context.encoding);
      }));
  for (std::size_t i = 0; i < questions.size(); ++i) {
    Prompt prompt;
    prompt.row_id = questions[i].id;
    prompt.reference = questions[i].answer;
    prompt.max_tokens = settings.output_len;
    prompt.messages = {
        {.parts = {{.text = std::string(mmmu_pro_instruction())}, {.image = images[i]}}}};
    if (context.text->exact()) prompt.text_tokens = context.text->count(mmmu_pro_instruction());
    dataset.prompts.push_back(std::move(prompt));
  }
  dataset.notes.push_back(fmt::format(
      "{} rows drawn by a shuffle with seed {}; the published client shuffles once more without a "
      "seed, so that no one can have its rows again",
      questions.size(), context.seed));
  if (questions.size() < context.num_prompts)
    dataset.notes.push_back(fmt::format("the split has only {} rows", questions.size()));
  return dataset;
}

}  // namespace saccade::bench

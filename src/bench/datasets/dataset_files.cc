#include "bench/datasets/dataset_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/hash.h"
#include "base/json.h"
#include "bench/datasets/parquet_file.h"
#include "bench/datasets/pickles/pickle.h"
#include "bench/datasets/python_random.h"
#include "bench/datasets/text_file.h"

namespace saccade::bench {
namespace {

std::string row_name(const std::string& path, std::size_t line, std::size_t row) {
  const std::string file = std::filesystem::path(path).filename().string();
  return line > 0 ? fmt::format("{}:{}", file, line) : fmt::format("{}[{}]", file, row);
}

Result<const json::object*> as_object(const json::value& row) {
  if (!row.is_object())
    return fail(ErrorCode::kInvalid, "the row is {}, an object is required", json::kind_name(row));
  return &row.get_object();
}

// "conversations": [{"from": "human", "value": "..."}, ...]
Result<std::vector<SharedTurn>> turns_of(const json::object& row, std::string_view name) {
  const json::value* list = json::find(row, name);
  if (list == nullptr || !list->is_array())
    return fail(ErrorCode::kInvalid, "'{}' must be an array of turns", name);
  std::vector<SharedTurn> turns;
  for (const json::value& item : list->get_array()) {
    TRY(const json::object* turn, as_object(item));
    const bool shared = turn->contains("from");
    TRY(const std::string from, json::get_string(*turn, shared ? "from" : "role"));
    TRY(std::string text, json::get_string(*turn, shared ? "value" : "content"));
    turns.push_back({from == "human" || from == "user", std::move(text)});
  }
  return turns;
}

ChatMessage user_says(std::string text) {
  return {.role = "user", .parts = {{.text = std::move(text)}}};
}

void count_text(Prompt& prompt, const TextSource& text) {
  if (!text.exact()) return;
  std::int32_t tokens = 0;
  for (const ChatMessage& message : prompt.messages)
    for (const ContentPart& part : message.parts)
      if (part.image == nullptr) tokens += text.count(part.text);
  prompt.text_tokens = tokens;
}

// Image files of a run, each read once.
class ImageFiles {
 public:
  explicit ImageFiles(std::string folder) : folder_(std::move(folder)) {}

  // A part to be filled by load(), or a URL that is passed on.
  Result<ContentPart> part(const std::string& name) {
    ContentPart part;
    if (name.starts_with("http://") || name.starts_with("https://") || name.starts_with("data:")) {
      EncodedImage image;
      image.url = name;
      image.sha256 = to_hex(sha256(name));
      part.image = std::make_shared<const EncodedImage>(std::move(image));
      return part;
    }
    const std::string path = (std::filesystem::path(folder_) / name).string();
    if (!std::filesystem::is_regular_file(path))
      return fail(ErrorCode::kNotFound, "image file {} is not there", path);
    part.text = path;  // until load()
    wanted_.try_emplace(path, wanted_.size());
    return part;
  }

  // Reads and encodes what the prompts ask for, and puts it into them.
  Result<void> load(std::vector<Prompt>& prompts, const std::optional<ImageEncoding>& encode_anew,
                    int threads) {
    std::vector<std::string> paths(wanted_.size());
    for (const auto& [path, index] : wanted_) paths[index] = path;
    TRY(const auto images, read_images(paths, encode_anew, threads));
    for (Prompt& prompt : prompts)
      for (ChatMessage& message : prompt.messages)
        for (ContentPart& part : message.parts)
          if (const auto it = wanted_.find(part.text); part.image == nullptr && it != wanted_.end())
            part = {.text = {}, .image = images[it->second]};
    return {};
  }

 private:
  std::string folder_;
  std::map<std::string, std::size_t> wanted_;
};

std::string folder_of(const std::string& image_folder, const std::string& path) {
  return image_folder.empty() ? std::filesystem::path(path).parent_path().string() : image_folder;
}

// OpenAI messages: content is a string or parts of text and image_url.
Result<std::vector<ChatMessage>> messages_of(const json::value& list, ImageFiles& files) {
  if (!list.is_array()) return fail(ErrorCode::kInvalid, "'messages' must be an array");
  std::vector<ChatMessage> messages;
  for (const json::value& item : list.get_array()) {
    TRY(const json::object* object, as_object(item));
    ChatMessage message;
    TRY(message.role, json::get_string(*object, "role"));
    const json::value* content = json::find(*object, "content");
    if (content != nullptr && content->is_string()) {
      message.parts.push_back({.text = std::string(content->get_string())});
    } else if (content != nullptr && content->is_array()) {
      for (const json::value& piece : content->get_array()) {
        TRY(const json::object* part, as_object(piece));
        TRY(const std::string type, json::get_string(*part, "type"));
        if (type == "text") {
          TRY(std::string text, json::get_string(*part, "text"));
          message.parts.push_back({.text = std::move(text)});
          continue;
        }
        const json::value* url = json::find(*part, "image_url");
        if (type != "image_url" || url == nullptr || !url->is_object())
          return fail(ErrorCode::kInvalid, "a part of type '{}' is not text or image_url", type);
        TRY(const std::string name, json::get_string(url->get_object(), "url"));
        TRY(ContentPart image, files.part(name));
        message.parts.push_back(std::move(image));
      }
    } else {
      return fail(ErrorCode::kInvalid, "'content' must be a string or an array of parts");
    }
    messages.push_back(std::move(message));
  }
  if (messages.empty()) return fail(ErrorCode::kInvalid, "'messages' is empty");
  return messages;
}

Result<Prompt> custom_row(const json::object& row, const CustomSettings& settings,
                          ImageFiles& files) {
  Prompt prompt;
  if (const json::value* messages = json::find(row, "messages")) {
    TRY(prompt.messages, messages_of(*messages, files));
  } else {
    TRY(std::string text, json::get_string(row, "prompt"));
    prompt.messages = {user_says(std::move(text))};
  }
  if (const json::value* images = json::find(row, "image_files")) {
    if (!images->is_array()) return fail(ErrorCode::kInvalid, "'image_files' must be an array");
    for (const json::value& name : images->get_array()) {
      if (!name.is_string())
        return fail(ErrorCode::kInvalid, "'image_files' holds {}", json::kind_name(name));
      TRY(ContentPart part, files.part(std::string(name.get_string())));
      prompt.messages.back().parts.push_back(std::move(part));
    }
  }
  TRY(const std::int64_t asked, json::get_int_or(row, "output_tokens", -1));
  if (settings.output_len < 0 && (asked < 1 || asked > 100'000'000))
    return fail(ErrorCode::kInvalid, "'output_tokens' is {}, and no output length is given", asked);
  prompt.max_tokens =
      settings.output_len < 0 ? static_cast<std::int32_t>(asked) : settings.output_len;
  TRY(prompt.reference, json::get_string_or(row, "reference", ""));
  TRY(prompt.label, json::get_string_or(row, "label", ""));
  TRY(prompt.row_id, json::get_string_or(row, "id", ""));
  return prompt;
}

std::vector<Prompt> picked(const std::vector<Prompt>& all, const std::vector<std::size_t>& rows) {
  std::vector<Prompt> prompts;
  prompts.reserve(rows.size());
  for (const std::size_t row : rows) prompts.push_back(all[row]);
  return prompts;
}

Result<std::vector<std::vector<std::int32_t>>> jsonl_token_rows(const std::string& path,
                                                                const std::string& column) {
  std::vector<std::vector<std::int32_t>> rows;
  TRY_DO(for_each_json_row(path, [&](const json::value& v, std::size_t) -> Result<void> {
    const json::value* ids = v.is_object() ? json::find(v.get_object(), column) : &v;
    if (ids == nullptr || !ids->is_array())
      return fail(ErrorCode::kInvalid, "'{}' must be an array of token ids", column);
    std::vector<std::int32_t> row;
    for (const json::value& id : ids->get_array()) {
      if (!id.is_int64() || id.get_int64() < 0 ||
          id.get_int64() > std::numeric_limits<std::int32_t>::max())
        return fail(ErrorCode::kInvalid, "a token id is {}", json::kind_name(id));
      row.push_back(static_cast<std::int32_t>(id.get_int64()));
    }
    if (row.empty()) return fail(ErrorCode::kInvalid, "the row has no token ids");
    rows.push_back(std::move(row));
    return {};
  }));
  return rows;
}

Result<std::vector<std::vector<std::int32_t>>> read_token_rows(const TokensSettings& settings) {
  const std::string extension = std::filesystem::path(settings.path).extension().string();
  if (extension == ".pkl" || extension == ".pickle") {
    TRY(const std::string bytes, read_text_file(settings.path));
    auto pickle = parse_prompts(bytes);
    if (!pickle) return fail_within(settings.path, std::move(pickle).error());
    auto rows = token_rows(*pickle, settings.column);
    if (!rows) return fail_within(settings.path, std::move(rows).error());
    return rows;
  }
  if (extension == ".parquet") {
    TRY(const auto file, ParquetFile::open(settings.path));
    return file->int_lists(settings.column);
  }
  return jsonl_token_rows(settings.path, settings.column);
}

// One caption row: where its image is, and its conversation.
struct CaptionRow {
  std::string name;
  std::string image;  // a path; with Parquet the encoded bytes
  std::vector<SharedTurn> turns;
};

Result<Prompt> caption_prompt(const CaptionRow& row) {
  if (row.turns.empty() || !row.turns[0].human)
    return fail(ErrorCode::kInvalid, "{}: the conversation does not begin with a human turn",
                row.name);
  Prompt prompt;
  prompt.row_id = row.name;
  prompt.messages = {user_says(row.turns[0].text)};
  if (row.turns.size() > 1) prompt.reference = row.turns[1].text;
  return prompt;
}

std::vector<std::size_t> caption_rows(const CaptionSettings& settings, std::size_t available,
                                      const DatasetContext& context) {
  if (!settings.row_by_request_number)
    return choose_rows(available, context.num_prompts, {}, context.seed);
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < context.num_prompts; ++i)
    rows.push_back(PythonRandom(i).choice_with_replacement(available));
  return rows;
}

Result<Dataset> captions_of_parquet(const CaptionSettings& settings,
                                    const DatasetContext& context) {
  TRY(const auto file, ParquetFile::open(settings.path));
  Dataset dataset{.name = "sharegpt4o", .path = settings.path, .prompts = {}, .notes = {}};
  const auto available = static_cast<std::size_t>(file->rows());
  if (available == 0) return fail(ErrorCode::kInvalid, "{}: no rows", settings.path);
  const auto rows = caption_rows(settings, available, context);
  std::map<std::size_t, Prompt> made;  // rows may repeat: each image is encoded once
  for (const std::size_t row : rows) {
    if (made.contains(row)) continue;
    CaptionRow caption{.name = row_name(settings.path, 0, row), .image = {}, .turns = {}};
    TRY(caption.turns, file->turns("conversations", row));
    TRY(caption.image, file->bytes("image.bytes", row));
    TRY(Prompt prompt, caption_prompt(caption));
    count_text(prompt, *context.text);
    const auto encoding =
        settings.reencode ? std::optional(context.encoding) : std::optional<ImageEncoding>();
    TRY(SharedImage image, wrap_image(caption.image, caption.name, encoding));
    prompt.messages[0].parts.push_back({.image = std::move(image)});
    made.emplace(row, std::move(prompt));
  }
  for (const std::size_t row : rows) dataset.prompts.push_back(made.at(row));
  return dataset;
}

}  // namespace

Result<Dataset> sharegpt_dataset(const ShareGptSettings& settings, const DatasetContext& context) {
  constexpr std::int32_t kLeast = 4;
  constexpr std::int32_t kMaxPrompt = 1024;
  constexpr std::int32_t kMaxBoth = 2048;
  struct Row {
    std::string id;
    SharedTurn question;
    SharedTurn answer;
  };
  std::vector<Row> all;
  std::size_t seen = 0;
  TRY_DO(
      for_each_json_row(settings.path, [&](const json::value& v, std::size_t line) -> Result<void> {
        const std::size_t row = seen++;
        TRY(const json::object* object, as_object(v));
        TRY(const auto turns, turns_of(*object, "conversations"));
        if (turns.size() >= 2)
          all.push_back({row_name(settings.path, line, row), turns[0], turns[1]});
        return {};
      }));
  Dataset dataset{.name = "sharegpt", .path = settings.path, .prompts = {}, .notes = {}};
  // Rows are shuffled first and filtered in that order, as vLLM's client does.
  const std::int32_t added = context.text->added();
  const auto order = choose_rows(all.size(), all.size(), settings.rows, context.seed);
  for (const std::size_t i : order) {
    if (dataset.prompts.size() == context.num_prompts) break;
    const Row& row = all[i];
    const std::int32_t in = context.text->count(row.question.text) + added;
    const std::int32_t answer = context.text->count(row.answer.text) + added;
    const std::int32_t out = settings.output_len >= 0 ? settings.output_len : answer;
    if (in < kLeast || (settings.output_len < 0 && answer < kLeast) || in > kMaxPrompt ||
        in + out > kMaxBoth)
      continue;
    Prompt prompt;
    prompt.row_id = row.id;
    prompt.max_tokens = out;
    prompt.reference = row.answer.text;
    prompt.messages = {user_says(row.question.text)};
    if (context.text->exact()) prompt.text_tokens = in;
    dataset.prompts.push_back(std::move(prompt));
  }
  if (dataset.prompts.empty())
    return fail(ErrorCode::kInvalid, "{}: none of {} conversations is within the length limits",
                settings.path, seen);
  const auto rows =
      choose_rows(dataset.prompts.size(), context.num_prompts,
                  {.shuffle = false, .oversample = settings.rows.oversample}, context.seed);
  dataset.notes.push_back(fmt::format("{} of {} conversations", dataset.prompts.size(), seen));
  dataset.prompts = picked(dataset.prompts, rows);
  return dataset;
}

Result<Dataset> custom_dataset(const CustomSettings& settings, const DatasetContext& context) {
  ImageFiles files(folder_of(settings.image_folder, settings.path));
  std::vector<Prompt> all;
  TRY_DO(
      for_each_json_row(settings.path, [&](const json::value& v, std::size_t line) -> Result<void> {
        TRY(const json::object* row, as_object(v));
        TRY(Prompt prompt, custom_row(*row, settings, files));
        if (prompt.row_id.empty()) prompt.row_id = row_name(settings.path, line, all.size());
        count_text(prompt, *context.text);
        all.push_back(std::move(prompt));
        return {};
      }));
  if (all.empty()) return fail(ErrorCode::kInvalid, "{}: no rows", settings.path);
  TRY_DO(files.load(all, std::nullopt, context.threads));
  Dataset dataset{.name = "custom", .path = settings.path, .prompts = {}, .notes = {}};
  dataset.prompts =
      picked(all, choose_rows(all.size(), context.num_prompts, settings.rows, context.seed));
  return dataset;
}

Result<Dataset> multi_turn_dataset(const MultiTurnSettings& settings,
                                   const DatasetContext& context) {
  Dataset dataset{.name = "multi-turn", .path = settings.path, .prompts = {}, .notes = {}};
  std::int32_t conversation = 0;
  TRY_DO(
      for_each_json_row(settings.path, [&](const json::value& v, std::size_t line) -> Result<void> {
        TRY(const json::object* row, as_object(v));
        TRY(const auto turns,
            turns_of(*row, row->contains("messages") ? "messages" : "conversations"));
        std::int32_t asked = 0;
        for (std::size_t i = 0; i < turns.size(); ++i) {
          if (!turns[i].human) continue;
          if (settings.max_turns > 0 && asked == settings.max_turns) break;
          Prompt prompt;
          prompt.conversation = conversation;
          prompt.row_id = fmt::format(
              "{} turn {}", row_name(settings.path, line, static_cast<std::size_t>(conversation)),
              asked++);
          prompt.max_tokens = settings.output_len;
          prompt.messages = {user_says(turns[i].text)};
          if (i + 1 < turns.size() && !turns[i + 1].human) prompt.reference = turns[i + 1].text;
          count_text(prompt, *context.text);
          dataset.prompts.push_back(std::move(prompt));
        }
        if (asked == 0) return fail(ErrorCode::kInvalid, "the conversation has no user turn");
        ++conversation;
        return {};
      }));
  // num_prompts counts conversations.
  std::erase_if(dataset.prompts, [&](const Prompt& prompt) {
    return static_cast<std::size_t>(prompt.conversation) >= context.num_prompts;
  });
  if (dataset.prompts.empty()) return fail(ErrorCode::kInvalid, "{}: no rows", settings.path);
  return dataset;
}

Result<Dataset> tokens_dataset(const TokensSettings& settings, const DatasetContext& context) {
  if (settings.max_input_len < 1 || settings.vocab_size < 1)
    return fail(ErrorCode::kInvalid, "prompts of {} ids from a vocabulary of {}",
                settings.max_input_len, settings.vocab_size);
  Dataset dataset{.name = "tokens", .path = settings.path, .prompts = {}, .notes = {}};
  std::vector<std::vector<std::int32_t>> rows;
  const auto longest = static_cast<std::size_t>(settings.max_input_len);
  if (settings.path.empty()) {
    Rng rng(context.seed);
    rows.assign(context.num_prompts, std::vector<std::int32_t>(longest));
    for (auto& row : rows)
      for (auto& id : row)
        id = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(settings.vocab_size)));
  } else {
    TRY(rows, read_token_rows(settings));
  }
  if (rows.empty()) return fail(ErrorCode::kInvalid, "{}: no rows", settings.path);
  std::size_t cut = 0;
  const std::size_t used = std::min(rows.size(), context.num_prompts);
  for (std::size_t i = 0; i < used; ++i) {
    cut += rows[i].size() > longest;
    if (rows[i].size() > longest) rows[i].resize(longest);
    Prompt prompt;
    prompt.row_id =
        settings.path.empty() ? fmt::format("ids {}", i) : row_name(settings.path, 0, i);
    prompt.text_tokens = static_cast<std::int32_t>(rows[i].size());
    prompt.max_tokens = settings.output_len;
    prompt.token_ids = std::move(rows[i]);
    dataset.prompts.push_back(std::move(prompt));
  }
  if (cut > 0)
    dataset.notes.push_back(fmt::format("{} prompts were cut to {} tokens", cut, longest));
  return dataset;
}

Result<Dataset> caption_dataset(const CaptionSettings& settings, const DatasetContext& context) {
  if (std::filesystem::path(settings.path).extension() == ".parquet")
    return captions_of_parquet(settings, context);
  std::vector<CaptionRow> all;
  TRY_DO(
      for_each_json_row(settings.path, [&](const json::value& v, std::size_t line) -> Result<void> {
        TRY(const json::object* row, as_object(v));
        CaptionRow caption{
            .name = row_name(settings.path, line, all.size()), .image = {}, .turns = {}};
        TRY(caption.image, json::get_string(*row, "image"));
        TRY(caption.turns, turns_of(*row, "conversations"));
        all.push_back(std::move(caption));
        return {};
      }));
  if (all.empty()) return fail(ErrorCode::kInvalid, "{}: no rows", settings.path);
  ImageFiles files(folder_of(settings.image_folder, settings.path));
  Dataset dataset{.name = "sharegpt4o", .path = settings.path, .prompts = {}, .notes = {}};
  for (const std::size_t row : caption_rows(settings, all.size(), context)) {
    TRY(Prompt prompt, caption_prompt(all[row]));
    TRY(ContentPart part, files.part(all[row].image));
    count_text(prompt, *context.text);
    prompt.messages[0].parts.push_back(std::move(part));
    dataset.prompts.push_back(std::move(prompt));
  }
  const auto encoding =
      settings.reencode ? std::optional(context.encoding) : std::optional<ImageEncoding>();
  TRY_DO(files.load(dataset.prompts, encoding, context.threads));
  return dataset;
}

}  // namespace saccade::bench

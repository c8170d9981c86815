#include "bench/datasets/dashinfer_dataset.h"

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "bench/datasets/dataset_files.h"
#include "bench/datasets/image_source.h"
#include "bench/datasets/python_random.h"
#include "bench/datasets/text_file.h"
#include "image/pixels.h"

namespace saccade::bench {
namespace {

constexpr std::int64_t kMaxPixels = 28 * 28 * 1024;
constexpr std::uint64_t kSeed = 0xCADE;

std::vector<std::int32_t> uniform_samples(std::int32_t count, std::int32_t mean, std::int32_t range,
                                          PythonRandom& random) {
  std::vector<std::int32_t> samples;
  for (std::int32_t i = 0; i < count; ++i)
    samples.push_back(
        range == 0 ? mean
                   : static_cast<std::int32_t>(random.randint(mean - range / 2, mean + range / 2)));
  return samples;
}

struct QuestionAnswer {
  std::string question;
  std::string answer;
};

std::string without_marker(std::string text) {
  constexpr std::string_view kMarker = "<image>\n";
  for (std::size_t at = text.find(kMarker); at != std::string::npos; at = text.find(kMarker, at))
    text.erase(at, kMarker.size());
  return text;
}

// Conversations flattened in pairs.
Result<std::vector<QuestionAnswer>> read_pairs(const std::string& path) {
  std::vector<QuestionAnswer> pairs;
  TRY_DO(for_each_json_row(path, [&](const json::value& v, std::size_t) -> Result<void> {
    const json::value* turns =
        v.is_object() ? json::find(v.get_object(), "conversations") : nullptr;
    if (turns == nullptr || !turns->is_array())
      return fail(ErrorCode::kInvalid, "'conversations' must be an array of turns");
    const json::array& list = turns->get_array();
    for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
      if (!list[i].is_object() || !list[i + 1].is_object())
        return fail(ErrorCode::kInvalid, "a turn is not an object");
      TRY(std::string question, json::get_string(list[i].get_object(), "value"));
      TRY(std::string answer, json::get_string(list[i + 1].get_object(), "value"));
      pairs.push_back({without_marker(std::move(question)), std::move(answer)});
    }
    return {};
  }));
  return pairs;
}

// Images small enough to be used, in path order. Only headers are read.
Result<std::vector<std::string>> usable_images(const std::string& folder) {
  TRY(const auto paths, list_images(folder));
  std::vector<std::string> usable;
  for (const std::string& path : paths) {
    const std::string extension = std::filesystem::path(path).extension().string();
    if (extension != ".jpg" && extension != ".jpeg" && extension != ".png") continue;
    TRY(const std::string bytes, read_text_file(path));
    const auto header = probe_image(std::as_bytes(std::span(bytes)));
    if (!header) continue;
    if (std::int64_t{header->width} * header->height <= kMaxPixels) usable.push_back(path);
  }
  if (usable.empty())
    return fail(ErrorCode::kNotFound, "{}: no JPEG or PNG image of up to {} pixels", folder,
                kMaxPixels);
  return usable;
}

Result<void> check(const DashInferSettings& s) {
  if (s.req_nums < 1 || s.image_nums_mean < 0 || s.image_nums_range < 0 || s.response_mean < 1 ||
      s.response_len_range < 0 || s.multi_turn < 0)
    return fail(
        ErrorCode::kInvalid,
        "requests and response length must be at least 1, image count, ranges and turns not "
        "negative");
  if (s.response_mean - s.response_len_range / 2 < 1 ||
      s.image_nums_mean - s.image_nums_range / 2 < 0)
    return fail(
        ErrorCode::kInvalid, "the range of {} is wider than its mean allows",
        s.response_mean - s.response_len_range / 2 < 1 ? "the response length" : "the image count");
  return {};
}

}  // namespace

Result<DashInferSamples> dashinfer_samples(const DashInferSettings& settings) {
  TRY_DO(check(settings));
  PythonRandom random(kSeed);
  DashInferSamples samples;
  samples.response_lens = uniform_samples(settings.req_nums, settings.response_mean,
                                          settings.response_len_range, random);
  samples.image_nums = uniform_samples(settings.req_nums, settings.image_nums_mean,
                                       settings.image_nums_range, random);
  return samples;
}

Result<Dataset> dashinfer_dataset(const DashInferSettings& settings,
                                  const DatasetContext& context) {
  TRY(const DashInferSamples samples, dashinfer_samples(settings));
  TRY(std::vector<QuestionAnswer> pairs, read_pairs(settings.prompt_file));
  TRY(const std::vector<std::string> images, usable_images(settings.image_folder));
  const auto turns = static_cast<std::size_t>(settings.multi_turn + 1);
  const auto conversations = static_cast<std::size_t>(settings.req_nums);
  if (pairs.size() < conversations * turns)
    return fail(ErrorCode::kInvalid, "{}: {} question and answer pairs, {} are needed",
                settings.prompt_file, pairs.size(), conversations * turns);

  Dataset dataset{.name = "dashinfer", .path = settings.prompt_file, .prompts = {}, .notes = {}};
  std::size_t next_image = 0;
  for (std::size_t c = 0; c < conversations; ++c) {
    std::vector<SharedImage> own;  // of all turns: the script copies them into each
    for (std::int32_t k = 0; k < samples.image_nums[c]; ++k) {
      if (next_image == images.size() && settings.wrap_images) next_image = 0;
      if (next_image == images.size())
        return fail(ErrorCode::kInvalid,
                    "{}: its {} usable images run out at conversation {}; use --wrap-images to "
                    "begin again",
                    settings.image_folder, images.size(), c);
      TRY(SharedImage image, file_image(images[next_image++], settings.file_urls));
      own.push_back(std::move(image));
    }
    for (std::size_t turn = 0; turn < turns; ++turn) {
      QuestionAnswer pair = std::move(pairs.back());
      pairs.pop_back();
      Prompt prompt;
      prompt.row_id = fmt::format("conversation {} turn {}", c, turn);
      prompt.conversation = static_cast<std::int32_t>(c);
      prompt.max_tokens = samples.response_lens[c];
      prompt.reference = std::move(pair.answer);
      prompt.messages = {{.parts = {{.text = std::move(pair.question)}}}};
      for (auto image = own.rbegin(); image != own.rend(); ++image)
        prompt.messages[0].parts.push_back({.image = *image});
      if (context.text != nullptr && context.text->exact())
        prompt.text_tokens = context.text->count(prompt.messages[0].parts[0].text);
      dataset.prompts.push_back(std::move(prompt));
    }
  }
  return dataset;
}

}  // namespace saccade::bench

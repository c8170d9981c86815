// Made-up datasets: random text, random images, shared prefixes, sonnets, scenarios.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "bench/datasets/dataset.h"
#include "bench/datasets/text_file.h"
#include "bench/load/scenario.h"

namespace saccade::bench {
namespace {

constexpr std::int64_t kMaxImagesOfRun = 1'000'000;

void ask(Prompt& prompt, MadeText text) {
  prompt.text_tokens = text.tokens;
  prompt.messages = {{.parts = {{.text = std::move(text.text)}}}};
}

std::string interval(const LengthRange& range) {
  return range.low == range.high ? fmt::format("{}", range.low)
                                 : fmt::format("{} to {}", range.low, range.high);
}

void note_lengths(Dataset& dataset, const LengthRange& input, const LengthRange& output,
                  const TextSource& text) {
  dataset.notes.push_back(fmt::format("{} tokens in, {} out", interval(input), interval(output)));
  if (!text.exact())
    dataset.notes.push_back(
        "no tokenizer: inputs are that many common words, the server's usage says how many tokens "
        "(--tokenizer DIR makes them exact)");
}

// A part of [0, 1) per bucket; drawn by place.
std::size_t draw_bucket(const std::vector<ImageBucket>& buckets, Rng& rng) {
  double place = rng.uniform();
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    place -= buckets[i].probability;
    if (place < 0) return i;
  }
  return buckets.size() - 1;
}

// Number of images of each prompt, and the size of each image.
struct ImagePlan {
  std::vector<std::int32_t> counts;
  std::vector<std::size_t> buckets;  // of each use, prompt by prompt
};

Result<ImagePlan> plan_sizes(const RandomImagesSettings& settings, std::size_t prompts, Rng& rng) {
  TRY(LengthRange counts,
      length_range(settings.images, settings.images_range_ratio, RangeMeaning::kAround, 0));
  counts.high = std::min(counts.high, settings.max_images);
  counts.low = std::min(counts.low, counts.high);
  if (static_cast<std::int64_t>(prompts) * counts.high > kMaxImagesOfRun)
    return fail(ErrorCode::kTooLarge, "{} prompts with up to {} images each, limit {} images",
                prompts, counts.high, kMaxImagesOfRun);
  ImagePlan plan;
  for (std::size_t i = 0; i < prompts; ++i) {
    plan.counts.push_back(draw_length(counts, rng));
    for (std::int32_t k = 0; k < plan.counts.back(); ++k)
      plan.buckets.push_back(draw_bucket(settings.buckets, rng));
  }
  return plan;
}

// Draws every image that the reuse plan asks for once, and hands them out by use.
Result<std::vector<SharedImage>> images_by_use(const RandomImagesSettings& settings,
                                               const ImagePlan& plan,
                                               const DatasetContext& context) {
  const std::vector<std::size_t> uses =
      plan_images(plan.buckets.size(), settings.reuse, context.seed);
  std::vector<SyntheticImage> drawings;
  for (std::size_t use = 0; use < uses.size(); ++use) {
    if (uses[use] < drawings.size()) continue;  // seen before
    const ImageBucket& bucket = settings.buckets[plan.buckets[use]];
    drawings.push_back({.pattern = settings.pattern,
                        .width = bucket.width,
                        .height = bucket.height,
                        .seed = hash_combine(context.seed, drawings.size())});
  }
  TRY(const auto drawn, draw_images(drawings, context.encoding, context.threads));
  std::vector<SharedImage> images;
  images.reserve(uses.size());
  for (const std::size_t use : uses) images.push_back(drawn[use]);
  return images;
}

Result<std::vector<std::string>> poem_lines(const SonnetSettings& settings,
                                            const DatasetContext& context, Rng& rng) {
  std::vector<std::string> lines;
  if (settings.path.empty()) {
    for (int i = 0; i < 500; ++i)
      lines.push_back(context.text->make(8 + static_cast<std::int32_t>(rng.below(5)), rng).text);
    return lines;
  }
  TRY(const std::string text, read_text_file(settings.path));
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (lines.empty()) return fail(ErrorCode::kInvalid, "{}: no lines are in it", settings.path);
  return lines;
}

}  // namespace

Result<Dataset> random_dataset(const RandomSettings& settings, const DatasetContext& context) {
  TRY(const LengthRange input,
      length_range(settings.input_len, settings.range_ratio, settings.meaning, 1));
  TRY(const LengthRange output,
      length_range(settings.output_len, settings.range_ratio, settings.meaning, 1));
  TRY(const LengthRange prefix_len, length_range(settings.prefix_len, 0, RangeMeaning::kAround, 0));
  Rng rng(context.seed);
  Dataset dataset{.name = "random", .path = {}, .prompts = {}, .notes = {}};
  note_lengths(dataset, input, output, *context.text);
  const MadeText prefix = context.text->make(prefix_len.low, rng);
  for (std::size_t i = 0; i < context.num_prompts; ++i) {
    Prompt prompt;
    prompt.row_id = fmt::format("random {}", i);
    const std::int32_t length = draw_length(input, rng);
    prompt.max_tokens = draw_length(output, rng);
    if (settings.one_token_repeated) {
      const std::int32_t added = settings.special_tokens_count ? context.text->added() : 0;
      MadeText text = context.text->repeat_one(std::max(length - added, 1), rng);
      if (text.tokens >= 0) text.tokens += added;
      ask(prompt, std::move(text));
    } else {
      ask(prompt, context.text->extend(prefix.text, prefix_len.low + length, rng));
    }
    dataset.prompts.push_back(std::move(prompt));
  }
  return dataset;
}

Result<Dataset> random_images_dataset(const RandomImagesSettings& settings,
                                      const DatasetContext& context) {
  if (settings.buckets.empty()) return fail(ErrorCode::kInvalid, "no image size is given");
  for (const ImageBucket& bucket : settings.buckets)
    if (bucket.width < 1 || bucket.height < 1 || bucket.width > 16'384 || bucket.height > 16'384)
      return fail(ErrorCode::kInvalid, "an image of {}x{}, allowed are 1 to 16384 a side",
                  bucket.width, bucket.height);
  TRY(Dataset dataset, random_dataset(settings.text, context));
  dataset.name = "random-mm";
  Rng rng(hash_combine(context.seed, 1));
  TRY(const ImagePlan plan, plan_sizes(settings, dataset.prompts.size(), rng));
  TRY(const auto images, images_by_use(settings, plan, context));
  std::size_t next = 0;
  for (std::size_t i = 0; i < dataset.prompts.size(); ++i)
    for (std::int32_t k = 0; k < plan.counts[i]; ++k)
      dataset.prompts[i].messages[0].parts.push_back({.image = images[next++]});
  dataset.notes.push_back(fmt::format("{} images of {}", images.size(), name_of(settings.pattern)));
  return dataset;
}

Result<std::vector<ImageBucket>> parse_image_buckets(std::string_view text) {
  std::vector<double> numbers;
  const auto in_number = [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-'; };
  for (std::size_t i = 0; i < text.size();) {
    if (!in_number(text[i])) {
      if (std::string_view(" {}():,").find(text[i]) == std::string_view::npos)
        return fail(ErrorCode::kInvalid, "bucket table '{}': '{}' is not understood", text,
                    text[i]);
      ++i;
      continue;
    }
    double value = 0;
    const auto [end, code] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (code != std::errc())
      return fail(ErrorCode::kInvalid, "bucket table '{}': a number is not understood", text);
    numbers.push_back(value);
    i = static_cast<std::size_t>(end - text.data());
  }
  if (numbers.empty() || numbers.size() % 4 != 0)
    return fail(ErrorCode::kInvalid,
                "bucket table '{}': expected {{(height, width, frames): probability, ...}}", text);
  std::vector<ImageBucket> buckets;
  double sum = 0;
  for (std::size_t i = 0; i < numbers.size(); i += 4) {
    const auto side = [](double v) { return v >= 1 && v <= 16'384 && v == std::floor(v); };
    if (!side(numbers[i]) || !side(numbers[i + 1]) || !(numbers[i + 3] >= 0))
      return fail(ErrorCode::kInvalid,
                  "bucket table '{}': sides are 1 to 16384 and probabilities not negative", text);
    if (numbers[i + 2] != 1)
      return fail(ErrorCode::kUnsupported, "bucket table '{}': videos are not supported", text);
    buckets.push_back({static_cast<std::int32_t>(numbers[i + 1]),
                       static_cast<std::int32_t>(numbers[i]), numbers[i + 3]});
    sum += numbers[i + 3];
  }
  if (!(sum > 0) || !std::isfinite(sum))
    return fail(ErrorCode::kInvalid, "bucket table '{}': all probabilities are 0", text);
  for (ImageBucket& bucket : buckets) bucket.probability /= sum;
  return buckets;
}

Result<Dataset> prefix_dataset(const PrefixSettings& settings, const DatasetContext& context) {
  TRY(const LengthRange prefix_len, length_range(settings.prefix_len, 0, RangeMeaning::kAround, 1));
  TRY(const LengthRange suffix_len, length_range(settings.suffix_len, 0, RangeMeaning::kAround, 1));
  const double prompts = static_cast<double>(context.num_prompts);
  const double share =
      static_cast<double>(prefix_len.low) / static_cast<double>(prefix_len.low + suffix_len.low);
  std::int64_t prefixes = settings.num_prefixes;
  if (settings.target_hit_rate >= 0) {
    // Every prompt hits its prefix but the first of each prefix: share (N - P) / N.
    prefixes = std::llround(prompts * (1 - settings.target_hit_rate / share));
    if (prefixes < 1)
      return fail(ErrorCode::kInvalid,
                  "a hit rate of {:.3f} cannot be reached: {} prompts with {} of {} tokens shared "
                  "reach {:.3f}",
                  settings.target_hit_rate, context.num_prompts, prefix_len.low,
                  prefix_len.low + suffix_len.low, share * (prompts - 1) / prompts);
  }
  if (prefixes < 1) return fail(ErrorCode::kInvalid, "{} prefixes, at least 1 is needed", prefixes);
  prefixes = std::min<std::int64_t>(prefixes, static_cast<std::int64_t>(context.num_prompts));

  Rng rng(context.seed);
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < prefixes; ++i)
    texts.push_back(context.text->make(prefix_len.low, rng).text);
  std::vector<std::size_t> order(context.num_prompts);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i % texts.size();
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);

  Dataset dataset{.name = "prefix_repetition", .path = {}, .prompts = {}, .notes = {}};
  for (std::size_t i = 0; i < order.size(); ++i) {
    Prompt prompt;
    prompt.row_id = fmt::format("prefix {} suffix {}", order[i], i);
    prompt.max_tokens = settings.output_len;
    ask(prompt, context.text->extend(texts[order[i]], prefix_len.low + suffix_len.low, rng));
    dataset.prompts.push_back(std::move(prompt));
  }
  const double hit_rate =
      prompts > 0 ? share * (prompts - static_cast<double>(prefixes)) / prompts : 0;
  dataset.notes.push_back(
      fmt::format("{} prefixes: a prefix cache without limits hits {:.1f} % of the prompt tokens",
                  prefixes, hit_rate * 100));
  return dataset;
}

Result<Dataset> sonnet_dataset(const SonnetSettings& settings, const DatasetContext& context) {
  constexpr std::string_view kBeginning =
      "Choose as many of these lines as you like and make a poem of them:\n";
  Rng rng(context.seed);
  TRY(const std::vector<std::string> lines, poem_lines(settings, context, rng));
  double tokens = 0;
  for (const std::string& line : lines) tokens += context.text->count(line + "\n");
  const double per_line = std::max(1.0, tokens / static_cast<double>(lines.size()));
  const double beginning = context.text->count(kBeginning);
  const auto lines_for = [&](std::int32_t length) {
    return static_cast<std::size_t>(std::max(0.0, std::round((length - beginning) / per_line)));
  };
  const std::size_t all = std::max<std::size_t>(lines_for(settings.input_len), 1);
  const std::size_t shared = std::min(lines_for(settings.prefix_len), all);
  Dataset dataset{.name = "sonnet", .path = settings.path, .prompts = {}, .notes = {}};
  for (std::size_t i = 0; i < context.num_prompts; ++i) {
    std::string text(kBeginning);
    for (std::size_t k = 0; k < all; ++k)
      text += (k < shared ? lines[k % lines.size()] : lines[rng.below(lines.size())]) + "\n";
    Prompt prompt;
    prompt.row_id = fmt::format("sonnet {}", i);
    prompt.max_tokens = settings.output_len;
    const std::int32_t counted = context.text->exact() ? context.text->count(text) : -1;
    ask(prompt, {std::move(text), counted});
    dataset.prompts.push_back(std::move(prompt));
  }
  dataset.notes.push_back(
      fmt::format("{} lines a prompt, the first {} shared by all", all, shared));
  return dataset;
}

Result<Dataset> scenario_dataset(std::string_view text, const DatasetContext& context) {
  TRY(const Scenario scenario, parse_scenario(text));
  Rng rng(context.seed);
  Dataset dataset{.name = scenario.text, .path = {}, .prompts = {}, .notes = {}};
  if (scenario.kind == Scenario::Kind::kImage) {
    RandomImagesSettings settings;
    settings.text.input_len = 32;
    settings.images = scenario.images;
    settings.buckets = {{scenario.width, scenario.height, 1}};
    TRY(dataset, random_images_dataset(settings, context));
    dataset.name = scenario.text;
    return dataset;
  }
  if (scenario.kind != Scenario::Kind::kText)
    return fail(ErrorCode::kUnsupported,
                "traffic scenario '{}' is for embeddings, reranking or a dataset of its own",
                scenario.text);
  for (std::size_t i = 0; i < context.num_prompts; ++i) {
    Prompt prompt;
    prompt.row_id = fmt::format("{} {}", scenario.text, i);
    const std::int32_t length = draw_length(scenario.input, rng);
    prompt.max_tokens = draw_length(scenario.output, rng);
    ask(prompt, context.text->make(length, rng));
    dataset.prompts.push_back(std::move(prompt));
  }
  return dataset;
}

}  // namespace saccade::bench

// Prompts after the rows of a trace.
#include <algorithm>
#include <unordered_map>

#include "bench/datasets/dataset.h"

namespace saccade::bench {
namespace {

constexpr std::int32_t kTextBesideImages = 64;  // tokens
constexpr std::int64_t kMaxTokensOfRun = 2'000'000'000;

// The text of each prefix block, made from its id alone: equal ids are equal text in every run.
class BlockTexts {
 public:
  BlockTexts(TextSource& text, std::int32_t tokens) : text_(text), tokens_(tokens) {}

  const std::string& of(std::int64_t id) {
    const auto [it, is_new] = made_.try_emplace(id);
    if (is_new) {
      Rng rng(hash_combine(0x626c6f636bULL, static_cast<std::uint64_t>(id)));
      it->second = text_.make(tokens_, rng).text;
    }
    return it->second;
  }

 private:
  TextSource& text_;
  std::int32_t tokens_;
  std::unordered_map<std::int64_t, std::string> made_;
};

std::string joined_blocks(std::span<const std::int64_t> ids, std::int32_t length,
                          std::int32_t block_tokens, BlockTexts& blocks) {
  std::string text;
  // A block beyond the length would lengthen the prompt; the last one may be cut by extend().
  const auto whole = static_cast<std::size_t>(std::max(length / std::max(block_tokens, 1), 0));
  for (std::size_t i = 0; i < std::min(ids.size(), whole); ++i) {
    if (!text.empty()) text += ' ';
    text += blocks.of(ids[i]);
  }
  return text;
}

}  // namespace

Result<Dataset> trace_dataset(const Trace& trace, const TraceTextSettings& settings,
                              const DatasetContext& context) {
  Rng rng(context.seed);
  BlockTexts blocks(*context.text, settings.block_tokens);
  Dataset dataset{.name = "trace", .path = {}, .prompts = {}, .notes = {}};
  std::vector<SyntheticImage> drawings;
  std::int64_t tokens = 0;
  const std::size_t used = std::min(trace.rows.size(), context.num_prompts);
  for (std::size_t i = 0; i < used; ++i) {
    const TraceRow& row = trace.rows[i];
    Prompt prompt;
    prompt.row_id = fmt::format("trace {}", i);
    std::int32_t length = row.input_tokens >= 0 ? row.input_tokens : settings.default_input_len;
    if (row.num_images > 0) length = std::min(length, kTextBesideImages);
    length = std::max(length, 1);
    tokens += length;
    if (tokens > kMaxTokensOfRun)
      return fail(ErrorCode::kTooLarge, "the trace asks for over {} input tokens: use a part of it",
                  kMaxTokensOfRun);
    prompt.max_tokens =
        std::max(row.output_tokens >= 0 ? row.output_tokens : settings.default_output_len, 1);
    const auto ids = trace.hashes_of(row);
    const std::string prefix = joined_blocks(ids, length, settings.block_tokens, blocks);
    MadeText made = context.text->extend(prefix, length, rng);
    prompt.text_tokens = made.tokens;
    prompt.messages = {{.parts = {{.text = std::move(made.text)}}}};
    for (std::int32_t k = 0; k < row.num_images; ++k)
      drawings.push_back({.pattern = ImagePattern::kNoise,
                          .width = settings.image_width,
                          .height = settings.image_height,
                          .seed = hash_combine(context.seed, drawings.size())});
    dataset.prompts.push_back(std::move(prompt));
  }
  TRY(const auto images, draw_images(drawings, context.encoding, context.threads));
  std::size_t next = 0;
  for (std::size_t i = 0; i < used; ++i)
    for (std::int32_t k = 0; k < trace.rows[i].num_images; ++k)
      dataset.prompts[i].messages[0].parts.push_back({.image = images[next++]});
  if (!trace.hash_ids.empty())
    dataset.notes.push_back(fmt::format("prefix blocks of {} tokens", settings.block_tokens));
  return dataset;
}

}  // namespace saccade::bench

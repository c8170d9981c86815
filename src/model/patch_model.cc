#include "model/patch_model.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/images/image_processor.h"
#include "model/images/patch_images.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/videos/patch_videos.h"

namespace saccade {
namespace {

// What stands for an image and for a video, in a prompt's ids.
struct MediaTokens {
  TokenId image = 0;
  TokenId video = 0;
  TokenId of_group = 0;  // of a video, once it is expanded
};

// The images or the videos of a prompt, taken in order.
struct Media {
  struct Medium {
    const ImageLayout* layout;
    int first;   // of the encoder's inputs
    int groups;  // of frames that one placeholder stands for
  };
  TokenId placeholder = 0;
  std::string_view name;
  std::vector<Medium> media = {};
  std::size_t next = 0;
};

// A video's groups of frames, each with its time.
std::string timed_groups(const ImageLayout& video, const PatchMedia& rules, int frames_per_grid) {
  const auto at = [&video](std::int64_t frame) {
    return video.seconds.empty() ? static_cast<double>(frame) / video.fps
                                 : video.seconds[static_cast<std::size_t>(frame)];
  };
  std::string text(rules.words.video_start);
  for (std::int64_t group = 0; group < video.grid_t; ++group) {
    const std::int64_t first = group * frames_per_grid;
    if (rules.video_text == VideoText::kTimesBefore) {
      const std::int64_t last = std::min(first + frames_per_grid, video.frames) - 1;
      fmt::format_to(std::back_inserter(text), "<{:.1f} seconds>{}", (at(first) + at(last)) / 2,
                     rules.words.video);
    } else {
      fmt::format_to(std::back_inserter(text), "{}{}", rules.words.group,
                     static_cast<std::int64_t>(at(first)));
    }
  }
  return text.append(rules.words.video_end);
}

// `rendered` with each video as its groups and their times. A literal that a user wrote is marked
// inside, and is no video.
Result<std::string> with_times(std::string_view rendered, std::span<const ImageLayout> media,
                               const PatchMedia& rules, int frames_per_grid) {
  const std::string_view word = rules.words.video;
  std::string text;
  std::size_t videos = 0;
  auto next = media.begin();
  for (;;) {
    const std::size_t found = rendered.find(word);
    text += rendered.substr(0, found);
    if (found == std::string_view::npos) break;
    rendered.remove_prefix(found + word.size());
    ++videos;
    next = std::find_if(next, media.end(), [](const ImageLayout& m) { return m.frames > 0; });
    if (next == media.end()) continue;
    text += timed_groups(*next++, rules, frames_per_grid);
  }
  const auto given = std::ranges::count_if(media, [](const auto& m) { return m.frames > 0; });
  if (videos != static_cast<std::size_t>(given))
    return fail(ErrorCode::kInvalid, "the prompt has {} video placeholders for {} videos", videos,
                given);
  return text;
}

class PatchProcessor final : public ImageProcessor {
 public:
  PatchProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                 std::unique_ptr<const VideoPipeline> videos, const PatchMedia& rules,
                 const MediaTokens& tokens, std::int64_t merge)
      : ImageProcessor(std::move(shape),
                       {.literals = {}, .image = rules.words.image, .video = rules.words.video},
                       std::move(images), std::move(videos)),
        rules_(rules),
        tokens_(tokens),
        merge_(merge) {}

  Result<ImageLayout> video_layout(int width, int height,
                                   const VideoControls& controls) const override {
    TRY(ImageLayout video, ImageProcessor::video_layout(width, height, controls));
    if (rules_.tokens_per_second > 0) video.key += fmt::format("@{}fps", video.fps);
    return video;
  }

  // Placeholders of each kind stand in the order of `media` of that kind, and every group of a
  // video's frames is a span of its own. Where times are written, each group is a medium.
  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> media,
                              bool add_special_tokens) const override {
    std::array<Media, 2> kinds = {Media{tokens_.image, "image"}, Media{tokens_.video, "video"}};
    const bool timed = rules_.video_text != VideoText::kOnePlaceholder;
    int inputs = 0;
    for (const ImageLayout& layout : media) {
      const int groups = timed ? 1 : static_cast<int>(layout.grid_t);
      for (int group = 0; group < layout.grid_t; group += groups)
        kinds[layout.frames > 0 ? 1 : 0].media.push_back({&layout, inputs + group, groups});
      inputs += static_cast<int>(layout.grid_t);
    }
    std::string written;
    if (timed) {
      TRY(written, with_times(rendered, media, rules_, shape().frames_per_grid));
      rendered = written;
    }
    const std::vector<TokenId> ids = encode_guarded(tokenizer, rendered, add_special_tokens);
    for (const Media& kind : kinds) TRY_DO(check_placeholders(ids, kind));

    std::vector<TokenId> expanded;
    std::vector<ImageSpan> spans;
    GridPositions positions;
    for (const TokenId id : ids) {
      if (id != tokens_.image && id != tokens_.video) {
        expanded.push_back(id);
        positions.add_text(1);
        continue;
      }
      Media& kind = kinds[id == tokens_.video ? 1 : 0];
      const auto [layout, first, groups] = kind.media[kind.next++];
      const std::int64_t tokens = layout->tokens / layout->grid_t;
      for (int grid = 0; grid < groups; ++grid) {
        spans.push_back({.begin = static_cast<std::int64_t>(expanded.size()),
                         .tokens = tokens,
                         .index = first + grid});
        expanded.insert(expanded.end(), static_cast<std::size_t>(tokens),
                        id == tokens_.video ? tokens_.of_group : id);
      }
      positions.add_grid(times(*layout, groups), layout->grid_h / merge_, layout->grid_w / merge_);
    }
    TRY(Prompt prompt, wrap_tokens(std::move(expanded)));
    prompt.images = std::move(spans);
    prompt.position_delta = positions.delta();
    prompt.positions = positions.take();
    return prompt;
  }

  std::string guard_literals(std::string_view user_text) const override {
    return guard(user_text, rules_.words.placeholders);
  }

 private:
  static Result<void> check_placeholders(std::span<const TokenId> ids, const Media& kind) {
    const auto found = std::ranges::count(ids, kind.placeholder);
    if (static_cast<std::size_t>(found) == kind.media.size()) return {};
    return fail(ErrorCode::kInvalid, "the prompt has {} {} placeholders for {} {}s", found,
                kind.name, kind.media.size(), kind.name);
  }

  // Where an image, or the groups of a video's frames, stand on the time axis. In f32, as the model
  // was trained: a product that is not quite whole is cut one position lower.
  std::vector<std::int32_t> times(const ImageLayout& layout, int groups) const {
    std::vector<std::int32_t> times(static_cast<std::size_t>(groups));
    std::iota(times.begin(), times.end(), 0);
    if (layout.frames == 0 || rules_.tokens_per_second == 0) return times;
    const auto seconds = static_cast<float>(shape().frames_per_grid / layout.fps);
    const auto rate = static_cast<float>(rules_.tokens_per_second);
    for (std::int32_t& time : times)
      time = static_cast<std::int32_t>(static_cast<float>(time) * seconds * rate);
    return times;
  }

  PatchMedia rules_;
  MediaTokens tokens_;
  std::int64_t merge_;
};

// The files agree on what a patch is.
Result<void> check_patches(std::string_view file, const PatchLayout& p, const PatchExtents& tower) {
  if (p.patch_size != tower.patch || p.merge_size != tower.merge ||
      p.temporal_patch_size != tower.frames)
    return fail(ErrorCode::kInvalid,
                "{} cuts patches of {} x {}, merged by {}; vision_config of {} x {}, by {}", file,
                p.temporal_patch_size, p.patch_size, p.merge_size, tower.frames, tower.patch,
                tower.merge);
  return {};
}

Result<PatchVideos> parse_videos(const Checkpoint& checkpoint, const PatchExtents& tower,
                                 const VideoDefaults& defaults) {
  const json::object& file = checkpoint.video_preprocessor.empty() ? checkpoint.preprocessor
                                                                   : checkpoint.video_preprocessor;
  TRY(PatchVideos videos, PatchVideos::parse(file, defaults));
  TRY_DO(check_patches("the video preprocessor's configuration", videos.patches(), tower));
  return videos;
}

Result<MediaTokens> read_media_tokens(const json::object& config, const PatchMedia& media,
                                      std::int64_t vocab) {
  MediaTokens tokens;
  TRY(tokens.image,
      media_token(config, {{"image_token_id"}, media.words.image_token, true}, vocab));
  TRY(tokens.video,
      media_token(config, {{"video_token_id"}, media.words.video_token, true}, vocab));
  tokens.of_group = media.video_text == VideoText::kTimesAfter ? tokens.image : tokens.video;
  return tokens;
}

}  // namespace

Result<UnloadedModel> make_patch_model(std::string_view family, const Checkpoint& checkpoint,
                                       DecoderConfig decoder, MadeTower made,
                                       const PatchMedia& media, DecoderNames names) {
  const PatchExtents& extents = made.extents;
  if (decoder.position_axes != 3)
    return fail(ErrorCode::kInvalid, "rope_scaling.mrope_section is missing");
  TRY(ModelShape shape, describe_model(family, checkpoint, decoder));
  TRY(PatchImages parsed,
      PatchImages::parse(checkpoint.preprocessor, media.image_bounds_of, media.image_bounds));
  TRY_DO(check_patches("preprocessor_config.json", parsed.patches(), extents));
  auto images = std::make_unique<const PatchImages>(std::move(parsed));
  describe_images(*images, shape);
  TRY(PatchVideos videos, parse_videos(checkpoint, extents, media.videos));
  shape.frames_per_grid = static_cast<int>(extents.frames);
  shape.max_image_patches = std::max(shape.max_image_patches, videos.max_patches());
  shape.max_image_tokens = shape.max_image_patches / extents.merge / extents.merge;
  TRY(const MediaTokens tokens, read_media_tokens(checkpoint.config, media, shape.vocab));
  return UnloadedModel{
      std::make_unique<PatchProcessor>(shape, std::move(images),
                                       std::make_unique<const PatchVideos>(std::move(videos)),
                                       media, tokens, extents.merge),
      make_network(std::move(shape), std::move(decoder.settings), std::move(names),
                   std::move(made.tower))};
}

Result<UnloadedModel> make_patch_model(std::string_view family, const Checkpoint& checkpoint,
                                       DecoderConfig decoder, PatchTowerSettings tower,
                                       const PatchMedia& media, DecoderNames names) {
  TRY_DO(check_patch_tower(tower));
  const PatchExtents extents{tower.patch, tower.merge, tower.frames};
  return make_patch_model(family, checkpoint, std::move(decoder),
                          MadeTower{make_patch_tower(std::move(tower)), extents}, media,
                          std::move(names));
}

}  // namespace saccade

#include "model/patch_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/patch_images.h"
#include "model/placeholders.h"

namespace saccade {
namespace {

constexpr std::array<std::string_view, 2> kPlaceholders = {"<|image_pad|>", "<|video_pad|>"};

class PatchModel final : public ImageModel {
 public:
  Result<void> create(std::string_view family, const Checkpoint& checkpoint, DecoderConfig decoder,
                      PatchTowerSettings tower) {
    TRY(PatchImages images, PatchImages::parse(checkpoint.preprocessor));
    TRY_DO(check_patches(images.patches(), tower));
    TRY(const std::int64_t image_token,
        json::get_int_or(checkpoint.config, "image_token_id", 151655));
    TRY(const std::int64_t video_token,
        json::get_int_or(checkpoint.config, "video_token_id", 151656));
    image_token_ = static_cast<TokenId>(image_token);
    video_token_ = static_cast<TokenId>(video_token);
    merge_ = tower.merge;
    return assemble(checkpoint, {.family = family,
                                 .decoder = std::move(decoder),
                                 .names = {},
                                 .images = std::make_unique<PatchImages>(std::move(images)),
                                 .tower = std::make_unique<PatchTower>(std::move(tower))});
  }

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    const std::vector<TokenId> ids = encode_guarded(tokenizer, rendered, add_special_tokens);
    if (std::ranges::find(ids, video_token_) != ids.end())
      return fail(ErrorCode::kUnsupported, "the prompt has a video; images are done");
    TRY(Prompt prompt, expand_images(ids, image_token_, images));

    GridPositions positions;
    std::int64_t done = 0;
    for (std::size_t i = 0; i < prompt.images.size(); ++i) {
      const ImageSpan& span = prompt.images[i];
      positions.add_text(span.begin - done);
      positions.add_grid(images[i].grid_t, images[i].grid_h / merge_, images[i].grid_w / merge_);
      done = span.begin + span.tokens;
    }
    positions.add_text(static_cast<std::int64_t>(prompt.ids.size()) - done);
    prompt.position_delta = positions.delta();
    prompt.positions = positions.take();
    return prompt;
  }

  std::string guard_literals(std::string_view user_text) const override {
    return guard(user_text, kPlaceholders);
  }
  std::string image_placeholder(int) const override {
    return "<|vision_start|><|image_pad|><|vision_end|>";
  }

 private:
  // The files agree on what a patch is.
  static Result<void> check_patches(const PatchLayout& p, const PatchTowerSettings& tower) {
    if (p.patch_size != tower.patch || p.merge_size != tower.merge ||
        p.temporal_patch_size != tower.frames)
      return fail(ErrorCode::kInvalid,
                  "preprocessor_config.json cuts patches of {} x {}, merged by {}; vision_config "
                  "of {} x {}, by {}",
                  p.temporal_patch_size, p.patch_size, p.merge_size, tower.frames, tower.patch,
                  tower.merge);
    return {};
  }

  TokenId image_token_ = 0;
  TokenId video_token_ = 0;
  std::int64_t merge_ = 2;
};

}  // namespace

Result<std::unique_ptr<LoadableModel>> make_patch_model(std::string_view family,
                                                        const Checkpoint& checkpoint,
                                                        DecoderConfig decoder,
                                                        PatchTowerSettings tower) {
  if (decoder.position_axes != 3)
    return fail(ErrorCode::kInvalid, "rope_scaling.mrope_section is missing");
  TRY_DO(check_patch_tower(tower));
  auto model = std::make_unique<PatchModel>();
  TRY_DO(model->create(family, checkpoint, std::move(decoder), std::move(tower)));
  return model;
}

}  // namespace saccade

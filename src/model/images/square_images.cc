#include "model/images/square_images.h"

#include <memory>

#include "model/images/preprocessor_config.h"

namespace saccade {

SquareImages::SquareImages(const TileTowerSettings& tower, std::int64_t tokens,
                           const NormalizeTable& normalize, ResampleFilter filter)
    : ImagePipeline(std::make_shared<TileRows>(tower, normalize), filter),
      side_(static_cast<int>(tower.image)),
      patches_side_(tower.side()),
      tokens_(tokens) {}

Result<SquareImages> SquareImages::parse(const json::object& preprocessor,
                                         const TileTowerSettings& tower, std::int64_t tokens,
                                         const NormalizeSettings& normalize,
                                         ResampleFilter filter) {
  TRY_DO(require_image_steps(preprocessor));
  TRY(const int side, parse_square_size(preprocessor, static_cast<int>(tower.image)));
  if (side != tower.image)
    return fail(ErrorCode::kInvalid,
                "preprocessor_config.json makes images of {} pixels, vision_config of {}", side,
                tower.image);
  TRY(const NormalizeTable table, parse_normalize(preprocessor, normalize));
  TRY(filter, parse_resample(preprocessor, filter));
  return SquareImages(tower, tokens, table, filter);
}

Result<ImageLayout> SquareImages::layout(int width, int height,
                                         const ImageControls& controls) const {
  TRY_DO(check_processor_kwargs(controls, {}));
  return ImageLayout{.width = width,
                     .height = height,
                     .resized_width = side_,
                     .resized_height = side_,
                     .grid_t = 1,
                     .grid_h = patches_side_,
                     .grid_w = patches_side_,
                     .tokens = tokens_,
                     .key = fmt::format("{}", side_)};
}

}  // namespace saccade

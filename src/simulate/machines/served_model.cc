#include "simulate/machines/served_model.h"

#include <utility>

#include "engine/admission/kv_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "model/images/patch_images.h"

namespace saccade::simulate {
namespace {

constexpr std::int64_t kMaxTokens = 16'384;
constexpr std::int64_t kSide = 28;  // pixels of a token
constexpr std::int64_t kHidden = 1'536;
constexpr std::int64_t kLongest = 32'768;

// Nearly native sizes, and nothing else of a model.
class SquareProcessor final : public Processor {
 public:
  SquareProcessor(ModelShape shape, PatchImages images)
      : Processor(std::move(shape)), images_(std::move(images)) {}
  Result<ImageLayout> image_layout(int width, int height,
                                   const ImageControls& controls) const override {
    return images_.layout(width, height, controls);
  }
  Result<Prompt> build_prompt(const Tokenizer&, std::string_view, std::span<const ImageLayout>,
                              bool) const override {
    return fail(ErrorCode::kUnsupported, "a model known by its costs alone has no prompts");
  }

 private:
  PatchImages images_;
};

}  // namespace

Result<ServedModel> model_of_checkpoint(const std::string& directory, DType cache) {
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  ServedModel model;
  model.name = directory;
  TRY(model.processor, Processor::open(checkpoint));
  model.shape = model.processor->shape();
  model.shape.embedding_dtype = DType::kBf16;
  model.shape.cache_dtype = cache;
  const ModelShape& shape = model.shape;
  model.layers = layer_specs(shape);
  if (model.layers.empty())
    return fail(ErrorCode::kUnsupported, "{}: {} generates no text", directory, shape.family);
  return model;
}

Result<ServedModel> model_of_costs(const std::string& name, std::vector<LayerSpec> layers) {
  ServedModel model;
  model.name = name;
  ModelShape& shape = model.shape;
  shape.embedding_dtype = shape.cache_dtype = DType::kBf16;
  shape.family = "costs alone";
  shape.hidden = kHidden;
  shape.max_position = kLongest;
  shape.has_vision = true;
  shape.max_image_tokens = kMaxTokens;
  shape.max_image_patches = 4 * kMaxTokens;
  const json::object preprocessor{{"min_pixels", 4 * kSide * kSide},
                                  {"max_pixels", kMaxTokens * kSide * kSide},
                                  {"patch_size", 14},
                                  {"merge_size", 2},
                                  {"image_mean", {0.5, 0.5, 0.5}},
                                  {"image_std", {0.5, 0.5, 0.5}}};
  TRY(PatchImages images, PatchImages::parse(preprocessor));
  model.processor = std::make_unique<SquareProcessor>(shape, std::move(images));
  model.layers = std::move(layers);
  if (model.layers.empty()) {
    LayerSpec layer;
    layer.kv_heads = 2;
    layer.head_dim = 128;
    model.layers.assign(28, layer);
  }
  return model;
}

}  // namespace saccade::simulate

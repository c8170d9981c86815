// Qwen3.5 with images (0.8B, 2B, 4B, 9B, 27B). Reference: transformers' models/qwen3_5.
//
// Odd things: those of its text (text_families.cc); the tower is Qwen3-VL's without DeepStack.
#include <utility>

#include "model/families/qwen3_5_decoder.h"
#include "model/families/qwen3_tower.h"
#include "model/family.h"
#include "model/patch_model.h"

namespace saccade {
namespace qwen3_5 {
namespace {

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  const json::object& config = checkpoint.config;
  TRY(DecoderConfig decoder, parse_qwen3_5(config));
  TRY(PatchTowerSettings tower, parse_qwen3_tower(config, {}));
  if (!tower.deepstack.empty())
    return fail(ErrorCode::kUnsupported,
                "vision_config.deepstack_visual_indexes names {} layers, Qwen3.5 has none",
                tower.deepstack.size());
  if (tower.out != decoder.settings.hidden)
    return fail(ErrorCode::kInvalid, "vision_config.out_hidden_size is {}, the text is {} wide",
                tower.out, decoder.settings.hidden);
  for (const char* name : {"image_token_id", "video_token_id"}) TRY_DO(json::get_int(config, name));
  return make_patch_model("qwen3.5", checkpoint, std::move(decoder), std::move(tower), kQwen3Media,
                          qwen3_5_names("model.language_model."));
}

}  // namespace
}  // namespace qwen3_5

extern const Family kQwen35;
const Family kQwen35 = {.name = "qwen3.5",
                        .architectures = {"Qwen3_5ForConditionalGeneration"},
                        .model_types = {"qwen3_5"},
                        .create = qwen3_5::create};

}  // namespace saccade

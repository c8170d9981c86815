#include "model/families/qwen3_tower.h"

#include <array>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"

namespace saccade {
namespace {

const PatchTowerNames kTowerNames = {.tower = "model.visual.",
                                     .mlp_in = "mlp.linear_fc1",
                                     .mlp_out = "mlp.linear_fc2",
                                     .merger_norm = "norm",
                                     .merger_in = "linear_fc1",
                                     .merger_out = "linear_fc2"};

}  // namespace

Result<PatchTowerSettings> parse_qwen3_tower(const json::object& config,
                                             std::vector<std::int64_t> deepstack) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  PatchTowerSettings tower;
  tower.norm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};
  tower.depth = 27;
  tower.embed = 1152;
  tower.inner = 4304;
  tower.patch = 16;
  tower.patch_bias = true;
  tower.out = 3584;
  tower.names = kTowerNames;
  std::int64_t positions = 48 * 48;
  const std::array fields = {
      ExtentField{"depth", &tower.depth, 1024},
      ExtentField{"hidden_size", &tower.embed, 1 << 16},
      ExtentField{"intermediate_size", &tower.inner, 1 << 18},
      ExtentField{"num_heads", &tower.heads, 1024},
      ExtentField{"in_channels", &tower.channels, 3},
      ExtentField{"patch_size", &tower.patch, 256},
      ExtentField{"spatial_merge_size", &tower.merge, 16},
      ExtentField{"temporal_patch_size", &tower.frames, 16},
      ExtentField{"out_hidden_size", &tower.out, 1 << 16},
      ExtentField{"num_position_embeddings", &positions, 1 << 20},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  while (tower.positions * tower.positions < positions) ++tower.positions;
  if (tower.positions * tower.positions != positions)
    return fail(ErrorCode::kUnsupported,
                "vision_config.num_position_embeddings {} is not the square of a side", positions);
  TRY(tower.deepstack, vision_layers(*vision, "deepstack_visual_indexes", std::move(deepstack)));
  TRY(const std::string activation,
      json::get_string_or(*vision, "hidden_act", "gelu_pytorch_tanh"));
  TRY(tower.activation, parse_activation(activation));
  TRY(tower.rope_theta, vision_rope_theta(*vision));
  return tower;
}

}  // namespace saccade

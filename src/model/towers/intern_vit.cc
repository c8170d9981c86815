#include "model/towers/intern_vit.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>
#include <vector>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/towers/position_grid.h"

namespace saccade {
namespace {

constexpr NormStyle kProjectorNorm = {.epsilon = 1e-5f, .weight_offset = 0, .subtract_mean = true};

// Tensors below "embeddings." and those of a layer.
struct Names {
  std::string prefix;
  std::string class_token, patches, positions;
  std::string layer;
  std::vector<std::string> qkv;
  std::string q_norm, k_norm, attention_out;
  std::string attention_norm, mlp_norm;
  std::string attention_scale, mlp_scale;
  std::string projector_norm, projector_in, projector_out;
};

const Names& intern_vit_names(InternVitNames names) {
  static const Names kOriginal = {.prefix = "vision_model.",
                                  .class_token = "embeddings.class_embedding",
                                  .patches = "embeddings.patch_embedding",
                                  .positions = "embeddings.position_embedding",
                                  .layer = "encoder.layers.{}.",
                                  .qkv = {"attn.qkv"},
                                  .q_norm = "attn.q_norm",
                                  .k_norm = "attn.k_norm",
                                  .attention_out = "attn.proj",
                                  .attention_norm = "norm1",
                                  .mlp_norm = "norm2",
                                  .attention_scale = "ls1",
                                  .mlp_scale = "ls2",
                                  .projector_norm = "mlp1.0",
                                  .projector_in = "mlp1.1",
                                  .projector_out = "mlp1.3"};
  static const Names kTransformers = {
      .prefix = "vision_tower.",
      .class_token = "embeddings.cls_token",
      .patches = "embeddings.patch_embeddings.projection",
      .positions = "embeddings.position_embeddings",
      .layer = "encoder.layer.{}.",
      .qkv = {"attention.q_proj", "attention.k_proj", "attention.v_proj"},
      .q_norm = "attention.q_norm",
      .k_norm = "attention.k_norm",
      .attention_out = "attention.projection_layer",
      .attention_norm = "layernorm_before",
      .mlp_norm = "layernorm_after",
      .attention_scale = "lambda_1",
      .mlp_scale = "lambda_2",
      .projector_norm = "multi_modal_projector.layer_norm",
      .projector_in = "multi_modal_projector.linear_1",
      .projector_out = "multi_modal_projector.linear_2"};
  return names == InternVitNames::kOriginal ? kOriginal : kTransformers;
}

// transformers writes image_size and patch_size as pairs: [448, 448] becomes 448.
json::object with_square_sizes(json::object section) {
  for (const char* name : {"image_size", "patch_size"}) {
    json::value* size = section.if_contains(name);
    if (size == nullptr || !size->is_array() || size->get_array().size() != 2) continue;
    if (size->get_array()[0] == size->get_array()[1]) *size = json::value(size->get_array()[0]);
  }
  return section;
}

Result<void> refuse_other_towers(const json::object& vision) {
  struct Flag {
    std::string_view name;
    bool done;
  };
  for (const Flag flag : {Flag{"use_absolute_position_embeddings", true},
                          Flag{"use_mean_pooling", true}, Flag{"use_mask_token", false}}) {
    TRY(const bool value, json::get_bool_or(vision, flag.name, flag.done));
    if (value != flag.done)
      return fail(ErrorCode::kUnsupported, "vision_config.{} {} is not done", flag.name, value);
  }
  return {};
}

float value_at(View view, std::int64_t i) {
  const std::int64_t row = i / view.cols();
  const std::int64_t col = i % view.cols();
  switch (view.dtype()) {
    case DType::kBf16:
      return to_float(view.row<Bf16>(row)[col]);
    case DType::kF16:
      return to_float(view.row<F16>(row)[col]);
    default:
      return view.row<float>(row)[col];
  }
}

// LayerScale: y = scale * (x W^T + b). The scale goes into the rows of W and into b once, at load;
// products are exact in f32, where bf16 rounds each weight once more.
void add_scaled(WeightTable& table, Linear& into, const std::string& name,
                const std::string& scale_name, std::int64_t out, std::int64_t in) {
  table.row(
      {{name + ".weight", {out, in}, TensorKind::kMatrix},
       {name + ".bias", {out}, TensorKind::kBias},
       {scale_name, {out}, TensorKind::kNorm}},
      [&into, out](const WeightTable::Tensors& tensors, Device& device,
                   DType compute) -> Result<std::size_t> {
        const View scale = tensors.others[1];
        std::vector<float> bias(static_cast<std::size_t>(out));
        for (std::int64_t row = 0; row < out; ++row)
          bias[static_cast<std::size_t>(row)] =
              value_at(scale, row) * value_at(tensors.others[0], row);
        StoredMatrix scaled = tensors.matrices.front();
        scaled.output_scale = scale;
        into.weight = device.pack({&scaled, 1}, compute);
        const std::size_t bytes = static_cast<std::size_t>(out) * sizeof(float);
        TRY(into.bias.storage, device.allocate(bytes));
        into.bias.view = into.bias.storage.view(DType::kF32, 1, out);
        device.lane(Lane::kCopy).upload(View(bias.data(), DType::kF32, 1, out), into.bias.view);
        return into.weight->bytes() + bytes;
      },
      MatrixRole::kTowerLayer);
}

// [1, 1 + stored^2, width], the class token's first, as rows for tiles of side^2 patches.
void add_positions(WeightTable& table, EmbeddingTable& into, const std::string& name,
                   std::int64_t stored, std::int64_t side, std::int64_t width) {
  const std::int64_t from = 1 + stored * stored;
  const std::int64_t to = 1 + side * side;
  table.row(
      {{name, {1, from, width}, TensorKind::kEmbedding}},
      [=, &into](const WeightTable::Tensors& tensors, Device& device,
                 DType compute) -> Result<std::size_t> {
        std::vector<float> rows(static_cast<std::size_t>(from * width));
        for (std::size_t i = 0; i < rows.size(); ++i)
          rows[i] = value_at(tensors.others[0], static_cast<std::int64_t>(i));
        const auto first = rows.begin() + width;
        std::vector<float> patches = resample_positions({first, rows.end()}, stored, side, width);
        patches.insert(patches.begin(), rows.begin(), first);
        const DType type = compute == DType::kBf16 ? DType::kBf16 : DType::kF32;
        const std::size_t bytes = static_cast<std::size_t>(to * width) * size_of(type);
        TRY(into.storage, device.allocate(bytes));
        into.view = into.storage.view(type, to, width);
        device.lane(Lane::kCopy).upload(View(patches.data(), DType::kF32, to, width), into.view);
        return bytes;
      });
}

void add_layer(WeightTable& table, VisionBlock& block, const InternVitSettings& settings,
               std::int64_t index) {
  const TileTowerSettings& s = settings.tower;
  const Names& names = intern_vit_names(settings.names);
  const std::string at = names.prefix + fmt::format(fmt::runtime(names.layer), index);
  add_norm(table, block.attention_norm, at + names.attention_norm, s.width, s.norm);
  std::vector<WeightTable::Part> qkv;
  for (const std::string& name : names.qkv)
    qkv.push_back({at + name, 3 * s.width / static_cast<std::int64_t>(names.qkv.size())});
  table.stacked(block.qkv, std::move(qkv), s.width, settings.qkv_bias ? Bias::kYes : Bias::kNo,
                MatrixRole::kTowerLayer);
  if (settings.qk_norm) {
    add_norm(table, block.q_norm, at + names.q_norm, s.width, s.qk_norm);
    add_norm(table, block.k_norm, at + names.k_norm, s.width, s.qk_norm);
  }
  add_scaled(table, block.attention_out, at + names.attention_out, at + names.attention_scale,
             s.width, s.width);
  add_norm(table, block.mlp_norm, at + names.mlp_norm, s.width, s.norm);
  table.linear(block.mlp_in, at + "mlp.fc1", s.inner, s.width, Bias::kYes, MatrixRole::kTowerLayer);
  add_scaled(table, block.mlp_out, at + "mlp.fc2", at + names.mlp_scale, s.width, s.inner);
}

}  // namespace

Result<InternVitSettings> parse_intern_vit(const json::object& config, InternVitNames names,
                                           std::int64_t tile, std::int64_t unread) {
  TRY(const json::object* section, config_section(config, "vision_config"));
  const json::object vision = with_square_sizes(*section);
  const bool original = names == InternVitNames::kOriginal;
  TRY_DO(refuse_other_towers(vision));
  VitExtents extents =
      original ? VitExtents{48, 3200, 25, 12800, 224, 14} : VitExtents{24, 1024, 16, 4096, 448, 14};
  TRY_DO(read_vit_extents(vision, "vision_config", extents));
  InternVitSettings settings;
  settings.names = names;
  settings.stored_side = extents.image / extents.patch;
  TileTowerSettings& tower = settings.tower;
  static_cast<VitExtents&>(tower) = extents;
  tower.layers = extents.layers - unread;
  tower.unread_layers = unread;
  if (tile > 0) tower.image = tile;
  tower.class_token = true;
  tower.post_norm = false;
  if (unread < 0 || tower.layers < 1)
    return fail(ErrorCode::kInvalid, "features of {} layers before the last of {}", unread,
                extents.layers);
  if (tower.patch > tower.image || tower.side() % InternVitSettings::kMerge != 0)
    return fail(ErrorCode::kUnsupported,
                "tiles of {} pixels have {} patches of {} a side: not even", tower.image,
                tower.side(), tower.patch);

  TRY(const std::string norm,
      json::get_string_or(vision, "norm_type", original ? "rms_norm" : "layer_norm"));
  if (norm != "rms_norm" && norm != "layer_norm")
    return fail(ErrorCode::kUnsupported, "vision_config.norm_type \"{}\" is not done", norm);
  TRY(const double epsilon, json::get_double_or(vision, "layer_norm_eps", 1e-6));
  tower.norm = {.epsilon = static_cast<float>(epsilon),
                .weight_offset = 0,
                .subtract_mean = norm == "layer_norm"};
  // transformers' class has 1e-6 whatever layer_norm_eps is.
  tower.qk_norm.epsilon = original ? tower.norm.epsilon : 1e-6f;
  TRY(settings.qkv_bias,
      json::get_bool_or(vision, original ? "qkv_bias" : "attention_bias", false));
  TRY(settings.qk_norm,
      json::get_bool_or(vision, original ? "qk_normalization" : "use_qk_norm", original));
  TRY(const std::string activation, json::get_string_or(vision, "hidden_act", "gelu"));
  TRY(tower.activation, parse_activation(activation));
  return settings;
}

void InternVit::add_tower(WeightTable& table, TileTowerWeights& weights,
                          std::vector<VisionBlock>& blocks) const {
  const TileTowerSettings& s = settings();
  const Names& names = intern_vit_names(intern_.names);
  blocks.resize(static_cast<std::size_t>(s.layers));
  table.bias(weights.class_token, names.prefix + names.class_token,
             std::vector<std::int64_t>{1, 1, s.width});
  table.patches(weights.patch_embed, names.prefix + names.patches, {s.width, 3, s.patch, s.patch},
                Bias::kYes);
  add_positions(table, weights.positions, names.prefix + names.positions, intern_.stored_side,
                s.side(), s.width);
  for (std::int64_t i = 0; i < s.layers; ++i)
    add_layer(table, blocks[static_cast<std::size_t>(i)], intern_, i);
  WeightTable unread;
  VisionBlock nowhere;
  for (std::int64_t i = s.layers; i < s.layers + s.unread_layers; ++i)
    add_layer(unread, nowhere, intern_, i);
  table.unread(unread.specs());
}

void InternVit::add_projector(WeightTable& table) {
  const Names& names = intern_vit_names(intern_.names);
  const std::int64_t merged =
      InternVitSettings::kMerge * InternVitSettings::kMerge * settings().width;
  add_norm(table, norm_, names.projector_norm, merged, kProjectorNorm);
  table.linear(in_, names.projector_in, intern_.out, merged, Bias::kYes);
  table.linear(to_text_, names.projector_out, intern_.out, intern_.out, Bias::kYes);
}

void InternVit::add_projector_scratch(Scratch& scratch, DType type, std::int64_t patch_rows) {
  const std::int64_t tokens = intern_.tile_tokens();
  const std::int64_t tiles = std::min(std::max<std::int64_t>(patch_rows / settings().patches(), 1),
                                      std::max<std::int64_t>(kMlpRows / tokens, 1));
  scratch.add(gathered_, type, tiles * tokens, 4 * settings().width);
  scratch.add(inner_, type, tiles * tokens, intern_.out);
  scratch.add(projected_, type, tiles * tokens, intern_.out);
}

// Pixel shuffle: row (y, x) holds the features (2y, 2x), (2y, 2x + 1), (2y + 1, 2x), (2y + 1, 2x +
// 1) of a tile side by side. `out`: such rows from `first` of the image on.
void InternVit::gather(Stream& stream, View features, std::int64_t first, View out) const {
  constexpr std::int64_t kMerge = InternVitSettings::kMerge;
  const std::int64_t side = settings().side();
  const std::int64_t half = side / kMerge;
  const std::int64_t width = settings().width;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(out.rows()));
  for (std::int64_t part = 0; part < kMerge * kMerge; ++part) {
    for (std::int64_t i = 0; i < out.rows(); ++i) {
      const std::int64_t tile = (first + i) / (half * half);
      std::int64_t y = (first + i) % (half * half) / half;
      std::int64_t x = (first + i) % half;
      if (intern_.transposed) std::swap(y, x);
      const std::int64_t row = kMerge * y + part / kMerge;
      rows[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>((tile * side + row) * side + kMerge * x + part % kMerge);
    }
    stream.mix_rows({.x = features,
                     .rows = stream.upload(rows),
                     .weights = {},
                     .out = out.col_range(part * width, (part + 1) * width)});
  }
}

void InternVit::project(WorkList& works, Stream& stream, const ImageLayout& layout, View features,
                        View out, const Tap& tap) const {
  works.add({.units = layout.tokens,
             .unit_cost = row_cost(in_) + row_cost(to_text_),
             .run = [=, this, &stream, &tap](std::int64_t begin, std::int64_t end) {
               for (std::int64_t at = begin; at < end; at += gathered_.rows()) {
                 const std::int64_t count = std::min(gathered_.rows(), end - at);
                 const View gathered = gathered_.row_range(0, count);
                 const View inner = inner_.row_range(0, count);
                 const View part = projected_.row_range(0, count);
                 gather(stream, features, at, gathered);
                 apply_norm(stream, norm_, kProjectorNorm, gathered, gathered);
                 apply_linear(stream, in_, gathered, inner, {}, intern_.projector);
                 apply_linear(stream, to_text_, inner, part);
                 stream.copy(part, out.row_range(at, at + count));
                 show(tap, stream, "vision.merged", part);
               }
             }});
}

}  // namespace saccade

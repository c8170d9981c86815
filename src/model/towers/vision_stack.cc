#include "model/towers/vision_stack.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/checkpoint/config_section.h"
#include "ops/partial_attention.h"

namespace saccade {
namespace {

// Keys and values of one segment that are made ready at once.
constexpr std::int64_t kKeyBytes = std::int64_t{8} << 20;
// Queries whose attention takes as long as making their keys and values ready, whatever the length.
constexpr std::int64_t kKeyUnits = 64;
// A segment is short where its keys are few beside the rows that a piece would have anyway.
constexpr std::int64_t kShortSegment = 512;

}  // namespace

Result<void> read_vit_extents(const json::object& section, std::string_view name, VitExtents& e) {
  std::int64_t channels = 3;
  const std::array fields = {
      ExtentField{"num_hidden_layers", &e.layers, 1024},
      ExtentField{"hidden_size", &e.width, 1 << 16},
      ExtentField{"num_attention_heads", &e.heads, 1024},
      ExtentField{"intermediate_size", &e.inner, 1 << 18},
      ExtentField{"image_size", &e.image, 1 << 14},
      ExtentField{"patch_size", &e.patch, 256},
      ExtentField{"num_channels", &channels, 3},
  };
  TRY_DO(read_extents(section, name, fields));
  if (channels != 3 || e.width % e.heads != 0 || e.head_dim() % 2 != 0 || e.patch > e.image)
    return fail(ErrorCode::kUnsupported,
                "{}: {} channels, width {} in {} heads, patches of {} in {} pixels", name, channels,
                e.width, e.heads, e.patch, e.image);
  return {};
}

double row_cost(const Linear& linear) {
  return static_cast<double>(linear.weight->in()) * static_cast<double>(linear.weight->out());
}

void VisionStack::add_scratch(Scratch& memory, DType type, std::int64_t rows, std::int64_t inner,
                              std::int64_t slice) {
  memory.add(normed_, type, std::max(rows, slice), settings_.embed);
  memory.add(qkv_, type, rows, 3 * settings_.embed);
  memory.add(attention_, type, std::max(rows, slice), settings_.embed);
  memory.add(mlp_, type, std::min(rows, kMlpRows), inner);
}

void VisionStack::block(WorkList& works, Stream& stream, std::size_t index, const SegmentPlan& plan,
                        const VisionAngles& angles, View x) const {
  const VisionBlock& of = blocks[index];
  attention(works, stream, of, plan, angles, x);
  works.add({.units = x.rows(),
             .unit_cost = row_cost(of.mlp_in) + row_cost(of.mlp_out),
             .run = [this, &of, &stream, x](std::int64_t begin, std::int64_t end) {
               for (; begin < end; begin += kMlpRows) {
                 const View part = x.row_range(begin, std::min(begin + kMlpRows, end));
                 const View rows = normed(part.rows());
                 apply_norm(stream, of.mlp_norm, settings_.norm, part, rows);
                 apply_mlp(stream, of.mlp_in, of.mlp_out, settings_.activation,
                           {rows, mlp_.row_range(0, part.rows()), part, part});
               }
             }});
}

void VisionStack::attention(WorkList& works, Stream& stream, const VisionBlock& block,
                            const SegmentPlan& plan, const VisionAngles& angles, View x) const {
  const std::int64_t width = settings_.embed;
  const View qkv = qkv_.row_range(0, x.rows());
  works.add(
      {.units = x.rows(),
       .unit_cost = row_cost(block.qkv) + kNumberCost * static_cast<double>(3 * width),
       .run = [this, &block, &stream, angles, width, qkv, x](std::int64_t begin, std::int64_t end) {
         const View rows = normed(x.rows()).row_range(begin, end);
         const View part = qkv.row_range(begin, end);
         apply_norm(stream, block.attention_norm, settings_.norm, x.row_range(begin, end), rows);
         apply_linear(stream, block.qkv, rows, part);
         if (!block.q_norm.weight.view.empty()) {
           const View q = part.col_range(0, width);
           const View k = part.col_range(width, 2 * width);
           apply_norm(stream, block.q_norm, settings_.qk_norm, q, q);
           apply_norm(stream, block.k_norm, settings_.qk_norm, k, k);
         }
         if (!angles.cos.empty())
           stream.rope({.x = part.col_range(0, 2 * width),
                        .head_dim = head_dim(),
                        .cos = angles.cos.row_range(begin, end),
                        .sin = angles.sin.row_range(begin, end)});
       }});
  mix(works, stream, plan, qkv, room(x.rows()));
  works.add({.units = x.rows(),
             .unit_cost = row_cost(block.attention_out),
             .run = [this, &block, &stream, x](std::int64_t begin, std::int64_t end) {
               const View part = x.row_range(begin, end);
               apply_linear(stream, block.attention_out, room(x.rows()).row_range(begin, end), part,
                            part);
             }});
}

// A unit is one query of some heads. Where segments are long these are as many heads as have their
// keys and values ready together, which their first kKeyUnits units stand for; short segments have
// theirs made ready with the queries, of all heads.
void VisionStack::mix(WorkList& works, Stream& stream, const SegmentPlan& plan, View qkv,
                      View out) const {
  const std::int64_t width = settings_.embed;
  const SegmentAttentionArgs args = {
      .plan = &plan,
      .q = qkv.col_range(0, width),
      .k = qkv.col_range(width, 2 * width),
      .v = qkv.col_range(2 * width, 3 * width),
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim()))),
      .compute = compute_,
      .out = out};
  const std::int64_t rows = plan.rows();
  if (rows == 0) return;
  std::int64_t longest = 1;
  for (std::size_t i = 1; i < plan.begins().size(); ++i)
    longest = std::max<std::int64_t>(longest, plan.begins()[i] - plan.begins()[i - 1]);
  auto* const parts = dynamic_cast<PartialAttention*>(&stream);
  std::int64_t heads_at_once = settings_.heads;
  if (longest > kShortSegment)
    heads_at_once = std::clamp<std::int64_t>(
        kKeyBytes / (2 * std::int64_t{sizeof(float)} * head_dim() * longest), 1, settings_.heads);
  const std::int64_t keys = longest > kShortSegment ? kKeyUnits : 0;
  const std::int64_t groups = (settings_.heads + heads_at_once - 1) / heads_at_once;
  const std::int64_t units = parts == nullptr ? 1 : groups * (keys + rows);
  const double cost = 2 * static_cast<double>(longest) * static_cast<double>(width) /
                      static_cast<double>(parts == nullptr ? 1 : groups);
  works.add({.units = units,
             .unit_cost = cost,
             .run =
                 [=, heads = settings_.heads, &stream](std::int64_t begin, std::int64_t end) {
                   if (begin == 0 && end == units) {
                     stream.segment_attention(args);
                     return;
                   }
                   while (begin < end) {
                     const std::int64_t group = begin / (keys + rows);
                     const std::int64_t first = group * (keys + rows);
                     const std::int64_t last = std::min(end, first + keys + rows);
                     const std::int64_t from = std::max<std::int64_t>(begin - first - keys, 0);
                     const std::int64_t to = std::max<std::int64_t>(last - first - keys, 0);
                     SegmentPart part = {.head_begin = group * heads_at_once,
                                         .head_end = std::min((group + 1) * heads_at_once, heads),
                                         .row_begin = from,
                                         .row_end = to,
                                         .same_keys = begin > first};
                     if (to == 0) {
                       part.row_end = 1;
                       part.keys_alone = true;
                     }
                     parts->attend_part(args, part);
                     begin = last;
                   }
                 },
             .kind = WorkKind::kAttention});
}

}  // namespace saccade

// The Kernels table of a vector type.
#pragma once

#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/products/panel_kernels.h"
#include "ops/cpu/recurrent_kernels.h"
#include "ops/cpu/row_kernels.h"

namespace saccade::cpu {

template <typename V>
constexpr Kernels table_of(const char* name) {
  Kernels table;
  table.name = name;
  table.lanes = V::kLanes;
  table.panels_f32 = Panels<V>::template run<float>;
  table.panels_bf16 = Panels<V>::template run<Bf16>;
  table.finish_row = Rows<V>::finish_row;
  table.norm_row = Rows<V>::norm_row;
  table.rope_head = Rows<V>::rope_head;
  table.gated_row = Rows<V>::gated_row;
  table.add_row = Rows<V>::add_row;
  table.mix_row = Rows<V>::mix_row;
  table.softcap_row = Rows<V>::softcap_row;
  table.stats_row = Rows<V>::stats_row;
  table.convert_row = Rows<V>::convert_row;
  table.accumulate_row = Rows<V>::accumulate_row;
  table.unit_row = Recurrent<V>::unit_row;
  table.causal_conv = Recurrent<V>::causal_conv;
  table.delta_rule = Recurrent<V>::delta_rule;
  table.attention.chunk_tokens = Attention<V>::kChunk;
  table.attention.score_stride = Attention<V>::kScoreStride;
  table.attention.group_rows = Attention<V>::kGroupRows;
  table.attention.cols_unit = V::kLanes;
  table.attention.pack_query = Attention<V>::pack_query;
  table.attention.pack_chunk = Attention<V>::pack_chunk;
  table.attention.attend_chunk = Attention<V>::attend_chunk;
  table.merge = Attention<V>::merge;
  return table;
}

}  // namespace saccade::cpu

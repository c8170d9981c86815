#include "ops/cpu/attention.h"

#include <algorithm>
#include <limits>

namespace saccade::cpu {
namespace {

Index round_up(Index value, Index to) { return (value + to - 1) / to * to; }

}  // namespace

void AttentionState::clear() {
  std::fill_n(max, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(sum, rows, 0.0f);
  std::fill_n(out, rows * cols, 0.0f);
}

AttentionMemory::AttentionMemory(Scratch& scratch, Index rows, Index head_dim, Index lanes) {
  const Index cols = round_up(head_dim, lanes);
  Index floats = 0;
  const auto take = [&floats](Index count) {
    const Index offset = floats;
    floats += round_up(count, 16);  // whole cache lines
    return offset;
  };
  const Index per_index = sizeof(Index) / sizeof(float);
  const Index bounds_at = take(4 * rows * per_index);
  const Index queries_at = take(rows * head_dim);
  const Index scores_at = take(rows * kChunkTokens);
  const Index keys_at = take(kChunkTokens * head_dim);
  const Index values_at = take(kChunkTokens * cols);
  const Index total_at = take(AttentionState::floats(rows, cols));
  const Index split_at = take(AttentionState::floats(rows, cols));
  auto* base = scratch.reserve<float>(floats);
  begin = reinterpret_cast<Index*>(base + bounds_at);
  end = begin + rows;
  chunk_begin = end + rows;
  chunk_end = chunk_begin + rows;
  queries = base + queries_at;
  scores = base + scores_at;
  keys = base + keys_at;
  values = base + values_at;
  total = AttentionState::at(base + total_at, rows, cols);
  split = AttentionState::at(base + split_at, rows, cols);
}

void attend_chunk(const Kernels& kernels, const QueryTile& tile, Index tokens,
                  AttentionMemory& memory, AttentionState state) {
  PackChunkArgs pack;
  pack.tokens = tokens;
  pack.head_dim = tile.head_dim;
  pack.type = tile.type;
  pack.rows = memory.key_rows;
  pack.out = memory.keys;
  kernels.pack_keys(pack);

  PanelArgs scores;
  scores.x = tile.queries;
  scores.x_stride = tile.head_dim;
  scores.rows = tile.rows;
  scores.weights = memory.keys;
  scores.panel_stride = tile.head_dim * kernels.lanes * static_cast<Index>(sizeof(float));
  scores.panels = (tokens + kernels.lanes - 1) / kernels.lanes;
  scores.depth = tile.head_dim;
  scores.c = memory.scores;
  scores.c_stride = kChunkTokens;
  kernels.panels_f32(scores);

  SoftmaxArgs softmax;
  softmax.scores = memory.scores;
  softmax.rows = tile.rows;
  softmax.tokens = tokens;
  softmax.begin = memory.chunk_begin;
  softmax.end = memory.chunk_end;
  softmax.softcap = tile.softcap;
  softmax.max = state.max;
  softmax.sum = state.sum;
  softmax.out = state.out;
  softmax.out_cols = state.cols;
  kernels.softmax(softmax);

  pack.rows = memory.value_rows;
  pack.out = memory.values;
  kernels.pack_values(pack);

  PanelArgs mix;
  mix.x = memory.scores;
  mix.x_stride = kChunkTokens;
  mix.rows = tile.rows;
  mix.weights = memory.values;
  mix.panel_stride = kChunkTokens * kernels.lanes * static_cast<Index>(sizeof(float));
  mix.panels = state.cols / kernels.lanes;
  mix.depth = tokens;
  mix.c = state.out;
  mix.c_stride = state.cols;
  mix.accumulate = true;
  kernels.panels_f32(mix);
}

void merge(const Kernels& kernels, AttentionState into, const AttentionState& other) {
  MergeArgs args;
  args.rows = into.rows;
  args.cols = into.cols;
  args.max = into.max;
  args.sum = into.sum;
  args.out = into.out;
  args.other_max = other.max;
  args.other_sum = other.sum;
  args.other_out = other.out;
  kernels.merge(args);
}

}  // namespace saccade::cpu

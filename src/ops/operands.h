// The operands of every op, one by one: for a device that is made of others and passes ops on with
// operands of its own. f takes each by reference: View, DeviceArray<T>, const PackedWeight*,
// const AttentionPlan*, const SegmentPlan*, std::span<const ExpertWeights>,
// std::span<const SamplingRow>. What is passed by value stays as it is.
//
// The bindings name every member, so that an op which gains one does not compile until it stands
// here.
#pragma once

#include "ops/device.h"

namespace saccade {

template <typename F, typename... Operands>
void all(F& f, Operands&... operands) {
  (f(operands), ...);
}

template <typename F>
void each_operand(GemmArgs& args, F&& f) {
  auto& [x, weight, bias, activation, residual, y] = args;
  all(f, x, weight, bias, residual, y);
}

template <typename F>
void each_operand(NormArgs& args, F&& f) {
  auto& [x, add, weight, bias, group, epsilon, weight_offset, subtract_mean, out] = args;
  all(f, x, add, weight, bias, out);
}

template <typename F>
void each_operand(RopeTableArgs& args, F&& f) {
  auto& [positions, inv_freq, axis, tables, scale, cos, sin] = args;
  all(f, positions, inv_freq, axis, tables, cos, sin);
}

template <typename F>
void each_operand(RopeArgs& args, F&& f) {
  auto& [x, head_dim, cos, sin] = args;
  all(f, x, cos, sin);
}

template <typename F>
void each_operand(KvLayer& layer, F&& f) {
  auto& [blocks, block_size, kv_heads, head_dim] = layer;
  f(blocks);
}

template <typename F>
void each_operand(KvWriteArgs& args, F&& f) {
  auto& [plan, k, v, layer] = args;
  all(f, plan, k, v);
  each_operand(layer, f);
}

template <typename F>
void each_operand(QkvArgs& args, F&& f) {
  auto& [plan, qkv, norm, epsilon, weight_offset, subtract_mean, cos, sin, layer] = args;
  all(f, plan, qkv, norm, cos, sin);
  each_operand(layer, f);
}

template <typename F>
void each_operand(PagedAttentionArgs& args, F&& f) {
  auto& [plan, q, layer, scale, softcap, compute, out] = args;
  all(f, plan, q);
  each_operand(layer, f);
  f(out);
}

template <typename F>
void each_operand(SegmentAttentionArgs& args, F&& f) {
  auto& [plan, q, k, v, scale, compute, out] = args;
  all(f, plan, q, k, v, out);
}

template <typename F>
void each_operand(GatedArgs& args, F&& f) {
  auto& [gate, up, activation, out] = args;
  all(f, gate, up, out);
}

template <typename F>
void each_operand(MlpArgs& args, F&& f) {
  auto& [x, in, in_bias, activation, out, out_bias, residual, inner, y] = args;
  all(f, x, in, in_bias, out, out_bias, residual, inner, y);
}

template <typename F>
void each_operand(NormedGemmArgs& args, F&& f) {
  auto& [norm, gemm] = args;
  each_operand(norm, f);
  each_operand(gemm, f);
}

template <typename F>
void each_operand(NormedMlpArgs& args, F&& f) {
  auto& [norm, mlp] = args;
  each_operand(norm, f);
  each_operand(mlp, f);
}

template <typename F>
void each_operand(ExpertsArgs& args, F&& f) {
  auto& [x, logits, experts, per_row, normalise, activation, add, gathered, inner, part, y] = args;
  all(f, x, logits, experts, gathered, inner, part, y);
}

template <typename F>
void each_operand(CausalConvArgs& args, F&& f) {
  auto& [x, weight, spans, states, activation, out] = args;
  all(f, x, weight, spans, states, out);
}

template <typename F>
void each_operand(DeltaRuleArgs& args, F&& f) {
  auto& [q, k, v, a, b, a_log, dt_bias, spans, states, key_dim, value_dim, scale, epsilon, out] =
      args;
  all(f, q, k, v, a, b, a_log, dt_bias, spans, states, out);
}

template <typename F>
void each_operand(EmbedArgs& args, F&& f) {
  auto& [table, packed, ids, last_tokens, scale, out] = args;
  all(f, table, packed, ids, last_tokens, out);
}

template <typename F>
void each_operand(MixRowsArgs& args, F&& f) {
  auto& [x, rows, weights, taps, out] = args;
  all(f, x, rows, weights, out);
}

template <typename F>
void each_operand(CutPatchesArgs& args, F&& f) {
  auto& [frames, width, height, places, side, depth, values, out] = args;
  f(out);
}

template <typename F>
void each_operand(CopyRowsArgs& args, F&& f) {
  auto& [from, from_rows, to, to_rows, add] = args;
  all(f, from, from_rows, to, to_rows);
}

template <typename F>
void each_operand(SampleArgs& args, F&& f) {
  auto& [logits, stats, rows, last_tokens, sampled, alternatives] = args;
  all(f, logits, stats, rows, last_tokens, sampled, alternatives);
}

}  // namespace saccade

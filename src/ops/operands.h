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

template <typename F>
void each_operand(GemmArgs& args, F&& f) {
  auto& [x, weight, bias, activation, residual, y] = args;
  f(x);
  f(weight);
  f(bias);
  f(residual);
  f(y);
}

template <typename F>
void each_operand(NormArgs& args, F&& f) {
  auto& [x, add, weight, bias, group, epsilon, weight_offset, subtract_mean, out] = args;
  f(x);
  f(add);
  f(weight);
  f(bias);
  f(out);
}

template <typename F>
void each_operand(RopeTableArgs& args, F&& f) {
  auto& [positions, inv_freq, axis, tables, scale, cos, sin] = args;
  f(positions);
  f(inv_freq);
  f(axis);
  f(tables);
  f(cos);
  f(sin);
}

template <typename F>
void each_operand(RopeArgs& args, F&& f) {
  auto& [x, head_dim, cos, sin] = args;
  f(x);
  f(cos);
  f(sin);
}

template <typename F>
void each_operand(KvLayer& layer, F&& f) {
  auto& [blocks, block_size, kv_heads, head_dim] = layer;
  f(blocks);
}

template <typename F>
void each_operand(KvWriteArgs& args, F&& f) {
  auto& [plan, k, v, layer] = args;
  f(plan);
  f(k);
  f(v);
  each_operand(layer, f);
}

template <typename F>
void each_operand(PagedAttentionArgs& args, F&& f) {
  auto& [plan, q, layer, scale, softcap, compute, out] = args;
  f(plan);
  f(q);
  each_operand(layer, f);
  f(out);
}

template <typename F>
void each_operand(SegmentAttentionArgs& args, F&& f) {
  auto& [plan, q, k, v, scale, compute, out] = args;
  f(plan);
  f(q);
  f(k);
  f(v);
  f(out);
}

template <typename F>
void each_operand(GatedArgs& args, F&& f) {
  auto& [gate, up, activation, out] = args;
  f(gate);
  f(up);
  f(out);
}

template <typename F>
void each_operand(MlpArgs& args, F&& f) {
  auto& [x, in, in_bias, activation, out, out_bias, residual, inner, y] = args;
  f(x);
  f(in);
  f(in_bias);
  f(out);
  f(out_bias);
  f(residual);
  f(inner);
  f(y);
}

template <typename F>
void each_operand(ExpertsArgs& args, F&& f) {
  auto& [x, logits, experts, per_row, normalise, activation, add, gathered, inner, part, y] = args;
  f(x);
  f(logits);
  f(experts);
  f(gathered);
  f(inner);
  f(part);
  f(y);
}

template <typename F>
void each_operand(CausalConvArgs& args, F&& f) {
  auto& [x, weight, spans, states, activation, out] = args;
  f(x);
  f(weight);
  f(spans);
  f(states);
  f(out);
}

template <typename F>
void each_operand(DeltaRuleArgs& args, F&& f) {
  auto& [q, k, v, a, b, a_log, dt_bias, spans, states, key_dim, value_dim, scale, epsilon, out] =
      args;
  f(q);
  f(k);
  f(v);
  f(a);
  f(b);
  f(a_log);
  f(dt_bias);
  f(spans);
  f(states);
  f(out);
}

template <typename F>
void each_operand(EmbedArgs& args, F&& f) {
  auto& [table, packed, ids, last_tokens, scale, out] = args;
  f(table);
  f(packed);
  f(ids);
  f(last_tokens);
  f(out);
}

template <typename F>
void each_operand(MixRowsArgs& args, F&& f) {
  auto& [x, rows, weights, taps, out] = args;
  f(x);
  f(rows);
  f(weights);
  f(out);
}

template <typename F>
void each_operand(CopyRowsArgs& args, F&& f) {
  auto& [from, from_rows, to, to_rows, add] = args;
  f(from);
  f(from_rows);
  f(to);
  f(to_rows);
}

template <typename F>
void each_operand(SampleArgs& args, F&& f) {
  auto& [logits, stats, rows, last_tokens, sampled, alternatives] = args;
  f(logits);
  f(stats);
  f(rows);
  f(last_tokens);
  f(sampled);
  f(alternatives);
}

}  // namespace saccade

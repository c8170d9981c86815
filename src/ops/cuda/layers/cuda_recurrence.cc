// Layers that keep a state, from a device's arguments to a kernel's.
#include <cstddef>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/layers/recurrent_kernels.h"
#include "ops/shapes.h"

namespace saccade::cuda {
namespace {

const StateSpanEntry* entries(StateSpans spans) {
  static_assert(sizeof(StateSpan) == sizeof(StateSpanEntry) &&
                offsetof(StateSpan, row_begin) == offsetof(StateSpanEntry, row_begin) &&
                offsetof(StateSpan, row_count) == offsetof(StateSpanEntry, row_count) &&
                offsetof(StateSpan, page) == offsetof(StateSpanEntry, page) &&
                offsetof(StateSpan, fresh) == offsetof(StateSpanEntry, fresh));
  return reinterpret_cast<const StateSpanEntry*>(spans.data());
}

void check_type(const char* name, View view, DType type) {
  CHECK(view.dtype() == type, "{} is {}, want {}", name, name_of(view.dtype()), name_of(type));
}

}  // namespace

void CudaStream::causal_conv(const CausalConvArgs& args) {
  flush();
  check_shapes(args);
  check_type("out", args.out, args.x.dtype());
  launch(launch_causal_conv, {.x = rows_of(args.x),
                              .weight = rows_of(args.weight),
                              .spans = entries(args.spans),
                              .span_count = args.spans.size(),
                              .states = rows_of(args.states),
                              .activation = args.activation,
                              .out = rows_of(args.out)});
}

// The kernel reads q and k as they are: they are given their length where they are used, and not
// rounded again.
void CudaStream::delta_rule(const DeltaRuleArgs& args) {
  flush();
  check_shapes(args);
  CHECK(args.key_dim <= kMaxKeyDim, "keys of {} numbers, {} are the most", args.key_dim,
        kMaxKeyDim);
  for (const auto& [name, view] :
       {std::pair{"k", args.k}, std::pair{"v", args.v}, std::pair{"a", args.a},
        std::pair{"b", args.b}, std::pair{"out", args.out}})
    check_type(name, view, args.q.dtype());
  launch(launch_delta_rule, {.q = rows_of(args.q),
                             .k = rows_of(args.k),
                             .v = rows_of(args.v),
                             .a = rows_of(args.a),
                             .b = rows_of(args.b),
                             .a_log = reinterpret_cast<const float*>(data_of(args.a_log)),
                             .dt_bias = reinterpret_cast<const float*>(data_of(args.dt_bias)),
                             .spans = entries(args.spans),
                             .span_count = args.spans.size(),
                             .states = rows_of(args.states),
                             .heads = args.a_log.cols(),
                             .key_heads = args.q.cols() / args.key_dim,
                             .key_dim = args.key_dim,
                             .value_dim = args.value_dim,
                             .scale = args.scale,
                             .epsilon = args.epsilon,
                             .out = rows_of(args.out)});
}

}  // namespace saccade::cuda

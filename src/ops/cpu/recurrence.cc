// Layers with a recurrent state: the convolution before it and the gated delta rule. Threads share
// columns, never a sequence's tokens.
#include <cmath>

#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

// As published models do: above, log(1 + e^x) is x in f32.
float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace

void CpuStream::causal_conv(const CausalConvArgs& args) {
  check_shapes(args);
  constexpr std::int64_t kCols = 256;  // of a piece of work
  const std::int64_t cols = args.x.cols();
  const std::int64_t pieces = (cols + kCols - 1) / kCols;
  const std::span<const StateSpan> spans = args.spans.host();
  const auto run = [&](const StateSpan& span, std::int64_t col) {
    ConvArgs conv;
    conv.x = args.x.row<float>(span.row_begin) + col;
    conv.x_stride = args.x.stride();
    conv.rows = span.row_count;
    conv.cols = std::min(kCols, cols - col);
    conv.weight = args.weight.row<float>(0) + col;
    conv.weight_stride = args.weight.stride();
    conv.taps = args.weight.rows();
    conv.state = args.states.row<float>(span.page) + col;
    conv.state_stride = cols;
    conv.fresh = span.fresh != 0;
    conv.activation = args.activation;
    conv.out = args.out.row<float>(span.row_begin) + col;
    conv.out_stride = args.out.stride();
    kernels_.causal_conv(conv);
  };
  pool_.parallel_for(static_cast<std::int64_t>(spans.size()) * pieces, 1,
                     [&](std::int64_t begin, std::int64_t end, int) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         const StateSpan& span = spans[static_cast<std::size_t>(i / pieces)];
                         if (span.row_count > 0) run(span, i % pieces * kCols);
                       }
                     });
}

void CpuStream::delta_rule(const DeltaRuleArgs& args) {
  check_shapes(args);
  const std::int64_t rows = args.q.rows();
  const std::int64_t heads = args.a_log.cols();
  const std::int64_t keys = args.q.cols() / args.key_dim;
  // Per row and head the decay, and behind all of them beta.
  float* const decays = shared_scratch().reserve<float>(2 * rows * heads);
  float* const betas = decays + rows * heads;
  each_row(rows, 2 * args.q.cols() + 40 * heads, [&](std::int64_t row) {
    for (std::int64_t head = 0; head < keys; ++head) {
      const std::int64_t col = head * args.key_dim;
      kernels_.unit_row(args.q.row<float>(row) + col, args.epsilon, args.scale, args.key_dim);
      kernels_.unit_row(args.k.row<float>(row) + col, args.epsilon, 1, args.key_dim);
    }
    for (std::int64_t head = 0; head < heads; ++head) {
      const float rate = std::exp(args.a_log.row<float>(0)[head]);
      const float raised = args.a.row<float>(row)[head] + args.dt_bias.row<float>(0)[head];
      decays[row * heads + head] = std::exp(-rate * softplus(raised));
      betas[row * heads + head] = 1 / (1 + std::exp(-args.b.row<float>(row)[head]));
    }
  });

  const std::int64_t lanes = kernels_.lanes;
  const std::int64_t panels = (args.value_dim + lanes - 1) / lanes;
  const std::span<const StateSpan> spans = args.spans.host();
  const auto run = [&](const StateSpan& span, std::int64_t head, std::int64_t col, float* work) {
    const std::int64_t row = span.row_begin;
    const std::int64_t key_col = head / (heads / keys) * args.key_dim;
    const std::int64_t value_col = head * args.value_dim + col;
    DeltaArgs delta;
    delta.q = args.q.row<float>(row) + key_col;
    delta.q_stride = args.q.stride();
    delta.k = args.k.row<float>(row) + key_col;
    delta.k_stride = args.k.stride();
    delta.v = args.v.row<float>(row) + value_col;
    delta.v_stride = args.v.stride();
    delta.decay = decays + row * heads + head;
    delta.beta = betas + row * heads + head;
    delta.gate_stride = heads;
    delta.rows = span.row_count;
    delta.key_dim = args.key_dim;
    delta.cols = std::min(lanes, args.value_dim - col);
    delta.state = args.states.row<float>(span.page) + head * args.key_dim * args.value_dim + col;
    delta.state_stride = args.value_dim;
    delta.fresh = span.fresh != 0;
    delta.work = work;
    delta.out = args.out.row<float>(row) + value_col;
    delta.out_stride = args.out.stride();
    kernels_.delta_rule(delta);
  };
  const std::int64_t pieces = heads * panels;
  pool_.parallel_for(static_cast<std::int64_t>(spans.size()) * pieces, 4,
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       float* const work =
                           worker_scratch(worker).reserve<float>(args.key_dim * lanes);
                       for (std::int64_t i = begin; i < end; ++i) {
                         const StateSpan& span = spans[static_cast<std::size_t>(i / pieces)];
                         const std::int64_t piece = i % pieces;
                         if (span.row_count > 0)
                           run(span, piece / panels, piece % panels * lanes, work);
                       }
                     });
}

}  // namespace saccade::cpu

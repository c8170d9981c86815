#include "ops/reference/reference_recurrence.h"

#include <cmath>

namespace saccade {
namespace {

// Gives a head its length, 1 times `scale`, in place.
void give_length(float* head, const DeltaRuleArgs& args, double scale) {
  double squares = args.epsilon;
  for (std::int64_t dim = 0; dim < args.key_dim; ++dim)
    squares += static_cast<double>(head[dim]) * head[dim];
  for (std::int64_t dim = 0; dim < args.key_dim; ++dim)
    head[dim] = static_cast<float>(head[dim] * scale / std::sqrt(squares));
}

// Token i of a span: a value head's state, one column after the other.
void step(const DeltaRuleArgs& args, const StateSpan& span, std::int64_t i, std::int64_t head,
          std::int64_t key_head) {
  const std::int64_t row = span.row_begin + i;
  const double raised =
      static_cast<double>(args.a.row<float>(row)[head]) + args.dt_bias.row<float>(0)[head];
  const double softplus = raised > 30 ? raised : std::log1p(std::exp(raised));
  const double decay =
      std::exp(-std::exp(static_cast<double>(args.a_log.row<float>(0)[head])) * softplus);
  const double beta = 1 / (1 + std::exp(-static_cast<double>(args.b.row<float>(row)[head])));
  const float* const q = args.q.row<float>(row) + key_head * args.key_dim;
  const float* const k = args.k.row<float>(row) + key_head * args.key_dim;
  float* const s = args.states.row<float>(span.page) + head * args.key_dim * args.value_dim;
  for (std::int64_t col = 0; col < args.value_dim; ++col) {
    const auto before = [&](std::int64_t dim) {
      return span.fresh != 0 && i == 0 ? 0 : decay * s[dim * args.value_dim + col];
    };
    double known = 0;
    for (std::int64_t dim = 0; dim < args.key_dim; ++dim) known += before(dim) * k[dim];
    const std::int64_t at = head * args.value_dim + col;
    const double delta = beta * (args.v.row<float>(row)[at] - known);
    double out = 0;
    for (std::int64_t dim = 0; dim < args.key_dim; ++dim) {
      const double next = before(dim) + delta * k[dim];
      out += next * q[dim];
      s[dim * args.value_dim + col] = static_cast<float>(next);
    }
    args.out.row<float>(row)[at] = static_cast<float>(out);
  }
}

}  // namespace

void reference_causal_conv(const CausalConvArgs& args,
                           double (*activate)(Activation activation, double x)) {
  const std::int64_t cols = args.x.cols();
  const std::int64_t kept = args.weight.rows() - 1;
  for (const StateSpan& span : args.spans.host()) {
    for (std::int64_t col = 0; span.row_count > 0 && col < cols; ++col) {
      float* const state = args.states.row<float>(span.page) + col;
      std::vector<float> x;  // what the sequence had before, then its rows
      for (std::int64_t i = 0; i < kept; ++i) x.push_back(span.fresh != 0 ? 0 : state[i * cols]);
      for (std::int64_t i = 0; i < span.row_count; ++i)
        x.push_back(args.x.row<float>(span.row_begin + i)[col]);
      for (std::int64_t i = 0; i < span.row_count; ++i) {
        double sum = 0;
        for (std::int64_t tap = 0; tap <= kept; ++tap)
          sum += static_cast<double>(args.weight.row<float>(tap)[col]) *
                 x[static_cast<std::size_t>(i + tap)];
        args.out.row<float>(span.row_begin + i)[col] =
            static_cast<float>(activate(args.activation, sum));
      }
      for (std::int64_t i = 0; i < kept; ++i)
        state[i * cols] = x[static_cast<std::size_t>(span.row_count + i)];
    }
  }
}

void reference_delta_rule(const DeltaRuleArgs& args) {
  const std::int64_t keys = args.q.cols() / args.key_dim;
  for (std::int64_t row = 0; row < args.q.rows(); ++row) {
    for (std::int64_t head = 0; head < keys; ++head) {
      give_length(args.q.row<float>(row) + head * args.key_dim, args, args.scale);
      give_length(args.k.row<float>(row) + head * args.key_dim, args, 1);
    }
  }
  const std::int64_t heads = args.a_log.cols();
  for (const StateSpan& span : args.spans.host())
    for (std::int64_t i = 0; i < span.row_count; ++i)
      for (std::int64_t head = 0; head < heads; ++head)
        step(args, span, i, head, head / (heads / keys));
}

}  // namespace saccade

// A backend that counts what a forward must do, and lets another do it: the numerators of a share
// of the roof. Bytes are those of the packed weights (each read once a gemm) and of the keys and
// values in sight; operations are the multiply-adds of gemm and attention, two each.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "ops/backend.h"

namespace saccade {

struct Work {
  double bytes = 0;
  double flops = 0;
};

class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(Backend& inner) : inner_(inner) {}

  // What was asked for since the last call.
  Work take() { return std::exchange(work_, Work{}); }

  std::string_view name() const override { return inner_.name(); }
  std::string description() const override { return inner_.description(); }
  DType activation_dtype() const override { return inner_.activation_dtype(); }
  ThreadPool& pool() override { return inner_.pool(); }
  Result<Buffer> allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  void copy(View from, View to) override { inner_.copy(from, to); }
  void synchronize() override { inner_.synchronize(); }
  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override {
    return inner_.pack(parts, compute);
  }

  void gemm(const GemmArgs& args) override {
    const auto out = static_cast<double>(args.weight->out());
    const auto in = static_cast<double>(args.weight->in());
    work_.bytes += static_cast<double>(args.weight->bytes());
    work_.flops += 2 * static_cast<double>(args.x.rows()) * out * in;
    inner_.gemm(args);
  }
  void paged_attention(const PagedAttentionArgs& args) override {
    const KvLayer& layer = args.layer;
    for (const SequenceSpan& span : args.spans) {
      // Keys in sight, summed over the rows of the span: causal.
      double keys = 0;
      for (std::int64_t row = 0; row < span.row_count; ++row) {
        const std::int64_t seen = span.context + row + 1;
        keys += static_cast<double>(args.window > 0 ? std::min(args.window, seen) : seen);
      }
      work_.flops += 4 * keys * static_cast<double>(args.heads * layer.head_dim);
      work_.bytes +=
          2 *
          static_cast<double>((span.context + span.row_count) * layer.kv_heads * layer.head_dim) *
          static_cast<double>(size_of(layer.dtype));
    }
    inner_.paged_attention(args);
  }
  void segment_attention(const SegmentAttentionArgs& args) override {
    for (std::size_t i = 0; i + 1 < args.begins.size(); ++i) {
      const double rows = args.begins[i + 1] - args.begins[i];
      work_.flops += 4 * rows * rows * static_cast<double>(args.heads * args.head_dim);
    }
    inner_.segment_attention(args);
  }

  void norm(const NormArgs& args) override { inner_.norm(args); }
  void rope_table(const RopeTableArgs& args) override { inner_.rope_table(args); }
  void rope(const RopeArgs& args) override { inner_.rope(args); }
  void kv_write(const KvWriteArgs& args) override { inner_.kv_write(args); }
  void gated(const GatedArgs& args) override { inner_.gated(args); }
  void embed(const EmbedArgs& args) override { inner_.embed(args); }
  void mix_rows(const MixRowsArgs& args) override { inner_.mix_rows(args); }
  void scatter_rows(const ScatterRowsArgs& args) override { inner_.scatter_rows(args); }
  void add(View x, View y, float scale) override { inner_.add(x, y, scale); }
  void softcap(View x, float cap) override { inner_.softcap(x, cap); }
  void row_stats(View logits, std::span<RowStats> out) override { inner_.row_stats(logits, out); }

 private:
  Backend& inner_;
  Work work_;
};

}  // namespace saccade

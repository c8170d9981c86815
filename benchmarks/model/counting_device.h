// A device that counts what a forward must do, and lets another do it: the numerators of a share of
// the roof, and launches. Bytes are those of the packed weights (each read once a gemm) and of the
// keys and values in sight; operations are the multiply-adds of gemm and attention, two each.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/forwarding_device.h"

namespace saccade {

struct Work {
  double bytes = 0;
  double flops = 0;
  double int8_ops = 0;        // products of bytes and their sums, two each
  std::int64_t launches = 0;  // ops and copies within the device
  std::int64_t uploads = 0;   // lists and plans, and matrices of the host
};

class CountingStream final : public Stream {
 public:
  CountingStream(Device& device, Stream& inner, Work& work)
      : device_(device), inner_(inner), work_(work) {}

  using Stream::upload;
  Device& device() override { return device_; }
  const AttentionPlan& plan_attention(std::span<const SequenceSpan> spans,
                                      const AttentionGeometry& geometry) override {
    ++work_.uploads;
    return inner_.plan_attention(spans, geometry);
  }
  const SegmentPlan& plan_segments(std::span<const std::int32_t> begins,
                                   const SegmentGeometry& geometry) override {
    ++work_.uploads;
    return inner_.plan_segments(begins, geometry);
  }
  void retire() override { inner_.retire(); }
  void upload(View from, View to) override {
    ++work_.uploads;
    inner_.upload(from, to);
  }
  void copy(View from, View to) override { launch().copy(from, to); }
  void download(View from, View to) override { inner_.download(from, to); }
  Event record() override { return inner_.record(); }
  void wait(const Event& of) override { inner_.wait(of); }
  void synchronize() override { inner_.synchronize(); }
  void fill(const StoredMatrix& from, View to) override { inner_.fill(from, to); }
  void begin_repeated(std::int64_t kind) override { inner_.begin_repeated(kind); }
  void end_repeated() override { inner_.end_repeated(); }

  void gemm(const GemmArgs& args) override {
    count(*args.weight, args.x.rows());
    launch().gemm(args);
  }
  void paged_attention(const PagedAttentionArgs& args) override {
    const AttentionGeometry& of = args.plan->geometry();
    for (const SequenceSpan& span : args.plan->spans()) {
      // Keys in sight, summed over the rows of the span: causal.
      double keys = 0;
      for (std::int64_t row = 0; row < span.row_count; ++row) {
        const std::int64_t seen = span.context + row + 1;
        keys += static_cast<double>(of.window > 0 ? std::min(of.window, seen) : seen);
      }
      work_.flops += 4 * keys * static_cast<double>(of.heads * of.head_dim);
      const DType type = args.layer.dtype();
      const std::int64_t row_bytes =
          of.head_dim * static_cast<std::int64_t>(size_of(type)) + kv_scale_bytes(type);
      work_.bytes +=
          2 * static_cast<double>((span.context + span.row_count) * of.kv_heads * row_bytes);
    }
    launch().paged_attention(args);
  }
  void segment_attention(const SegmentAttentionArgs& args) override {
    const std::span<const std::int32_t> begins = args.plan->begins();
    const SegmentGeometry& of = args.plan->geometry();
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      const double rows = begins[i + 1] - begins[i];
      work_.flops += 4 * rows * rows * static_cast<double>(of.heads * of.head_dim);
    }
    launch().segment_attention(args);
  }

  void norm(const NormArgs& args) override { launch().norm(args); }
  void rope_table(const RopeTableArgs& args) override { launch().rope_table(args); }
  void rope(const RopeArgs& args) override { launch().rope(args); }
  void kv_write(const KvWriteArgs& args) override { launch().kv_write(args); }
  void qkv(const QkvArgs& args) override { launch().qkv(args); }
  void gated(const GatedArgs& args) override { launch().gated(args); }
  void mlp(const MlpArgs& args) override {
    count(*args.in, args.x.rows());
    count(*args.out, args.x.rows());
    launch().mlp(args);
  }
  void normed_gemm(const NormedGemmArgs& args) override {
    count(*args.gemm.weight, args.gemm.x.rows());
    launch().normed_gemm(args);
  }
  void normed_mlp(const NormedMlpArgs& args) override {
    count(*args.mlp.in, args.mlp.x.rows());
    count(*args.mlp.out, args.mlp.x.rows());
    launch().normed_mlp(args);
  }
  void embed(const EmbedArgs& args) override { launch().embed(args); }
  void mix_rows(const MixRowsArgs& args) override { launch().mix_rows(args); }
  void cut_patches(const CutPatchesArgs& args) override { launch().cut_patches(args); }
  void copy_rows(const CopyRowsArgs& args) override { launch().copy_rows(args); }
  void add(View x, View y, float scale) override { launch().add(x, y, scale); }
  void softcap(View x, float cap) override { launch().softcap(x, cap); }
  void row_stats(View logits, View stats) override { launch().row_stats(logits, stats); }
  void sample(const SampleArgs& args) override { launch().sample(args); }

 protected:
  const std::byte* upload_bytes(std::span<const std::byte> bytes) override {
    ++work_.uploads;
    return reinterpret_cast<const std::byte*>(inner_.upload(bytes).data());
  }
  Space space() const override { return inner_.device().space(); }

 private:
  void count(const PackedWeight& weight, std::int64_t rows) {
    work_.bytes += static_cast<double>(weight.bytes());
    (weight.operand_dtype() == DType::kI8 ? work_.int8_ops : work_.flops) +=
        2 * static_cast<double>(rows) * static_cast<double>(weight.out()) *
        static_cast<double>(weight.in());
  }
  Stream& launch() {
    ++work_.launches;
    return inner_;
  }

  Device& device_;
  Stream& inner_;
  Work& work_;
};

class CountingDevice final : public ForwardingDevice {
 public:
  explicit CountingDevice(Device& inner) : ForwardingDevice(inner) {
    for (std::size_t i = 0; i < kLanes; ++i)
      lanes_.push_back(
          std::make_unique<CountingStream>(*this, inner.lane(static_cast<Lane>(i)), work_));
  }

  // What was asked for since the last call.
  Work take() { return std::exchange(work_, Work{}); }

  // Not counted: CountingStream has neither.
  bool has_experts() const override { return false; }
  bool has_recurrence() const override { return false; }
  Stream& lane(Lane lane) override { return *lanes_[static_cast<std::size_t>(lane)]; }

 private:
  Work work_;
  std::vector<std::unique_ptr<CountingStream>> lanes_;
};

}  // namespace saccade

// Attention that stands in for FlashInfer's: on the host, when the emulator's stream comes to it,
// tile by tile as the lists say; honestly, or not.
#pragma once

#include "ops/cuda/libraries/flash_attention.h"

namespace saccade::test {

enum class FlashLie {
  kNone,
  kWrongNumbers,  // a column of each head is off
  kByCompany,     // keys the other way round where others are in the call: other bits
  kByCut,         // and where the context is odd
  kSkipsATile,
  kReadsBeyond,  // over pages, of keys behind the last what lies there
  kReadsWider,   // scores of columns behind the last head too
  kWritesWider,  // zeros over the columns behind the last head
  kRefuses,
};

class FakeFlash final : public cuda::FlashAttention {
 public:
  FakeFlash(std::vector<cuda::FlashForm> forms, int blocks, FlashLie lie = FlashLie::kNone)
      : forms_(std::move(forms)), blocks_(blocks), lie_(lie) {}

  std::string description() const override { return "fake flash"; }
  std::span<const cuda::FlashForm> forms() const override { return forms_; }
  int blocks() const override { return blocks_; }
  bool launch(const cuda::FlashArgs& args, cudaStream_t stream) override;

  std::int64_t launches() const { return launches_; }
  std::int64_t works() const { return works_; }  // of all of them

 private:
  std::vector<cuda::FlashForm> forms_;
  int blocks_;
  FlashLie lie_;
  std::int64_t launches_ = 0;
  std::int64_t works_ = 0;
};

}  // namespace saccade::test

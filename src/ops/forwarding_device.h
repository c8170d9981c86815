// A device that is another one but for what a derived class overrides.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ops/device.h"

namespace saccade {

// `inner` outlives it.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& inner) : inner_(inner) {}

  std::string_view name() const override { return inner_.name(); }
  std::string description() const override { return inner_.description(); }
  DType activation_dtype() const override { return inner_.activation_dtype(); }
  ThreadPool& pool() override { return inner_.pool(); }
  Result<Buffer> allocate(std::size_t bytes, Space space) override {
    return inner_.allocate(bytes, space);
  }
  Space space() const override { return inner_.space(); }
  std::int64_t free_bytes() const override { return inner_.free_bytes(); }
  std::int64_t total_bytes() const override { return inner_.total_bytes(); }
  bool makes_graphs() const override { return inner_.makes_graphs(); }
  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override {
    return inner_.pack(parts, compute);
  }
  bool multiplies_int8() const override { return inner_.multiplies_int8(); }
  bool multiplies_w4a8() const override { return inner_.multiplies_w4a8(); }
  bool multiplies_e4m3() const override { return inner_.multiplies_e4m3(); }
  bool caches(DType cache) const override { return inner_.caches(cache); }
  bool has_experts() const override { return inner_.has_experts(); }
  bool has_recurrence() const override { return inner_.has_recurrence(); }
  bool cuts_patches() const override { return inner_.cuts_patches(); }
  std::unique_ptr<TokenCounts> count_tokens(std::span<const std::int32_t> prompt) override {
    return inner_.count_tokens(prompt);
  }
  Stream& lane(Lane lane) override { return inner_.lane(lane); }

 private:
  Device& inner_;
};

}  // namespace saccade

// The widths of the models that ops are measured at.
#pragma once

#include <cstdint>

namespace saccade {

struct ModelWidths {
  const char* name;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t inner;  // of the gated layer
  std::int64_t vocab;

  std::int64_t qkv() const { return (heads + 2 * kv_heads) * head_dim; }
};

constexpr ModelWidths kWidths7B = {"7B", 3584, 28, 4, 128, 18944, 152064};
constexpr ModelWidths kWidths2B = {"2B", 1536, 12, 2, 128, 8960, 151936};
constexpr ModelWidths kRehearsed = {"rehearsal", 64, 4, 2, 16, 48, 96};

}  // namespace saccade

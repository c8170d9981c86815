// How kinds of layers share the KV cache's memory (--kv-policy, docs/memory.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/named_values.h"

namespace saccade {

enum class KvPolicy : std::uint8_t { kJenga, kMaxPage, kStatic, kPaged };

inline constexpr std::array<Named<KvPolicy>, 4> kKvPolicies{{{"jenga", KvPolicy::kJenga},
                                                             {"maxpage", KvPolicy::kMaxPage},
                                                             {"static", KvPolicy::kStatic},
                                                             {"paged", KvPolicy::kPaged}}};

constexpr std::string_view name_of(KvPolicy policy) { return name_in(kKvPolicies, policy); }

}  // namespace saccade

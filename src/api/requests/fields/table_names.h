// Short names for the rows of field_table.cc and member_table.cc, which are to be read as tables.
#pragma once

#include <cstdint>

#include "api/requests/fields/field_table.h"

namespace saccade::api::table_names {

inline constexpr std::uint16_t kChat = static_cast<std::uint16_t>(RequestKind::kChat);
inline constexpr std::uint16_t kCompletion = static_cast<std::uint16_t>(RequestKind::kCompletion);
inline constexpr std::uint16_t kResponse = static_cast<std::uint16_t>(RequestKind::kResponse);
inline constexpr std::uint16_t kMessages = static_cast<std::uint16_t>(RequestKind::kMessages);

inline constexpr Fate kUsed = Fate::kUsed;
inline constexpr Fate kTemplate = Fate::kTemplate;
inline constexpr Fate kRefused = Fate::kRefused;
inline constexpr Fate kIgnored = Fate::kIgnored;

}  // namespace saccade::api::table_names

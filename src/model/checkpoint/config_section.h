// Sections of config.json, the extents in them, and the ids of placeholders.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace saccade {

// Member `name` of a configuration that must be an object: vision_config.
Result<const json::object*> config_section(const json::object& config, std::string_view name);

// Extents of a section of config.json: `into` holds the default; a value outside [1, most] is
// kInvalid, naming the section and the field.
struct ExtentField {
  std::string_view name;
  std::int64_t* into;
  std::int64_t most;
};
Result<void> read_extents(const json::object& section, std::string_view section_name,
                          std::span<const ExtentField> fields);

// The id of a placeholder for images or videos.
struct MediaTokenField {
  std::array<std::string_view, 2> names;  // the first that the file has counts; one may be empty
  std::int64_t fallback = -1;             // of a file that has none; -1: it must have one
  // A file that has none may be of another vocabulary, as where the class's default is left out.
  bool any_fallback = false;
};
// kUnsupported where the id is not one of `vocab`.
Result<TokenId> media_token(const json::object& config, const MediaTokenField& field,
                            std::int64_t vocab);

}  // namespace saccade

// Sections of config.json and the extents in them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

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

}  // namespace saccade

#include "model/checkpoint/config_section.h"

#include <boost/json/value.hpp>

namespace saccade {

Result<const json::object*> config_section(const json::object& config, std::string_view name) {
  const json::value* section = json::find(config, name);
  if (section == nullptr || !section->is_object())
    return fail(ErrorCode::kInvalid, "{} is missing", name);
  return &section->get_object();
}

Result<void> read_extents(const json::object& section, std::string_view section_name,
                          std::span<const ExtentField> fields) {
  for (const ExtentField& field : fields) {
    TRY(*field.into, json::get_int_or(section, field.name, *field.into));
    if (*field.into < 1 || *field.into > field.most)
      return fail(ErrorCode::kInvalid, "{}.{} is {}, 1 to {} is possible", section_name, field.name,
                  *field.into, field.most);
  }
  return {};
}

}  // namespace saccade

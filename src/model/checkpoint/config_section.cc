#include "model/checkpoint/config_section.h"

#include <algorithm>
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

Result<TokenId> media_token(const json::object& config, const MediaTokenField& field,
                            std::int64_t vocab) {
  const auto has = [&](std::string_view name) { return json::find(config, name) != nullptr; };
  const auto* const said = std::ranges::find_if(field.names, has);
  const bool found = said != field.names.end();
  const std::string_view name = found ? *said : field.names.front();
  TRY(const std::int64_t token, field.fallback < 0
                                    ? json::get_int(config, name)
                                    : json::get_int_or(config, name, field.fallback));
  if ((token < 0 || token >= vocab) && (found || !field.any_fallback))
    return fail(ErrorCode::kUnsupported, "{} {} is outside the vocabulary of {}", name, token,
                vocab);
  return static_cast<TokenId>(token);
}

}  // namespace saccade

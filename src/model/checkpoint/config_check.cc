#include "model/checkpoint/config_check.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <string>

namespace saccade {
namespace {

constexpr std::int64_t kMaxToken = INT32_MAX;
constexpr std::int64_t kMaxChannels = 3;

tl::unexpected<Error> wrong(const std::string& path, const json::value& value,
                            std::string_view wanted) {
  return fail(ErrorCode::kInvalid, "{} is {}, {} is required", path, json::shown(value), wanted);
}

bool is_integer_within(const json::value& value, std::int64_t least, std::int64_t most) {
  return value.is_int64() && value.get_int64() >= least && value.get_int64() <= most;
}

bool is_token(const json::value& value) { return is_integer_within(value, 0, kMaxToken); }

// Of tokens that stand for media; others, such as one for padding, may be -1: there is none.
bool is_media_token(std::string_view name) {
  if (!name.ends_with("_token_id") && !name.ends_with("_token_index")) return false;
  constexpr std::array<std::string_view, 5> kMedia = {"image", "video", "vision", "boi_", "eoi_"};
  return std::ranges::any_of(
      kMedia, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

bool is_channels(std::string_view name) {
  return name == "in_chans" || name == "in_channels" || name == "num_channels";
}

// What a norm adds to a variance; below 0 the sum may have no root.
bool is_epsilon(std::string_view name) {
  return name.ends_with("norm_eps") || name.ends_with("norm_epsilon");
}

bool is_share(const json::value& value) {
  return value.is_number() && value.to_number<double>() >= 0 && value.to_number<double>() < 1;
}

Result<void> check_member(const std::string& path, std::string_view name,
                          const json::value& value) {
  const auto* const list = value.if_array();
  if (name == "architectures") {
    const bool names = list != nullptr && std::ranges::all_of(*list, [](const json::value& one) {
                         return one.is_string();
                       });
    if (!names) return wrong(path, value, "a list of names");
  } else if (name == "model_type") {
    if (!value.is_string()) return wrong(path, value, "a name");
  } else if (name == "eos_token_id") {
    const bool tokens = list != nullptr ? std::ranges::all_of(*list, is_token) : is_token(value);
    if (!tokens) return wrong(path, value, "a token id or a list of them");
  } else if (is_media_token(name)) {
    if (!is_token(value)) return wrong(path, value, "a token id");
  } else if (is_channels(name)) {
    if (!is_integer_within(value, 1, kMaxChannels)) return wrong(path, value, "1 to 3");
  } else if (is_epsilon(name)) {
    if (!is_share(value)) return wrong(path, value, "a number from 0 to below 1");
  }
  return {};
}

bool is_never_a_section(std::string_view name) {
  return name == "architectures" || name == "model_type" || name == "eos_token_id" ||
         is_media_token(name) || is_channels(name);
}

// Sections lie in the configuration; what lies in them is of others' making.
Result<void> check_section(const json::object& section, const std::string& path, bool sections) {
  for (const auto& member : section) {
    const std::string_view name(member.key());
    const json::value& value = member.value();
    if (value.is_null()) continue;
    const std::string here = path + std::string(name.substr(0, 64));
    if (sections && value.is_object() && !is_never_a_section(name)) {
      TRY_DO(check_section(value.get_object(), here + ".", false));
    } else {
      TRY_DO(check_member(here, name, value));
    }
  }
  return {};
}

}  // namespace

Result<void> check_config(const json::object& config, const json::object& generation) {
  TRY_DO(check_section(config, "config.json: ", true));
  return check_section(generation, "generation_config.json: ", false);
}

}  // namespace saccade

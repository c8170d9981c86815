#include "apps/flags/argument_spelling.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>

#include "apps/flags/vllm_flags.h"
#include "base/json.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxKeys = 16;  // of one dotted name

struct Argument {
  std::string name;                  // "--x"; empty: no flag
  std::optional<std::string> value;  // after "="
};

Argument split(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, std::nullopt};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string joined(const Argument& argument) {
  return argument.value ? argument.name + "=" + *argument.value : argument.name;
}

// -tp is --tensor-parallel-size; -O3, -O=3 and -O 3 are --optimization-level 3.
Argument long_name(Argument argument) {
  if (argument.name.size() < 2 || argument.name[0] != '-' || argument.name[1] == '-')
    return argument;
  if (argument.name.starts_with("-O") && argument.name.size() == 3 && !argument.value &&
      std::isdigit(static_cast<unsigned char>(argument.name[2])) != 0)
    return {"--optimization-level", argument.name.substr(2)};
  const std::size_t dot = std::min(argument.name.find('.'), argument.name.size());
  const VllmFlag* flag = find_vllm_flag(argument.name.substr(0, dot));
  if (flag == nullptr) return argument;
  return {std::string(flag->names.substr(0, flag->names.find(' '))) + argument.name.substr(dot),
          argument.value};
}

void with_dashes(std::string& name) {
  if (!name.starts_with("--")) return;
  const std::size_t end = std::min(name.find('.'), name.size());  // keys stay as they are
  std::replace(name.begin() + 2, name.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
}

// Numbers, booleans, lists and objects as JSON, all else as a string.
json::value value_of(const std::string& text) {
  auto parsed = json::parse(text);
  return parsed ? *std::move(parsed) : json::value(text.c_str());
}

// JSON objects that come in pieces, by the flag.
class DottedFlags {
 public:
  static bool is_dotted(const std::string& name) {
    return name.starts_with("--") && name.find('.') != std::string::npos;
  }

  // True for the first piece of a flag.
  Result<bool> add(const std::string& name, const std::string& value) {
    const std::size_t dot = name.find('.');
    const std::string flag = name.substr(0, dot);
    const bool is_new = !objects_.contains(flag);
    json::object* at = &objects_[flag];
    std::string_view keys = std::string_view(name).substr(dot + 1);
    const bool appends = keys.ends_with('+');
    if (appends) keys.remove_suffix(1);
    for (std::size_t depth = 0;; ++depth) {
      const std::size_t end = std::min(keys.find('.'), keys.size());
      const std::string_view key = keys.substr(0, end);
      if (key.empty() || depth == kMaxKeys)
        return fail(ErrorCode::kInvalid, "{}: 1 to {} names with a dot between are required", name,
                    kMaxKeys);
      json::value& place = (*at)[key];
      if (end == keys.size()) {
        put(place, value, appends);
        return is_new;
      }
      if (!place.is_object()) place = json::object{};
      at = &place.get_object();
      keys.remove_prefix(end + 1);
    }
  }

  std::string text(const std::string& flag) const {
    return boost::json::serialize(objects_.at(flag));
  }

 private:
  static void put(json::value& place, const std::string& value, bool appends) {
    if (!appends) {
      place = value_of(value);
      return;
    }
    if (!place.is_array()) place = json::array{};
    for (std::size_t from = 0; from <= value.size();) {
      const std::size_t end = std::min(value.find(',', from), value.size());
      place.get_array().push_back(value_of(value.substr(from, end - from)));
      from = end + 1;
    }
  }

  std::map<std::string, json::object> objects_;
};

bool takes_vllms_flags(std::string_view command) {
  return command == "serve" || command == "batch" || command == "run-batch";
}

}  // namespace

Result<std::vector<std::string>> spelled_out(std::vector<std::string> arguments) {
  const bool of_vllm = !arguments.empty() && takes_vllms_flags(arguments.front());
  DottedFlags dotted;
  std::vector<std::string> spelled;
  std::vector<std::string> waiting;  // flags of `dotted`, by their places
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Argument argument = split(arguments[i]);
    if (!argument.name.starts_with("-")) {
      spelled.push_back(std::move(arguments[i]));
      continue;
    }
    with_dashes(argument.name);
    if (of_vllm) argument = long_name(std::move(argument));
    if (!of_vllm || !DottedFlags::is_dotted(argument.name)) {
      spelled.push_back(joined(argument));
      continue;
    }
    if (!argument.value && i + 1 < arguments.size()) argument.value = arguments[++i];
    if (!argument.value) return fail(ErrorCode::kInvalid, "{}: a value is required", argument.name);
    TRY(const bool is_new, dotted.add(argument.name, *argument.value));
    if (!is_new) continue;
    waiting.push_back(argument.name.substr(0, argument.name.find('.')));
    spelled.push_back("." + waiting.back());
  }
  for (const std::string& flag : waiting)
    *std::ranges::find(spelled, "." + flag) = flag + "=" + dotted.text(flag);
  return spelled;
}

}  // namespace saccade

#include "apps/flags/config_file.h"

#include <algorithm>
#include <sstream>

#include "base/regular_file.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

Result<void> take(CLI::App& command, const CLI::ConfigItem& item) {
  std::string name = item.name;
  std::replace(name.begin(), name.end(), '_', '-');
  CLI::Option* const option = command.get_option_no_throw("--" + name);
  if (option == nullptr || name == "config")
    return fail(ErrorCode::kInvalid, "'{}' is no flag of {}", item.fullname(), command.get_name());
  if (option->count() > 0) return {};  // the command line is nearer
  if (item.inputs.empty())
    return fail(ErrorCode::kInvalid, "{}: a list of 0 values, and it takes one or more", item.name);
  // CLI11 would take the last one, as of a flag that is typed again.
  if (item.inputs.size() > 1 && option->get_items_expected_max() <= 1)
    return fail(ErrorCode::kInvalid, "{}: a list of {} values, and it takes one", item.name,
                item.inputs.size());
  try {
    if (option->get_expected_min() == 0) {
      option->add_result(option->get_flag_value(name, CLI::ConfigBase().to_flag(item)));
    } else {
      option->add_result(item.inputs);
    }
    option->run_callback();
  } catch (const CLI::Error& error) {
    return fail(ErrorCode::kInvalid, "{}: {}", item.name, error.what());
  }
  return {};
}

}  // namespace

Result<void> read_config_file(CLI::App& command, const std::string& path) {
  CLI::ConfigBase format;
  if (path.ends_with(".yaml") || path.ends_with(".yml")) format.valueSeparator(':');
  auto text = read_regular_file(path, kMaxBytes);
  if (!text) return fail_within("--config", std::move(text).error());
  std::istringstream stream(*std::move(text));
  try {
    for (const CLI::ConfigItem& item : format.from_config(stream)) {
      if (item.name == "++" || item.name == "--") continue;  // where a section begins and ends
      auto taken = take(command, item);
      if (!taken) return fail_within("--config " + path, std::move(taken).error());
    }
  } catch (const CLI::Error& error) {
    return fail(ErrorCode::kInvalid, "--config {}: {}", path, error.what());
  }
  return {};
}

}  // namespace saccade

#include "apps/flags/vllm_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/json.h"

namespace saccade {
namespace {

constexpr std::size_t kShown = 80;  // bytes of a value in a line

std::vector<std::string_view> words(std::string_view text, char between) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(between), text.size());
    if (end > 0) found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

// An object that has no members but those in "{a,b}".
bool has_only(std::string_view members, const std::string& value) {
  const auto tree = json::parse(value);
  if (!tree || !tree->is_object()) return false;
  const auto allowed = words(members.substr(1, members.size() - 2), ',');
  return std::ranges::all_of(tree->get_object(), [&](const auto& member) {
    return std::ranges::find(allowed, std::string_view(member.key())) != allowed.end();
  });
}

bool is_harmless(const VllmFlag& flag, const std::string& value) {
  return std::ranges::any_of(words(flag.harmless, ' '), [&](std::string_view each) {
    return each == value || (each.starts_with("{") && has_only(each, value));
  });
}

void judge(const VllmFlag& flag, const std::string& typed, const std::vector<std::string>& values,
           bool off, VllmFlagsSeen& seen) {
  std::string shown = typed;
  for (const std::string& value : values)
    shown += " " + (value.size() > kShown ? value.substr(0, kShown) + "..." : value);
  if (flag.fate == Fate::kNoEffect) {
    seen.notices.push_back(fmt::format("{} has no effect here: {}", shown, flag.sentence));
    return;
  }
  const bool harmless =
      off || (!values.empty() && std::ranges::all_of(values, [&](const std::string& value) {
        return is_harmless(flag, value);
      }));
  if (harmless) {
    seen.notices.push_back(
        fmt::format("{} has no effect here: it is what the server does anyway", shown));
  } else {
    seen.refusals.push_back(fmt::format("{} is not supported: {}", shown, flag.sentence));
  }
}

// "--x,-tp" without the short names of several letters, which the spelling has replaced.
std::string option_names(const VllmFlag& flag) {
  std::string names;
  for (const std::string_view name : words(flag.names, ' ')) {
    if (!name.starts_with("--")) continue;
    names += (names.empty() ? "" : ",") + std::string(name);
    if (flag.takes == Takes::kSwitch && !name.starts_with("--no-"))
      names += ",!--no-" + std::string(name.substr(2));
  }
  return names;
}

void add_one(CLI::App& command, const VllmFlag& flag, VllmFlagsSeen& seen) {
  const std::string typed(flag.names.substr(0, flag.names.find(' ')));
  CLI::Option* option = nullptr;
  if (flag.takes == Takes::kSwitch) {
    option = command
                 .add_flag(option_names(flag),
                           [&flag, &seen, typed](std::int64_t count) {
                             const bool off = count <= 0;
                             judge(flag, off ? "--no-" + typed.substr(2) : typed, {}, off, seen);
                           })
                 ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  } else {
    option = command.add_option_function<std::vector<std::string>>(
        option_names(flag), [&flag, &seen, typed](const std::vector<std::string>& values) {
          std::vector<std::string> given;
          for (const std::string& value : values)
            if (!value.empty()) given.push_back(value);
          judge(flag, typed, given, false, seen);
        });
    if (flag.takes == Takes::kValue) option->expected(1);
    if (flag.takes == Takes::kValues) option->expected(1, -1);
    if (flag.takes == Takes::kOptional) option->expected(0, 1);
  }
  option->group("");  // not in --help: docs/flags.md has them
}

}  // namespace

const VllmFlag* find_vllm_flag(std::string_view name) {
  for (const VllmFlag& flag : vllm_flags()) {
    const auto names = words(flag.names, ' ');
    if (std::ranges::find(names, name) != names.end()) return &flag;
  }
  return nullptr;
}

void add_vllm_flags(CLI::App& command, VllmFlagsSeen& seen) {
  for (const VllmFlag& flag : vllm_flags())
    if (flag.fate != Fate::kWorks) add_one(command, flag, seen);
}

}  // namespace saccade

// Flags whose value is one of a few names: the only place where such a name becomes a value.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/named_values.h"

namespace saccade {

// Without a check of its own, for flags that say more of a wrong name.
template <typename T, std::size_t N>
CLI::Option* add_named(CLI::App& cmd, const std::string& flag, T& value,
                       const std::array<Named<T>, N>& choices, const std::string& description) {
  CLI::Option* const option = cmd.add_option_function<std::string>(
      flag,
      [&value, choices](const std::string& name) {
        if (const Named<T>* const chosen = find_named(choices, name)) value = chosen->value;
      },
      description);
  option->default_function([&value, choices] { return std::string(name_in(choices, value)); });
  return option;
}

// A name that is none of `choices` is refused with all of them.
template <typename T, std::size_t N>
CLI::Option* add_choice(CLI::App& cmd, const std::string& flag, T& value,
                        const std::array<Named<T>, N>& choices, const std::string& description) {
  std::vector<std::string> names;
  for (const Named<T>& each : choices) names.emplace_back(each.name);
  return add_named(cmd, flag, value, choices, description)->check(CLI::IsMember(names));
}

// --encoder-fallback: whether a process encodes what encoders cannot.
inline constexpr std::array<Named<bool>, 2> kEncoderFallbacks{{{"local", true}, {"refuse", false}}};
// --over-target: whether requests that even the least sizes make too late are refused.
inline constexpr std::array<Named<bool>, 2> kOverTargets{{{"accept", false}, {"refuse", true}}};

}  // namespace saccade

// What values are called in flags and in what is written: one table, read both ways.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace saccade {

template <typename T>
struct Named {
  std::string_view name;
  T value;
};

// Null: no value is called so.
template <typename T, std::size_t N>
constexpr const Named<T>* find_named(const std::array<Named<T>, N>& values, std::string_view name) {
  for (const Named<T>& each : values)
    if (each.name == name) return &each;
  return nullptr;
}

// Of several names of a value the first one.
template <typename T, std::size_t N>
constexpr std::string_view name_in(const std::array<Named<T>, N>& values, const T& value) {
  for (const Named<T>& each : values)
    if (each.value == value) return each.name;
  return {};
}

}  // namespace saccade

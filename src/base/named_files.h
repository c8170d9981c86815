// A checkpoint's small files by their names: those of a folder, or texts in memory that were made
// from something else and stand for such files.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace saccade {

// Copied freely; any thread.
class NamedFiles {
 public:
  using Texts = std::map<std::string, std::string, std::less<>>;

  NamedFiles() = default;  // has none
  // Implicit: a folder is its files.
  NamedFiles(std::string directory)  // NOLINT(google-explicit-constructor)
      : place_(std::move(directory)) {}
  NamedFiles(const char* directory)  // NOLINT(google-explicit-constructor)
      : place_(directory) {}
  // `place`: what they were made from, for errors.
  NamedFiles(std::string place, Texts texts)
      : place_(std::move(place)), texts_(std::make_shared<const Texts>(std::move(texts))) {}

  const std::string& place() const { return place_; }
  std::string path(std::string_view name) const { return fmt::format("{}/{}", place_, name); }

  bool has(std::string_view name) const;
  // kNotFound, or kTooLarge over `most` bytes.
  Result<std::string> read(std::string_view name, std::size_t most) const;
  Result<json::value> parse(std::string_view name) const;

 private:
  std::string place_;
  std::shared_ptr<const Texts> texts_;  // null: they are in the folder
};

}  // namespace saccade

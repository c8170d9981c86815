// What stands before the weights of a GGUF file (versions 2 and 3, little-endian): metadata by
// name, and the name, type, extents and place of every tensor. Format: ggml's docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace saccade {

// Of one type; numbers as the file has them, not aligned.
struct GgufArray {
  std::uint32_t type = 0;  // of its elements, by the format's number
  std::size_t count = 0;
  std::span<const std::byte> bytes;       // of numbers
  std::vector<std::string_view> strings;  // instead, of texts
};

// Integers are widened; an unsigned one over the largest signed one is refused.
using GgufValue = std::variant<std::int64_t, double, bool, std::string_view, GgufArray>;

// Member look-ups by whole name. Errors name the key, its type or its value.
class GgufMetadata {
 public:
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  Result<std::int64_t> get_int(std::string_view key) const;
  Result<std::int64_t> get_int_or(std::string_view key, std::int64_t fallback) const;
  Result<double> get_double(std::string_view key) const;  // of integers too
  Result<double> get_double_or(std::string_view key, double fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;
  // Arrays; one that is absent is empty.
  Result<std::span<const std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<std::int64_t>> get_ints(std::string_view key) const;  // of true and false too
  Result<std::vector<double>> get_doubles(std::string_view key) const;     // of integers too

  // False where the key is there already.
  bool add(std::string_view key, GgufValue value);
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, GgufValue, std::less<>> values_;
};

struct GgufTensor {
  std::string name;
  std::string_view type;            // "F32", "Q4_K": of gguf_type_name()
  std::vector<std::int64_t> shape;  // outermost first: the other way round than in the file
  std::size_t begin = 0;            // bytes from the start of the data
  std::size_t end = 0;
};

struct GgufHeader {
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // by offset
  std::size_t data = 0;             // bytes from the start of the file
};

// `file` is the whole file, which views of the result point into. kCorrupt and kUnsupported name
// the metadata or the tensor that is wrong, its value and the limit.
Result<GgufHeader> parse_gguf(std::span<const std::byte> file);

}  // namespace saccade

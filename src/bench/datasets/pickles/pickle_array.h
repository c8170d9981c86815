// The arrays of a pickle: numpy's ndarrays, and columns of strings as pyarrow has them, found in
// the tree that they are written as. Nothing is run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/pickle.h"

namespace saccade::bench {

// An ndarray: objects by index, or integers as raw bytes.
struct PickleArray {
  std::vector<std::int64_t> shape;
  bool fortran = false;
  const std::vector<std::uint32_t>* objects = nullptr;  // else:
  std::string raw;
  std::size_t width = 0;  // bytes of an integer
  bool is_signed = false;

  std::size_t size() const { return objects != nullptr ? objects->size() : raw.size() / width; }
  std::int64_t integer(std::size_t i) const;
};

// Parts of objects in a pickle, which must outlive it.
class PickleObjects {
 public:
  explicit PickleObjects(const Pickle& pickle) : pickle_(pickle) {}

  const PickleValue& value(std::uint32_t index) const { return pickle_.values[index]; }
  // False for null and for what is no object.
  bool is_made_by(const PickleValue* object, std::string_view name) const;
  // Parts of an object; null where it is none or has none.
  const PickleValue* arguments(const PickleValue* object) const;
  const PickleValue* state(const PickleValue& object) const;

  // Absent for anything that is no ndarray of objects or integers.
  std::optional<PickleArray> array(std::uint32_t index) const;
  // Of a pyarrow array of strings (utf8 or large_utf8): its texts. Absent for anything else.
  std::optional<std::vector<std::string>> arrow_strings(std::uint32_t index) const;

 private:
  std::optional<PickleArray> with_bytes(PickleArray made, const PickleValue& dtype,
                                        const PickleValue& data) const;
  std::optional<std::string> latin1_bytes(const PickleValue& object) const;
  std::optional<std::string> bytes_of(const PickleValue& value) const;

  const Pickle& pickle_;
};

}  // namespace saccade::bench

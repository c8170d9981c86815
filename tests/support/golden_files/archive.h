// An archive of golden files: tests/golden keeps one `goldens.packed` for each folder in place of
// the files that weigh. What is in it: for each file its path below the folder and the sections
// that it is made of. A section is the bytes of a tensor (or of a safetensors header, or of a file
// of another kind), or says that it is an earlier one's, or is normal numbers of a seed and by how
// much each stored number differs from them, which is mostly 0. Bytes of one place in an element
// lie together, and zlib packs the whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tests/support/golden_files/element.h"

namespace saccade::test {

// float32(normal * scale) + mean; the normal numbers are a NormalStream's.
struct Recipe {
  uint32_t seed = 0;
  uint64_t draw = 0;
  uint8_t phase = 0;
  uint8_t tail = 0;
  float scale = 0;
  float mean = 0;
};

struct Section {
  enum class Kind : uint8_t { bytes, made, repeated };
  Kind kind = Kind::bytes;
  Element element = Element::bytes;  // of what is made
  uint8_t width = 1;                 // bytes of an element
  uint64_t size = 0;                 // bytes, a multiple of width
  Recipe recipe;
  uint32_t earlier = 0;  // which section of the archive it repeats
};

struct GoldenFile {
  std::string path;
  uint32_t crc = 0;  // zlib's
  std::vector<Section> sections;
  std::string bytes;
};

std::string pack(const std::vector<GoldenFile>& files);
// With the files' bytes, whose sums are those that were packed.
Result<std::vector<GoldenFile>> unpack(std::string_view archive);
// The files' paths, sizes (as bytes of `size` zeros would be too much, in sections) and sums; no
// bytes.
Result<std::vector<GoldenFile>> contents(std::string_view archive);

}  // namespace saccade::test

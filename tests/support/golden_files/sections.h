// How an archive says a golden file in few bytes.
#pragma once

#include <vector>

#include "tests/support/golden_files/archive.h"
#include "tests/support/golden_files/normal_stream.h"

namespace saccade::test {

struct SeededStream {
  uint32_t seed;
  NormalStream normals;
  size_t next = 0;  // where the search begins: after what was found last
};

// The recipe that gives most of these numbers, nearly or to the bit; none if no stream does.
// Numbers that a stream begins with are found, and those after any draw of it.
struct Found {
  Recipe recipe;
  bool found = false;
};
Found find_recipe(Element element, std::string_view bytes, std::vector<SeededStream>& streams);

// Fills in the sections of files of one folder: safetensors files by tensor, others as they are.
void divide(std::vector<GoldenFile>& files);

}  // namespace saccade::test

// Pickles from anywhere: values refer only to values that are there, and rows hold only token ids.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "bench/datasets/pickles/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  using namespace saccade::bench;
  const auto pickle = parse_prompts({reinterpret_cast<const char*>(data), size});
  if (!pickle) return 0;
  CHECK(pickle->root < pickle->values.size());
  CHECK(pickle->values.size() <= size);
  for (const PickleValue& value : pickle->values) {
    for (const std::uint32_t item : value.items) CHECK(item < pickle->values.size());
  }
  const auto rows = token_rows(*pickle);
  if (!rows) return 0;
  for (const auto& row : *rows) {
    for (const std::int32_t id : row) CHECK(id >= 0);
  }
  return 0;
}

// genai-bench's scenario language: what is accepted has lengths that can be drawn.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "bench/load/scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade::bench;
  const auto scenario = parse_scenario({reinterpret_cast<const char*>(data), size});
  if (!scenario) return 0;
  saccade::Rng rng(size);
  for (int i = 0; i < 4; ++i) {
    CHECK(draw_length(scenario->input, rng) >= 1);
    CHECK(draw_length(scenario->output, rng) >= 1);
  }
  CHECK(scenario->images >= 1);
  CHECK((scenario->kind == Scenario::Kind::kImage) == (scenario->width > 0));
  CHECK(parse_scenario(scenario->text).has_value());
  return 0;
}

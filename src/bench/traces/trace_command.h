// `saccade bench trace stat|make|convert`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/named_values.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_make.h"

namespace saccade::bench {

enum class TraceMethod : std::uint8_t { kThin, kScale, kCap, kGenerate };

inline constexpr std::array<Named<TraceMethod>, 4> kTraceMethods{
    {{"thin", TraceMethod::kThin},
     {"scale", TraceMethod::kScale},
     {"cap", TraceMethod::kCap},
     {"generate", TraceMethod::kGenerate}}};

struct TraceMakeSettings {
  TraceMethod method = TraceMethod::kThin;
  std::string source;              // the trace to start from; not for generate
  TraceWindow window;              // of the source
  GenerateSettings generate;       // peak and seed for all methods
  std::string output;              // empty: the text is returned
  std::string format;              // empty: the source's own; gaps for generate
  std::vector<std::string> notes;  // "key=value", after those of the method
};

struct TraceConvertSettings {
  std::string source;
  std::string output;  // empty: the text is returned
  std::string format = "gaps";
  TraceWindow window;
  TraceLabels labels;
};

// Each returns what to print.
Result<std::string> trace_stat(const std::vector<std::string>& paths);
Result<std::string> trace_make(const TraceMakeSettings& settings);
Result<std::string> trace_convert(const TraceConvertSettings& settings);

}  // namespace saccade::bench

// From what the command line says to prompts.
#pragma once

#include "bench/serve_settings.h"

namespace saccade::bench {

// `trace` is null without one. The dataset's own prompts are as many as asked for, or as the trace
// has rows. `compat` decides what a range ratio means, and its default.
Result<Dataset> load_dataset(const DataChoice& choice, const LoadChoice& load, const Trace* trace,
                             const DatasetContext& context, std::string_view compat);

// kInvalid lists the names that there are. Before a server is asked for anything.
Result<void> check_dataset_name(const DataChoice& choice);

// The trace that --trace names: a file, or data/traces/peakN.txt for a number N (looked for beside
// the program, in the source tree, and in the working directory).
Result<Trace> load_trace(const LoadChoice& load);

}  // namespace saccade::bench

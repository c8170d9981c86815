// Runs of the same traffic on servers that treat image sizes differently, a line each: how many
// answers begin in time, and what is paid for that in tokens of images, encodes and right answers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/log/run_log.h"

namespace saccade::bench {

struct ImageSizeTableSettings {
  double target_s = 2;  // time to first token that is in time, on the published axis
  // Seconds of the runs in one second of the publication: traffic and target of a slower or faster
  // machine, stretched alike. Times are divided by it.
  double time_scale = 1;
  bool published = true;  // the publication's own lines, where there are any
};

// Runs say which they are by their metadata (--metadata image_size=MODE trace=ID); the run with
// image_size=vanilla of a trace is what its others are compared with. Several with one name, each
// with another seed (--metadata seed=N), are one line: medians, least and most. Markdown, in the
// order given, by trace. kInvalid where a run does not say, or says the same as another.
Result<std::string> image_size_table(std::span<const RunLog> runs,
                                     const ImageSizeTableSettings& settings);
// Of files; names the one that is wrong.
Result<std::string> image_size_table(const std::vector<std::string>& paths,
                                     const ImageSizeTableSettings& settings);

}  // namespace saccade::bench

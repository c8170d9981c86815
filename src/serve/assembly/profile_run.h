// Measures what encoding an image and computing a prompt take, through the engine and with nobody
// else in it, and keeps the result.
#pragma once

#include <string>

#include "cluster/sizes/profile.h"
#include "cluster/sizes/request_clip.h"
#include "engine/engine.h"
#include "model/model.h"

namespace saccade::serve {

struct ProfileSettings {
  EngineSettings engine;  // as the server's
  std::string folder;     // where profiles are kept; empty: $XDG_CACHE_HOME or ~/.cache, saccade
  bool again = false;     // measure though there is one
};

// Several sizes of images and prompts, the least of three times each; sizes end where one takes 10
// seconds. Takes a while: some seconds on a GPU, minutes for a large model on a CPU.
Result<cluster::Profile> measure_profile(const EngineSettings& settings, const Model& model,
                                         Device& device, const Tokenizer& tokenizer,
                                         const Clock& clock);

// What is kept for this model on this machine, or measured and kept now. Not being able to keep it
// is a warning.
Result<cluster::Profile> profile_of(const ProfileSettings& settings, const Model& model,
                                    Device& device, const Tokenizer& tokenizer, const Clock& clock);

// For people: points, costs with their residuals, and the straight line of published profiles.
std::string describe(const cluster::Profile& profile);

// The costs of a process that encodes and decodes on one device.
cluster::StageCosts costs_of(const cluster::Profile& profile);

}  // namespace saccade::serve

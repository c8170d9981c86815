// The whole server: checkpoint, tokenizer, template, engine, HTTP; from settings to the last
// drained answer.
#pragma once

#include "base/result.h"
#include "cluster/profile.h"
#include "serve/settings.h"

namespace saccade::serve {

// Blocks until SIGINT or SIGTERM has been answered: running requests end within drain_time, a
// second signal ends at once. Prints the URL and "Application startup complete." when it takes
// requests.
Result<void> run_server(ServeSettings settings);

// Measures what encoding and prefill take, or reads what was measured before (docs/image-sizes.md).
Result<cluster::Profile> run_profile(const ServeSettings& settings, bool again);

}  // namespace saccade::serve

// The whole server: checkpoint, tokenizer, template, engine, HTTP; from settings to the last
// drained answer.
#pragma once

#include <functional>

#include "base/result.h"
#include "base/threads/end_signals.h"
#include "cluster/sizes/profile.h"
#include "serve/router.h"
#include "serve/settings.h"

namespace saccade::serve {

// Blocks until SIGINT or SIGTERM has been answered: running requests end within drain_time, a
// second signal ends at once. Prints the URL and "Application startup complete." when it takes
// requests.
Result<void> run_server(ServeSettings settings);

// A server that nobody reaches over HTTP.
struct Offline {
  Router& router;
  const EndSignals& signals;
  std::function<Result<void>()> verdict;  // whether the engine still does what it is asked to
};

// The same server, without HTTP and apart from any cluster, for as long as `work` runs. What is
// cancelled when that returns is not waited for.
Result<void> run_offline(ServeSettings settings,
                         const std::function<Result<void>(const Offline&)>& work);

// Measures what encoding and prefill take, or reads what was measured before (docs/image-sizes.md).
Result<cluster::Profile> run_profile(const ServeSettings& settings, bool again);

}  // namespace saccade::serve

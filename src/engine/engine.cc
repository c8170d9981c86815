#include "engine/engine.h"

#include "engine/local_engine.h"
#include "engine/warm_up.h"

namespace saccade {

// NOLINTNEXTLINE(readability-function-size): most callers give four
Result<std::unique_ptr<Engine>> Engine::create(const EngineSettings& settings, Network& network,
                                               Device& device, const Clock& clock,
                                               ImageExchange* images, bool tower,
                                               const WarmUp* warm_up) {
  TRY(EngineParts parts, set_up_engine(settings, network, device, clock));
  if (warm_up != nullptr) {
    TRY(parts, warmed_up(std::move(parts), network, device, clock, tower, *warm_up));
  }
  TRY(auto engine, LocalEngine::create(std::move(parts), network, device, clock, images, tower));
  return engine;
}

}  // namespace saccade

#include "engine/engine.h"

#include "engine/local_engine.h"
#include "engine/warm_up.h"

namespace saccade {

Result<std::unique_ptr<Engine>> Engine::create(const EngineSettings& settings, Network& network,
                                               Device& device, const Clock& clock,
                                               const EngineSurroundings& in) {
  TRY(EngineParts parts, set_up_engine(settings, network, device, clock));
  if (in.warm_up != nullptr) {
    TRY(parts, warmed_up(std::move(parts), network, device, clock, in.tower, *in.warm_up));
  }
  TRY(auto engine,
      LocalEngine::create(std::move(parts), network, device, clock, in.images, in.tower));
  return engine;
}

}  // namespace saccade

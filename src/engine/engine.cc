#include "engine/engine.h"

#include "engine/local_engine.h"

namespace saccade {

Result<std::unique_ptr<Engine>> Engine::create(const EngineSettings& settings, Network& network,
                                               Device& device, const Clock& clock,
                                               ImageExchange* images, bool tower) {
  TRY(EngineParts parts, set_up_engine(settings, network, device, clock));
  auto engine = std::make_unique<LocalEngine>(std::move(parts), network, device, clock);
  TRY_DO(engine->make_encoder(images, tower));
  return engine;
}

}  // namespace saccade

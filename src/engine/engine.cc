#include "engine/engine.h"

#include "engine/local_engine.h"

namespace saccade {

Result<std::unique_ptr<Engine>> Engine::create(const EngineSettings& settings, Network& network,
                                               Device& device, const Clock& clock,
                                               ImageExchange* images, bool tower,
                                               const WarmUp* warm_up) {
  TRY(EngineParts parts, set_up_engine(settings, network, device, clock));
  if (warm_up != nullptr) {
    TRY(parts, LocalEngine::warmed_up(std::move(parts), network, device, clock, tower, *warm_up));
  }
  auto engine = std::make_unique<LocalEngine>(std::move(parts), network, device, clock);
  TRY_DO(engine->make_encoder(images, tower));
  return engine;
}

}  // namespace saccade

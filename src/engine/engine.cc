#include "engine/engine.h"

#include "engine/local_engine.h"

namespace saccade {

Result<std::unique_ptr<Engine>> Engine::create(const EngineSettings& settings, Model& model,
                                               Device& device, const Clock& clock) {
  TRY(EngineParts parts, set_up_engine(settings, model, device));
  auto engine = std::make_unique<LocalEngine>(std::move(parts), model, device, clock);
  TRY_DO(engine->make_encoder());
  return engine;
}

}  // namespace saccade

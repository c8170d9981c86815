#include "engine/engine.h"

#include "engine/local_engine.h"

namespace saccade {

Result<std::unique_ptr<Engine>> Engine::create(const EngineSettings& settings, Model& model,
                                               Backend& backend, const Clock& clock) {
  TRY(EngineParts parts, set_up_engine(settings, model, backend));
  auto engine = std::make_unique<LocalEngine>(std::move(parts), model, backend, clock);
  TRY_DO(engine->make_encoder());
  return engine;
}

}  // namespace saccade

#include "model/processor.h"

#include <utility>

#include "model/families.h"

namespace saccade {

Result<std::unique_ptr<const Processor>> Processor::open(const Checkpoint& checkpoint) {
  TRY(std::unique_ptr<LoadableModel> model, create_model(checkpoint));
  return std::unique_ptr<const Processor>(new Processor(std::move(model)));
}

}  // namespace saccade

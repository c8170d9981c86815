// What every kind of server begins with.
#pragma once

#include <memory>
#include <string>

#include "model/checkpoint/checkpoint.h"
#include "model/families.h"
#include "ops/device.h"
#include "text/tokenizer.h"

namespace saccade::serve {

struct ServerParts {
  std::string directory;
  Checkpoint checkpoint;
  LoadOptions options;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Device> device;
};

}  // namespace saccade::serve

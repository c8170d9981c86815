// A model that is ready: what lays out and writes prompts, and what runs on a device.
#pragma once

#include <memory>

#include "model/network.h"
#include "model/prompts/processor.h"

namespace saccade {

struct Model {
  std::unique_ptr<Processor> processor;
  std::unique_ptr<Network> network;

  const ModelShape& shape() const { return network->shape(); }
};

}  // namespace saccade

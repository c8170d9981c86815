// The network of every family that generates text: a decoder, and a vision tower before it where
// the model sees.
#pragma once

#include <memory>

#include "model/blocks/text_decoder.h"
#include "model/family.h"
#include "model/network.h"
#include "model/towers/vision_tower.h"

namespace saccade {

// Without its weights. `tower` is null for a model of text alone; it is whole on every rank.
std::unique_ptr<LoadableNetwork> make_network(ModelShape shape, DecoderSettings decoder,
                                              DecoderNames names,
                                              std::unique_ptr<VisionTower> tower = nullptr);

}  // namespace saccade

// Which rule decides how large images become (--image-size), and what it aims at.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/sizes/seed_size_rule.h"

namespace saccade::serve {

enum class ImageSizeMode : std::uint8_t {
  kVanilla,  // as large as their clients and the checkpoint say
  kStatic,   // the published rule with one budget
  kSeed,     // the published rule: the budget goes by requests a second
  // The same as its code does it: the encoder elsewhere gets the smaller image, and the answer is
  // made from the image as it came, which is encoded here after that.
  kSeedAsPublished,
  kDynamic,  // the level controller
};

struct ImageSizeSettings {
  ImageSizeMode mode = ImageSizeMode::kVanilla;
  std::int64_t static_tokens = 0;   // of kStatic
  cluster::SeedLine seed_line;      // of kSeed and kSeedAsPublished
  Nanos ttft_target = 2 * kSecond;  // time to first token; of kSeed and kDynamic
  std::int64_t floor = 256;         // tokens that kDynamic leaves an image at the least
  bool refuse_late = false;         // kDynamic: 503 where even the least sizes are too late
  std::string profile_folder;       // of measured costs; empty: ~/.cache/saccade
};

// vanilla, static:N, seed, seed-as-published or dynamic; kInvalid for anything else.
Result<void> choose_image_size(std::string_view text, ImageSizeSettings& settings);

}  // namespace saccade::serve

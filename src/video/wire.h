// What a server and its video decoder say to each other through two pipes: structs of one machine,
// each behind a Head. The file itself is a memfd. The decoder is believed nothing: sizes are
// checked against what was asked for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saccade::video::wire {

// Descriptors of the decoder.
inline constexpr int kOrders = 0;
inline constexpr int kAnswers = 1;
inline constexpr int kFile = 3;

// The first thing on kOrders.
struct Order {
  std::uint64_t file_bytes = 0;
  std::uint64_t memory = 0;
  std::uint64_t seconds = 0;  // of the processor
  std::int64_t max_pixels = 0;
};

// Then, for every kFacts: as many indices follow.
struct Plan {
  std::uint64_t count = 0;
};

enum class Kind : std::uint32_t { kFacts = 1, kFrame, kRefused, kEnd };

struct Head {
  Kind kind = Kind::kEnd;
  std::uint32_t bytes = 0;  // that follow
};

struct Facts {
  std::int64_t frames = 0;
  double fps = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
};

// RGB follows.
struct FrameHead {
  std::int64_t index = 0;
  double seconds = 0;
};

// Printable text follows.
enum class Reason : std::uint32_t { kBroken = 1, kUnsupported, kTooLarge };
inline constexpr std::size_t kMaxText = 400;

}  // namespace saccade::video::wire

// One video file from bytes to the frames that are wanted of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "video/wire.h"

namespace saccade::video {

// Whom frames are decoded for.
class FrameListener {
 public:
  virtual ~FrameListener() = default;
  // Which frames are wanted: rising, all within the file. Absent: nobody listens any more. Called
  // again where frames turn out to be others than their packets said; all of them come anew then.
  virtual std::optional<std::vector<std::int64_t>> choose(const wire::Facts& facts) = 0;
  // One of them, 8-bit RGB. False: nobody listens any more.
  virtual bool take(const wire::FrameHead& head, std::span<const std::uint8_t> rgb) = 0;
};

// One thread. False when nobody listens any more. Errors as Container's and FrameConverter's.
Result<bool> decode_file(std::span<const std::byte> bytes, std::int64_t max_pixels,
                         FrameListener& listener);

}  // namespace saccade::video

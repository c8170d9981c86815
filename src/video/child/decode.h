// One video file from bytes to the frames that are wanted of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "video/wire.h"

namespace saccade::video {

// Whom frames are decoded for. No virtual functions: UBSan looks behind their tables with calls
// that the sandbox ends the process for.
struct FrameListener {
  // Which frames are wanted: rising, all within the file. Absent: nobody listens any more. Called
  // again where frames turn out to be others than their packets said; all of them come anew then.
  std::function<std::optional<std::vector<std::int64_t>>(const wire::Facts& facts)> choose;
  // One of them, 8-bit RGB. False: nobody listens any more.
  std::function<bool(const wire::FrameHead& head, std::span<const std::uint8_t> rgb)> take;
};

// One thread. False when nobody listens any more. Errors as Container's and FrameConverter's.
Result<bool> decode_file(std::span<const std::byte> bytes, std::int64_t max_pixels,
                         const FrameListener& listener);

}  // namespace saccade::video

// Video files (mp4, mov, mkv, webm) become frames: in a process of their own that has nothing but
// the file's bytes, and that ends when it takes too much memory or time. Nothing of FFmpeg is in
// this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace saccade::video {

// What a file says of itself, where that could be checked.
struct FileFacts {
  int width = 0;  // as shown: after rotation
  int height = 0;
  std::int64_t frames = 0;  // counted, whatever the header claims
  double fps = 0;           // on average
};

struct Frame {
  std::int64_t index = 0;
  double seconds = 0;  // since the first frame
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

struct DecodeLimits {
  std::int64_t max_pixels = std::int64_t{64} << 20;  // of a frame
  std::size_t memory = std::size_t{1} << 30;         // of the decoder, beside the file
  std::chrono::milliseconds time{60'000};            // of the clock, and of one processor
};

// What is wanted of a file. All are called on the thread that reads it.
struct VideoReading {
  // Indices of frames, rising, at least one. Called a second time where a file turns out to have
  // another number of frames than it seemed to: what take() had until then is void.
  std::function<Result<std::vector<std::int64_t>>(const FileFacts&)> choose;
  std::function<Result<void>(Frame)> take;  // once for each index, in order
  std::function<bool()> cancelled;          // looked at several times a second
};

// The program that decodes, beside this one or in ../libexec/saccade; empty where the build had no
// FFmpeg.
std::string find_decoder();

// Blocks; any thread. `program`: find_decoder()'s. kUndecodable for what is no video, is broken, or
// ends the decoder; kUnsupported for other containers and codecs, and without a program; kTooLarge
// for pixels and memory, kTimeout, kCancelled, and what choose() and take() fail with.
Result<void> read_video(const std::string& program, std::span<const std::byte> file,
                        const DecodeLimits& limits, const VideoReading& reading);

}  // namespace saccade::video

#include "video/child/decode.h"

extern "C" {
#include <libavutil/log.h>
}

#include <algorithm>

#include "video/child/container.h"
#include "video/child/frame_converter.h"

namespace saccade::video {
namespace {

// Absent: nobody listens.
std::optional<std::vector<std::int64_t>> ask(const Container& file, const FrameListener& listener) {
  auto indices = listener.choose({file.frames(), file.fps(), file.width(), file.height()});
  if (!indices) return {};
  for (const std::int64_t index : *indices)
    if (index < 0 || index >= file.frames()) return {};
  if (!std::ranges::is_sorted(*indices)) return {};
  return indices;
}

enum class Pass { kDone, kFramesDiffer, kUnheard };

// Two frames of one index are one picture that is sent twice.
Result<Pass> send_frames(Container& file, std::span<const std::int64_t> indices,
                         const FrameListener& listener) {
  std::vector<std::int64_t> once(indices.begin(), indices.end());
  once.erase(std::unique(once.begin(), once.end()), once.end());
  TRY_DO(file.begin(once));
  FrameConverter converter;
  std::size_t sent = 0;
  for (const std::int64_t index : once) {
    TRY(const auto picture, file.next());
    if (!picture) return Pass::kFramesDiffer;
    TRY(const std::vector<std::uint8_t>* rgb, converter.convert(**picture, file.quarter_turns()));
    for (; sent < indices.size() && indices[sent] == index; ++sent) {
      if (!listener.take({index, file.seconds(index)}, *rgb)) return Pass::kUnheard;
    }
  }
  return Pass::kDone;
}

}  // namespace

Result<bool> decode_file(std::span<const std::byte> bytes, std::int64_t max_pixels,
                         const FrameListener& listener) {
  av_log_set_level(AV_LOG_QUIET);
  TRY(Container file, Container::open(bytes, max_pixels));
  const auto indices = ask(file, listener);
  if (!indices) return false;
  TRY(const Pass first, send_frames(file, *indices, listener));
  if (first != Pass::kFramesDiffer) return first == Pass::kDone;
  TRY_DO(file.recount());
  const auto again = ask(file, listener);
  if (!again) return false;
  TRY(const Pass second, send_frames(file, *again, listener));
  if (second == Pass::kFramesDiffer)
    return fail(ErrorCode::kUndecodable, "frames come otherwise than they came before");
  return second == Pass::kDone;
}

}  // namespace saccade::video

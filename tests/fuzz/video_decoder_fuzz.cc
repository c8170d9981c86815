// Any bytes as a video file, decoded as the decoder's program does, without its sandbox: what comes
// is of the size that was told, in order, with times that do not run backwards without end. FFmpeg
// itself is not instrumented, and what it leaks is not looked for: the sandbox is there for it.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "video/child/decode.h"

namespace saccade::video {
namespace {

constexpr std::int64_t kMaxPixels = 1 << 16;
constexpr std::size_t kMaxBytes = 1 << 16;

void require(bool holds) {
  if (!holds) std::abort();
}

// The first, the middle and the last frame; the first twice.
class Listener {
 public:
  std::optional<std::vector<std::int64_t>> choose(const wire::Facts& facts) {
    require(facts.frames > 0 && facts.width > 0 && facts.height > 0);
    require(std::int64_t{facts.width} * facts.height <= kMaxPixels);
    require(std::isfinite(facts.fps) && facts.fps > 0);
    facts_ = facts;
    wanted_ = {0, 0, facts.frames / 2, facts.frames - 1};
    taken_ = 0;
    return wanted_;
  }

  bool take(const wire::FrameHead& head, std::span<const std::uint8_t> rgb) {
    require(taken_ < wanted_.size() && head.index == wanted_[taken_++]);
    require(std::isfinite(head.seconds));
    require(rgb.size() == std::size_t{3} * static_cast<std::size_t>(facts_.width) *
                              static_cast<std::size_t>(facts_.height));
    return true;
  }

  bool has_all() const { return taken_ == wanted_.size(); }

 private:
  wire::Facts facts_;
  std::vector<std::int64_t> wanted_;
  std::size_t taken_ = 0;
};

}  // namespace
}  // namespace saccade::video

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libavformat\nleak:libavcodec\nleak:libavutil\nleak:libswscale\nleak:libdav1d\n";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade::video;
  if (size > kMaxBytes) return 0;
  Listener listener;
  const auto heard =
      decode_file(std::as_bytes(std::span(data, size)), kMaxPixels,
                  {[&](const auto& facts) { return listener.choose(facts); },
                   [&](const auto& head, auto rgb) { return listener.take(head, rgb); }});
  require(!heard || (*heard && listener.has_all()));
  return 0;
}

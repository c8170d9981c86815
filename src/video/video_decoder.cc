#include "video/video_decoder.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/text/printable.h"
#include "video/decoder_process.h"
#include "video/wire.h"

namespace saccade::video {
namespace {

constexpr std::string_view kProgram = "saccade-video-decoder";

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
Result<T> receive(DecoderProcess& process) {
  T value{};
  TRY_DO(process.read(std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

// What a decoder says that its own bugs, or whoever took it over, made up.
tl::unexpected<Error> nonsense() {
  return fail(ErrorCode::kUndecodable, "the decoder does not keep to its protocol");
}

class Conversation {
 public:
  Conversation(DecoderProcess& process, const DecodeLimits& limits, const VideoReading& reading)
      : process_(process), limits_(limits), reading_(reading) {}

  Result<void> run() {
    for (;;) {
      TRY(const auto head, receive<wire::Head>(process_));
      switch (head.kind) {
        case wire::Kind::kFacts:
          TRY_DO(plan());
          break;
        case wire::Kind::kFrame:
          TRY_DO(frame(head.bytes));
          break;
        case wire::Kind::kRefused:
          return refused(head.bytes);
        case wire::Kind::kEnd:
          if (next_ != indices_.size() || indices_.empty()) return nonsense();
          return {};
        default:
          return nonsense();
      }
    }
  }

 private:
  Result<void> plan() {
    TRY(const auto facts, receive<wire::Facts>(process_));
    const bool sane = facts.frames > 0 && facts.width > 0 && facts.height > 0 &&
                      std::int64_t{facts.width} * facts.height <= limits_.max_pixels &&
                      std::isfinite(facts.fps) && facts.fps > 0;
    if (!sane || plans_++ == 2) return nonsense();
    facts_ = {facts.width, facts.height, facts.frames, facts.fps};
    TRY(indices_, reading_.choose(facts_));
    next_ = 0;
    TRY_DO(process_.write(bytes_of(wire::Plan{indices_.size()})));
    return process_.write(std::as_bytes(std::span(indices_)));
  }

  Result<void> frame(std::uint32_t bytes) {
    const std::size_t size =
        static_cast<std::size_t>(facts_.width) * static_cast<std::size_t>(facts_.height) * 3;
    if (next_ == indices_.size() || bytes != sizeof(wire::FrameHead) + size) return nonsense();
    TRY(const auto head, receive<wire::FrameHead>(process_));
    if (head.index != indices_[next_] || !std::isfinite(head.seconds) || head.seconds < 0)
      return nonsense();
    Frame frame{head.index, head.seconds, facts_.width, facts_.height, {}};
    frame.rgb.resize(size);
    TRY_DO(process_.read(std::as_writable_bytes(std::span(frame.rgb))));
    ++next_;
    return reading_.take(std::move(frame));
  }

  Result<void> refused(std::uint32_t bytes) {
    if (bytes < sizeof(wire::Reason) || bytes > sizeof(wire::Reason) + wire::kMaxText)
      return nonsense();
    TRY(const auto reason, receive<wire::Reason>(process_));
    std::string text(bytes - sizeof(wire::Reason), '\0');
    TRY_DO(process_.read(std::as_writable_bytes(std::span(text))));
    const ErrorCode code = reason == wire::Reason::kTooLarge      ? ErrorCode::kTooLarge
                           : reason == wire::Reason::kUnsupported ? ErrorCode::kUnsupported
                                                                  : ErrorCode::kUndecodable;
    return fail(code, "{}", printable(text));
  }

  DecoderProcess& process_;
  const DecodeLimits& limits_;
  const VideoReading& reading_;
  FileFacts facts_;
  std::vector<std::int64_t> indices_;
  std::size_t next_ = 0;
  int plans_ = 0;
};

}  // namespace

std::string find_decoder() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return {};
  const std::filesystem::path folder =
      std::filesystem::path(std::string(path.data(), static_cast<std::size_t>(length)))
          .parent_path();
  for (const auto& place : {folder, folder.parent_path() / "libexec" / "saccade"}) {
    const auto program = place / kProgram;
    if (::access(program.c_str(), X_OK) == 0) return program.string();
  }
  return {};
}

Result<void> read_video(const std::string& program, std::span<const std::byte> file,
                        const DecodeLimits& limits, const VideoReading& reading) {
  if (program.empty())
    return fail(ErrorCode::kUnsupported,
                "this build has no FFmpeg and decodes no video files: send a list of frames");
  TRY(DecoderProcess process,
      DecoderProcess::start(program, file,
                            {std::chrono::steady_clock::now() + limits.time, reading.cancelled}));
  wire::Order order;
  order.file_bytes = file.size();
  order.memory = limits.memory;
  order.seconds = static_cast<std::uint64_t>(limits.time.count() + 999) / 1000;
  order.max_pixels = limits.max_pixels;
  TRY_DO(process.write(bytes_of(order)));
  return Conversation(process, limits, reading).run();
}

}  // namespace saccade::video

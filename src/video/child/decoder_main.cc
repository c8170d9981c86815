#include "video/child/decoder_main.h"

extern "C" {
#include <libavutil/log.h>
}

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "video/child/container.h"
#include "video/child/frame_converter.h"
#include "video/child/sandbox.h"
#include "video/wire.h"

namespace saccade::video {
namespace {

constexpr std::uint64_t kMostIndices = 1 << 20;

// The server has gone, or wants no more.
constexpr int kNobodyListens = 2;
constexpr int kNoSandbox = 3;

bool read_all(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::read(wire::kOrders, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

bool write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(wire::kAnswers, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

template <typename T>
bool receive(T& value) {
  return read_all(std::as_writable_bytes(std::span(&value, 1)));
}
template <typename T>
bool say(const T& value) {
  return write_all(std::as_bytes(std::span(&value, 1)));
}

bool refuse(const Error& error) {
  wire::Reason reason = wire::Reason::kBroken;
  if (error.code == ErrorCode::kTooLarge) reason = wire::Reason::kTooLarge;
  if (error.code == ErrorCode::kUnsupported) reason = wire::Reason::kUnsupported;
  const std::string text = error.message.substr(0, wire::kMostText);
  return say(wire::Head{wire::Kind::kRefused,
                        static_cast<std::uint32_t>(sizeof(reason) + text.size())}) &&
         say(reason) && write_all(std::as_bytes(std::span(text)));
}

// Absent: nobody listens.
std::optional<std::vector<std::int64_t>> ask(const Container& file) {
  wire::Facts facts{file.frames(), file.fps(), file.width(), file.height()};
  wire::Plan plan;
  if (!say(wire::Head{wire::Kind::kFacts, sizeof(facts)}) || !say(facts) || !receive(plan) ||
      plan.count > kMostIndices)
    return {};
  std::vector<std::int64_t> indices(static_cast<std::size_t>(plan.count));
  if (!read_all(std::as_writable_bytes(std::span(indices)))) return {};
  for (const std::int64_t index : indices)
    if (index < 0 || index >= file.frames()) return {};
  if (!std::ranges::is_sorted(indices)) return {};
  return indices;
}

enum class Pass { kDone, kFramesDiffer, kUnheard };

// Two frames of one index are one picture that is sent twice.
Result<Pass> send_frames(Container& file, std::span<const std::int64_t> indices) {
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
      const wire::FrameHead head{index, file.seconds(index)};
      const bool heard = say(wire::Head{wire::Kind::kFrame,
                                        static_cast<std::uint32_t>(sizeof(head) + rgb->size())}) &&
                         say(head) && write_all(std::as_bytes(std::span(*rgb)));
      if (!heard) return Pass::kUnheard;
    }
  }
  return Pass::kDone;
}

Result<Pass> decode(const wire::Order& order, std::span<const std::byte> bytes) {
  TRY(Container file, Container::open(bytes, order.max_pixels));
  const auto indices = ask(file);
  if (!indices) return Pass::kUnheard;
  TRY(const Pass first, send_frames(file, *indices));
  if (first != Pass::kFramesDiffer) return first;
  TRY_DO(file.recount());
  const auto again = ask(file);
  if (!again) return Pass::kUnheard;
  TRY(const Pass second, send_frames(file, *again));
  if (second == Pass::kFramesDiffer)
    return fail(ErrorCode::kUndecodable, "frames come otherwise than they came before");
  return second;
}

}  // namespace

int decode_as_ordered() {
  wire::Order order;
  if (!receive(order)) return kNobodyListens;
  av_log_set_level(AV_LOG_QUIET);
  const auto* mapped = static_cast<const std::byte*>(::mmap(
      nullptr, std::max<std::size_t>(order.file_bytes, 1), PROT_READ, MAP_PRIVATE, wire::kFile, 0));
  if (mapped == MAP_FAILED) return kNoSandbox;
  ::close(wire::kFile);
  if (!enter_sandbox({order.memory, order.seconds})) return kNoSandbox;
  try {
    const auto done = decode(order, {mapped, order.file_bytes});
    if (!done) return refuse(done.error()) ? 0 : kNobodyListens;
    return *done == Pass::kDone && say(wire::Head{wire::Kind::kEnd, 0}) ? 0 : kNobodyListens;
  } catch (const std::bad_alloc&) {
    return refuse({ErrorCode::kTooLarge, "decoding takes more memory than it may", {}})
               ? 0
               : kNobodyListens;
  }
}

}  // namespace saccade::video

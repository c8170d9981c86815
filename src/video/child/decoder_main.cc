#include "video/child/decoder_main.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "video/child/decode.h"
#include "video/child/sandbox.h"
#include "video/wire.h"

namespace saccade::video {
namespace {

constexpr std::uint64_t kMaxIndices = 1 << 20;

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
  const std::string text = error.message.substr(0, wire::kMaxText);
  return say(wire::Head{wire::Kind::kRefused,
                        static_cast<std::uint32_t>(sizeof(reason) + text.size())}) &&
         say(reason) && write_all(std::as_bytes(std::span(text)));
}

// The server behind the two pipes chooses, and takes.
std::optional<std::vector<std::int64_t>> choose(const wire::Facts& facts) {
  wire::Plan plan;
  if (!say(wire::Head{wire::Kind::kFacts, sizeof(facts)}) || !say(facts) || !receive(plan) ||
      plan.count > kMaxIndices)
    return {};
  std::vector<std::int64_t> indices(static_cast<std::size_t>(plan.count));
  if (!read_all(std::as_writable_bytes(std::span(indices)))) return {};
  return indices;
}

bool take(const wire::FrameHead& head, std::span<const std::uint8_t> rgb) {
  return say(wire::Head{wire::Kind::kFrame,
                        static_cast<std::uint32_t>(sizeof(head) + rgb.size())}) &&
         say(head) && write_all(std::as_bytes(rgb));
}

}  // namespace

int decode_as_ordered() {
  wire::Order order;
  if (!receive(order)) return kNobodyListens;
  const auto* mapped = static_cast<const std::byte*>(::mmap(
      nullptr, std::max<std::size_t>(order.file_bytes, 1), PROT_READ, MAP_PRIVATE, wire::kFile, 0));
  if (mapped == MAP_FAILED) return kNoSandbox;
  ::close(wire::kFile);
  if (!enter_sandbox({order.memory, order.seconds})) return kNoSandbox;
  try {
    const auto heard = decode_file({mapped, order.file_bytes}, order.max_pixels, {choose, take});
    if (!heard) return refuse(heard.error()) ? 0 : kNobodyListens;
    return *heard && say(wire::Head{wire::Kind::kEnd, 0}) ? 0 : kNobodyListens;
  } catch (const std::bad_alloc&) {
    return refuse({ErrorCode::kTooLarge, "decoding takes more memory than it may", {}})
               ? 0
               : kNobodyListens;
  }
}

}  // namespace saccade::video

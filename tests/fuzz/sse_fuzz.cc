// SSE scanner: any bytes, cut anywhere, give the events that the uncut bytes give. The first byte
// seeds the cuts.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "net/sse.h"

namespace {

struct Scan {
  std::vector<std::string> events;
  bool ok = true;
  std::size_t comments = 0;
};

constexpr std::size_t kLimit = 64;

Scan scan(std::string_view bytes, std::uint64_t seed, std::size_t max_piece) {
  saccade::net::SseScanner scanner(kLimit);
  Scan result;
  saccade::Rng rng(seed);
  const auto on_data = [&](std::string_view data) {
    CHECK(data.size() <= kLimit);
    result.events.emplace_back(data);
  };
  while (result.ok && !bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + rng.below(max_piece));
    const std::vector<char> piece(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    result.ok = scanner.feed({piece.data(), piece.size()}, on_data);
    bytes.remove_prefix(size);
  }
  if (result.ok) scanner.finish(on_data);
  result.comments = scanner.comments();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Scan whole = scan(bytes, 0, bytes.size() + 1);
  const Scan single = scan(bytes, 0, 1);
  const Scan random = scan(bytes, data[0], 9);
  for (const Scan& cut : {single, random}) {
    CHECK(cut.ok == whole.ok);
    if (!whole.ok) continue;  // how many events came before the refusal depends on the cuts
    CHECK(cut.events == whole.events);
    CHECK(cut.comments == whole.comments);
  }
  return 0;
}

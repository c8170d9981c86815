#include "model/network.h"

#include "base/check.h"
#include "ops/readback.h"

namespace saccade {

void show(const Tap& tap, Stream& stream, std::string_view name, View value) {
  if (!tap) return;
  Buffer staging;
  const auto shown = readable(stream, value, staging);
  CHECK(shown.has_value(), "tap {}: {}", name, shown.error().message);
  tap(name, *shown);
}

void Network::more_logits(Stream&, DeviceInts, View) {
  CHECK(false, "{} has no logits of more rows", shape_.family);
}

std::unique_ptr<EncodeRun> Network::begin_encode(Stream&, std::span<const PreparedImage* const>,
                                                 std::span<const View>, const Tap&) {
  CHECK(false, "{} takes no images", shape_.family);
  return nullptr;
}

}  // namespace saccade

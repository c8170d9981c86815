// The proxy's scan of a body: what is found lies within it, and does not depend on how it is cut.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cluster/proxy/body_scan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade::cluster;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  BodyScan whole;
  whole.feed(body);
  BodyScan pieces;
  const std::size_t step = 1 + (size > 0 ? data[0] % 7 : 0);
  for (std::size_t at = 0; at < size; at += step) pieces.feed(body.substr(at, step));

  const ScannedBody& a = whole.found();
  const ScannedBody& b = pieces.found();
  CHECK(whole.lost() == pieces.lost());
  CHECK(a.complete == b.complete && a.model == b.model && a.user == b.user);
  CHECK(a.stream == b.stream && a.max_tokens == b.max_tokens && a.messages == b.messages);
  CHECK(a.text_bytes == b.text_bytes && a.opening == b.opening);
  CHECK(a.text_bytes <= size && a.model.size() <= size);
  CHECK(a.media.size() == b.media.size());
  for (std::size_t i = 0; i < a.media.size(); ++i) {
    CHECK(a.media[i].begin == b.media[i].begin && a.media[i].end == b.media[i].end);
    CHECK(a.media[i].begin <= a.media[i].end && a.media[i].end <= size);
  }
  return 0;
}

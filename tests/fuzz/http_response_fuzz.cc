// HTTP response parser: any bytes, cut anywhere, give what the uncut bytes give. The first byte
// seeds the cuts; its lowest bit is the method HEAD.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "net/client/response_parser.h"

namespace {

using saccade::net::ResponseParser;
using State = ResponseParser::State;

struct Heard final : saccade::net::ResponseSink {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  State state = State::kMore;
  bool on_head(int head_status, std::vector<std::pair<std::string, std::string>>&& list) override {
    CHECK(status == 0);
    CHECK(head_status >= 200 && head_status <= 999);
    status = head_status;
    headers = std::move(list);
    return true;
  }
  bool on_body(std::string_view bytes) override {
    CHECK(status != 0 && !bytes.empty());
    body += bytes;
    return true;
  }
};

Heard parse(std::string_view bytes, bool no_body, std::uint64_t seed, std::size_t max_piece) {
  ResponseParser parser(512);
  parser.reset(no_body);
  Heard heard;
  saccade::Rng rng(seed);
  while (heard.state == State::kMore && !bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + rng.below(max_piece));
    const std::vector<char> piece(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    heard.state = parser.feed({piece.data(), piece.size()}, heard);
    CHECK(parser.consumed() <= size);
    if (heard.state == State::kMore) CHECK(parser.consumed() == size);
    bytes.remove_prefix(size);
  }
  if (heard.state == State::kMore) heard.state = parser.finish();
  CHECK((heard.state == State::kFailed) == !parser.failure().empty());
  return heard;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool no_body = (data[0] & 1) != 0;
  const Heard whole = parse(bytes, no_body, 0, bytes.size() + 1);
  for (const Heard& cut : {parse(bytes, no_body, 0, 1), parse(bytes, no_body, data[0], 9)}) {
    CHECK(cut.state == whole.state);
    CHECK(cut.status == whole.status);
    CHECK(cut.headers == whole.headers);
    CHECK(cut.body == whole.body);
  }
  return 0;
}

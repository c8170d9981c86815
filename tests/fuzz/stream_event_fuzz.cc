// The scanner of stream events against the full parser: where both read the bytes, they read the
// same.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "bench/load/stream_event.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade::bench;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  StreamEvent scanned;
  const ScanOutcome outcome = scan_stream_event(bytes, scanned);
  std::string texts;
  scanned.content.append_to(texts);
  scanned.error.append_to(texts);
  const auto parsed = parse_stream_event(bytes);
  if (outcome != ScanOutcome::kRead || !parsed) return 0;
  CHECK(scanned.kinds == parsed->kinds);
  CHECK(scanned.finish_reason == parsed->finish_reason);
  CHECK(scanned.usage == parsed->usage);
  CHECK(scanned.token_ids == parsed->token_ids);
  const auto text = [](const EventText& from) {
    std::string out;
    from.append_to(out);
    return out;
  };
  CHECK(text(scanned.content) == text(parsed->content));
  CHECK(text(scanned.reasoning) == text(parsed->reasoning));
  CHECK(text(scanned.error) == text(parsed->error));
  return 0;
}

#include "serve/throughput_log.h"

#include "base/log.h"

namespace saccade::serve {

std::string throughput_line(const EngineStats& before, const EngineStats& after, double seconds) {
  const auto prompt = after.prompt_tokens - before.prompt_tokens;
  const auto generated = after.generation_tokens - before.generation_tokens;
  if (prompt == 0 && generated == 0 && after.num_requests_running == 0 &&
      after.num_requests_waiting == 0) {
    return {};
  }
  const auto cached = after.prompt_tokens_cached - before.prompt_tokens_cached;
  return fmt::format(
      "prompt {:.1f} tokens/s ({} of {} cached), generation {:.1f} tokens/s, {} running, {} "
      "waiting, KV cache {:.1f} % in use",
      static_cast<double>(prompt) / seconds, cached, prompt,
      static_cast<double>(generated) / seconds, after.num_requests_running,
      after.num_requests_waiting, 100 * after.kv_cache_usage);
}

void ThroughputLog::line() {
  EngineStats after = engine_.stats();
  const Nanos now = clock_.now();
  const std::string line = throughput_line(before_, after, seconds(now - since_));
  if (!line.empty()) log::info("{}", line);
  before_ = std::move(after);
  since_ = now;
}

}  // namespace saccade::serve

#include "serve/throughput_log.h"

#include "base/clock.h"
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

ThroughputLog::ThroughputLog(const Engine& engine, std::chrono::seconds interval)
    : engine_(engine), interval_(interval) {
  if (interval_.count() > 0) thread_ = std::thread([this] { run(); });
}

ThroughputLog::~ThroughputLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ThroughputLog::run() {
  const SteadyClock clock;
  EngineStats before = engine_.stats();
  Nanos since = clock.now();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [this] { return stopping_; })) {
    EngineStats after = engine_.stats();
    const Nanos now = clock.now();
    const std::string line = throughput_line(before, after, seconds(now - since));
    if (!line.empty()) log::info("{}", line);
    before = std::move(after);
    since = now;
  }
}

}  // namespace saccade::serve

// GET /metrics: what the engine and the preparation of requests have counted, under vLLM's names
// and Saccade's own.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace saccade::serve {

// Any thread.
class MetricsPage {
 public:
  MetricsPage(const Engine& engine, std::string model_name);

  // Seconds that one request spent in a stage before the engine: "media", "preprocess".
  void observe_stage(std::string_view stage, double seconds);

  // Prometheus text. `preparing`: requests between arrival and the engine, which count as waiting.
  std::string render(std::size_t preparing) const;

 private:
  const Engine& engine_;
  const std::string model_name_;
  mutable std::mutex mutex_;
  std::map<std::string, Histogram, std::less<>> stages_;  // guarded by mutex_
};

}  // namespace saccade::serve

// GET /metrics: what the engine and the preparation of requests have counted, under vLLM's names
// and Saccade's own.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "serve/image_sizes/image_sizer.h"

namespace saccade::serve {

class MetricsText;

// Any thread.
class MetricsPage {
 public:
  // What is not the engine's yet.
  struct Preparation {
    std::size_t requests = 0;    // between arrival and the engine; they count as waiting
    std::size_t held_bytes = 0;  // of bodies and media, from a request's header on
    std::size_t held_bytes_limit = 0;
    const ImageSizer* sizes = nullptr;  // null: images keep their clients' sizes
  };

  MetricsPage(const Engine& engine, std::string model_name);

  // Seconds that one request spent in a stage before the engine: "media", "preprocess".
  void observe_stage(std::string_view stage, double seconds);

  // More of the page, by whoever else counts something. Before the first render().
  void add(std::function<void(MetricsText&)> part) { parts_.push_back(std::move(part)); }

  // Prometheus text.
  std::string render(const Preparation& preparation) const;

 private:
  const Engine& engine_;
  const std::string model_name_;
  std::vector<std::function<void(MetricsText&)>> parts_;
  mutable std::mutex mutex_;
  std::map<std::string, Histogram, std::less<>> stages_;  // guarded by mutex_
};

}  // namespace saccade::serve

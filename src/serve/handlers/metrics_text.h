// Prometheus text in the making: one rendering of a metrics page.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/engine_stats.h"

namespace saccade::serve {

// Collects families; every metric carries model_name and engine, as vLLM's do.
class MetricsText {
 public:
  explicit MetricsText(const std::string& model_name)
      : labels_{{"engine", "0"}, {"model_name", model_name}} {}

  using Label = std::pair<std::string, std::string>;

  void gauge(const char* name, const char* help, double value, std::vector<Label> more = {});
  void counter(const char* name, const char* help, double value, std::vector<Label> more = {});
  void histogram(const char* name, const char* help, const Histogram& from,
                 std::vector<Label> more = {});
  std::string text() const;

 private:
  prometheus::ClientMetric& add(const char* name, const char* help, prometheus::MetricType type,
                                std::vector<Label> more);

  std::vector<Label> labels_;
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace saccade::serve

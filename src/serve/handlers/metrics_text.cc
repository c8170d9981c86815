#include "serve/handlers/metrics_text.h"

#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>

namespace saccade::serve {

using prometheus::ClientMetric;
using prometheus::MetricType;

void MetricsText::gauge(const char* name, const char* help, double value, std::vector<Label> more) {
  add(name, help, MetricType::Gauge, std::move(more)).gauge.value = value;
}

void MetricsText::counter(const char* name, const char* help, double value,
                          std::vector<Label> more) {
  add(name, help, MetricType::Counter, std::move(more)).counter.value = value;
}

void MetricsText::histogram(const char* name, const char* help, const Histogram& from,
                            std::vector<Label> more) {
  auto& made = add(name, help, MetricType::Histogram, std::move(more)).histogram;
  made.sample_count = from.count();
  made.sample_sum = from.sum();
  std::uint64_t at_or_below = 0;
  for (std::size_t i = 0; i < from.bounds().size(); ++i) {
    at_or_below += from.counts()[i];
    made.bucket.push_back({at_or_below, from.bounds()[i]});
  }
  made.bucket.push_back({from.count(), std::numeric_limits<double>::infinity()});
}

std::string MetricsText::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families_);
  return out.str();
}

ClientMetric& MetricsText::add(const char* name, const char* help, MetricType type,
                               std::vector<Label> more) {
  if (families_.empty() || families_.back().name != name) {
    families_.emplace_back();
    families_.back().name = name;
    families_.back().help = help;
    families_.back().type = type;
  }
  ClientMetric metric;
  more.insert(more.end(), labels_.begin(), labels_.end());
  for (auto& [label, value] : more) metric.label.push_back({label, value});
  families_.back().metric.push_back(std::move(metric));
  return families_.back().metric.back();
}

}  // namespace saccade::serve

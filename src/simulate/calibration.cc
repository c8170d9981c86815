#include "simulate/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "bench/load/request_stages.h"
#include "bench/metrics/metrics.h"

namespace saccade::simulate {
namespace {

using cluster::CostPoint;

constexpr double kLowQuantile = 0.25;    // of times that may hold queueing, to exclude it
constexpr double kLeastDelivery = 0.01;  // milliseconds, so that it can be scaled

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// What requests took, in buckets of size that are a factor of 2^(1/4) apart: a point is a bucket's
// median size and its low quantile of time.
class SizeBuckets {
 public:
  void add(double tokens, double ms) {
    if (tokens < 1 || !(ms > 0)) return;
    auto& of = groups_[static_cast<int>(std::lround(4 * std::log2(tokens)))];
    of.tokens.push_back(tokens);
    of.ms.push_back(ms);
  }
  std::vector<CostPoint> points() const {
    std::vector<CostPoint> points;
    for (const auto& [size, of] : groups_)
      points.push_back({std::llround(quantile(of.tokens, 0.5)), quantile(of.ms, kLowQuantile)});
    return points;
  }

 private:
  struct Group {
    std::vector<double> tokens;
    std::vector<double> ms;
  };
  std::map<int, Group> groups_;
};

struct Span {
  double begin = 0;
  double end = 0;
};

// How many of the spans hold an instant.
class IntervalCounter {
 public:
  void add(Span span) {
    begins_.push_back(span.begin);
    ends_.push_back(span.end);
  }
  void sort() {
    std::ranges::sort(begins_);
    std::ranges::sort(ends_);
  }
  std::int64_t at(double instant) const {
    return (std::ranges::upper_bound(begins_, instant) - begins_.begin()) -
           (std::ranges::upper_bound(ends_, instant) - ends_.begin());
  }
  bool any(double begin, double end) const {
    return at(begin) > 0 ||
           std::ranges::lower_bound(begins_, begin) != std::ranges::lower_bound(begins_, end);
  }

 private:
  std::vector<double> begins_;
  std::vector<double> ends_;
};

// The parts of a log that costs are read from.
struct CostObservations {
  SizeBuckets encode;
  SizeBuckets prefill;
  IntervalCounter decoding;
  IntervalCounter other;                                // prefill and encoding, of anybody
  std::vector<double> media_text;                       // ms, of requests without images
  std::vector<double> media_megapixel;                  // ms a megapixel
  std::vector<std::pair<Span, double>> queued;          // before the encoder begins; megapixels
  std::vector<double> delivery;                         // ms
  SizeBuckets whole_text;                               // TTFT, where there are no stages
  std::vector<std::pair<double, double>> image_excess;  // image tokens, TTFT
};

double first_output(const bench::RunLog& log, std::size_t record) {
  const Nanos at = bench::stream_instants(log.events_of(record)).first_output;
  return at == bench::kNever ? -1 : seconds(at);
}

void observe(const bench::RunLog& log, const Workload& workload, const SimRequest& request,
             CostObservations& observed) {
  const bench::RequestRecord& record = log.requests[request.record];
  const double first = first_output(log, request.record);
  if (first < 0) return;
  const double start = seconds(record.start);
  const double end = seconds(record.end);
  double megapixels = 0;
  for (const SimImage& image : workload.images_of(request))
    megapixels += static_cast<double>(image.width) * image.height / 1e6;
  const auto images = static_cast<double>(request.num_images);
  const double image_tokens = std::max(0, record.image_tokens);
  const double computed = std::max<double>(1, static_cast<double>(request.text_tokens) +
                                                  image_tokens - std::max(0, record.cached_tokens));
  observed.decoding.add({first, end});
  const bench::RequestStages stages = bench::request_stages(log, record);
  if (!stages.from_server) {
    observed.other.add({start, first});
    const double ms = 1e3 * (first - start);
    if (request.num_images == 0) {
      observed.whole_text.add(computed, ms);
    } else {
      observed.image_excess.emplace_back(image_tokens / images, ms);
    }
    return;
  }
  double told = seconds(record.sent == bench::kNever ? record.start : record.sent);
  bool queued = false;
  for (const bench::RequestStage& stage : stages.stages) {
    const double ms = 1e3 * (stage.end - stage.begin);
    if (stage.name == "media") {
      if (request.num_images == 0) observed.media_text.push_back(ms);
      if (megapixels > 0) observed.media_megapixel.push_back(ms / megapixels);
    } else if (stage.name == "queue" && !queued) {
      queued = true;
      if (megapixels > 0) observed.queued.push_back({{stage.begin, stage.end}, megapixels});
    } else if (stage.name == "encode") {
      observed.other.add({stage.begin, stage.end});
      // A stage of no length is not in the list.
      if (megapixels > 0 && !queued)
        observed.queued.push_back({{stage.begin, stage.begin}, megapixels});
      if (images > 0) observed.encode.add(image_tokens / images, ms / images);
    } else if (stage.name == "prefill") {
      observed.other.add({stage.begin, stage.end});
      observed.prefill.add(computed, ms);
      told = stage.end;
    }
  }
  observed.delivery.push_back(std::max(0.0, 1e3 * (first - told)));
}

// Gaps between tokens while nobody prefills and nothing is encoded, by how many decode.
void fit_decode(const bench::RunLog& log, const Workload& workload,
                const CostObservations& observed, CostModel& costs) {
  std::map<std::int64_t, std::vector<double>> by_rows;
  std::vector<double> all;
  for (const SimRequest& request : workload.requests) {
    double before = -1;
    for (const bench::LoggedEvent& event : log.events_of(request.record)) {
      if (!bench::is_output(event)) continue;
      const double at = seconds(event.at);
      const std::int32_t tokens = event.tokens > 0 ? event.tokens : 1;
      if (before >= 0 && at > before) {
        const double ms = 1e3 * (at - before) / tokens;
        all.push_back(ms);
        if (!observed.other.any(before, at))
          by_rows[std::max<std::int64_t>(1, observed.decoding.at((before + at) / 2))].push_back(ms);
      }
      before = at;
    }
  }
  std::vector<CostPoint> points;
  for (const auto& [rows, gaps] : by_rows) {
    if (gaps.size() >= 3) points.push_back({rows, std::max(1e-6, quantile(gaps, 0.5))});
  }
  if (points.size() > 1) {
    const cluster::StageCost cost = cluster::fit_stage_cost(points);
    costs.step.base = cost.base;
    costs.step.decode_row = cost.linear;
  } else {
    costs.step.base = points.empty() ? quantile(all, kLowQuantile) : points.front().ms;
  }
}

// Milliseconds a megapixel between the queue and the encoder: of images that met an idle engine, as
// far as there are any, since others also wait for forwards and for images before them.
double fit_pixels(const CostObservations& observed) {
  std::vector<double> all;
  std::vector<double> idle;
  for (const auto& [span, megapixels] : observed.queued) {
    const double ms = 1e3 * (span.end - span.begin) / megapixels;
    all.push_back(ms);
    if (!observed.other.any(span.begin, span.end) && !observed.decoding.any(span.begin, span.end))
      idle.push_back(ms);
  }
  return quantile(idle.empty() ? all : idle, kLowQuantile);
}

// Costs that calibrate() scales together: encoding, prefill, decoding, and what is around them.
constexpr std::size_t kScaledGroups = 4;

CostModel scaled(const CostModel& from, const std::array<double, kScaledGroups>& by) {
  CostModel costs = from;
  costs.encode.base *= by[0];
  costs.encode.linear *= by[0];
  costs.encode.square *= by[0];
  costs.step.prefill_token *= by[1];
  costs.step.prefill_context *= by[1];
  costs.step.base *= by[2];
  costs.step.decode_row *= by[2];
  for (double* each :
       {&costs.prepare.base, &costs.prepare.megapixel, &costs.pixels, &costs.delivery})
    *each *= by[3];
  return costs;
}

Result<ReplayError> replay(SimulationSettings settings, const ServedModel& model,
                           const bench::RunLog& run, const Workload& workload,
                           const CostModel& costs) {
  settings.costs = settings.believed = costs;
  settings.tokens = LoggedTokens::kEnds;
  TRY(const SimulationResult result, simulate(settings, model, workload));
  return replay_error(run, workload, result.log);
}

double ttft_of(const bench::RequestMetrics& of) { return of.success && of.ttft ? *of.ttft : -1; }

}  // namespace

Result<CostModel> fit_costs(const bench::RunLog& log, const Workload& workload) {
  CostObservations observed;
  for (const SimRequest& request : workload.requests) observe(log, workload, request, observed);
  observed.decoding.sort();
  observed.other.sort();
  CostModel costs;
  costs.machine = log.header.host.cpu;
  costs.model = log.header.model;
  fit_decode(log, workload, observed, costs);
  auto prefill = observed.prefill.points();
  if (prefill.empty()) prefill = observed.whole_text.points();
  if (prefill.empty() && observed.image_excess.empty())
    return fail(ErrorCode::kInvalid, "{}: no request has a first token", workload.name);
  const cluster::StageCost whole = cluster::fit_stage_cost(prefill);
  costs.step.prefill_token = whole.linear;
  costs.step.prefill_context = 2 * whole.square;
  if (costs.step.base <= 0) costs.step.base = whole.base;
  costs.encode = cluster::fit_stage_cost(observed.encode.points());
  if (!observed.image_excess.empty()) {
    SizeBuckets excess;
    for (const auto& [tokens, ms] : observed.image_excess)
      excess.add(tokens, std::max(0.0, ms - whole.ms(tokens)));
    costs.encode = cluster::fit_stage_cost(excess.points());
  }
  costs.prepare.base = quantile(observed.media_text, 0.5);
  costs.prepare.megapixel = quantile(observed.media_megapixel, kLowQuantile);
  costs.pixels = fit_pixels(observed);
  costs.delivery = std::max(kLeastDelivery, quantile(observed.delivery, 0.5));
  // A token takes some time, whatever the log could tell.
  costs.step.base = std::max(costs.step.base, 1e-4);
  return costs;
}

bool ReplayError::calibrated() const {
  if (refused > 0) return false;
  return std::ranges::all_of(rows, [](const ErrorRow& row) {
    const bool counts = row.metric == "TTFT" && (row.percent == 50 || row.percent == 90);
    return !counts || std::abs(row.error()) <= kCalibrated;
  });
}

double ReplayError::distance() const {
  double sum = static_cast<double>(refused);
  for (const ErrorRow& row : rows) {
    if (row.percent > 90 || row.real <= 0) continue;
    sum += std::abs(std::log(std::max(row.simulated, 1e-9) / row.real));
  }
  return sum;
}

ReplayError replay_error(const bench::RunLog& real, const Workload& workload,
                         const bench::RunLog& simulated) {
  ReplayError error;
  const bench::RunMetrics there = bench::compute_metrics(real);
  const bench::RunMetrics here = bench::compute_metrics(simulated);
  const auto rows = [&](const char* name, const bench::Distribution& a,
                        const bench::Distribution& b) {
    if (a.empty() || b.empty()) return;
    for (const double percent : {50.0, 90.0, 99.0})
      error.rows.push_back({name, percent, a.percentile(percent), b.percentile(percent)});
  };
  rows("TTFT", there.ttft, here.ttft);
  rows("TPOT", there.tpot, here.tpot);
  rows("E2E", there.e2el, here.e2el);
  error.requests = workload.requests.size();
  error.refused = static_cast<std::size_t>(here.failed);

  std::vector<double> real_ttft(real.requests.size(), -1);
  for (const bench::RequestMetrics& of : there.requests) real_ttft[of.position] = ttft_of(of);
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const bench::RequestMetrics& of : here.requests) {
    const double a = real_ttft[workload.requests[of.position].record];
    const double b = ttft_of(of);
    if (a < 0 || b < 0) continue;
    n += 1;
    x += a;
    y += b;
    xx += a * a;
    yy += b * b;
    xy += a * b;
  }
  const double spread = (n * xx - x * x) * (n * yy - y * y);
  if (n > 2 && spread > 0) error.correlation = (n * xy - x * y) / std::sqrt(spread);
  return error;
}

Result<Calibration> calibrate(const SimulationSettings& settings, const ServedModel& model,
                              const bench::RunLog& run, const std::string& name) {
  TRY(const Workload workload, workload_of(run, name));
  TRY(const CostModel first, fit_costs(run, workload));
  std::array<double, kScaledGroups> best{1, 1, 1, 1};
  TRY(ReplayError nearest, replay(settings, model, run, workload, first));
  // One cost after another, by smaller and smaller factors, as long as the replay comes nearer.
  for (const double step : {1.6, 1.25, 1.1, 1.04}) {
    for (int round = 0; round < 2; ++round) {
      for (std::size_t group = 0; group < kScaledGroups; ++group) {
        for (const double by : {step, 1 / step}) {
          std::array<double, kScaledGroups> moved = best;
          moved[group] *= by;
          TRY(ReplayError error, replay(settings, model, run, workload, scaled(first, moved)));
          if (error.distance() >= nearest.distance()) continue;
          nearest = std::move(error);
          best = moved;
          break;
        }
      }
    }
  }
  Calibration calibration;
  calibration.costs = scaled(first, best);
  calibration.fitted = std::move(nearest);
  return calibration;
}

std::string describe(const CostModel& costs) {
  return fmt::format(
      "encode   {:.4g} ms + {:.4g} ms a token + {:.4g} ns a token squared\n"
      "step     {:.4g} ms + {:.4g} ms a decode row + {:.4g} ms a prefill token\n"
      "besides  {:.4g} ms before the queue + {:.4g} ms a megapixel, pixels {:.4g} ms a megapixel, "
      "{:.4g} ms to the client\n",
      costs.encode.base, costs.encode.linear, costs.encode.square * 1e6, costs.step.base,
      costs.step.decode_row, costs.step.prefill_token, costs.prepare.base, costs.prepare.megapixel,
      costs.pixels, costs.delivery);
}

std::string describe(const ReplayError& error, const std::string& of) {
  std::string text = fmt::format("{}: {} requests replayed\n", of, error.requests);
  text += fmt::format("  {:<6} {:>4} {:>12} {:>12} {:>9}\n", "", "", "measured s", "simulated s",
                      "error");
  for (const ErrorRow& row : error.rows)
    text += fmt::format("  {:<6} P{:<3.0f} {:>12.4f} {:>12.4f} {:>+8.1f} %\n", row.metric,
                        row.percent, row.real, row.simulated, 100 * row.error());
  if (error.correlation)
    text += fmt::format("  TTFT request by request: correlation {:.3f}\n", *error.correlation);
  if (error.refused > 0)
    text += fmt::format("  {} requests were refused in the replay and answered in the run\n",
                        error.refused);
  return text;
}

}  // namespace saccade::simulate

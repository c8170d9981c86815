#include "bench/traces/trace_make.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "bench/load/arrivals.h"
#include "bench/traces/trace_stat.h"

namespace saccade::bench {
namespace {

std::string describe_peak(const Peak& peak) {
  return fmt::format("{:g} in {} of {:g} s", peak.per_second,
                     peak.window == PeakWindow::kBins ? "bins" : "sliding windows",
                     seconds(peak.width));
}

// The most arrivals that a window may hold.
Result<std::int64_t> allowed_count(const Peak& peak) {
  const double count = peak.per_second * seconds(peak.width);
  if (peak.width <= 0 || !(count >= 1 - 1e-9) || count > 1e9)
    return fail(ErrorCode::kInvalid, "a peak of {} is not at least one arrival in a window",
                describe_peak(peak));
  return static_cast<std::int64_t>(count + 1e-9);
}

// What was made, and what it is like: notes in front of those of the source.
void note_method(Trace& trace, std::string_view method, const Peak& peak,
                 std::vector<std::pair<std::string, std::string>> parameters) {
  std::vector<std::pair<std::string, std::string>> notes;
  notes.emplace_back("method", method);
  notes.emplace_back("peak", describe_peak(peak));
  std::move(parameters.begin(), parameters.end(), std::back_inserter(notes));
  const TraceStat stat = describe(trace);
  notes.emplace_back("requests", fmt::to_string(stat.requests));
  notes.emplace_back("span_s", fmt::format("{:.3f}", stat.span_s));
  notes.emplace_back("mean_rate", fmt::format("{:.3f}", stat.mean_rate));
  notes.emplace_back("gap_cv", fmt::format("{:.3f}", stat.gap_cv));
  notes.emplace_back("peak_bins_1s", fmt::format("{:g}", stat.peak_bins_1s));
  notes.emplace_back("peak_sliding_1s_10s_60s",
                     fmt::format("{:g} {:g} {:.2f}", stat.peak_1s, stat.peak_10s, stat.peak_60s));
  for (auto& [key, text] : trace.notes) notes.emplace_back("source_" + key, std::move(text));
  trace.notes = std::move(notes);
}

// The rows of `trace` for which keep(position) is true, on the same origin.
template <typename Keep>
Trace subset(const Trace& trace, Keep keep) {
  Trace kept;
  kept.format = trace.format;
  kept.notes = trace.notes;
  for (std::size_t i = 0; i < trace.rows.size(); ++i) {
    if (!keep(i)) continue;
    TraceRow row = trace.rows[i];
    const auto hashes = trace.hashes_of(row);
    row.first_hash = kept.hash_ids.size();
    kept.hash_ids.insert(kept.hash_ids.end(), hashes.begin(), hashes.end());
    kept.rows.push_back(row);
  }
  return kept;
}

}  // namespace

std::int64_t peak_count(std::span<const Nanos> due, const Peak& peak) {
  return peak.window == PeakWindow::kBins ? busiest_bin(due, peak.width)
                                          : busiest_window(due, peak.width);
}

Result<Trace> thin_to_peak(const Trace& trace, const Peak& peak, std::uint64_t seed) {
  TRY(const std::int64_t allowed, allowed_count(peak));
  const std::vector<Nanos> due = due_times(trace);
  if (const std::int64_t own = peak_count(due, peak); own < allowed)
    return fail(ErrorCode::kInvalid, "the trace's own peak is {} arrivals, thinning to {} needs {}",
                own, describe_peak(peak), allowed);
  Rng rng(seed);
  std::vector<double> draws(due.size());
  for (double& u : draws) u = rng.uniform();
  const auto peak_below = [&](double p) {
    std::vector<Nanos> kept;
    for (std::size_t i = 0; i < due.size(); ++i)
      if (draws[i] < p) kept.push_back(due[i]);
    return peak_count(kept, peak);
  };
  // The peak grows with p, by one at a time: the sets are nested. Bisection over the draws.
  std::vector<double> candidates = draws;
  candidates.push_back(1.0);
  std::sort(candidates.begin(), candidates.end());
  std::size_t low = 0;  // nothing lies below the smallest draw
  std::size_t high = candidates.size();
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (peak_below(candidates[middle]) <= allowed ? low : high) = middle;
  }
  const double p = candidates[low];
  Trace thinned = subset(trace, [&](std::size_t i) { return draws[i] < p; });
  note_method(thinned, "thin", peak,
              {{"seed", fmt::to_string(seed)}, {"probability", fmt::format("{:.6f}", p)}});
  return thinned;
}

Result<Trace> scale_to_peak(const Trace& trace, const Peak& peak) {
  TRY(const std::int64_t allowed, allowed_count(peak));
  const std::vector<Nanos> due = due_times(trace);
  const auto scaled = [&](std::int64_t thousandths) {
    std::vector<Nanos> times(due.size());
    for (std::size_t i = 0; i < due.size(); ++i)
      times[i] = std::llround(static_cast<double>(due[i]) * static_cast<double>(thousandths) / 1e3);
    return times;
  };
  const auto fits = [&](std::int64_t thousandths) {
    return peak_count(scaled(thousandths), peak) <= allowed;
  };
  std::int64_t high = 1'000;
  while (!fits(high)) {
    high *= 2;
    if (high > 1'000'000'000)
      return fail(
          ErrorCode::kInvalid,
          "no stretching brings the trace to a peak of {}: too many arrivals share an instant",
          describe_peak(peak));
  }
  std::int64_t low = 0;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  Trace made = trace;
  const std::vector<Nanos> times = scaled(high);
  for (std::size_t i = 0; i < times.size(); ++i) made.rows[i].at = times[i];
  note_method(made, "scale", peak,
              {{"factor", fmt::format("{:.3f}", static_cast<double>(high) / 1e3)}});
  return made;
}

Result<Trace> cap_at_peak(const Trace& trace, const Peak& peak) {
  TRY(const std::int64_t allowed, allowed_count(peak));
  if (peak.window != PeakWindow::kBins)
    return fail(ErrorCode::kUnsupported, "capping counts in bins, not in sliding windows");
  Trace made = trace;
  Nanos bin = -1;
  std::int64_t filled = 0;
  std::size_t moved = 0;
  for (TraceRow& row : made.rows) {
    if (row.at / peak.width > bin) {
      bin = row.at / peak.width;
      filled = 0;
    }
    if (filled == allowed) {
      ++bin;
      filled = 0;
    }
    const Nanos earliest = bin * peak.width;
    moved += row.at < earliest;
    row.at = std::max(row.at, earliest);
    ++filled;
  }
  note_method(made, "cap", peak, {{"moved", fmt::to_string(moved)}});
  return made;
}

Result<Trace> generate_with_peak(const GenerateSettings& settings) {
  TRY(const std::int64_t allowed, allowed_count(settings.peak));
  const auto in_range = [](double v, double high) { return v > 0 && v <= high; };
  if (!in_range(settings.mean_rate, 1e6) || !in_range(settings.gap_cv, 100) ||
      !in_range(settings.duration_s, 1e7) || settings.mean_rate * settings.duration_s > 1e8)
    return fail(ErrorCode::kInvalid, "cannot generate {} s at {} req/s with gap CV {}",
                settings.duration_s, settings.mean_rate, settings.gap_cv);
  ArrivalSettings arrivals{.request_rate = settings.mean_rate,
                           .burstiness = 1 / (settings.gap_cv * settings.gap_cv)};
  arrivals.duration = std::llround(settings.duration_s * 1e9);
  // Room for every arrival: far above the expected number.
  const double expected = settings.mean_rate * settings.duration_s;
  const auto most =
      static_cast<std::size_t>(expected + 10 * (1 + settings.gap_cv) * std::sqrt(expected) + 100);
  Rng seeds(settings.seed);
  for (int draw = 1; draw <= settings.max_draws; ++draw) {
    TRY(ArrivalPlan plan, plan_arrivals(arrivals, most, seeds()));
    for (Nanos& at : plan.due) at = (at + kMillisecond / 2) / kMillisecond * kMillisecond;
    if (plan.due.empty() || peak_count(plan.due, settings.peak) != allowed) continue;
    Trace made;
    for (const Nanos at : plan.due) {
      TraceRow row;
      row.at = at;
      made.rows.push_back(row);
    }
    note_method(made, "generate", settings.peak,
                {{"seed", fmt::to_string(settings.seed)},
                 {"draws", fmt::to_string(draw)},
                 {"asked_mean_rate", fmt::format("{:g}", settings.mean_rate)},
                 {"asked_gap_cv", fmt::format("{:g}", settings.gap_cv)},
                 {"asked_duration_s", fmt::format("{:g}", settings.duration_s)}});
    return made;
  }
  return fail(ErrorCode::kInvalid,
              "none of {} draws at {} req/s has a peak of {}: choose another mean rate",
              settings.max_draws, settings.mean_rate, describe_peak(settings.peak));
}

}  // namespace saccade::bench

#include "bench/load/rate_search.h"

#include <algorithm>
#include <cmath>

#include "bench/load/leg_runner.h"
#include "bench/load/server/run_health.h"
#include "bench/serve_command.h"

namespace saccade::bench {
namespace {

constexpr double kLowestRate = 1e-3;
constexpr double kHighestRate = 1e6;

class Search {
 public:
  Search(const SearchSettings& settings,
         const std::function<Result<SearchStep>(double, std::uint64_t)>& measure)
      : s_(settings), measure_(measure) {}

  Result<SearchResult> run() {
    TRY_DO(bracket());
    TRY_DO(bisect());
    TRY_DO(confirm());
    return std::move(result_);
  }

 private:
  bool out_of_runs() const { return result_.steps.size() >= static_cast<std::size_t>(s_.max_runs); }

  Result<bool> holds(double rate, std::uint64_t seed) {
    TRY(const SearchStep step, measure_(rate, seed));
    result_.steps.push_back(step);
    if (step.holds)
      held_.push_back(rate);
    else
      result_.above = result_.above == 0 ? rate : std::min(result_.above, rate);
    return step.holds;
  }
  double best() const { return held_.empty() ? 0 : *std::max_element(held_.begin(), held_.end()); }

  Result<void> bracket() {
    double rate = s_.first_rate;
    TRY(const bool first, holds(rate, s_.serve.seed));
    const double factor = first ? 2 : 0.5;
    bool now = first;
    while (now == first && !out_of_runs()) {
      rate *= factor;
      if (rate < kLowestRate || rate > kHighestRate) return {};
      TRY(now, holds(rate, s_.serve.seed));
    }
    return {};
  }

  Result<void> bisect() {
    while (!out_of_runs() && best() > 0 && result_.above > 0) {
      const double low = best();
      if (result_.above / low - 1 <= s_.precision) return {};
      TRY_DO(holds(std::sqrt(low * result_.above), s_.serve.seed).map([](bool) {}));
    }
    return {};
  }

  Result<void> confirm() {
    while (best() > 0) {
      const double rate = best();
      bool all = true;
      int done = 0;
      while (done < s_.confirmations && all && !out_of_runs()) {
        TRY(all, holds(rate, s_.serve.seed + static_cast<std::uint64_t>(++done)));
      }
      result_.rate = all ? rate : 0;
      result_.confirmed = all && done == s_.confirmations;
      if (all) return {};
      std::erase_if(held_, [&](double held) { return held >= rate; });
      if (!out_of_runs()) continue;
      result_.rate = best();
      return {};
    }
    return {};
  }

  const SearchSettings& s_;
  const std::function<Result<SearchStep>(double, std::uint64_t)>& measure_;
  std::vector<double> held_;
  SearchResult result_;
};

std::string step_line(const SearchStep& step) {
  return fmt::format("{:>10.3f} req/s  attainment {:6.2f} %  [{:.2f}, {:.2f}]  {}{}", step.rate,
                     step.attainment * 100, step.interval.low * 100, step.interval.high * 100,
                     step.holds ? "holds" : "does not hold", step.overloaded ? ", overloaded" : "");
}

// The bracket of the rate, and the attainment over all runs at it.
std::string result_lines(const SearchResult& found) {
  std::int64_t good = 0;
  std::int64_t all = 0;
  for (const SearchStep& step : found.steps) {
    if (step.rate != found.rate) continue;
    good += step.good;
    all += step.all;
  }
  const Interval share = share_interval(good, all);
  const std::string bound = found.above > 0
                                ? fmt::format("[{:.3f}, {:.3f}]", found.rate, found.above)
                                : fmt::format("[{:.3f}, no bound was found)", found.rate);
  return fmt::format(
      "highest rate: {:.3f} req/s, interval {}{}\n"
      "attainment there: {:.2f} % [{:.2f}, {:.2f}] of {} requests\n",
      found.rate, bound, found.confirmed ? "" : " (not confirmed: out of runs)",
      all > 0 ? 100.0 * static_cast<double>(good) / static_cast<double>(all) : 0, share.low * 100,
      share.high * 100, all);
}

}  // namespace

Interval share_interval(std::int64_t good, std::int64_t all, double confidence) {
  if (all == 0) return {0, 1};
  const double n = static_cast<double>(all);
  const double share = static_cast<double>(good) / n;
  const double z = student_quantile((1 + confidence) / 2, 1e9);
  const double centre = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half =
      z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

Result<SearchResult> search_rate(
    const SearchSettings& settings,
    const std::function<Result<SearchStep>(double rate, std::uint64_t seed)>& measure) {
  if (!(settings.first_rate > 0) || !(settings.precision > 0) || !(settings.attainment > 0) ||
      settings.attainment > 1 || settings.max_runs < 2)
    return fail(ErrorCode::kInvalid,
                "the first rate and the precision must be above 0, the attainment between 0 and "
                "100 %, and at least 2 runs allowed");
  return Search(settings, measure).run();
}

Result<MethodOutcome> search_run(const SearchSettings& settings, std::atomic<bool>& stop) {
  ServeSettings s = settings.serve;
  if (s.output.goodput.empty())
    return fail(ErrorCode::kInvalid, "--goodput is required, as in --goodput ttft:2000 tpot:50");
  TRY_DO(check(s));
  TRY(const MetricOptions options, metric_options(resolved_compat(s), s.output.goodput));
  LegRunner runner(s, stop);
  int runs = 0;
  const auto measure = [&](double rate, std::uint64_t seed) -> Result<SearchStep> {
    if (stop.load()) return fail(ErrorCode::kCancelled, "the search was stopped");
    s.seed = seed;
    TRY(const RunLog log, runner.run({rate, s.load.max_concurrency, false}));
    const RunMetrics metrics = compute_metrics(log, options);
    SearchStep step;
    step.rate = rate;
    step.good = metrics.goodput->good;
    step.all = static_cast<std::int64_t>(metrics.requests.size());
    step.attainment = metrics.goodput->attainment;
    step.interval = share_interval(step.good, step.all);
    step.overloaded = judge_overload(log, metrics).overloaded;
    step.holds = step.attainment >= settings.attainment && !step.overloaded;
    note(step_line(step));
    if (judge_cache(log, metrics).contaminated)
      note("the server's cache knew the prompts of earlier runs: use --reset-cache");
    TRY_DO(write_outputs(s, log, fmt::format("-{}", ++runs)).map([](const auto&) {}));
    return step;
  };
  TRY(const SearchResult found, search_rate(settings, measure));
  MethodOutcome outcome;
  for (const SearchStep& step : found.steps) outcome.text += step_line(step) + "\n";
  if (found.rate == 0) {
    outcome.text += "no rate holds the targets\n";
    outcome.exit_code = 1;
    return outcome;
  }
  outcome.text += result_lines(found);
  return outcome;
}

}  // namespace saccade::bench

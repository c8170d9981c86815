#include "bench/load/arrivals.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/hash.h"
#include "base/rng.h"

namespace saccade::bench {
namespace {

// Standard normal by the polar method; one of each pair is thrown away, so that a draw depends on
// nothing kept.
double draw_normal(Rng& rng) {
  for (;;) {
    const double u = 2 * rng.uniform() - 1;
    const double v = 2 * rng.uniform() - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

// Gamma with the given shape and scale 1: Marsaglia and Tsang (2000), with their boost below 1.
double draw_gamma(double shape, Rng& rng) {
  if (shape == 1) return -std::log1p(-rng.uniform());
  if (shape < 1) {
    const double boosted = draw_gamma(shape + 1, rng);
    return boosted * std::pow(1 - rng.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(rng);
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1 - rng.uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// Rate in force before request `index` of `count`.
double rate_at(const ArrivalSettings& s, std::size_t index, std::size_t count) {
  if (s.ramp_up == RampUp::kNone) return s.request_rate;
  const double progress =
      static_cast<double>(index) / static_cast<double>(std::max<std::size_t>(count - 1, 1));
  if (s.ramp_up == RampUp::kLinear)
    return s.ramp_up_start_rps + (s.ramp_up_end_rps - s.ramp_up_start_rps) * progress;
  return s.ramp_up_start_rps * std::pow(s.ramp_up_end_rps / s.ramp_up_start_rps, progress);
}

std::string name_of(const ArrivalSettings& s) {
  if (s.ramp_up != RampUp::kNone) return "ramp-up";
  if (std::isinf(s.request_rate)) return "inf";
  if (std::isinf(s.burstiness)) return "constant";
  return s.burstiness == 1 ? "poisson" : "gamma";
}

bool positive_or_infinite(double v) { return v > 0; }  // false for NaN
bool positive(double v) { return v > 0 && std::isfinite(v); }

}  // namespace

std::vector<std::string> ArrivalSettings::problems() const {
  std::vector<std::string> found;
  if (ramp_up == RampUp::kNone) {
    if (!positive_or_infinite(request_rate))
      found.push_back(fmt::format("--request-rate is {}, it must be above 0", request_rate));
  } else if (!positive(ramp_up_end_rps) || !(ramp_up_start_rps >= 0) ||
             !std::isfinite(ramp_up_start_rps)) {
    found.push_back(
        fmt::format("the ramp from {} to {} requests/s must start at 0 or above and "
                    "end above 0",
                    ramp_up_start_rps, ramp_up_end_rps));
  } else if (ramp_up == RampUp::kExponential && ramp_up_start_rps == 0) {
    found.push_back("an exponential ramp must start above 0 requests/s");
  }
  if (!positive_or_infinite(burstiness))
    found.push_back(fmt::format("--burstiness is {}, it must be above 0", burstiness));
  if (duration < 0) found.push_back(fmt::format("the duration is {} s", seconds(duration)));
  return found;
}

Result<ArrivalPlan> plan_arrivals(const ArrivalSettings& settings, std::size_t count,
                                  std::uint64_t seed) {
  if (const auto problems = settings.problems(); !problems.empty())
    return fail(ErrorCode::kInvalid, "{}", fmt::join(problems, "; "));
  ArrivalPlan plan;
  plan.name = name_of(settings);
  if (settings.ramp_up == RampUp::kNone && std::isinf(settings.request_rate)) {
    plan.due.assign(count, 0);
    return plan;
  }

  Rng rng(seed);
  const bool constant = std::isinf(settings.burstiness);
  std::vector<double> due;  // seconds
  due.reserve(count);
  double at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (constant && settings.ramp_up == RampUp::kNone) {
      // Multiplied, not added up: the last of many is as exact as the first.
      const std::size_t gaps = settings.first_at_zero ? i : i + 1;
      due.push_back(static_cast<double>(gaps) / settings.request_rate);
      continue;
    }
    // A linear ramp from 0: the first gap is that of the second request, not infinite.
    double rate = rate_at(settings, i, count);
    if (rate <= 0) rate = rate_at(settings, 1, std::max<std::size_t>(count, 2));
    const double unit = constant ? 1 : draw_gamma(settings.burstiness, rng) / settings.burstiness;
    if (i > 0 || !settings.first_at_zero) at += unit / rate;
    due.push_back(at);
  }
  if (settings.rescale && settings.ramp_up == RampUp::kNone && count > 0 && due.back() > 0) {
    const double stretch = static_cast<double>(count) / settings.request_rate / due.back();
    for (double& instant : due) instant *= stretch;
  }
  plan.due.reserve(count);
  for (const double instant : due) {
    const double ns = instant * 1e9;
    if (ns > 9e18)
      return fail(ErrorCode::kInvalid, "request {} would be due after {} s", plan.due.size(),
                  instant);
    const Nanos when = std::llround(ns);
    if (settings.duration > 0 && when > settings.duration) break;
    plan.due.push_back(when);
  }
  return plan;
}

ArrivalPlan closed_loop_arrivals(std::size_t count) {
  return {"closed-loop", std::vector<Nanos>(count, 0), true};
}

std::string arrival_hash(std::span<const Nanos> due) {
  Sha256 hash;
  std::array<char, 24> digits;
  for (const Nanos instant : due) {
    const char* const end =
        std::to_chars(digits.data(), digits.data() + digits.size() - 1, instant).ptr;
    hash.update(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
    hash.update("\n");
  }
  return to_hex(hash.finish());
}

Result<std::vector<double>> parse_rate_sweep(std::string_view text) {
  std::array<double, 3> parts{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [next, code] = std::from_chars(at, end, parts[i]);
    const bool last = i + 1 == parts.size();
    if (code != std::errc() || (last ? next != end : next == end || *next != ':'))
      return fail(ErrorCode::kInvalid, "rate sweep '{}': expected first:last:step, as in 0.2:4:0.2",
                  text);
    at = next + 1;
  }
  const auto [first, last, step] = parts;
  if (!positive(first) || !positive(step) || !std::isfinite(last) || last < first)
    return fail(ErrorCode::kInvalid,
                "rate sweep '{}': first and step must be above 0, last not below first", text);
  const double steps = std::floor((last - first) / step + 1e-9);
  if (steps >= 10'000) return fail(ErrorCode::kInvalid, "rate sweep '{}': over 10000 rates", text);
  std::vector<double> rates;
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    // To 12 digits: 0.2 * 3 is shown and sent as 0.6.
    rates.push_back(std::round((first + i * step) * 1e12) / 1e12);
  }
  return rates;
}

}  // namespace saccade::bench

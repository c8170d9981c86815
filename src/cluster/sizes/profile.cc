#include "cluster/sizes/profile.h"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "base/hash.h"
#include "base/regular_file.h"

namespace saccade::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTerms = 3;
constexpr double kTokenUnit = 1024;  // makes the terms about 1
constexpr double kWeightOfNew = 0.05;
constexpr double kLeastFactor = 0.5;
constexpr double kMaxFactor = 3;

using Terms = std::array<double, kTerms>;

Terms terms_of(const CostPoint& point) {
  const double n = static_cast<double>(point.tokens) / kTokenUnit;
  return {1, n, n * n};
}

// Least squares over the terms in `used`, relative errors; absent when they depend on each other.
std::optional<Terms> solve(const std::vector<CostPoint>& points, unsigned used) {
  std::array<std::array<double, kTerms + 1>, kTerms> rows{};
  for (const CostPoint& point : points) {
    const Terms terms = terms_of(point);
    const double weight = 1 / (point.ms * point.ms);
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) rows[i][j] += weight * terms[i] * terms[j];
      rows[i][kTerms] += weight * terms[i] * point.ms;
    }
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    if ((used >> i & 1u) != 0) continue;
    rows[i].fill(0);
    for (auto& row : rows) row[i] = 0;
    rows[i][i] = 1;
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < kTerms; ++r)
      if (std::abs(rows[r][i]) > std::abs(rows[pivot][i])) pivot = r;
    std::swap(rows[i], rows[pivot]);
    if (std::abs(rows[i][i]) < 1e-14) return std::nullopt;
    for (std::size_t r = 0; r < kTerms; ++r) {
      if (r == i) continue;
      const double share = rows[r][i] / rows[i][i];
      for (std::size_t c = i; c <= kTerms; ++c) rows[r][c] -= share * rows[i][c];
    }
  }
  Terms weights{};
  for (std::size_t i = 0; i < kTerms; ++i) weights[i] = rows[i][kTerms] / rows[i][i];
  return weights;
}

double error_of(const std::vector<CostPoint>& points, const Terms& weights) {
  double sum = 0;
  for (const CostPoint& point : points) {
    const Terms terms = terms_of(point);
    double cost = 0;
    for (std::size_t i = 0; i < kTerms; ++i) cost += weights[i] * terms[i];
    sum += (cost / point.ms - 1) * (cost / point.ms - 1);
  }
  return sum;
}

json::array to_json(const std::vector<CostPoint>& points) {
  json::array list;
  for (const CostPoint& point : points)
    list.push_back(json::object{{"tokens", point.tokens}, {"ms", point.ms}});
  return list;
}

json::object to_json(const StageCost& cost) {
  return {{"base_ms", cost.base},
          {"ms_per_token", cost.linear},
          {"ms_per_token_squared", cost.square},
          {"worst_relative_residual", cost.worst_residual}};
}

Result<std::vector<CostPoint>> read_points(const json::object& from, std::string_view name) {
  const json::value* list = json::find(from, name);
  if (list == nullptr || !list->is_array())
    return fail(ErrorCode::kInvalid, "'{}' is no list", name);
  std::vector<CostPoint> points;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object()) return fail(ErrorCode::kInvalid, "'{}' has what is no object", name);
    CostPoint point;
    TRY(point.tokens, json::get_int(each.get_object(), "tokens"));
    TRY(point.ms, json::get_double(each.get_object(), "ms"));
    if (point.tokens < 1 || !(point.ms > 0) || !std::isfinite(point.ms))
      return fail(ErrorCode::kInvalid, "'{}' has {} ms for {} tokens", name, point.ms,
                  point.tokens);
    points.push_back(point);
  }
  return points;
}

}  // namespace

StageCost fit_stage_cost(const std::vector<CostPoint>& points) {
  StageCost fitted;
  if (points.empty()) return fitted;
  const bool one_size = std::ranges::all_of(
      points, [&](const CostPoint& point) { return point.tokens == points.front().tokens; });
  // The best of all choices of terms whose weights are not negative is the best there is.
  Terms best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned used = 1; used < 1u << kTerms; ++used) {
    if (one_size && used != 2) continue;
    const auto weights = solve(points, used);
    if (!weights || std::ranges::any_of(*weights, [](double weight) { return weight < 0; }))
      continue;
    const double error = error_of(points, *weights);
    if (error >= least) continue;
    least = error;
    best = *weights;
  }
  fitted.base = best[0];
  fitted.linear = best[1] / kTokenUnit;
  fitted.square = best[2] / (kTokenUnit * kTokenUnit);
  for (const CostPoint& point : points)
    fitted.worst_residual =
        std::max(fitted.worst_residual,
                 std::abs(fitted.ms(static_cast<double>(point.tokens)) / point.ms - 1));
  return fitted;
}

StraightLine fit_line(const std::vector<CostPoint>& points) {
  StraightLine line;
  if (points.empty()) return line;
  const auto count = static_cast<double>(points.size());
  double mean_n = 0;
  double mean_ms = 0;
  for (const CostPoint& point : points) {
    mean_n += static_cast<double>(point.tokens) / count;
    mean_ms += point.ms / count;
  }
  double nn = 0;
  double nt = 0;
  double tt = 0;
  for (const CostPoint& point : points) {
    const double n = static_cast<double>(point.tokens) - mean_n;
    const double t = point.ms - mean_ms;
    nn += n * n;
    nt += n * t;
    tt += t * t;
  }
  line.slope = nn > 0 ? nt / nn : 0;
  line.intercept = mean_ms - line.slope * mean_n;
  line.r_squared = nn > 0 && tt > 0 ? nt * nt / (nn * tt) : 0;
  return line;
}

void Profile::fit() {
  encode_cost = fit_stage_cost(encode);
  prefill_cost = fit_stage_cost(prefill);
}

std::string to_json(const Profile& profile) {
  const json::object tree{{"format", "saccade.profile.v1"},
                          {"machine", profile.machine},
                          {"model", profile.model},
                          {"encode", to_json(profile.encode)},
                          {"prefill", to_json(profile.prefill)},
                          {"encode_cost", to_json(profile.encode_cost)},
                          {"prefill_cost", to_json(profile.prefill_cost)}};
  return boost::json::serialize(tree);
}

Result<Profile> parse_profile(std::string_view text) {
  TRY(const json::value tree, json::parse(text));
  if (!tree.is_object()) return fail(ErrorCode::kInvalid, "a profile is an object");
  const json::object& from = tree.get_object();
  TRY(const std::string format, json::get_string(from, "format"));
  if (format != "saccade.profile.v1")
    return fail(ErrorCode::kInvalid, "'format' is '{}', saccade.profile.v1 is read", format);
  Profile profile;
  TRY(profile.machine, json::get_string(from, "machine"));
  TRY(profile.model, json::get_string(from, "model"));
  TRY(profile.encode, read_points(from, "encode"));
  TRY(profile.prefill, read_points(from, "prefill"));
  if (profile.prefill.empty()) return fail(ErrorCode::kInvalid, "'prefill' is empty");
  profile.fit();  // from what was measured: the costs in the file are for people
  return profile;
}

std::string profile_path(std::string_view folder, std::string_view machine,
                         std::string_view model) {
  Sha256 hash;
  hash.update(machine);
  hash.update("\n");
  hash.update(model);
  const std::string name = to_hex(hash.finish());
  return fmt::format("{}/profile-{}.json", folder, name.substr(0, 16));
}

Result<Profile> load_profile(const std::string& path, std::string_view machine,
                             std::string_view model) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  auto text = read_regular_file(path, kMaxBytes);
  if (!text) return fail(std::move(text).error());
  auto profile = parse_profile(*text);
  if (!profile) return fail_within(path, std::move(profile).error());
  if (!profile->is_for(machine, model))
    return fail(ErrorCode::kNotFound, "{}: the profile of another model or machine", path);
  return profile;
}

Result<void> save_profile(const std::string& path, const Profile& profile) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string partial = path + ".partial";
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << to_json(profile) << "\n";
    file.flush();
    if (!file) return fail(ErrorCode::kUnavailable, "{}: cannot be written", partial);
  }
  fs::rename(partial, path, error);
  if (error) return fail(ErrorCode::kUnavailable, "{}: {}", path, error.message());
  return {};
}

void SpeedCorrection::observe(double real, double predicted) {
  if (!(real > 0) || !(predicted > 0)) return;
  const double ratio = std::clamp(real / predicted, kLeastFactor, kMaxFactor);
  factor_ = std::clamp(factor_ + kWeightOfNew * (ratio - factor_), kLeastFactor, kMaxFactor);
}

}  // namespace saccade::cluster

// What encoding an image and computing a prompt take on one machine with one model, measured apart:
// a cost that can only grow with the tokens. Kept as JSON by what it depends on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace saccade::cluster {

struct CostPoint {
  std::int64_t tokens = 0;
  double ms = 0;
};

// Milliseconds of a stage for n tokens at once: base + linear n + square n^2, none below 0.
struct StageCost {
  double base = 0;
  double linear = 0;
  double square = 0;
  double worst_residual = 0;  // of the points it was fitted to, relative to what was measured

  double ms(double tokens) const { return base + tokens * (linear + tokens * square); }
};

// Least squares of relative errors over weights that are not negative. No points: all 0; points of
// one size: its time in proportion to the tokens.
StageCost fit_stage_cost(const std::vector<CostPoint>& points);

// A straight line through times, as published profiles have it: slope and intercept in
// milliseconds, with R^2. Its intercept is often negative, so it says nothing about small images.
struct StraightLine {
  double slope = 0;
  double intercept = 0;
  double r_squared = 0;
};
StraightLine fit_line(const std::vector<CostPoint>& points);

struct Profile {
  std::string machine;             // processor and threads, or the device
  std::string model;               // what names the weights and their types
  std::vector<CostPoint> encode;   // one image of so many tokens; empty: the model takes none
  std::vector<CostPoint> prefill;  // one prompt of so many tokens, nobody decoding
  StageCost encode_cost;
  StageCost prefill_cost;

  // Fits the costs to the points.
  void fit();
  bool is_for(std::string_view machine_now, std::string_view model_now) const {
    return machine == machine_now && model == model_now;
  }
};

std::string to_json(const Profile& profile);
// kInvalid names the member.
Result<Profile> parse_profile(std::string_view text);

// Where a profile of this model on this machine is kept under `folder`.
std::string profile_path(std::string_view folder, std::string_view machine, std::string_view model);
// kNotFound: there is none, or it is another's.
Result<Profile> load_profile(const std::string& path, std::string_view machine,
                             std::string_view model);
// Whole or not at all: a reader never sees half of it.
Result<void> save_profile(const std::string& path, const Profile& profile);

// How real times compare with predicted ones now: an average that a single burst does not move far.
// One thread.
class SpeedCorrection {
 public:
  // A stage took `real` where `predicted` was said; either at or below 0 says nothing.
  void observe(double real, double predicted);
  double factor() const { return factor_; }

 private:
  double factor_ = 1;
};

}  // namespace saccade::cluster

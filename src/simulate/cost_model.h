// What the machines of a simulated cluster take for their work: a few numbers that can only add.
// From a profile, from a run that was measured (calibration.h), or written by hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/sizes/profile.h"

namespace saccade::simulate {

// Milliseconds of one step.
struct StepCost {
  double base = 0;
  double decode_row = 0;
  double prefill_token = 0;
  double context_token = 0;    // of those in the cache that decode rows see
  double prefill_context = 0;  // a prefill token and a token that it sees
};

// What a step computes. Tokens.
struct StepWork {
  std::int64_t decode_rows = 0;
  std::int64_t decode_context = 0;
  std::int64_t prefill_tokens = 0;
  double prefill_context = 0;  // tokens times the tokens that each sees
};

// Milliseconds between a request's arrival and its place in the engine's queue.
struct PrepareCost {
  double base = 0;
  double megapixel = 0;  // of its images as they came
};

struct CostModel {
  std::string machine;
  std::string model;
  cluster::StageCost encode;  // one image of so many tokens
  StepCost step;
  PrepareCost prepare;
  double pixels = 0;    // milliseconds a megapixel: decoding and resizing, beside the engine
  double delivery = 0;  // milliseconds from a token to the client
  double noise = 0;     // standard deviation of the logarithm of every time

  double step_ms(const StepWork& work) const {
    return step.base + step.decode_row * static_cast<double>(work.decode_rows) +
           step.context_token * static_cast<double>(work.decode_context) +
           step.prefill_token * static_cast<double>(work.prefill_tokens) +
           step.prefill_context * work.prefill_context;
  }
  // Of one prompt by itself, in one step: what a profile measures.
  cluster::StageCost prefill() const {
    return {step.base, step.prefill_token, step.prefill_context / 2, 0};
  }
};

// A profile has measured no decoding: a decode row is taken for a prompt of one token, which is the
// least that it can be.
CostModel costs_of(const cluster::Profile& profile);

// All stages of encode, step and prepare times `factor`: another machine.
CostModel slowed(CostModel costs, double factor);

std::string to_json(const CostModel& costs);
// Either form: saccade.costs.v1, or a profile. kInvalid names the file, the member and the limit.
Result<CostModel> read_costs(const std::string& path);
Result<CostModel> parse_costs(std::string_view text);

}  // namespace saccade::simulate

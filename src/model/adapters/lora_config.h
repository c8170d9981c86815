// What an adapter says of itself: PEFT's adapter_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "text/patterns/regex.h"

namespace saccade {

// How long an adapter's expressions may be compiled and tried, all together: a worker loads it. The
// clock is looked at before each, and none takes more than a few milliseconds.
class ExpressionTime {
 public:
  ExpressionTime();
  // kTooLarge: it is over.
  Result<void> check() const;

 private:
  Nanos end_;
};

// Names of modules as PEFT's configuration chooses them. Immutable; any thread.
class ModuleChoice {
 public:
  // A string is an expression that a whole name matches, or with `all_linear` "all-linear"; a list
  // has names, or what names end with after a dot. Errors name the member.
  static Result<ModuleChoice> parse(std::string_view member, const json::value& value,
                                    bool all_linear);
  Result<bool> chooses(std::string_view module) const;
  bool is_list() const { return !all_ && !pattern_; }

 private:
  bool all_ = false;
  std::optional<Regex> pattern_;
  std::vector<std::string> names_;
};

// Ranks, or alphas, of modules that have others than the rest.
class ModuleValues {
 public:
  // Keys are expressions that a name matches at its end, after a dot or from its beginning.
  static Result<ModuleValues> parse(std::string_view member, const json::object& numbers,
                                    const ExpressionTime& time);
  // That of the first key that matches; `all` where none does.
  Result<double> of(std::string_view module, double all, const ExpressionTime& time) const;

 private:
  struct Entry {
    Regex pattern;
    double number = 0;
  };
  std::vector<Entry> entries_;  // in the file's order
};

class LoraConfig {
 public:
  // kUnsupported names a member that asks for what is not done here: DoRA, biases, whole modules
  // saved along, ... kInvalid: a member that is missing or of another type.
  static Result<LoraConfig> parse(const json::object& config, const ExpressionTime& time = {});

  // Of modules by their full names, "model.layers.0.self_attn.q_proj". kTooLarge: a name that is
  // too long, an expression that takes too many steps, or all that take too long.
  Result<bool> chooses(std::string_view module) const;
  Result<std::int64_t> rank(std::string_view module) const;
  // What the product of both matrices is multiplied by.
  Result<double> scale(std::string_view module) const;

 private:
  Result<double> number_of(const std::optional<ModuleValues>& own, double all,
                           std::string_view module) const;

  ExpressionTime time_;
  std::int64_t rank_ = 0;
  double alpha_ = 0;
  bool by_root_ = false;  // rank-stabilised: alpha / sqrt(r)
  std::optional<ModuleChoice> targets_;
  std::optional<ModuleChoice> excluded_;
  std::optional<std::vector<std::int64_t>> layers_;  // absent: all
  std::optional<ModuleValues> ranks_;
  std::optional<ModuleValues> alphas_;
};

// The number of the layer that a module is in: of "x.layers.3.mlp.down_proj" 3. As PEFT finds it:
// the last number between dots that has two names before it and something behind.
std::optional<std::int64_t> layer_of(std::string_view module);

}  // namespace saccade

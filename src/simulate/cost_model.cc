#include "simulate/cost_model.h"

#include <boost/json/serialize.hpp>

#include "base/json.h"

namespace saccade::simulate {
namespace {

constexpr std::string_view kFormat = "saccade.costs.v1";
constexpr double kMaxMs = 3.6e6;  // an hour
constexpr double kMaxNoise = 2;

Result<void> take(const json::object& from, std::string_view section, std::string_view name,
                  double most, double& to) {
  TRY(to, json::get_double_or(from, name, 0));
  if (!(to >= 0) || to > most)
    return fail(ErrorCode::kInvalid, "'{}{}{}' is {}, 0 to {} is possible", section,
                section.empty() ? "" : ".", name, to, most);
  return {};
}

Result<const json::object*> section(const json::object& from, std::string_view name) {
  const json::value* found = json::find(from, name);
  if (found == nullptr || !found->is_object())
    return fail(ErrorCode::kInvalid, "'{}' is no object", name);
  return &found->get_object();
}

Result<CostModel> parse_own(const json::object& from) {
  CostModel costs;
  TRY(costs.machine, json::get_string_or(from, "machine", ""));
  TRY(costs.model, json::get_string_or(from, "model", ""));
  TRY(const json::object* const encode, section(from, "encode"));
  TRY_DO(take(*encode, "encode", "base_ms", kMaxMs, costs.encode.base));
  TRY_DO(take(*encode, "encode", "ms_per_token", kMaxMs, costs.encode.linear));
  TRY_DO(take(*encode, "encode", "ms_per_token_squared", kMaxMs, costs.encode.square));
  TRY(const json::object* const step, section(from, "step"));
  TRY_DO(take(*step, "step", "base_ms", kMaxMs, costs.step.base));
  TRY_DO(take(*step, "step", "ms_per_decode_row", kMaxMs, costs.step.decode_row));
  TRY_DO(take(*step, "step", "ms_per_prefill_token", kMaxMs, costs.step.prefill_token));
  TRY_DO(take(*step, "step", "ms_per_context_token", kMaxMs, costs.step.context_token));
  TRY_DO(
      take(*step, "step", "ms_per_prefill_token_of_context", kMaxMs, costs.step.prefill_context));
  if (costs.step_ms({1, 0, 0, 0}) <= 0 || costs.step_ms({0, 0, 1, 0}) <= 0)
    return fail(
        ErrorCode::kInvalid,
        "'step' lets a token be computed in no time: base_ms, or both ms_per_decode_row and "
        "ms_per_prefill_token, must be over 0");
  if (json::find(from, "prepare") != nullptr) {
    TRY(const json::object* const prepare, section(from, "prepare"));
    TRY_DO(take(*prepare, "prepare", "base_ms", kMaxMs, costs.prepare.base));
    TRY_DO(take(*prepare, "prepare", "ms_per_megapixel", kMaxMs, costs.prepare.megapixel));
  }
  TRY_DO(take(from, "", "pixels_ms_per_megapixel", kMaxMs, costs.pixels));
  TRY_DO(take(from, "", "delivery_ms", kMaxMs, costs.delivery));
  TRY_DO(take(from, "", "noise", kMaxNoise, costs.noise));
  return costs;
}

}  // namespace

CostModel costs_of(const cluster::Profile& profile) {
  CostModel costs;
  costs.machine = profile.machine;
  costs.model = profile.model;
  costs.encode = profile.encode_cost;
  costs.step.base = profile.prefill_cost.base;
  costs.step.prefill_token = costs.step.decode_row = profile.prefill_cost.linear;
  costs.step.prefill_context = costs.step.context_token = 2 * profile.prefill_cost.square;
  return costs;
}

CostModel slowed(CostModel costs, double factor) {
  for (double* each :
       {&costs.encode.base, &costs.encode.linear, &costs.encode.square, &costs.step.base,
        &costs.step.decode_row, &costs.step.prefill_token, &costs.step.context_token,
        &costs.step.prefill_context, &costs.prepare.base, &costs.prepare.megapixel, &costs.pixels})
    *each *= factor;
  return costs;
}

std::string to_json(const CostModel& costs) {
  const json::object tree{
      {"format", kFormat},
      {"machine", costs.machine},
      {"model", costs.model},
      {"encode",
       {{"base_ms", costs.encode.base},
        {"ms_per_token", costs.encode.linear},
        {"ms_per_token_squared", costs.encode.square}}},
      {"step",
       {{"base_ms", costs.step.base},
        {"ms_per_decode_row", costs.step.decode_row},
        {"ms_per_prefill_token", costs.step.prefill_token},
        {"ms_per_context_token", costs.step.context_token},
        {"ms_per_prefill_token_of_context", costs.step.prefill_context}}},
      {"prepare", {{"base_ms", costs.prepare.base}, {"ms_per_megapixel", costs.prepare.megapixel}}},
      {"pixels_ms_per_megapixel", costs.pixels},
      {"delivery_ms", costs.delivery},
      {"noise", costs.noise}};
  return boost::json::serialize(tree);
}

Result<CostModel> parse_costs(std::string_view text) {
  TRY(const json::value tree, json::parse(text));
  if (!tree.is_object()) return fail(ErrorCode::kInvalid, "costs are an object");
  TRY(const std::string format, json::get_string(tree.get_object(), "format"));
  if (format == kFormat) return parse_own(tree.get_object());
  if (format != "saccade.profile.v1")
    return fail(ErrorCode::kInvalid, "'format' is '{:.40}', {} and saccade.profile.v1 are read",
                format, kFormat);
  TRY(const cluster::Profile profile, cluster::parse_profile(text));
  return costs_of(profile);
}

Result<CostModel> read_costs(const std::string& path) {
  const auto parsed = json::parse_file(path);
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  auto costs = parse_costs(boost::json::serialize(*parsed));
  if (!costs) return fail_within(path, std::move(costs).error());
  return costs;
}

}  // namespace saccade::simulate

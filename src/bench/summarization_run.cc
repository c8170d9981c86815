// SQZB's two-run method.
#include "bench/leg_runner.h"
#include "bench/metrics.h"
#include "bench/seed_methods.h"
#include "bench/serve_command.h"
#include "bench/text_file.h"

namespace saccade::bench {
namespace {

std::string latency_rows(std::string_view name, const Distribution& d) {
  if (d.empty())
    return fmt::format("{}\n  not known: the server gives no times of its own\n", name);
  return fmt::format("{}\n  mean (ms):    {:.2f}\n  median (ms):  {:.2f}\n  max (ms):     {:.2f}\n",
                     name, d.mean() * 1e3, d.median() * 1e3, d.max() * 1e3);
}

// What both runs share.
ServeSettings fixed_by_the_method(const SummarizationSettings& settings) {
  ServeSettings s = settings.serve;
  s.target.backend = "openai";
  s.data.name = "tokens";
  s.data.tokens.max_input_len = settings.max_input_len;
  if (!s.body.temperature) s.body.temperature = 0.0;
  if (!s.body.top_p) s.body.top_p = 1.0;
  s.continuous_usage = false;
  s.server_timings = true;
  s.body.ignore_eos = s.data.path.empty();
  if (!settings.stop_token_ids.empty() && !s.data.path.empty()) {
    json::array ids;
    for (const std::int32_t id : settings.stop_token_ids) ids.push_back(id);
    s.body.extra["stop_token_ids"] = ids;
  }
  return s;
}

Result<RunLog> one_run(ServeSettings s, std::int32_t output_len, std::atomic<bool>& stop) {
  s.data.tokens.output_len = output_len;
  s.data.output_len.reset();
  if (const auto found = problems(s); !found.empty())
    return fail(ErrorCode::kInvalid, "{}", fmt::join(found, "; "));
  LegRunner runner(s, stop);
  TRY(const auto legs, legs_of(s.load));
  return runner.run(legs.front());
}

}  // namespace

std::string summarization_text(const RunLog& full, const RunLog& prefill) {
  const MetricRules rules = *metric_rules_named("sqzb");
  const RunMetrics m = compute_metrics(full, {.rules = rules});
  const RunMetrics one = compute_metrics(prefill, {.rules = rules});
  const double e2e = m.duration;
  const double summarization = one.duration;
  const double generation = e2e - summarization;
  const auto rate = [](std::int64_t tokens, double over) {
    return over > 0 ? static_cast<double>(tokens) / over : 0;
  };
  std::string out = "SUMMARY\n";
  out += fmt::format("  number of requests:          {}\n", m.completed);
  out += fmt::format("  total input tokens:          {}\n", m.total_input_tokens);
  out += fmt::format("  total generated tokens:      {}\n", m.total_output_tokens);
  out += fmt::format("  total latency (s):           {:.2f}\n", e2e);
  out += latency_rows("TTFT", m.ttft);
  out += latency_rows("TPOT", m.tpot);
  out += "TWO RUNS\n";
  out += fmt::format("  summarization latency (s):   {:.2f}\n", summarization);
  out += fmt::format("  generation latency (s):      {:.2f}\n", generation);
  out += fmt::format("  end-to-end latency (s):      {:.2f}\n", e2e);
  out += fmt::format("  summarization (tokens/s):    {:.2f}\n",
                     rate(m.total_input_tokens, summarization));
  out += fmt::format("  generation (tokens/s):       {:.2f}\n",
                     rate(m.total_output_tokens, generation));
  out += fmt::format("  end-to-end (tokens/s):       {:.2f}\n", rate(m.total_output_tokens, e2e));
  // The same split as the client saw it in the first run, where answers are streamed.
  const RunMetrics client = compute_metrics(full);
  if (!client.ttft.empty()) {
    out += "CLIENT, FIRST RUN\n";
    out += fmt::format("  mean TTFT (ms):              {:.2f}\n", client.ttft.mean() * 1e3);
    out += fmt::format("  mean decode (ms):            {:.2f}\n",
                       (client.e2el.mean() - client.ttft.mean()) * 1e3);
    out += fmt::format("  mean TPOT (ms):              {:.2f}\n", client.tpot.mean() * 1e3);
  }
  return out;
}

Result<MethodOutcome> summarization_run(const SummarizationSettings& settings,
                                        std::atomic<bool>& stop) {
  const ServeSettings s = fixed_by_the_method(settings);
  if (s.check.server_cmd.empty() && !s.check.reset_cache && !settings.allow_warm)
    return fail(ErrorCode::kInvalid,
                "the second run needs a cold server: give --server-cmd, --reset-cache, or "
                "--allow-warm when the server caches nothing");
  TRY(const RunLog full, one_run(s, settings.max_output_len, stop));
  if (!s.output.log.empty()) TRY_DO(write_run_log(full, s.output.log));
  TRY(const RunLog prefill, one_run(s, 1, stop));
  if (!s.output.log.empty()) TRY_DO(write_run_log(prefill, s.output.log + ".prefill"));
  MethodOutcome outcome{summarization_text(full, prefill), 0};
  const RunMetrics metrics = compute_metrics(full);
  const RunMetrics one = compute_metrics(prefill);
  if (metrics.failed + one.failed > 0 || full.stop_reason == "interrupted" ||
      prefill.stop_reason == "interrupted")
    outcome.exit_code = 1;
  if (metrics.failed + one.failed > 0)
    note(fmt::format("{} and {} requests failed", metrics.failed, one.failed));
  return outcome;
}

}  // namespace saccade::bench

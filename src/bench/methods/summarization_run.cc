// SQZB's two-run method.
#include <algorithm>
#include <filesystem>

#include "bench/load/leg_runner.h"
#include "bench/load/server/run_health.h"
#include "bench/methods/seed_methods.h"
#include "bench/metrics/metrics.h"
#include "bench/serve_command.h"

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
  TRY_DO(check(s));
  return run_once(s, stop);
}

// What the script prints of a run.
std::string run_text(const RunLog& log) {
  const RunMetrics m = compute_metrics(log, {.rules = *metric_rules_named("sqzb")});
  std::string out = "SUMMARY\n";
  out += fmt::format("  number of requests:          {}\n", m.completed);
  out += fmt::format("  total input tokens:          {}\n", m.total_input_tokens);
  out += fmt::format("  total generated tokens:      {}\n", m.total_output_tokens);
  out += fmt::format("  total latency (s):           {:.2f}\n", m.duration);
  out += latency_rows("TTFT", m.ttft);
  out += latency_rows("TPOT", m.tpot);
  return out;
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
  std::string out = run_text(full) + "TWO RUNS\n";
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
    out += client.tpot.empty()
               ? "  mean TPOT (ms):              -\n"
               : fmt::format("  mean TPOT (ms):              {:.2f}\n", client.tpot.mean() * 1e3);
  }
  return out;
}

namespace {

bool is_cold_by_itself(const SummarizationSettings& settings) {
  const CheckChoice& check = settings.serve.check;
  return !check.server_cmd.empty() || check.reset_cache || settings.allow_warm;
}

Result<MethodOutcome> two_runs(const SummarizationSettings& settings, const ServeSettings& s,
                               std::atomic<bool>& stop) {
  TRY(const RunLog full, one_run(s, settings.max_output_len, stop));
  if (!s.output.log.empty()) TRY_DO(write_run_log(full, s.output.log));
  TRY(const RunLog prefill, one_run(s, 1, stop));
  if (!s.output.log.empty()) TRY_DO(write_run_log(prefill, s.output.log + ".prefill"));
  return MethodOutcome{summarization_text(full, prefill),
                       std::max({exit_code_of(full), exit_code_of(prefill)})};
}

bool is_prefill(const RunLog& log) {
  return !log.requests.empty() &&
         std::all_of(log.requests.begin(), log.requests.end(),
                     [](const RequestRecord& r) { return r.max_tokens == 1; });
}

constexpr const char* kFullLog = "full.run.jsonl";
constexpr const char* kPrefillLog = "prefill.run.jsonl";

// The summary of two logs, whichever comes first.
Result<std::string> summary_of(const RunLog& one, const RunLog& other) {
  const RunLog& a = is_prefill(one) ? other : one;
  const RunLog& b = is_prefill(one) ? one : other;
  if (is_prefill(a) || !is_prefill(b))
    return fail(ErrorCode::kInvalid,
                "one of the two runs must have answers of one token, and the other longer ones");
  if (a.header.dataset_hash != b.header.dataset_hash)
    return fail(ErrorCode::kInvalid,
                "the two runs did not send the same prompts ({} and {}): remove the older log",
                a.header.dataset_hash.substr(0, 12), b.header.dataset_hash.substr(0, 12));
  return summarization_text(a, b);
}

Result<MethodOutcome> summarize_logs(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<std::string> logs = paths;
  if (paths.size() == 1 && fs::is_directory(paths[0]))
    logs = {(fs::path(paths[0]) / kFullLog).string(), (fs::path(paths[0]) / kPrefillLog).string()};
  if (logs.size() != 2)
    return fail(ErrorCode::kInvalid, "--summarize takes two run logs or one folder with both");
  TRY(const RunLog a, read_run_log(logs[0]));
  TRY(const RunLog b, read_run_log(logs[1]));
  TRY(std::string text, summary_of(a, b));
  return MethodOutcome{std::move(text), std::max({exit_code_of(a), exit_code_of(b)})};
}

// One of the method's two runs. That the server was cold rests on whoever started it, unless its
// own counts say that it was not.
Result<MethodOutcome> single_run(const SummarizationSettings& settings, const ServeSettings& s,
                                 std::atomic<bool>& stop) {
  namespace fs = std::filesystem;
  TRY(const RunLog log, one_run(s, settings.max_output_len, stop));
  if (!s.output.log.empty()) TRY_DO(write_run_log(log, s.output.log));
  const bool prefill = settings.max_output_len == 1;
  const fs::path folder = settings.folder;
  const std::string path = (folder / (prefill ? kPrefillLog : kFullLog)).string();
  TRY_DO(write_run_log(log, path));
  MethodOutcome outcome{run_text(log) + path + "\n", exit_code_of(log)};
  note(
      "one run: that the server was cold rests on its having been started for this run "
      "(--server-cmd or --reset-cache make both runs here)");
  if (judge_cache(log, compute_metrics(log)).contaminated)
    note("the server's cache knew these prompts: this was no cold run");
  const std::string other = (folder / (prefill ? kFullLog : kPrefillLog)).string();
  if (!fs::exists(other)) return outcome;
  TRY(const RunLog before, read_run_log(other));
  if (before.header.dataset_hash != log.header.dataset_hash) {
    note(other + " is of other prompts: no summary of both");
    return outcome;
  }
  TRY(const std::string both, summary_of(log, before));
  outcome.text += both;
  return outcome;
}

}  // namespace

Result<MethodOutcome> summarization_run(const SummarizationSettings& settings,
                                        std::atomic<bool>& stop) {
  if (!settings.summarize.empty()) return summarize_logs(settings.summarize);
  const ServeSettings s = fixed_by_the_method(settings);
  return is_cold_by_itself(settings) ? two_runs(settings, s, stop) : single_run(settings, s, stop);
}

}  // namespace saccade::bench

// DashInfer-VLM's benchmark script.
#include "bench/datasets/conversation.h"
#include "bench/load/leg_runner.h"
#include "bench/methods/seed_methods.h"
#include "bench/metrics/metrics.h"

namespace saccade::bench {
namespace {

BodySettings script_body(const DashInferRunSettings& settings, const std::string& model) {
  BodySettings body;
  body.model = model;
  body.stream = false;
  body.max_tokens_key = "max_tokens";
  body.top_p = 0.01;
  body.temperature = 0.1;
  body.frequency_penalty = 1.05;
  body.ignore_eos = settings.ignore_eos;
  body.always_parts = true;
  return body;
}

// The script's four lines. QPS counts turns.
std::string script_lines(const RunMetrics& m) {
  const double turns = static_cast<double>(m.completed);
  const auto lengths = [&](std::int64_t total, bool known) {
    return turns > 0 && known ? fmt::format("{:.2f} (average) / {} (total)",
                                            static_cast<double>(total) / turns, total)
                              : std::string("- (average) / - (total)");
  };
  std::string out = fmt::format("Total time: {:.2f} sec\n", m.duration);
  out += fmt::format("input token lens: {} --- \n", lengths(m.total_input_tokens, m.input_known()));
  out +=
      fmt::format("output token lens: {} --- \n", lengths(m.total_output_tokens, m.output_known()));
  out += fmt::format("QPS: {:.2f} requests/sec, TPS: {} tokens/sec\n", m.request_throughput,
                     m.output_known() ? fmt::format("{:.2f}", m.output_throughput) : "-");
  return out;
}

}  // namespace

Result<MethodOutcome> dashinfer_run(const DashInferRunSettings& settings, std::atomic<bool>& stop) {
  const ServeSettings& s = settings.serve;
  if (settings.batch_size < 1 || !(settings.frequency > 0))
    return fail(ErrorCode::kInvalid, "--batch-size and --frequency must be above 0");
  TRY(Session session, open_session(s));
  const DatasetContext context = dataset_context(s, session);
  TRY(Dataset dataset, dashinfer_dataset(settings.data, context));
  const BodySettings body = script_body(settings, session.model);

  RunSettings run;
  run.target = session.target;
  run.endpoint = endpoint_of(s.target);
  run.load.streamed = false;
  run.load.threads = s.load.threads;
  run.load.max_concurrency = settings.batch_size;
  run.tokenizer = nullptr;
  run.progress = s.output.progress;
  run.watch_period = static_cast<Nanos>(s.check.scrape_period_s * 1e9);
  run.header = run_header(s, session, dataset);
  TRY(run.arrivals, plan_arrivals({.request_rate = settings.frequency,
                                   .burstiness = std::numeric_limits<double>::infinity(),
                                   .first_at_zero = true},
                                  static_cast<std::size_t>(settings.data.req_nums), s.seed));
  TRY(const auto warm, warm_up_requests(dataset, body, context, s.check.num_warmups));
  TRY_DO(warm_up(run, warm, 1));

  Conversations conversations(dataset.prompts, body, TurnImages::kFirstMessage);
  RunRequests what;
  what.requests = conversations.first_turns();
  for (const Prompt& prompt : dataset.prompts)
    what.prompts.push_back(describe(prompt, s.output.keep_texts));
  what.follow_up = [&](const RequestRecord& ended, const std::string& answer) {
    return conversations.next(ended, answer);
  };
  TRY(const RunLog log, measure(run, what, stop));
  if (!s.output.log.empty()) TRY_DO(write_run_log(log, s.output.log));

  return MethodOutcome{script_lines(compute_metrics(log)), exit_code_of(log)};
}

}  // namespace saccade::bench

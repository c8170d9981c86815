#include "bench/load/leg_runner.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "bench/datasets/conversation.h"
#include "bench/datasets/dataset_choice.h"
#include "bench/load/server/run_health.h"

#ifndef SACCADE_VERSION
#define SACCADE_VERSION "development"
#endif

namespace saccade::bench {

namespace fs = std::filesystem;

// What is asked in every run: encoded once.
class LegRunner::Workload {
 public:
  Workload(Dataset dataset, BodySettings body, bool keep_prompts)
      : dataset_(std::move(dataset)), body_(std::move(body)), keep_prompts_(keep_prompts) {
    multi_turn_ = !dataset_.prompts.empty() && dataset_.prompts.front().conversation >= 0;
  }

  const Dataset& dataset() const { return dataset_; }
  const BodySettings& body() const { return body_; }
  void give_up_continuous_usage() { body_.continuous_usage_stats = false; }

  // Number of requests that arrivals pace: conversations where turns follow by themselves.
  std::size_t arrival_count() const {
    return multi_turn_ ? Conversations(dataset_.prompts, body_, TurnImages::kOwnMessage).count()
                       : dataset_.prompts.size();
  }

  // `count` requests: prompts in order, from the beginning again when they run out.
  RunRequests requests(std::size_t count) {
    RunRequests what;
    if (multi_turn_) {
      conversations_ =
          std::make_shared<Conversations>(dataset_.prompts, body_, TurnImages::kOwnMessage);
      what.requests = conversations_->first_turns();
      for (const Prompt& prompt : dataset_.prompts)
        what.prompts.push_back(describe(prompt, keep_prompts_));
      what.follow_up = [conversations = conversations_](const RequestRecord& ended,
                                                        const std::string& answer) {
        return conversations->next(ended, answer);
      };
    } else {
      if (encoded_.requests.empty()) encoded_ = encode_requests(dataset_, body_, keep_prompts_);
      what = encoded_;
    }
    const std::size_t distinct = what.requests.size();
    if (!multi_turn_)
      for (std::size_t i = distinct; i < count; ++i)
        what.requests.push_back(what.requests[i % distinct]);
    what.requests.resize(std::min(count, what.requests.size()));
    return what;
  }

 private:
  Dataset dataset_;
  BodySettings body_;
  bool keep_prompts_;
  bool multi_turn_ = false;
  RunRequests encoded_;
  std::shared_ptr<Conversations> conversations_;
};

LegRunner::LegRunner(const ServeSettings& settings, std::atomic<bool>& stop)
    : s_(settings), stop_(stop) {}
LegRunner::~LegRunner() = default;

Result<RunLog> LegRunner::run(const Leg& leg) {
  if (s_.data.scenario.empty() || s_.data.scenario == "dataset")
    TRY_DO(check_dataset_name(s_.data));
  if (!s_.check.server_cmd.empty()) session_.reset();
  if (!session_) {
    TRY(Session opened, open_session(s_));
    session_.emplace(std::move(opened));
  }
  if (!workload_) TRY_DO(load_workload());
  TRY(RunSettings run, run_settings(leg));
  TRY_DO(get_ready(run));
  const RunRequests what = workload_->requests(run.arrivals.due.size());
  run.arrivals.due.resize(what.requests.size());
  TRY(ServerProbe probe, ServerProbe::create(session_->target));
  if (s_.check.profile) TRY_DO(probe.post("/start_profile"));
  auto log = measure(run, what, stop_);
  if (s_.check.profile) TRY_DO(probe.post("/stop_profile"));
  session_->process.reset();
  return log;
}

Result<void> LegRunner::load_workload() {
  if (!s_.load.trace.empty()) {
    TRY(Trace trace, load_trace(s_.load));
    trace_.emplace(std::move(trace));
  }
  DatasetContext context = dataset_context(s_, *session_);
  if (trace_) context.num_prompts = std::min(context.num_prompts, trace_->rows.size());
  TRY(Dataset dataset,
      load_dataset(s_.data, s_.load, trace_ ? &*trace_ : nullptr, context, resolved_compat(s_)));
  for (const std::string& line : dataset.notes) note(fmt::format("{}: {}", dataset.name, line));
  TRY(BodySettings body, body_settings(s_, session_->model, session_->tokenizer != nullptr));
  workload_ = std::make_unique<Workload>(std::move(dataset), std::move(body), s_.output.keep_texts);
  return {};
}

Result<ArrivalPlan> LegRunner::arrivals(const Leg& leg) const {
  std::size_t count = workload_->arrival_count();
  if (leg.closed_loop) return closed_loop_arrivals(std::max(count, s_.data.num_prompts));
  if (trace_) {
    ArrivalPlan plan{.name = "trace", .due = due_times(*trace_), .closed_loop = false};
    plan.due.resize(std::min(plan.due.size(), s_.data.num_prompts));
    if (s_.load.duration_s > 0)
      std::erase_if(plan.due, [&](Nanos at) { return seconds(at) > s_.load.duration_s; });
    return plan;
  }
  return plan_arrivals(arrival_settings(s_, leg.request_rate), count, s_.seed);
}

Result<RunSettings> LegRunner::run_settings(const Leg& leg) const {
  RunSettings run;
  run.target = session_->target;
  run.endpoint = endpoint_of(s_.target);
  TRY(run.arrivals, arrivals(leg));
  run.load.streamed = workload_->body().stream;
  run.load.threads = s_.load.threads;
  run.load.max_concurrency = leg.concurrency;
  run.load.duration = static_cast<Nanos>(s_.load.duration_s * 1e9);
  run.load.drain_limit = static_cast<Nanos>(s_.load.drain_s * 1e9);
  run.load.request_timeout = static_cast<Nanos>(s_.load.timeout_s * 1e9);
  run.tokenizer = session_->tokenizer.get();
  run.keep_answers = s_.output.keep_texts || s_.output.save_result || !s_.output.genai.empty();
  run.watch_period = static_cast<Nanos>(s_.check.scrape_period_s * 1e9);
  run.progress = s_.output.progress;
  run.header = run_header(s_, *session_, workload_->dataset());
  run.header.request_rate = leg.request_rate;
  run.header.usage_requested = workload_->body().include_usage && workload_->body().stream;
  return run;
}

Result<void> LegRunner::get_ready(RunSettings& run) {
  const DatasetContext context = dataset_context(s_, *session_);
  const auto warm = [&]() -> Result<void> {
    TRY(const auto requests,
        warm_up_requests(workload_->dataset(), workload_->body(), context, s_.check.num_warmups));
    return warm_up(run, requests,
                   static_cast<int>(std::max<std::int64_t>(
                       1, std::min<std::int64_t>(run.load.max_concurrency, 64))));
  };
  auto warmed = warm();
  if (!warmed && workload_->body().continuous_usage_stats && !s_.continuous_usage) {
    workload_->give_up_continuous_usage();
    auto again = warm();
    if (again) note("the server does not take continuous_usage_stats: latencies per event");
    warmed = std::move(again);
  }
  if (!warmed) return warmed;
  if (!s_.check.reset_cache) return {};
  TRY(ServerProbe probe, ServerProbe::create(session_->target));
  TRY(const std::string done, probe.reset_caches());
  run.header.cache_reset = true;
  note("caches reset: " + done);
  return {};
}

const Dataset& LegRunner::dataset() const { return workload_->dataset(); }

namespace {

// The server that the settings ask for, ready. One that is started is watched while it loads.
Result<void> get_server(const ServeSettings& settings, ServerProbe& probe,
                        std::unique_ptr<ServerProcess>& process) {
  const CheckChoice& check = settings.check;
  if (check.server_cmd.empty()) return probe.wait_ready(check.ready_timeout_s);
  if (probe.wait_ready(0))
    return fail(ErrorCode::kInvalid,
                "--server-cmd: a server answers already, and that one would be measured");
  const fs::path directory = settings.output.result_dir.empty() ? "." : settings.output.result_dir;
  std::error_code code;
  fs::create_directories(directory, code);
  TRY(process, ServerProcess::start(check.server_cmd, check.server_log.empty()
                                                          ? (directory / "server.log").string()
                                                          : check.server_log));
  constexpr double kSlice = 1;  // seconds between looks at the process
  for (double left = check.ready_timeout_s;; left -= kSlice) {
    const auto ready = probe.wait_ready(std::min(kSlice, left));
    if (ready) return {};
    TRY_DO(process->check());
    if (left <= kSlice) return ready;
  }
}

// The one that was named, else the checkpoint's when it is on this machine: the model's name may be
// its path, and /v1/models may say it as `root`.
std::string tokenizer_directory(const TargetChoice& target, const Session& session) {
  if (!target.tokenizer.empty()) return target.tokenizer;
  std::vector<std::string> places = {session.model};
  for (const ServedModel& model : session.server.models)
    if (model.id == session.model && !model.root.empty()) places.push_back(model.root);
  for (const std::string& place : places) {
    std::error_code code;
    if (fs::exists(fs::path(place) / "tokenizer.json", code)) return place;
  }
  return {};
}

std::unique_ptr<TextSource> text_source(const TargetChoice& target, const Session& session) {
  if (session.tokenizer != nullptr) return make_token_source(*session.tokenizer);
  if (target.count_by_server) {
    auto probe = ServerProbe::create(session.target);
    if (probe) {
      auto counted =
          make_counted_source([shared = std::make_shared<ServerProbe>(*std::move(probe)),
                               model = session.model](std::string_view text, bool with_added) {
            return shared->count_tokens(model, text, with_added);
          });
      if (counted) return *std::move(counted);
      note("no tokenizer (--tokenizer): " + counted.error().message);
    }
  }
  return make_word_source();
}

}  // namespace

Result<Session> open_session(const ServeSettings& settings) {
  Session session;
  TRY(session.target, server_target(settings.target));
  TRY(ServerProbe probe, ServerProbe::create(session.target));
  TRY_DO(get_server(settings, probe, session.process));
  if (auto described = probe.describe()) session.server = *std::move(described);
  session.model = settings.target.model;
  if (session.model.empty()) {
    if (session.server.models.empty())
      return fail(ErrorCode::kInvalid, "{} names no model: give one with --model",
                  session.target.base_url);
    session.model = session.server.models.front().id;
  }
  session.tokenizer_path = settings.target.tokenizer;
  if (!settings.target.skip_tokenizer) {
    const std::string directory = tokenizer_directory(settings.target, session);
    if (!directory.empty()) {
      auto tokenizer = load_tokenizer(directory);
      if (!tokenizer) return fail_within("--tokenizer " + directory, std::move(tokenizer).error());
      session.tokenizer = *std::move(tokenizer);
      session.tokenizer_path = directory;
    }
  }
  session.text = text_source(settings.target, session);
  return session;
}

DatasetContext dataset_context(const ServeSettings& settings, const Session& session) {
  DatasetContext context;
  context.text = session.text.get();
  context.num_prompts = settings.data.num_prompts;
  context.seed = settings.seed;
  context.encoding = parse_image_encoding(settings.data.image_encoding).value_or(ImageEncoding());
  context.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return context;
}

RunHeader run_header(const ServeSettings& settings, const Session& session,
                     const Dataset& dataset) {
  RunHeader header;
  header.argv = settings.argv;
  header.seed = settings.seed;
  header.tool_version = SACCADE_VERSION;
  header.backend = settings.target.backend;
  header.model = session.model;
  header.tokenizer = session.tokenizer_path;
  header.label = settings.output.label;
  header.server_version = session.server.version;
  header.server_parameters = session.server.parameters;
  header.dataset = dataset.name;
  header.dataset_path = dataset.path;
  header.burstiness = settings.load.arrivals.burstiness;
  if (settings.load.arrivals.ramp_up != RampUp::kNone) {
    header.ramp_up_strategy =
        settings.load.arrivals.ramp_up == RampUp::kLinear ? "linear" : "exponential";
    header.ramp_up_start_rps = settings.load.arrivals.ramp_up_start_rps;
    header.ramp_up_end_rps = settings.load.arrivals.ramp_up_end_rps;
  }
  for (const std::string& entry : settings.output.metadata) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    header.metadata.emplace_back(entry.substr(0, equals),
                                 entry.substr(std::min(equals + 1, entry.size())));
  }
  return header;
}

void note(std::string_view line) { fmt::print(stderr, "{}\n", line); }

void note_failures(const RunLog& log, const RunMetrics& metrics) {
  if (const std::string line = failures_line(log, metrics); !line.empty()) note(line);
}

int exit_code_of(const RunLog& log) {
  const RunMetrics metrics = compute_metrics(log);
  note_failures(log, metrics);
  return metrics.failed > 0 || log.stop_reason == "interrupted" ? 1 : 0;
}

}  // namespace saccade::bench

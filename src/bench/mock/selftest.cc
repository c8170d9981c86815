// One function a check; run_selftest() at the end is the list of them.
#include "bench/mock/selftest.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "bench/load/load_runner.h"
#include "bench/load/server/server_probe.h"
#include "bench/mock/mock_server.h"

namespace saccade::bench {
namespace {

constexpr double kToleranceMs = 0.2;

struct Check {
  std::vector<SelftestRow>& rows;
  const std::function<void(const SelftestRow&)>& on_row;
  const SelftestSettings& settings;

  void report(std::string what, double measured, std::string unit) {
    add({std::move(what), measured, std::move(unit), "", true});
  }
  void near(std::string what, double measured, std::string unit, double expected,
            double tolerance) {
    add({std::move(what), measured, std::move(unit),
         fmt::format("{:g} +- {:g}", expected, tolerance),
         measured >= expected - tolerance && measured <= expected + tolerance});
  }
  void at_least(std::string what, double measured, std::string unit, double least) {
    add({std::move(what), measured, std::move(unit), fmt::format(">= {:g}", least),
         measured >= least});
  }
  void at_most(std::string what, double measured, std::string unit, double most) {
    add({std::move(what), measured, std::move(unit), fmt::format("<= {:g}", most),
         measured <= most});
  }

 private:
  void add(SelftestRow row) {
    if (on_row) on_row(row);
    rows.push_back(std::move(row));
  }
};

struct Load {
  LoadSettings settings;
  ArrivalPlan arrivals;
  std::vector<LoadRequest> requests;
};

Result<Load> make_load(const std::string& server, std::size_t count, int tokens, int threads) {
  Load load;
  TRY(load.settings.url, net::parse_url(server + "/v1/chat/completions"));
  load.settings.headers = {{"Content-Type", "application/json"}};
  load.settings.threads = threads;
  load.settings.request_timeout = 60 * kSecond;
  LoadRequest request;
  request.max_tokens = tokens;
  request.body = {std::make_shared<const std::string>(fmt::format(
      R"({{"model":"mock","messages":[{{"role":"user","content":"Hello"}}],"stream":true,"max_tokens":{}}})",
      tokens))};
  load.requests.assign(count, request);
  load.arrivals.name = "inf";
  load.arrivals.due.assign(count, 0);
  return load;
}

void pace(Load& load, double per_second) {
  load.arrivals.name = "constant";
  for (std::size_t i = 0; i < load.arrivals.due.size(); ++i) {
    load.arrivals.due[i] = static_cast<Nanos>(static_cast<double>(i) / per_second * 1e9);
  }
}

Result<RunLog> measure(const Load& load) {
  LoadControl control;
  return run_load(load.settings, load.arrivals, load.requests, {PromptRecord{}}, RunHeader{},
                  control);
}

struct Mocked {
  std::unique_ptr<MockServer> server;
  std::string url;
};

Result<Mocked> mock(MockSettings settings) {
  settings.port = 0;
  TRY(auto server, MockServer::start(settings));
  std::string url = fmt::format("http://127.0.0.1:{}", server->port());
  return Mocked{std::move(server), std::move(url)};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::size_t failures(const RunLog& log) {
  std::size_t failed = 0;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    failed += error_class(log.requests[i], log.events_of(i)) != ErrorClass::kNone;
  }
  return failed;
}

std::vector<double> ttfts_ms(const RunLog& log) {
  std::vector<double> out;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    for (const LoggedEvent& event : log.events_of(i)) {
      if ((event.kinds & kOutputEvent) == 0) continue;
      out.push_back(milliseconds(event.at - log.requests[i].start));
      break;
    }
  }
  return out;
}

std::vector<double> gaps_ms(const RunLog& log) {
  std::vector<double> out;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    Nanos before = kNever;
    for (const LoggedEvent& event : log.events_of(i)) {
      if ((event.kinds & kOutputEvent) == 0) continue;
      if (before != kNever) out.push_back(milliseconds(event.at - before));
      before = event.at;
    }
  }
  return out;
}

Result<void> noise_floor(Check& check) {
  TRY(const Mocked mocked, mock({}));
  TRY(Load load, make_load(mocked.url, 2000, 1, 1));
  load.arrivals.closed_loop = true;
  load.settings.max_concurrency = 1;
  TRY(const RunLog log, measure(load));
  check.report("TTFT of an answer that waits for nothing, median", median(ttfts_ms(log)), "ms");
  return {};
}

// Streams that start evenly, so that about `streams` run at any time.
Result<void> timing(Check& check, Nanos ttft, Nanos itl, int tokens, double streams) {
  MockSettings programmed;
  programmed.ttft = ttft;
  programmed.itl = itl;
  TRY(const Mocked mocked, mock(programmed));
  const double answer_s = seconds(ttft + itl * (tokens - 1));
  const double rate = streams / answer_s;
  const auto count =
      static_cast<std::size_t>(rate * std::max(check.settings.seconds, 2 * answer_s));
  TRY(Load load, make_load(mocked.url, count, tokens, check.settings.threads));
  pace(load, rate);
  TRY(const RunLog log, measure(load));
  const std::string which = fmt::format("{:g} streams, ", streams);
  check.near(which + "TTFT, median", median(ttfts_ms(log)), "ms", milliseconds(ttft), kToleranceMs);
  check.near(which + "ITL, median", median(gaps_ms(log)), "ms", milliseconds(itl), kToleranceMs);
  check.at_most(which + "failures", static_cast<double>(failures(log)), "", 0);
  return {};
}

Result<void> lateness(Check& check) {
  constexpr double kRate = 10'000;
  TRY(const Mocked mocked, mock({}));
  const auto count = static_cast<std::size_t>(kRate * check.settings.seconds);
  TRY(Load load, make_load(mocked.url, count, 1, check.settings.threads));
  pace(load, kRate);
  TRY(const RunLog log, measure(load));
  std::vector<double> late;
  for (const RequestRecord& record : log.requests) {
    late.push_back(milliseconds(record.start - record.scheduled));
  }
  std::sort(late.begin(), late.end());
  check.report("10000/s: lateness of starts, median", late[late.size() / 2], "ms");
  check.at_most("10000/s: lateness of starts, p99", late[late.size() * 99 / 100], "ms", 1);
  return {};
}

// A pause of the server must show in every request that was due in it: a generator that waits for
// answers before it sends on (coordinated omission) would miss most of them.
Result<void> stall(Check& check) {
  MockSettings programmed;
  programmed.stall_at = 500 * kMillisecond;
  programmed.stall_for = kSecond;
  TRY(const Mocked mocked, mock(programmed));
  TRY(Load load, make_load(mocked.url, 400, 1, check.settings.threads));
  pace(load, 200);
  TRY(const RunLog log, measure(load));
  const Nanos slack = 20 * kMillisecond;  // the mock's clock starts at its first request
  const Nanos begin = log.requests.front().start + programmed.stall_at;
  const Nanos end = begin + programmed.stall_for;
  int due = 0;
  int shown = 0;
  for (const RequestRecord& record : log.requests) {
    if (record.scheduled < begin + slack || record.scheduled > end - slack) continue;
    ++due;
    shown += record.end >= end - slack;
  }
  check.near("1 s stall: requests due in it", due, "", 192, 4);
  check.near("1 s stall: share of them that waited for its end", 100.0 * shown / std::max(due, 1),
             "%", 100, 0);
  return {};
}

Result<void> shared_events(Check& check) {
  MockSettings programmed;
  programmed.tokens_per_event = 4;
  programmed.role_chunk = true;
  TRY(const Mocked mocked, mock(programmed));
  TRY(Load load, make_load(mocked.url, 100, 30, check.settings.threads));
  const auto body = std::make_shared<const std::string>(
      R"({"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":30})");
  for (LoadRequest& request : load.requests) request.body = {body};
  TRY(const RunLog log, measure(load));
  int wrong = 0;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    std::int32_t sum = 0;
    std::int32_t largest = 0;
    for (const LoggedEvent& event : log.events_of(i)) {
      sum += std::max(event.tokens, 0);
      largest = std::max(largest, event.tokens);
    }
    wrong += sum != 30 || largest != 4 || log.requests[i].completion_tokens != 30;
  }
  check.at_most("4 tokens an event: requests with a wrong count", wrong, "", 0);
  return {};
}

Result<void> errors(Check& check) {
  MockSettings programmed;
  programmed.http_error_share = programmed.html_share = programmed.cut_share =
      programmed.error_share = 0.15;
  programmed.seed = 1;
  TRY(const Mocked mocked, mock(programmed));
  constexpr std::size_t kRequests = 500;
  TRY(Load load, make_load(mocked.url, kRequests, 8, check.settings.threads));
  TRY(const RunLog log, measure(load));
  const std::vector<std::pair<MockFate, ErrorClass>> classes = {
      {MockFate::kAnswer, ErrorClass::kNone},
      {MockFate::kHttpError, ErrorClass::kHttp},
      {MockFate::kHtml, ErrorClass::kMalformed},
      {MockFate::kCut, ErrorClass::kTruncated},
      {MockFate::kError, ErrorClass::kSseError}};
  double off = 0;
  for (const auto& [fate, expected] : classes) {
    std::int64_t difference = 0;
    for (std::size_t i = 0; i < kRequests; ++i) {
      difference += mock_fate(programmed, i) == fate;
      difference -= error_class(log.requests[i], log.events_of(i)) == expected;
    }
    off += static_cast<double>(std::abs(difference));
  }
  check.at_most("errors of 4 kinds: requests in a wrong class", off, "", 0);
  return {};
}

struct Rate {
  double requests_per_s = 0;
  double events_per_s = 0;
  double cpu_share = 0;  // of the client's threads
  std::size_t failed = 0;
};

Result<Rate> closed_loop_rate(const Check& check, const std::string& url, int tokens) {
  constexpr double kMaxRequestsPerSecond = 150'000;
  const auto count = static_cast<std::size_t>(kMaxRequestsPerSecond * check.settings.seconds *
                                              check.settings.threads);
  TRY(Load load, make_load(url, count, tokens, check.settings.threads));
  load.arrivals.closed_loop = true;
  load.settings.max_concurrency = check.settings.concurrency;
  load.settings.duration = static_cast<Nanos>(check.settings.seconds * 1e9);
  TRY(const RunLog log, measure(load));
  Rate rate;
  const double wall = log.client.wall_seconds;
  rate.failed = failures(log);
  rate.requests_per_s = static_cast<double>(log.requests.size() - rate.failed) / wall;
  const auto outputs =
      std::count_if(log.events.begin(), log.events.end(),
                    [](const LoggedEvent& e) { return (e.kinds & kOutputEvent) != 0; });
  rate.events_per_s = static_cast<double>(outputs) / wall;
  rate.cpu_share = log.client.cpu_seconds / (wall * log.client.threads);
  return rate;
}

Result<void> rates(Check& check) {
  struct Case {
    int tokens;
    int events_per_write;
    double least_requests_per_s;  // 0: reported only
    double least_events_per_s;
  };
  for (const Case& c : {Case{16, 16, 20'000, 0}, Case{64, 64, 0, 1'000'000}, Case{64, 1, 0, 0}}) {
    MockSettings programmed;
    programmed.events_per_write = c.events_per_write;
    TRY(const Mocked mocked, mock(programmed));
    TRY(const Rate rate, closed_loop_rate(check, mocked.url, c.tokens));
    const std::string which =
        fmt::format("{} events an answer, {} a write: ", c.tokens, c.events_per_write);
    if (c.least_requests_per_s > 0) {
      check.at_least(which + "requests", rate.requests_per_s, "1/s",
                     c.least_requests_per_s * check.settings.threads);
    } else if (c.least_events_per_s > 0) {
      check.at_least(which + "events", rate.events_per_s, "1/s",
                     c.least_events_per_s * check.settings.threads);
    } else {
      check.report(which + "events", rate.events_per_s, "1/s");
    }
    check.report(which + "CPU of the client", rate.cpu_share * 100, "%");
    check.at_most(which + "failures", static_cast<double>(rate.failed), "", 0);
  }
  return {};
}

double own_memory_mb(std::string_view name) {
  for (const auto& [known, bytes] : process_memory(getpid()))
    if (known == name) return bytes / (1 << 20);
  return 0;
}

Result<void> large_bodies(Check& check) {
  constexpr std::size_t kInFlight = 256;
  constexpr std::size_t kBody = 5u << 20;
  MockSettings programmed;
  programmed.ttft = 500 * kMillisecond;
  TRY(const Mocked mocked, mock(programmed));
  TRY(Load load, make_load(mocked.url, kInFlight, 4, check.settings.threads));
  const auto front =
      std::make_shared<const std::string>(R"({"stream":true,"max_tokens":4,"image":")");
  const auto image = std::make_shared<const std::string>(kBody, 'x');
  const auto back = std::make_shared<const std::string>(R"("})");
  for (LoadRequest& request : load.requests) request.body = {front, image, back};
  const double before = own_memory_mb("resident_bytes");
  TRY(const RunLog log, measure(load));
  Nanos sent = 0;
  for (const RequestRecord& record : log.requests) sent = std::max(sent, record.sent);
  const double grown = own_memory_mb("peak_resident_bytes") - before;
  check.at_most("256 bodies of 5 MiB at once: failures", static_cast<double>(failures(log)), "", 0);
  check.report("256 bodies of 5 MiB at once: sent", kInFlight * kBody / 1e9 / seconds(sent),
               "GB/s");
  check.at_most("256 bodies of 5 MiB at once: memory grown", grown, "MB", 100);
  return {};
}

Result<void> external_rate(Check& check) {
  TRY(const Rate rate, closed_loop_rate(check, check.settings.server, check.settings.tokens));
  check.report("requests", rate.requests_per_s, "1/s");
  check.report("events", rate.events_per_s, "1/s");
  check.report("CPU of the client", rate.cpu_share * 100, "%");
  check.at_most("failures", static_cast<double>(rate.failed), "", 0);
  return {};
}

}  // namespace

std::string to_line(const SelftestRow& row) {
  return fmt::format("{:4} {:<58} {:>12.3f} {:<5} {}\n",
                     row.expected.empty() ? ""
                     : row.ok             ? "ok"
                                          : "FAIL",
                     row.what, row.measured, row.unit, row.expected);
}

Result<std::vector<SelftestRow>> run_selftest(
    const SelftestSettings& settings, const std::function<void(const SelftestRow&)>& on_row) {
  std::vector<SelftestRow> rows;
  Check check{rows, on_row, settings};
  if (!settings.server.empty()) {
    TRY_DO(external_rate(check));
    return rows;
  }
  TRY_DO(large_bodies(check));  // first: it looks at the peak of memory
  TRY_DO(noise_floor(check));
  TRY_DO(timing(check, 50 * kMillisecond, 5 * kMillisecond, 64, 200));
  TRY_DO(timing(check, 50 * kMillisecond, 50 * kMillisecond, 20, 1000));
  TRY_DO(lateness(check));
  TRY_DO(stall(check));
  TRY_DO(shared_events(check));
  TRY_DO(errors(check));
  TRY_DO(rates(check));
  return rows;
}

}  // namespace saccade::bench

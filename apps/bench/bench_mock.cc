// `saccade bench mock`: a server of programmed behaviour, to measure clients with.
#include <csignal>

#include "apps/bench/bench_commands.h"
#include "bench/mock/mock_server.h"

namespace saccade {
namespace {

void add_milliseconds(CLI::App& app, const std::string& flag, Nanos& into,
                      const std::string& help) {
  app.add_option_function<double>(
         flag, [&into](double ms) { into = static_cast<Nanos>(ms * 1e6); }, help)
      ->check(CLI::NonNegativeNumber);
}

void add_share(CLI::App& app, const std::string& flag, double& into, const std::string& help) {
  app.add_option(flag, into, "share of the requests: " + help)->check(CLI::Range(0.0, 1.0));
}

// Serves until a signal comes.
int serve_mock(const bench::MockSettings& settings) {
  // Blocked before the server's threads begin, which inherit it: the signal is then taken here.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto server = bench::MockServer::start(settings);
  if (!server) return finish(tl::unexpected<Error>(server.error()));
  std::printf("http://%s:%d\n", settings.host.c_str(), (*server)->port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  const bench::MockCounts counts = (*server)->counts();
  std::printf(
      "%llu requests on %llu connections, %llu events; as written, the first token after %.3f ms "
      "and %.3f ms from event to event\n",
      static_cast<unsigned long long>(counts.requests),
      static_cast<unsigned long long>(counts.connections),
      static_cast<unsigned long long>(counts.events), counts.ttft_ms, counts.itl_ms);
  return 0;
}

}  // namespace

void add_bench_mock(CLI::App& bench_app, int& exit_code) {
  auto settings = std::make_shared<bench::MockSettings>();
  bench::MockSettings& s = *settings;
  CLI::App* const app =
      bench_app.add_subcommand("mock", "Serve made-up tokens at programmed instants");
  app->add_option("--host", s.host, "address to listen on")->capture_default_str();
  app->add_option("--port", s.port, "0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app->add_option("--threads", s.threads, "that answer")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app->add_option("--model", s.model, "name that it answers to")->capture_default_str();
  app->add_option("--max-model-len", s.max_model_len, "context length that it states")
      ->capture_default_str();
  add_milliseconds(*app, "--service-time", s.service_time,
                   "milliseconds from one answer's beginning to the next one's, at least");
  add_milliseconds(*app, "--ttft", s.ttft, "milliseconds to the first token");
  add_milliseconds(*app, "--itl", s.itl, "milliseconds from one event to the next");
  app->add_option("--tokens", s.tokens, "of an answer, when the request sets no limit")
      ->capture_default_str();
  app->add_option("--tokens-per-event", s.tokens_per_event, "tokens that one event brings")
      ->capture_default_str();
  app->add_option("--events-per-write", s.events_per_write, "events that go out together")
      ->capture_default_str();
  app->add_flag("--role-chunk", s.role_chunk, "a role without a token first, at once");
  app->add_flag("!--no-finish-reason", s.finish_reason, "leave out finish_reason");
  app->add_flag("!--no-done", s.done, "leave out data: [DONE]");
  add_milliseconds(*app, "--stall-at", s.stall_at,
                   "stand still from these milliseconds after the first request on");
  add_milliseconds(*app, "--stall-for", s.stall_for, "for so many milliseconds");
  add_share(*app, "--http-errors", s.http_error_share, "answered with --http-status");
  app->add_option("--http-status", s.http_error_status, "of answers that are refused")
      ->capture_default_str();
  add_share(*app, "--html", s.html_share, "answered with a web page");
  add_share(*app, "--cut", s.cut_share, "cut in the middle of the answer");
  add_share(*app, "--error-events", s.error_share, "an error event in the middle");
  add_share(*app, "--endless", s.endless_share, "answers without an end");
  add_share(*app, "--hang", s.hang_share, "never answered");
  app->add_option("--seed", s.seed, "of these draws")->capture_default_str();
  app->callback([settings, &exit_code] { exit_code = serve_mock(*settings); });
}

}  // namespace saccade

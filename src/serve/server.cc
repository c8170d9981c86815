#include "serve/server.h"

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "api/error_table.h"
#include "base/log.h"
#include "model/checkpoint.h"
#include "model/families.h"
#include "net/http_server.h"
#include "serve/metrics_page.h"
#include "serve/service.h"
#include "serve/throughput_log.h"

namespace saccade::serve {
namespace {

Result<LoadOptions> load_options(const std::string& dtype) {
  LoadOptions options;
  if (dtype == "auto") return options;
  if (dtype == "float32" || dtype == "float") {
    options.compute = DType::kF32;
  } else if (dtype == "bfloat16") {
    options.compute = DType::kBf16;
  } else if (dtype == "float16" || dtype == "half") {
    options.compute = DType::kF32;
    log::warning("--dtype float16: computed as float32 on this device");
  } else {
    return fail(ErrorCode::kUnsupported,
                "--dtype {}: auto, float32, bfloat16 and float16 are known", dtype);
  }
  return options;
}

// --chat-template is a path, or the template itself.
Result<std::string> template_source(const std::string& given) {
  if (given.find('{') != std::string::npos) return given;
  std::ifstream file(given, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "--chat-template {}: no such file", given);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<std::optional<LoadedChatTemplate>> chat_template(const ServeSettings& settings,
                                                        const std::string& directory,
                                                        const Model& model) {
  std::optional<LoadedChatTemplate> chosen;
  auto shipped = load_chat_template(directory);
  if (shipped) {
    chosen = *std::move(shipped);
  } else if (shipped.error().code != ErrorCode::kNotFound) {
    return fail(std::move(shipped).error());
  } else if (!model.default_chat_template().empty()) {
    chosen.emplace().source = std::string(model.default_chat_template());
  }
  if (!settings.chat_template.empty()) {
    if (!chosen) chosen.emplace();
    TRY(chosen->source, template_source(settings.chat_template));
  }
  return chosen;
}

Result<std::unique_ptr<Backend>> make_backend(const ServeSettings& settings) {
  if (settings.device == "cuda") return make_cuda_backend(0);
  return make_cpu_backend(settings.threads);
}

// Signals are taken by sigwait on the main thread; every thread made after this inherits the mask.
sigset_t block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return set;
}

// Everything between a loaded model and the first signal, in the order in which it must be torn
// down backwards.
class RunningServer {
 public:
  RunningServer(const ServeSettings& settings, Model& model, std::unique_ptr<Engine> engine,
                RequestBuilder& builder, const Clock& clock)
      : settings_(settings),
        engine_(std::move(engine)),
        metrics_(*engine_, settings.served_model_name.front()),
        service_(settings, model, builder, *engine_, metrics_, clock) {}

  ~RunningServer() {
    throughput_.reset();
    http_.reset();  // no callback of a connection comes after this
    engine_->stop();
    if (engine_thread_.joinable()) engine_thread_.join();
  }

  Result<void> start() {
    net::HttpServerSettings http;
    http.host = settings_.host;
    http.port = settings_.port;
    http.io_threads = settings_.io_threads;
    http.max_body_bytes = settings_.max_body_bytes;
    http.tls_certificate = settings_.tls_certificate;
    http.tls_key = settings_.tls_key;
    http.error_body = [](int status, std::string_view message) {
      return api::error_body(status,
                             status == 413   ? "RequestEntityTooLargeError"
                             : status >= 500 ? "InternalServerError"
                                             : "BadRequestError",
                             message);
    };
    TRY(http_,
        net::HttpServer::listen(http, [this](net::HttpRequest request, net::Responder responder) {
          service_.handle(std::move(request), std::move(responder));
        }));
    engine_thread_ = std::thread([this] { engine_->run(); });
    throughput_ = std::make_unique<ThroughputLog>(*engine_, settings_.throughput_interval);
    const bool tls = !settings_.tls_certificate.empty();
    log::info("listening on {}://{}:{}", tls ? "https" : "http", settings_.host, http_->port());
    log::info("Application startup complete.");
    return {};
  }

  void drain() {
    service_.start_draining();
    log::info("shutting down: {} answers are running, {} s for them to end", service_.unfinished(),
              settings_.drain_time.count());
    http_->drain(settings_.drain_time);
    if (service_.unfinished() > 0) log::warning("{} answers were cut", service_.unfinished());
  }

 private:
  const ServeSettings& settings_;
  std::unique_ptr<Engine> engine_;
  MetricsPage metrics_;
  Service service_;
  std::unique_ptr<net::HttpServer> http_;
  std::thread engine_thread_;
  std::unique_ptr<ThroughputLog> throughput_;
};

// A second signal during the drain ends the process at once.
void end_at_second_signal(sigset_t set) {
  std::thread([set] {
    int signal = 0;
    sigwait(&set, &signal);
    log::warning("second signal: ending at once");
    std::_Exit(128 + signal);
  }).detach();
}

}  // namespace

Result<void> run_server(ServeSettings settings) {
  const sigset_t signals = block_signals();
  const SteadyClock clock;
  const Nanos begun = clock.now();
  if (settings.served_model_name.empty()) settings.served_model_name.push_back(settings.model);

  TRY(const std::string directory, resolve_checkpoint(settings.model));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  TRY(const LoadOptions options, load_options(settings.dtype));
  TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(directory));
  TRY(const std::unique_ptr<Backend> backend, make_backend(settings));
  TRY(const std::unique_ptr<Model> model, load_model(checkpoint, *backend, options));
  TRY(auto loaded_template, chat_template(settings, directory, *model));
  SamplingDefaults defaults;
  if (settings.use_generation_config) {
    TRY(defaults, load_sampling_defaults(directory));
  }
  log::info("on {}, keys and values as {}, ready after {:.1f} s", backend->description(),
            name_of(model->shape().kv_dtype), seconds(clock.now() - begun));

  RequestBuilder builder(settings, *model, tokenizer, std::move(loaded_template), defaults, clock);
  TRY_DO(builder.compile_template());
  TRY(auto engine, Engine::create(settings.engine, *model, *backend, clock));
  RunningServer server(settings, *model, std::move(engine), builder, clock);
  TRY_DO(server.start());

  int signal = 0;
  sigwait(&signals, &signal);
  end_at_second_signal(signals);
  server.drain();
  return {};
}

}  // namespace saccade::serve

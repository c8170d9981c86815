#include "serve/server.h"

#include <algorithm>
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
#include "serve/embedding_service.h"
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
  } else if (!model.default_chat_template().empty() || !settings.chat_template.empty()) {
    // A template from elsewhere names the checkpoint's tokens too.
    chosen.emplace().source = std::string(model.default_chat_template());
    TRY(chosen->variables, load_special_tokens(directory));
  }
  if (!settings.chat_template.empty()) {
    TRY(chosen->source, template_source(settings.chat_template));
  }
  return chosen;
}

Result<std::unique_ptr<Device>> make_device(const ServeSettings& settings) {
  if (settings.device == "cuda") return make_cuda_device(0);
  return make_cpu_device(settings.threads);
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

// The part of a server that is the same for every model. What it routes to outlives it.
class Front {
 public:
  static Result<std::unique_ptr<Front>> listen(const ServeSettings& settings, Router& router) {
    net::HttpServerSettings http;
    http.host = settings.host;
    http.port = settings.port;
    http.io_threads = settings.io_threads;
    http.max_body_bytes = settings.max_body_bytes;
    http.tls_certificate = settings.tls_certificate;
    http.tls_key = settings.tls_key;
    http.error_body = [](int status, std::string_view message) {
      return api::error_body(status,
                             status == 413   ? "RequestEntityTooLargeError"
                             : status >= 500 ? "InternalServerError"
                                             : "BadRequestError",
                             message);
    };
    auto front = std::make_unique<Front>();
    TRY(front->http_,
        net::HttpServer::listen(
            http,
            [&router](net::HttpRequest request, net::Responder responder) {
              router.handle(std::move(request), std::move(responder));
            },
            [&router](const net::HttpRequest& head, std::optional<std::uint64_t> length) {
              return router.admit(head, length);
            }));
    const bool tls = !settings.tls_certificate.empty();
    log::info("listening on {}://{}:{}", tls ? "https" : "http", settings.host,
              front->http_->port());
    log::info("Application startup complete.");
    return front;
  }

  // Returns when the answers that run have ended, or their time is up.
  template <typename Service>
  void drain(Service& service, std::chrono::seconds limit) {
    service.router().start_draining();
    log::info("shutting down: {} answers are running, {} s for them to end", service.unfinished(),
              limit.count());
    http_->drain(limit);
    if (service.unfinished() > 0) log::warning("{} answers were cut", service.unfinished());
  }

 private:
  std::unique_ptr<net::HttpServer> http_;
};

// An engine's thread, from construction to destruction.
template <typename Engine>
class EngineThread {
 public:
  explicit EngineThread(Engine& engine) : engine_(engine), thread_([&engine] { engine.run(); }) {}
  ~EngineThread() {
    engine_.stop();
    thread_.join();
  }
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

 private:
  Engine& engine_;
  std::thread thread_;
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

void serve_until_signal(Front& front, auto& service, const ServeSettings& settings,
                        sigset_t signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  end_at_second_signal(signals);
  front.drain(service, settings.drain_time);
}

struct Parts {
  std::string directory;
  Checkpoint checkpoint;
  LoadOptions options;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Device> device;
};

Result<void> serve_generation(const ServeSettings& settings, const Parts& parts, sigset_t signals) {
  const SteadyClock clock;
  TRY(const std::unique_ptr<Model> model,
      load_model(parts.checkpoint, *parts.device, parts.options));
  TRY(auto loaded_template, chat_template(settings, parts.directory, *model));
  SamplingDefaults defaults;
  if (settings.use_generation_config) {
    TRY(defaults,
        load_sampling_defaults(settings.generation_config.empty() ? parts.directory
                                                                  : settings.generation_config));
  }
  log::info("on {}, keys and values as {}", parts.device->description(),
            name_of(model->shape().kv_dtype));

  RequestBuilder builder(settings, *model, parts.tokenizer, std::move(loaded_template), defaults,
                         clock);
  TRY_DO(builder.compile_template());
  TRY(const auto engine, Engine::create(settings.engine, *model, *parts.device, clock));
  MetricsPage metrics(*engine, settings.served_model_name.front());
  Service service(settings, *model, builder, *engine, metrics, clock);
  const EngineThread thread(*engine);
  TRY(const auto front, Front::listen(settings, service.router()));
  const ThroughputLog throughput(*engine, settings.throughput_interval);
  serve_until_signal(*front, service, settings, signals);
  return {};
}

Result<void> serve_embeddings(const ServeSettings& settings, const Parts& parts, sigset_t signals) {
  const SteadyClock clock;
  TRY(const std::unique_ptr<SentenceEncoder> encoder,
      load_encoder(parts.checkpoint, *parts.device, parts.options));
  const EncoderShape& shape = encoder->shape();
  log::info("on {}: embeddings of {} dimensions, {} pooling{}, up to {} tokens a text",
            parts.device->description(), shape.dimensions, shape.pooling,
            shape.normalised ? ", normalised" : "", shape.max_tokens);
  EmbeddingSettings embedding;
  embedding.max_batched_tokens = std::max(settings.engine.max_batched_tokens, shape.max_tokens);
  embedding.max_waiting = settings.engine.max_waiting;
  TRY(const auto engine, EmbeddingEngine::create(embedding, *encoder, *parts.device));
  EmbeddingService service(settings, *encoder, parts.tokenizer, *engine, clock);
  const EngineThread thread(*engine);
  TRY(const auto front, Front::listen(settings, service.router()));
  serve_until_signal(*front, service, settings, signals);
  return {};
}

}  // namespace

Result<void> run_server(ServeSettings settings) {
  const sigset_t signals = block_signals();
  if (settings.served_model_name.empty()) settings.served_model_name.push_back(settings.model);

  Parts parts;
  TRY(parts.directory, resolve_checkpoint(settings.model));
  TRY(parts.checkpoint, open_checkpoint(parts.directory));
  TRY(parts.options, load_options(settings.dtype));
  TRY(parts.tokenizer, load_tokenizer(parts.directory));
  TRY(parts.device, make_device(settings));
  TRY(const Family* family, family_of(parts.checkpoint.config));
  return family->create_encoder != nullptr ? serve_embeddings(settings, parts, signals)
                                           : serve_generation(settings, parts, signals);
}

}  // namespace saccade::serve

#include "serve/server.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/end_signals.h"
#include "base/log.h"
#include "cluster/zmq/event_publisher.h"
#include "model/checkpoint/checkpoint.h"
#include "model/families.h"
#include "net/http_server.h"
#include "net/shown_host.h"
#include "serve/assembly/cluster_store.h"
#include "serve/assembly/device_choice.h"
#include "serve/assembly/draft_network.h"
#include "serve/assembly/early_checks.h"
#include "serve/assembly/engine_thread.h"
#include "serve/assembly/image_encoders.h"
#include "serve/assembly/profile_run.h"
#include "serve/assembly/quantization_choice.h"
#include "serve/assembly/warm_up.h"
#include "serve/embedding_service.h"
#include "serve/handlers/encoder_service.h"
#include "serve/handlers/metrics_page.h"
#include "serve/image_sizes/size_ticker.h"
#include "serve/service.h"
#include "serve/throughput_log.h"

namespace saccade::serve {
namespace {

// From the last answer, or its cut, to the end of the process: for workers on what nobody waits
// for.
constexpr std::chrono::seconds kEndTime{5};
// For those whose answers are cut to be told so, and again for it to reach them.
constexpr std::chrono::milliseconds kTellTime{1000};

Result<LoadOptions> load_options(const ServeSettings& settings) {
  const std::string& dtype = settings.dtype;
  LoadOptions options;
  options.random_weights = settings.random_weights;
  options.dequantize = settings.dequantize;
  options.weight_only = settings.weight_only;
  if (settings.kv_dtype == "float32") options.kv = DType::kF32;
  if (settings.kv_dtype == "bfloat16") options.kv = DType::kBf16;
  if (settings.kv_dtype == "int8") options.kv = DType::kI8;
  if (settings.kv_dtype == "fp8") options.kv = DType::kE4m3;
  const bool bytes = settings.quantization == kRoundToBytes;
  if (bytes) options.text_layers = DType::kI8;
  options.four_bit_text = settings.quantization == kRoundToFourBits;
  if (settings.quantize_head) {
    if (!bytes && !options.four_bit_text)
      return fail(ErrorCode::kInvalid,
                  "--quantize-head is given without --quantization int8 or int4");
    options.head = DType::kI8;
  }
  if (settings.quantize_tower) options.tower_layers = DType::kI8;
  if (settings.quantize_activations && settings.weight_only)
    return fail(ErrorCode::kInvalid, "--quantize-activations and --weight-only say the opposite");
  options.byte_activations = settings.quantize_activations;
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

Result<std::optional<LoadedChatTemplate>> chat_template(const ServeSettings& settings,
                                                        const NamedFiles& files,
                                                        const Processor& processor) {
  std::optional<LoadedChatTemplate> chosen;
  auto shipped =
      load_chat_template(settings.tokenizer.empty() ? files : NamedFiles(settings.tokenizer));
  if (!settings.tokenizer.empty() && !shipped && shipped.error().code == ErrorCode::kNotFound)
    shipped = load_chat_template(files);
  if (shipped) {
    chosen = *std::move(shipped);
    chosen->source = processor.chat_template_for(std::move(chosen->source));
  } else if (shipped.error().code != ErrorCode::kNotFound) {
    return fail(std::move(shipped).error());
  } else if (!processor.default_chat_template().empty() || !settings.chat_template.empty()) {
    // A template from elsewhere names the checkpoint's tokens too.
    chosen.emplace().source = std::string(processor.default_chat_template());
    TRY(chosen->variables, load_special_tokens(files));
  }
  if (!settings.chat_template.empty()) {
    TRY(chosen->source, template_source(settings.chat_template));
  }
  return chosen;
}

// --root-path: proxies that serve several programs pass the prefix on, or take it off.
void strip_root(std::string_view root, net::HttpRequest& request) {
  if (!root.empty() && request.path.starts_with(root) && request.path.size() > root.size() &&
      request.path[root.size()] == '/')
    request.path.erase(0, root.size());
}

// The part of a server that is the same for every model. What it routes to, and the settings,
// outlive it.
class Front {
 public:
  static Result<std::unique_ptr<Front>> listen(const ServeSettings& settings, Router& router,
                                               const EndSignals& signals) {
    auto front = std::make_unique<Front>();
    TRY(front->http_, net::HttpServer::listen(
                          http_settings(settings),
                          [&](net::HttpRequest request, net::Responder responder) {
                            strip_root(settings.root_path, request);
                            router.handle(std::move(request), std::move(responder));
                          },
                          [&](const net::HttpRequest& head, std::optional<std::uint64_t> length) {
                            if (settings.root_path.empty()) return router.admit(head, length);
                            net::HttpRequest below = head;
                            strip_root(settings.root_path, below);
                            return router.admit(below, length);
                          }));
    signals.ready();
    const bool tls = !settings.tls_certificate.empty();
    log::info("listening on {}://{}:{}", tls ? "https" : "http", net::shown_host(settings.host),
              front->http_->port());
    log::info("Application startup complete.");
    return front;
  }

  std::uint16_t port() const { return http_->port(); }

  // Returns when the answers that run have ended, or their time is up.
  template <typename Service>
  void drain(Service& service, std::chrono::seconds limit) {
    service.router().start_draining();
    if constexpr (requires { service.start_draining(); }) service.start_draining();
    log::info("shutting down: {} answers are running, {} s for them to end", service.unfinished(),
              limit.count());
    http_->drain(limit);
    // Those who wait elsewhere than at HTTP.
    if constexpr (requires { service.start_draining(); }) wait_until_idle(service, limit);
    if (service.unfinished() == 0) return;
    log::warning("{} answers were cut", service.unfinished());
    if constexpr (requires { service.end_answers(); }) {
      service.end_answers();
      wait_until_idle(service, kTellTime);
      http_->drain(kTellTime);
    }
  }

 private:
  static void wait_until_idle(auto& service, std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (service.unfinished() > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  std::unique_ptr<net::HttpServer> http_;
};

// `store`: of the cluster; null: there is none.
void serve_until_signal(Front& front, auto& service, const ServeSettings& settings,
                        const EndSignals& signals, ClusterStore* store = nullptr) {
  signals.wait();
  if (store != nullptr) store->withdraw();  // who asks next is sent elsewhere
  front.drain(service, settings.drain_time);
  EndSignals::end_within(kEndTime);
}

// A service and the encoder that it lends end together.
template <typename Service>
struct Lending {
  Service& service;
  LentEncoder& lent;
  Router& router() { return service.router(); }
  void start_draining() { lent.drain(); }
  void end_answers() { service.end_answers(); }
  std::size_t unfinished() { return service.unfinished() + lent.unfinished(); }
};

struct Parts {
  std::string directory;
  Checkpoint checkpoint;
  LoadOptions options;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Device> device;
};

// What is not done by several ranks.
Result<void> check_ranks(const ServeSettings& settings, const Checkpoint& checkpoint) {
  const int ranks = settings.tensor_parallel;
  if (ranks == 1) return {};
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::kUnsupported, "--tensor-parallel-size {}: {}", ranks, why);
  };
  if (settings.cluster.role == "encoder")
    return refuse("a tower is not shared by ranks; start an encoder for each device instead");
  if (settings.engine.max_loras > 0)
    return refuse("a model that is shared by ranks takes no adapters (--enable-lora)");
  TRY(const Family* family, family_of(checkpoint.config));
  if (family->create_encoder != nullptr)
    return refuse("a sentence encoder is not shared by ranks; several servers share the load");
  return {};
}

Result<void> check_cluster(const ServeSettings& settings) {
  const ClusterSettings& cluster = settings.cluster;
  if (cluster.role == "encoder" && cluster.listen.empty())
    return fail(ErrorCode::kInvalid, "--role encoder: --cluster-listen is required");
  TRY_DO(check_registry(settings));
  const bool others = !cluster.encoders.empty() || !cluster.registry.empty();
  if (cluster.role == "encoder" && !cluster.encoders.empty())
    return fail(ErrorCode::kInvalid, "--role encoder: --encoders are for a process that asks");
  if (cluster.role == "pd" && !others)
    return fail(ErrorCode::kInvalid, "--role pd: --encoders or --registry is required");
  if (!cluster.fallback && !cluster.listen.empty())
    return fail(ErrorCode::kInvalid,
                "--cluster-listen: --encoder-fallback refuse leaves this process without the tower "
                "that others would use");
  if (!cluster.fallback && !others)
    return fail(ErrorCode::kInvalid,
                "--encoder-fallback refuse: --encoders or --registry is required");
  if (!cluster.fallback && cluster.verify_share > 0)
    return fail(ErrorCode::kInvalid,
                "--verify-embeddings: rows are compared with those of this process, and "
                "--encoder-fallback refuse leaves it without a tower");
  if (!cluster.fallback && settings.image_size.mode == ImageSizeMode::kDynamic)
    return fail(ErrorCode::kUnsupported,
                "--image-size dynamic: costs are measured with a tower, and --encoder-fallback "
                "refuse leaves this process without one; static:N and seed need none");
  if (settings.image_size.mode == ImageSizeMode::kSeedAsPublished &&
      (cluster.encoders.empty() || !cluster.fallback))
    return fail(ErrorCode::kUnsupported,
                "--image-size seed-as-published: the published code reduces the image that the "
                "encoder gets and encodes it again, as it came, where it is decoded: that takes "
                "--encoders, and a tower here (--encoder-fallback local); seed is the rule as it "
                "was meant");
  return {};
}

// A tower that encodes for others.
Result<void> serve_encoder(const ServeSettings& settings, const Parts& parts,
                           const EndSignals& signals) {
  const SteadyClock clock;
  LoadOptions options = parts.options;
  options.parts = saccade::Parts::kVision;
  TRY(const Model model, load_model(parts.checkpoint, *parts.device, options));
  log::info("on {}: a tower alone, embeddings as {}", parts.device->description(),
            name_of(model.shape().embedding_dtype));
  EncodingSettings encoding;
  encoding.batch_patches = settings.engine.encoder_batch_patches;
  encoding.max_pixel_bytes = settings.engine.max_pixel_bytes;
  encoding.pixel_threads = settings.engine.pixel_threads;
  TRY(const auto engine, EncodingEngine::create(encoding, *model.network, *parts.device, clock));
  TRY(const auto store, ClusterStore::create(settings, &model.shape(), *parts.device, clock));
  TRY(const auto lent, LentEncoder::create(settings, model, *parts.device, engine->lent(), clock,
                                           store ? &store->shared() : nullptr));
  EncoderService service(settings, *engine, *lent, store.get(), clock);
  const EngineThread thread(*engine);
  TRY(const auto front, Front::listen(settings, service.router(), signals));
  if (store) store->announce(lent.get(), 0);
  serve_until_signal(*front, service, settings, signals, store.get());
  lent->stop(std::chrono::seconds(0));
  return thread.verdict();
}

// What image sizes are decided by; absent where nobody decides.
Result<std::optional<cluster::StageCosts>> stage_costs(const ServeSettings& settings,
                                                       const Model& model, Device& device,
                                                       const Tokenizer& tokenizer,
                                                       const Clock& clock) {
  if (settings.image_size.mode == ImageSizeMode::kVanilla || !model.shape().has_vision)
    return std::nullopt;
  if (settings.image_size.mode != ImageSizeMode::kDynamic) return cluster::StageCosts{};
  TRY(const cluster::Profile profile,
      profile_of({settings.engine, settings.image_size.profile_folder}, model, device, tokenizer,
                 clock));
  return costs_of(profile);
}

// Of images whose embeddings are kept for other requests.
std::int64_t stored_tokens(const Engine& engine, const ModelShape& shape) {
  if (engine.settings().encoder_cache != "store") return 0;
  const std::size_t row =
      static_cast<std::size_t>(shape.embedding_width()) * size_of(shape.embedding_dtype);
  return static_cast<std::int64_t>(engine.settings().encoder_cache_bytes / row);
}

using OfflineWork = std::function<Result<void>(const Offline&)>;

// `offline`: instead of HTTP; may be empty.
Result<void> serve_generation(const ServeSettings& settings, const Parts& parts,
                              const EndSignals& signals, const OfflineWork& offline) {
  const SteadyClock clock;
  LoadOptions options = parts.options;
  const bool tower = settings.cluster.fallback;
  if (!tower) options.parts = saccade::Parts::kText;
  TRY_DO(check_sizes(settings, parts.checkpoint, *parts.device));
  // Of several ranks this thread is the first one's: what it loads lies beside the engine's thread.
  const ProcessorSet processors =
      settings.rank_processors.empty() ? ProcessorSet{} : settings.rank_processors.front();
  std::optional<StayingOn> staying(processors);
  TRY(const Model model, load_model(parts.checkpoint, *parts.device, options));
  staying.reset();
  TRY(auto loaded_template, chat_template(settings, parts.checkpoint.files, *model.processor));
  const NamedFiles generation = settings.generation_config.empty()
                                    ? parts.checkpoint.files
                                    : NamedFiles(settings.generation_config);
  TRY(const SamplingDefaults defaults,
      load_sampling_defaults(settings.use_generation_config ? generation : NamedFiles(),
                             settings.generation_overrides));
  log::info("on {}, keys and values as {}", parts.device->description(),
            name_of(model.shape().cache_dtype));

  RequestBuilder builder(settings, *model.processor, parts.tokenizer, std::move(loaded_template),
                         defaults, clock);
  TRY_DO(builder.compile_template());
  std::optional<Model> draft;
  if (const DraftSettings& of = settings.engine.speculation.draft; !of.model.empty()) {
    const ServedTokens served = {settings.tokenizer.empty() ? parts.directory : settings.tokenizer,
                                 parts.tokenizer.get(), model.shape().vocab};
    TRY(draft, load_draft(of, served, parts.options, *parts.device));
  }
  TRY(const std::optional<cluster::StageCosts> costs,
      stage_costs(settings, model, *parts.device, *parts.tokenizer, clock));
  const bool has_vision = model.shape().has_vision;
  if (!settings.cluster.encoders.empty() && !has_vision)
    return fail(ErrorCode::kInvalid, "--encoders: {} takes text alone", model.shape().family);
  TRY(const auto store,
      ClusterStore::create(settings, has_vision ? &model.shape() : nullptr, *parts.device, clock));
  std::unique_ptr<cluster::EmbeddingExchange> exchange;
  if (!settings.cluster.encoders.empty() || (store && has_vision)) {
    cluster::RowFinder* const finder =
        store && store->shared().has_rows() ? &store->shared() : nullptr;
    TRY(exchange, make_exchange(settings, model.shape(), *parts.device, clock, finder));
  }
  EngineSettings engine_settings = settings.engine;
  if (draft) engine_settings.draft = draft->network.get();
  std::unique_ptr<cluster::EventPublisher> events;
  if (settings.cache_events.enabled) {
    TRY(events, cluster::EventPublisher::create(settings.cache_events));
    engine_settings.cache_observer = &events->observer();
  }
  const WarmUp warm_up = warm_up_of(model, *parts.tokenizer, tower);
  const bool warms_up =
      settings.warm_up.value_or(!offline && parts.device->space() == Space::kDevice);
  TRY(const auto engine, Engine::create(engine_settings, *model.network, *parts.device, clock,
                                        exchange.get(), tower, warms_up ? &warm_up : nullptr));
  model.processor->limit_image_patches(engine->max_image_patches());
  // Its thread wakes the engine: it ends first. And the store's tells it of rows and encoders.
  const std::shared_ptr<void> end_of_exchange(nullptr, [&](void*) {
    if (store) store->stop();
    if (exchange) exchange->stop();
  });
  if (store && exchange) store->feed(*exchange);
  std::unique_ptr<LentEncoder> lent;
  if (!settings.cluster.listen.empty()) {
    if (engine->lent() == nullptr)
      return fail(ErrorCode::kInvalid, "--cluster-listen: {} takes text alone",
                  model.shape().family);
    TRY(lent, LentEncoder::create(settings, model, *parts.device, *engine->lent(), clock,
                                  store ? &store->shared() : nullptr));
  }
  MetricsPage metrics(*engine, settings.served_model_name.front());
  if (lent) metrics.add([&](MetricsText& page) { lent->write_metrics(page); });
  if (exchange) metrics.add([&](MetricsText& page) { write_metrics(*exchange, page); });
  if (store) metrics.add([&](MetricsText& page) { store->write_metrics(page); });
  std::optional<ImageSizer> sizer;
  if (costs)
    sizer.emplace(settings.image_size, *model.processor, *costs,
                  stored_tokens(*engine, model.shape()), clock);
  std::optional<LoraAdapters> adapters;
  if (settings.engine.max_loras > 0) {
    adapters.emplace(settings, *model.network);
    TRY_DO(adapters->add_all());
  }
  Service service(settings, *model.processor, builder, *engine, metrics, sizer ? &*sizer : nullptr,
                  adapters ? &*adapters : nullptr, clock);
  const EngineThread thread(*engine, processors);
  std::optional<SizeTicker> ticker;
  if (sizer) ticker.emplace(*sizer, *engine);
  if (offline) return offline({service.router(), signals, [&thread] { return thread.verdict(); }});
  TRY(const auto front, Front::listen(settings, service.router(), signals));
  if (store) store->announce(lent.get(), front->port());
  const ThroughputLog throughput(*engine, settings.throughput_interval);
  if (!lent) {
    serve_until_signal(*front, service, settings, signals, store.get());
    return thread.verdict();
  }
  Lending<Service> both{service, *lent};
  serve_until_signal(*front, both, settings, signals, store.get());
  lent->stop(std::chrono::seconds(0));
  return thread.verdict();
}

Result<void> serve_embeddings(const ServeSettings& settings, const Parts& parts,
                              const EndSignals& signals, const OfflineWork& offline) {
  if (!settings.cluster.listen.empty() || !settings.cluster.encoders.empty() ||
      !settings.cluster.registry.empty())
    return fail(ErrorCode::kInvalid,
                "--cluster-listen, --encoders, --registry: the model has no images");
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
  if (offline) return offline({service.router(), signals, [&thread] { return thread.verdict(); }});
  TRY(const auto front, Front::listen(settings, service.router(), signals));
  serve_until_signal(*front, service, settings, signals);
  return thread.verdict();
}

// Members of objects on both sides one by one, all else as it is given.
void lay_over(json::object& under, const json::object& over) {
  for (const auto& member : over) {
    json::value& place = under[member.key()];
    if (place.is_object() && member.value().is_object()) {
      lay_over(place.get_object(), member.value().get_object());
    } else {
      place = member.value();
    }
  }
}

Result<Parts> open_parts(const ServeSettings& settings) {
  Parts parts;
  parts.directory = settings.checkpoint;
  if (parts.directory.empty()) {
    TRY(parts.directory, resolve_checkpoint(settings.model));
  }
  TRY(parts.checkpoint, open_checkpoint(parts.directory));
  lay_over(parts.checkpoint.config, settings.config_overrides);
  TRY_DO(check_quantization(settings.quantization, parts.checkpoint.config));
  TRY_DO(check_ranks(settings, parts.checkpoint));
  TRY(parts.options, load_options(settings));
  TRY(DeviceChoice choice, parse_device(settings.device));
  choice.cuda = settings.cuda;
  TRY(parts.device,
      make_ranks(choice, settings.threads, settings.tensor_parallel, settings.rank_processors));
  if (const std::string chosen = choose_fastest(settings, *parts.device, parts.options);
      !chosen.empty())
    log::info("{}", chosen);
  return parts;
}

void name_model(ServeSettings& settings) {
  if (settings.served_model_name.empty()) settings.served_model_name.push_back(settings.model);
}

Result<void> serve_model(const ServeSettings& settings, Parts& parts, const EndSignals& signals,
                         const OfflineWork& offline) {
  TRY(parts.tokenizer, load_tokenizer(settings.tokenizer.empty() ? parts.checkpoint.files
                                                                 : NamedFiles(settings.tokenizer)));
  TRY(const Family* family, family_of(parts.checkpoint.config));
  return family->create_encoder != nullptr ? serve_embeddings(settings, parts, signals, offline)
                                           : serve_generation(settings, parts, signals, offline);
}

}  // namespace

Result<cluster::Profile> run_profile(const ServeSettings& settings, bool again) {
  TRY(Parts parts, open_parts(settings));
  TRY(parts.tokenizer, load_tokenizer(parts.checkpoint.files));
  TRY(const Model model, load_model(parts.checkpoint, *parts.device, parts.options));
  const SteadyClock clock;
  return profile_of({settings.engine, settings.image_size.profile_folder, again}, model,
                    *parts.device, *parts.tokenizer, clock);
}

Result<void> run_server(ServeSettings settings) {
  TRY_DO(check_cluster(settings));
  const EndSignals signals;
  name_model(settings);
  TRY_DO(check_front(settings));
  TRY(Parts parts, open_parts(settings));
  if (settings.cluster.role == "encoder") return serve_encoder(settings, parts, signals);
  return serve_model(settings, parts, signals, {});
}

Result<void> run_offline(ServeSettings settings,
                         const std::function<Result<void>(const Offline&)>& work) {
  const EndSignals signals;
  name_model(settings);
  settings.api_keys.clear();  // nobody else asks
  TRY(Parts parts, open_parts(settings));
  return serve_model(settings, parts, signals, work);
}

}  // namespace saccade::serve

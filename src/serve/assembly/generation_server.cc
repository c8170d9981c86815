#include "serve/assembly/generation_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "serve/assembly/draft_network.h"
#include "serve/assembly/early_checks.h"
#include "serve/assembly/profile_run.h"
#include "serve/assembly/warm_up.h"
#include "serve/throughput_log.h"

namespace saccade::serve {
namespace {

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
  if (engine.settings().encoder_cache != EncoderCache::kStore) return 0;
  const std::size_t row =
      static_cast<std::size_t>(shape.embedding_width()) * size_of(shape.embedding_dtype);
  return static_cast<std::int64_t>(engine.settings().encoder_cache_bytes / row);
}

}  // namespace

GenerationServer::GenerationServer(const ServeSettings& settings, const ServerParts& parts,
                                   const EndSignals& signals)
    : settings_(settings),
      parts_(parts),
      signals_(signals),
      processors_(settings.rank_processors.empty() ? ProcessorSet{}
                                                   : settings.rank_processors.front()),
      tower_(settings.cluster.fallback) {}

Result<void> GenerationServer::run(const OfflineWork& offline) {
  TRY_DO(load());
  TRY_DO(join_cluster());
  TRY_DO(make_engine(
      settings_.warm_up.value_or(!offline && parts_.device->space() == Space::kDevice)));
  TRY_DO(make_service());
  if (offline)
    return offline({service_->router(), signals_, [this] { return thread_->verdict(); }});
  return serve();
}

Result<void> GenerationServer::load() {
  LoadOptions options = parts_.options;
  if (!tower_) options.parts = Parts::kText;
  TRY_DO(check_sizes(settings_, parts_.checkpoint, *parts_.device));
  {
    // Of several ranks this thread is the first one's: what it loads lies beside the engine's
    // thread.
    const StayingOn staying(processors_);
    TRY(model_, load_model(parts_.checkpoint, *parts_.device, options));
  }
  TRY(auto loaded_template, chat_template(settings_, parts_.checkpoint.files, *model_->processor));
  const NamedFiles generation = settings_.generation_config.empty()
                                    ? parts_.checkpoint.files
                                    : NamedFiles(settings_.generation_config);
  TRY(const SamplingDefaults defaults,
      load_sampling_defaults(settings_.use_generation_config ? generation : NamedFiles(),
                             settings_.generation_overrides));
  log::info("on {}, keys and values as {}", parts_.device->description(),
            name_of(model_->shape().cache_dtype));
  builder_.emplace(settings_, *model_->processor, parts_.tokenizer, std::move(loaded_template),
                   defaults, clock_);
  TRY_DO(builder_->compile_template());
  if (const DraftSettings& of = settings_.engine.speculation.draft; !of.model.empty()) {
    const ServedTokens served = {
        settings_.tokenizer.empty() ? parts_.directory : settings_.tokenizer,
        parts_.tokenizer.get(), model_->shape().vocab};
    TRY(draft_, load_draft(of, served, parts_.options, *parts_.device));
  }
  TRY(costs_, stage_costs(settings_, *model_, *parts_.device, *parts_.tokenizer, clock_));
  return {};
}

Result<void> GenerationServer::join_cluster() {
  const ModelShape& shape = model_->shape();
  const bool asks = !settings_.cluster.encoders.empty();
  if (asks && !shape.has_vision)
    return fail(ErrorCode::kInvalid, "--encoders: {} takes text alone", shape.family);
  TRY(store_,
      ClusterStore::create(settings_, shape.has_vision ? &shape : nullptr, *parts_.device, clock_));
  if (!asks && !(store_ && shape.has_vision)) return {};
  cluster::RowFinder* const finder =
      store_ && store_->shared().has_rows() ? &store_->shared() : nullptr;
  TRY(exchange_, make_exchange(settings_, shape, *parts_.device, clock_, finder));
  return {};
}

Result<void> GenerationServer::make_engine(bool warms_up) {
  EngineSettings engine = settings_.engine;
  if (draft_) engine.draft = draft_->network.get();
  if (settings_.cache_events.enabled) {
    TRY(events_, cluster::EventPublisher::create(settings_.cache_events));
    engine.cache_observer = &events_->observer();
  }
  const WarmUp warm_up = warm_up_of(*model_, *parts_.tokenizer, tower_);
  TRY(engine_,
      Engine::create(
          engine, *model_->network, *parts_.device, clock_,
          {.images = exchange_.get(), .tower = tower_, .warm_up = warms_up ? &warm_up : nullptr}));
  model_->processor->limit_image_patches(engine_->max_image_patches());
  if (store_ && exchange_) store_->feed(*exchange_);
  if (settings_.cluster.listen.empty()) return {};
  if (engine_->lent() == nullptr)
    return fail(ErrorCode::kInvalid, "--cluster-listen: {} takes text alone",
                model_->shape().family);
  TRY(lent_, LentEncoder::create(settings_, *model_, *parts_.device, *engine_->lent(), clock_,
                                 store_ ? &store_->shared() : nullptr));
  return {};
}

Result<void> GenerationServer::make_service() {
  metrics_.emplace(*engine_, settings_.served_model_name.front());
  if (lent_) metrics_->add([this](MetricsText& page) { lent_->write_metrics(page); });
  if (exchange_) metrics_->add([this](MetricsText& page) { write_metrics(*exchange_, page); });
  if (store_) metrics_->add([this](MetricsText& page) { store_->write_metrics(page); });
  if (costs_)
    sizer_.emplace(settings_.image_size, *model_->processor, *costs_,
                   stored_tokens(*engine_, model_->shape()), clock_);
  if (settings_.engine.max_loras > 0) {
    adapters_.emplace(settings_, *model_->network);
    TRY_DO(adapters_->add_all());
  }
  service_.emplace(ServiceParts{.settings = settings_,
                                .processor = *model_->processor,
                                .builder = *builder_,
                                .engine = *engine_,
                                .metrics = *metrics_,
                                .sizer = sizer_ ? &*sizer_ : nullptr,
                                .adapters = adapters_ ? &*adapters_ : nullptr,
                                .clock = clock_});
  thread_.emplace(*engine_, processors_);
  // The level has its steps and its measurements whether requests come or not.
  if (sizer_)
    ticker_.emplace(std::chrono::nanoseconds(sizer_->period()), [this] {
      sizer_->observe(engine_->stats());
      sizer_->tick();
    });
  return {};
}

Result<void> GenerationServer::serve() {
  TRY(listener_, HttpListener::listen(settings_, service_->router(), signals_));
  if (store_) store_->announce(lent_.get(), listener_->port());
  if (settings_.throughput_interval.count() > 0)
    throughput_.emplace(settings_.throughput_interval,
                        [log = ThroughputLog(*engine_)]() mutable { log.line(); });
  std::vector<Drainable*> what{&*service_};
  if (lent_) what.push_back(lent_.get());
  listener_->serve_until_signal(what, store_.get());
  if (lent_) lent_->stop(std::chrono::seconds(0));
  return thread_->verdict();
}

// Whoever calls others ends before them.
void GenerationServer::stop() {
  throughput_.reset();  // asks the engine
  listener_.reset();    // its workers run the service's handlers
  ticker_.reset();      // asks the engine, and steps the sizer
  thread_.reset();      // the engine's: answers' last deltas go to the service
  service_.reset();     // what it still downloads and decodes
  adapters_.reset();
  sizer_.reset();
  metrics_.reset();
  lent_.reset();                     // its thread has the engine encode
  if (store_) store_->stop();        // its threads tell the exchange of rows and encoders
  if (exchange_) exchange_->stop();  // its thread wakes the engine
  engine_.reset();
  events_.reset();
}

}  // namespace saccade::serve

#include "serve/server.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/threads/end_signals.h"
#include "model/checkpoint/checkpoint.h"
#include "model/families.h"
#include "model/gguf/gguf_paths.h"
#include "serve/assembly/device_choice.h"
#include "serve/assembly/early_checks.h"
#include "serve/assembly/engine_thread.h"
#include "serve/assembly/generation_server.h"
#include "serve/assembly/http_listener.h"
#include "serve/assembly/profile_run.h"
#include "serve/assembly/quantization_choice.h"
#include "serve/embedding_service.h"
#include "serve/handlers/encoder_service.h"

namespace saccade::serve {
namespace {

Result<LoadOptions> load_options(const ServeSettings& settings, const json::object& config) {
  LoadOptions options;
  TRY_DO(choose_quantization(settings.quantization, config, options));
  options.random_weights = settings.random_weights;
  options.packed_cache = settings.packed_cache;
  options.dequantize = settings.dequantize;
  options.weight_only = settings.weight_only;
  options.kv = settings.kv_dtype;
  if (settings.quantize_head) {
    if (!options.text_layers && !options.four_bit_text)
      return fail(ErrorCode::kInvalid,
                  "--quantize-head is given without --quantization int8 or int4");
    options.head = DType::kI8;
  }
  if (settings.quantize_tower) options.tower_layers = DType::kI8;
  if (settings.quantize_activations && settings.weight_only)
    return fail(ErrorCode::kInvalid, "--quantize-activations and --weight-only say the opposite");
  if (settings.quantize_activations) options.int8_rows = Int8Rows::kBeforeFourBits;
  options.compute = settings.dtype;
  if (settings.dtype == DType::kF16) {
    options.compute = DType::kF32;
    log::warning("--dtype float16: computed as float32 on this device");
  }
  return options;
}

// What is not done by several ranks.
Result<void> check_ranks(const ServeSettings& settings, const Checkpoint& checkpoint) {
  const int ranks = settings.tensor_parallel;
  if (ranks == 1) return {};
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::kUnsupported, "--tensor-parallel-size {}: {}", ranks, why);
  };
  if (settings.cluster.role == Role::kEncoder)
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
  if (cluster.role == Role::kEncoder && cluster.listen.empty())
    return fail(ErrorCode::kInvalid, "--role encoder: --cluster-listen is required");
  TRY_DO(check_registry(settings));
  const bool others = !cluster.encoders.empty() || !cluster.registry.empty();
  if (cluster.role == Role::kEncoder && !cluster.encoders.empty())
    return fail(ErrorCode::kInvalid, "--role encoder: --encoders are for a process that asks");
  if (cluster.role == Role::kPd && !others)
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
Result<void> serve_encoder(const ServeSettings& settings, const ServerParts& parts,
                           const EndSignals& signals) {
  const SteadyClock clock;
  LoadOptions options = parts.options;
  options.parts = Parts::kVision;
  TRY(const Model model, load_model(parts.checkpoint, *parts.device, options));
  log::info("on {}: a tower alone, embeddings as {}", parts.device->description(),
            name_of(model.shape().embedding_dtype));
  ImageEncoderSettings encoding;
  encoding.limits.batch_patches = settings.engine.encoder_batch_patches;
  encoding.max_pixel_bytes = settings.engine.max_pixel_bytes;
  encoding.pixel_threads = settings.engine.pixel_threads;
  TRY(const auto engine, EncodingEngine::create(encoding, *model.network, *parts.device, clock));
  TRY(const auto store, ClusterStore::create(settings, &model.shape(), *parts.device, clock));
  TRY(const auto lent, LentEncoder::create(settings, model, *parts.device, engine->lent(), clock,
                                           store ? &store->shared() : nullptr));
  EncoderService service(settings, *engine, *lent, store.get(), clock);
  const EngineThread thread(*engine);
  TRY(const auto listener, HttpListener::listen(settings, service.router(), signals));
  if (store) store->announce(lent.get(), 0);
  listener->serve_until_signal(std::array<Drainable*, 1>{lent.get()}, store.get());
  lent->stop(std::chrono::seconds(0));
  return thread.verdict();
}

Result<void> serve_embeddings(const ServeSettings& settings, const ServerParts& parts,
                              const EndSignals& signals,
                              const GenerationServer::OfflineWork& offline) {
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
  embedding.max_tokens = settings.engine.max_model_len;
  if (embedding.max_tokens > shape.max_tokens)
    log::warning("--max-model-len {}: the model takes {} tokens a text", embedding.max_tokens,
                 shape.max_tokens);
  embedding.max_batched_tokens = std::max(settings.engine.max_batched_tokens, shape.max_tokens);
  embedding.max_waiting = settings.engine.max_waiting;
  TRY(const auto engine, EmbeddingEngine::create(embedding, *encoder, *parts.device));
  EmbeddingService service(settings, *encoder, parts.tokenizer, *engine, clock);
  const EngineThread thread(*engine);
  if (offline) return offline({service.router(), signals, [&thread] { return thread.verdict(); }});
  TRY(const auto listener, HttpListener::listen(settings, service.router(), signals));
  listener->serve_until_signal(std::array<Drainable*, 1>{&service}, nullptr);
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

Result<ServerParts> open_parts(const ServeSettings& settings) {
  ServerParts parts;
  parts.directory = settings.checkpoint;
  if (parts.directory.empty()) {
    TRY(parts.directory, resolve_checkpoint(settings.model));
  }
  TRY(parts.checkpoint, open_checkpoint(parts.directory));
  lay_over(parts.checkpoint.config, settings.config_overrides);
  TRY(parts.options, load_options(settings, parts.checkpoint.config));
  TRY_DO(check_ranks(settings, parts.checkpoint));
  TRY(parts.device, make_ranks(settings.device, settings.threads, settings.tensor_parallel,
                               settings.rank_processors));
  if (const std::string chosen = choose_fastest(*parts.device, parts.options); !chosen.empty())
    log::info("{}", chosen);
  TRY(const auto gguf, find_gguf(parts.directory));
  if (gguf) keep_blocks_small(*parts.device, parts.options);
  return parts;
}

void name_model(ServeSettings& settings) {
  if (settings.served_model_name.empty()) settings.served_model_name.push_back(settings.model);
}

Result<void> serve_model(const ServeSettings& settings, ServerParts& parts,
                         const EndSignals& signals, const GenerationServer::OfflineWork& offline) {
  TRY(parts.tokenizer, load_tokenizer(settings.tokenizer.empty() ? parts.checkpoint.files
                                                                 : NamedFiles(settings.tokenizer)));
  TRY(const Family* family, family_of(parts.checkpoint.config));
  if (family->create_encoder != nullptr) return serve_embeddings(settings, parts, signals, offline);
  return GenerationServer(settings, parts, signals).run(offline);
}

}  // namespace

Result<cluster::Profile> run_profile(const ServeSettings& settings, bool again) {
  TRY(ServerParts parts, open_parts(settings));
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
  TRY_DO(check_listener(settings));
  TRY(ServerParts parts, open_parts(settings));
  if (settings.cluster.role == Role::kEncoder) return serve_encoder(settings, parts, signals);
  return serve_model(settings, parts, signals, {});
}

Result<void> run_offline(ServeSettings settings,
                         const std::function<Result<void>(const Offline&)>& work) {
  const EndSignals signals;
  name_model(settings);
  settings.api_keys.clear();  // nobody else asks
  TRY(ServerParts parts, open_parts(settings));
  return serve_model(settings, parts, signals, work);
}

}  // namespace saccade::serve

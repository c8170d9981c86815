#include "model/families.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <future>
#include <map>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/checkpoint/config_check.h"
#include "model/checkpoint/packed_cache.h"
#include "model/checkpoint/weights.h"
#include "model/dummies/random_weights.h"
#include "model/images/preprocessor_config.h"
#include "model/packed_key.h"
#include "model/team_network.h"

namespace saccade {

// A new family is its file and a line here.
#define SACCADE_FAMILIES(FAMILY) \
  FAMILY(kQwen2Vl)               \
  FAMILY(kQwen25Vl)              \
  FAMILY(kQwen3Vl)               \
  FAMILY(kQwen3VlMoe)            \
  FAMILY(kGlm4v)                 \
  FAMILY(kMiniCpmv)              \
  FAMILY(kLlavaOnevision)        \
  FAMILY(kInternVl2)             \
  FAMILY(kPaligemma2)            \
  FAMILY(kPaligemma)             \
  FAMILY(kPhi3Vision)            \
  FAMILY(kSmolVlm2)              \
  FAMILY(kMistral3)              \
  FAMILY(kPixtral)               \
  FAMILY(kMllama)                \
  FAMILY(kGemma3)                \
  FAMILY(kQwen2)                 \
  FAMILY(kQwen3)                 \
  FAMILY(kQwen3Moe)              \
  FAMILY(kQwen35)                \
  FAMILY(kQwen35Text)            \
  FAMILY(kLlama3)                \
  FAMILY(kMistral)               \
  FAMILY(kMiniLm)

#define SACCADE_DECLARE(name) extern const Family name;
SACCADE_FAMILIES(SACCADE_DECLARE)

namespace {

#define SACCADE_ADDRESS(name) &name,
constexpr std::array kFamilies = {SACCADE_FAMILIES(SACCADE_ADDRESS)};

bool contains(const Family::Names& names, const json::value* name) {
  return name != nullptr && name->is_string() && !name->get_string().empty() &&
         std::ranges::find(names, std::string_view(name->get_string())) != names.end();
}

std::string text_of(const json::value* value) {
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

// What was done to a quantised checkpoint, for the log.
void report_quantization(const Checkpoint& checkpoint, const Quantization& quantization,
                         const Weights& weights, DType compute, bool dequantize) {
  const Weights::Quantized all = weights.quantized();
  log::info("{}: {}: {} matrices of {:.1f} M weights in {:.2f} GB{}", checkpoint.directory,
            describe(quantization), all.matrices, static_cast<double>(all.weights) / 1e6,
            static_cast<double>(all.bytes) / 1e9,
            dequantize
                ? fmt::format(", dequantised to {}", name_of(compute))
                : fmt::format(", dequantised to {} where the device has no product of its codes",
                              name_of(compute)));
  if (weights.unused_scales() > 0)
    log::info(
        "{}: {} scales of activations or of a KV cache are not used: neither is quantised here",
        checkpoint.directory, weights.unused_scales());
}

// The same of a GGUF's blocks: which types there are, and what becomes of them. The cost:
// benchmarks/results/gguf.md.
void report_blocks(const Checkpoint& checkpoint, const Weights& weights, DType compute,
                   const WeightTypes& types) {
  const std::map<std::string, std::size_t> counts = weights.block_counts();
  if (counts.empty()) return;
  std::string stored;
  for (const auto& [name, count] : counts)
    stored += fmt::format("{}{} of {}", stored.empty() ? "" : ", ", count, name);
  const bool int8_activations = types.int8_rows == Int8Rows::kBeforeBlocks;
  std::vector<std::string_view> four_bits;
  if (counts.contains("Q4_0") && !types.dequantize) four_bits.emplace_back("Q4_0");
  if (counts.contains("Q4_K") && int8_activations) four_bits.emplace_back("Q4_K");
  const bool others = counts.size() > four_bits.size();
  std::string become;
  if (!four_bits.empty())
    become += fmt::format("{} stay{} in four bits where the device multiplies {}; ",
                          fmt::join(four_bits, " and "), four_bits.size() == 1 ? "s" : "",
                          four_bits.size() == 1 ? "it" : "them");
  if (int8_activations && others)
    become +=
        fmt::format("{}text layers and the head become int8; ", four_bits.empty() ? "" : "other ");
  if (int8_activations)
    become += "activations before them become int8 too, which --weight-only takes back; ";
  log::info("{}: quantised tensors: {}; {}{} dequantised to {}", checkpoint.directory, stored,
            become, become.empty() ? "all are" : "all else is", name_of(compute));
}

std::vector<TensorSpec> tower_specs(Loadable& model) {
  return model.weight_table(Parts::kVision).specs();
}

// ModelShape::tower_fingerprint. Files that say the same in another order count as others: that
// costs an encoding, never a wrong one.
std::string tower_fingerprint(const Checkpoint& checkpoint, const Family& family,
                              const Digest& tensors, const ModelTypes& types, DType layers) {
  Sha256 digest;
  digest.update(
      fmt::format("{} {} {}\n", family.name, name_of(types.compute), name_of(types.embeddings)));
  if (layers != types.compute) digest.update(fmt::format("layers in {}\n", name_of(layers)));
  for (const json::object* file :
       {&checkpoint.config, &checkpoint.preprocessor, &checkpoint.video_preprocessor})
    digest.update(boost::json::serialize(*file) + "\n");
  digest.update(std::as_bytes(std::span(tensors)));
  return to_hex(digest.finish());
}

Result<ModelTypes> model_types(DType compute, const Device& device, const LoadOptions& options) {
  ModelTypes types{
      .compute = compute, .embeddings = compute, .cache = options.kv.value_or(compute)};
  if (!device.caches(types.cache))
    return fail(ErrorCode::kUnsupported,
                "device {} keeps no keys and values as {}: bfloat16 and float32 are what it has",
                device.name(), name_of(types.cache));
  if (!is_coded(types.cache)) types.embeddings = types.cache;
  return types;
}

Result<WeightTypes> weight_types(DType compute, const Device& device, const LoadOptions& options) {
  WeightTypes types = compute;
  types.text_layers = options.text_layers.value_or(compute);
  types.tower_layers = options.tower_layers.value_or(compute);
  types.head = options.head.value_or(compute);
  types.dequantize = options.dequantize;
  types.weight_only = options.weight_only;
  types.four_bit_text = options.four_bit_text;
  types.int8_rows = options.int8_rows;
  if (types.int8_rows != Int8Rows::kStated && !device.multiplies_w4a8())
    return fail(
        ErrorCode::kUnsupported,
        "device {} has no product of int8 activations and 4-bit weights (W4A8); the CPU does",
        device.name());
  const bool bytes = types.text_layers == DType::kI8 || types.tower_layers == DType::kI8 ||
                     types.head == DType::kI8 || types.int8_rows == Int8Rows::kBeforeBlocks;
  if (bytes && !device.multiplies_int8())
    return fail(ErrorCode::kUnsupported, "device {} does not multiply int8; the CPU does",
                device.name());
  return types;
}

Result<Weights> open_weights(const Checkpoint& checkpoint, Loadable& into,
                             const LoadOptions& options) {
  if (options.random_weights) return Weights::random(into.weight_table().specs(), kDummySeed);
  TRY(const Family* family, family_of(checkpoint.config));
  TRY(const auto quantization, parse_quantization(checkpoint.config));
  return Weights::open(checkpoint.directory, family->aliases, quantization);
}

// Null: there is to be none, or can be none.
std::unique_ptr<PackedCache> open_cache(const Checkpoint& checkpoint, const Family& family,
                                        const Weights& weights, const WeightTypes& types,
                                        Device& device, const LoadOptions& options) {
  if (options.packed_cache.empty()) return nullptr;
  if (options.random_weights) {
    log::info("packed cache: not used, the weights are random");
    return nullptr;
  }
  const RankShare share = options.ranks != nullptr
                              ? RankShare{options.ranks->rank(), options.ranks->ranks()}
                              : RankShare{};
  return PackedCache::open(
      options.packed_cache,
      packed_key(checkpoint, family.name, weights.identity(), types, options.parts, share), device);
}

struct Loaded {
  std::size_t bytes = 0;
  std::optional<Digest> tower;  // Weights::fingerprint()
};

// Fills what the table is of, from the cache where that holds the weights. `tower`: to be
// fingerprinted; none: nothing is.
Result<Loaded> fill(const WeightTable& table, Weights& weights, Device& device,
                    const WeightTypes& types, PackedCache* cache,
                    std::span<const TensorSpec> tower) {
  std::optional<Digest> digest = cache != nullptr ? cache->tower() : std::nullopt;
  // Beside the packing: hashing is as fast as one core reads.
  std::future<Digest> reads;
  if (!digest && !tower.empty())
    reads = std::async(std::launch::async, [&] { return weights.fingerprint(tower); });
  auto bytes = table.load(weights, device, types, cache);
  const SteadyClock clock;
  const Nanos packed = clock.now();
  if (reads.valid()) {
    digest = reads.get();
    log::debug("waited {:.2f} s for the tower's fingerprint", seconds(clock.now() - packed));
    if (cache != nullptr) cache->put_tower(*digest);
  }
  if (!bytes) return fail(std::move(bytes).error());
  return Loaded{*bytes, digest};
}

// Reads, checks and packs the weights of `into`.
Result<void> load_weights(const Checkpoint& checkpoint, Loadable& into, Device& device,
                          const LoadOptions& options) {
  const SteadyClock clock;
  const Nanos start = clock.now();
  TRY(const Family* family, family_of(checkpoint.config));
  TRY(const auto quantization, parse_quantization(checkpoint.config));
  TRY(Weights weights, open_weights(checkpoint, into, options));

  DType compute =
      options.compute.value_or(stated_dtype(checkpoint.config).value_or(weights.dtype()));
  if (compute == DType::kF16) compute = DType::kF32;
  if (options.ranks != nullptr) TRY_DO(into.split(*options.ranks));
  TRY(const ModelTypes stored, model_types(compute, device, options));
  TRY(const WeightTypes types, weight_types(compute, device, options));
  into.set_dtypes(stored);
  const std::vector<TensorSpec> tower = tower_specs(into);
  if (options.parts == Parts::kVision && tower.empty())
    return fail(ErrorCode::kUnsupported, "{}: {} has no vision tower", checkpoint.directory,
                family->name);
  const WeightTable table = into.weight_table(options.parts);
  if ((types.text_layers == DType::kI8 || types.four_bit_text) && options.parts != Parts::kVision &&
      !table.has(MatrixRole::kTextLayer))
    return fail(ErrorCode::kUnsupported, "{}: {} has no text layers that become {}",
                checkpoint.directory, family->name, types.four_bit_text ? "int4" : "int8");
  if (types.tower_layers == DType::kI8 && options.parts != Parts::kText &&
      !table.has(MatrixRole::kTowerLayer))
    return fail(ErrorCode::kUnsupported, "{}: {} has no vision tower that becomes int8",
                checkpoint.directory, family->name);
  // Towers are whole on all ranks: the first one's name is everybody's.
  const bool first = options.ranks == nullptr || options.ranks->rank() == 0;
  const std::vector<TensorSpec> named = first ? tower : std::vector<TensorSpec>();
  const auto cache = open_cache(checkpoint, *family, weights, types, device, options);
  auto loaded = fill(table, weights, device, types, cache.get(), named);
  if (loaded && cache != nullptr && !cache->finish()) {
    TRY(weights, open_weights(checkpoint, into, options));
    loaded = fill(table, weights, device, types, cache.get(), named);
    if (loaded) static_cast<void>(cache->finish());
  }
  if (!loaded) return fail_within(checkpoint.directory, std::move(loaded).error());
  std::string fingerprint;
  if (loaded->tower)
    fingerprint =
        tower_fingerprint(checkpoint, *family, *loaded->tower, stored, types.tower_layers);
  into.set_loaded(parameter_count(table.specs()), loaded->bytes, std::move(fingerprint));
  if (options.random_weights && first)
    log::warning("{}: the weights are random (--load-format dummy)", checkpoint.directory);
  if (quantization && !options.random_weights && first)
    report_quantization(checkpoint, *quantization, weights, compute, options.dequantize);
  if (first) report_blocks(checkpoint, weights, compute, types);
  log::info(
      "{}: {} of {} in {}{}{}{}{}{}, {:.2f} GB, loaded in {:.1f} s", checkpoint.directory,
      family->name, parameter_count(table.specs()), name_of(compute),
      types.text_layers == DType::kI8 ? ", text layers in int8"
      : types.four_bit_text           ? ", text layers in int4"
                                      : "",
      types.int8_rows == Int8Rows::kBeforeFourBits ? ", activations before four bits in int8" : "",
      types.head == DType::kI8 ? ", head in int8" : "",
      types.tower_layers == DType::kI8 && table.has(MatrixRole::kTowerLayer)
          ? ", tower's layers in int8"
          : "",
      options.ranks != nullptr
          ? fmt::format(", rank {} of {}", options.ranks->rank(), options.ranks->ranks())
          : "",
      static_cast<double>(loaded->bytes) / 1e9, seconds(clock.now() - start));
  return {};
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

Result<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const Family* family : kFamilies) {
    if (family->name == name) return family;
    known += (known.empty() ? "" : ", ") + std::string(family->name);
  }
  return fail(ErrorCode::kNotFound, "family \"{}\" is not known; there are {}", name, known);
}

Result<const Family*> family_of(const json::object& config) {
  const json::value* architectures = json::find(config, "architectures");
  const bool named =
      architectures != nullptr && architectures->is_array() && !architectures->get_array().empty();
  const json::value* architecture = named ? &architectures->get_array().front() : nullptr;
  const json::value* type = json::find(config, "model_type");
  for (const Family* family : kFamilies) {
    const bool answers =
        named ? contains(family->architectures, architecture) : contains(family->model_types, type);
    if (answers && (family->accepts == nullptr || family->accepts(config))) return family;
  }
  std::string known;
  for (const Family* family : kFamilies)
    known += (known.empty() ? "" : ", ") + std::string(family->name);
  return fail(ErrorCode::kUnsupported, "config.json: {} \"{}\" is not served; families are {}",
              named ? "architecture" : "model_type", text_of(named ? architecture : type), known);
}

std::optional<DType> stated_dtype(const json::object& config) {
  for (const json::object* section : {&config, &text_section(config)}) {
    for (const std::string_view field : {"dtype", "torch_dtype"}) {
      const std::string name = text_of(json::find(*section, field));
      for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
        if (name == name_of(type)) return type;
      }
    }
  }
  return std::nullopt;
}

Result<UnloadedModel> create_model(const Checkpoint& checkpoint) {
  if (auto checked = check_config(checkpoint.config, checkpoint.generation); !checked)
    return fail_within(checkpoint.directory, std::move(checked).error());
  TRY(const Family* family, family_of(checkpoint.config));
  TRY_DO(parse_quantization(checkpoint.config));
  if (family->create == nullptr)
    return fail(ErrorCode::kUnsupported, "{}: {} embeds texts and generates none",
                checkpoint.directory, family->name);
  auto model = family->create(checkpoint);
  if (!model) return fail_within(checkpoint.directory, std::move(model).error());
  return model;
}

Result<std::string> image_defaults(const Checkpoint& checkpoint) {
  if (!checkpoint.preprocessor.empty()) return std::string();
  PreprocessorDefaults defaults;
  TRY(const UnloadedModel model, create_model(checkpoint));
  if (!model.processor->shape().has_vision) return std::string();
  return defaults.taken().empty() ? "those of its family" : defaults.taken();
}

Result<std::unique_ptr<LoadableEncoder>> create_encoder(const Checkpoint& checkpoint) {
  if (auto checked = check_config(checkpoint.config, checkpoint.generation); !checked)
    return fail_within(checkpoint.directory, std::move(checked).error());
  TRY(const Family* family, family_of(checkpoint.config));
  TRY_DO(parse_quantization(checkpoint.config));
  if (family->create_encoder == nullptr)
    return fail(ErrorCode::kUnsupported, "{}: {} generates text; sentence encoders embed it",
                checkpoint.directory, family->name);
  auto encoder = family->create_encoder(checkpoint);
  if (!encoder) return fail_within(checkpoint.directory, std::move(encoder).error());
  return encoder;
}

Result<Model> load_model(const Checkpoint& checkpoint, Device& device, const LoadOptions& options) {
  if (auto* const team = dynamic_cast<TeamDevice*>(&device); team != nullptr) {
    return make_team_model(*team, [&](int rank) {
      LoadOptions of_rank = options;
      of_rank.ranks = &team->team().collective(rank);
      return load_model(checkpoint, team->rank(rank), of_rank);
    });
  }
  TRY(UnloadedModel model, create_model(checkpoint));
  if (options.ranks == nullptr || options.ranks->rank() == 0) {
    TRY(const std::string defaults, image_defaults(checkpoint));
    if (!defaults.empty())
      log::warning(
          "{} has no preprocessor_config.json: images are prepared by the family's "
          "defaults, which may not be this model's: {}",
          checkpoint.directory, defaults);
  }
  TRY_DO(load_weights(checkpoint, *model.network, device, options));
  return Model{std::move(model.processor), std::move(model.network)};
}

Result<std::unique_ptr<SentenceEncoder>> load_encoder(const Checkpoint& checkpoint, Device& device,
                                                      const LoadOptions& options) {
  if (dynamic_cast<TeamDevice*>(&device) != nullptr)
    return fail(ErrorCode::kUnsupported, "a sentence encoder is not split over ranks");
  TRY(std::unique_ptr<LoadableEncoder> encoder, create_encoder(checkpoint));
  TRY_DO(load_weights(checkpoint, *encoder, device, options));
  return encoder;
}

}  // namespace saccade

// `saccade model inspect`: a checkpoint's shape and what serving it takes, without loading it.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags/choice_flag.h"
#include "apps/model/model_commands.h"
#include "model/checkpoint/weights.h"
#include "model/families.h"

namespace saccade {
namespace {

struct InspectFlags {
  std::string model;
  std::optional<DType> dtype;  // nothing: the checkpoint's
  std::int64_t length = 0;
  std::int64_t rows = 2048;
  bool tensors = false;
};

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

void line(const char* name, const std::string& value) {
  std::printf("%-18s %s\n", name, value.c_str());
}

// Layers of one kind and shape, and what a token of theirs takes.
void print_layers(const ModelShape& shape, DType kv) {
  struct Kind {
    int count = 0;
    std::int64_t bytes = 0;
    bool crosses = false;
  };
  std::map<std::string, Kind> kinds;
  std::int64_t states = 0;
  std::int64_t state_bytes = 0;
  for (const LayerShape& layer : shape.layers) {
    if (layer.kind == LayerKind::kRecurrent) {
      ++states;
      state_bytes += layer.state * static_cast<std::int64_t>(sizeof(float));
      continue;
    }
    const bool crosses = layer.kind == LayerKind::kCrossAttention;
    std::string kind = layer.kind == LayerKind::kFull ? "full attention"
                                                      : fmt::format("window of {}", layer.window);
    if (crosses) kind = "attention to images";
    Kind& of = kinds[fmt::format("{}, {} KV heads of {}", kind, layer.kv_heads, layer.head_dim)];
    ++of.count;
    of.crosses = crosses;
    of.bytes += 2 * layer.kv_heads * layer.head_dim * static_cast<std::int64_t>(size_of(kv));
  }
  std::int64_t total = 0;
  std::int64_t of_images = 0;
  for (const auto& [kind, value] : kinds) {
    line("layers", fmt::format("{} x {}: {} bytes a {}", value.count, kind, value.bytes,
                               value.crosses ? "row of an image" : "token"));
    (value.crosses ? of_images : total) += value.bytes;
  }
  if (states > 0)
    line("layers",
         fmt::format("{} x state: {} bytes a sequence and a kept state", states, state_bytes));
  line("KV cache", fmt::format("{} bytes a token in {}", total, name_of(kv)));
  if (of_images > 0)
    line("", fmt::format("{} bytes a row of an image, up to {} rows an image", of_images,
                         shape.max_image_tokens));
}

// Bytes of keys and values that one sequence of `length` tokens needs, windows counted as such, and
// of layers that attend to images with one image at its largest.
double sequence_bytes(const ModelShape& shape, DType kv, std::int64_t length) {
  double bytes = 0;
  for (const LayerShape& layer : shape.layers) {
    bytes += static_cast<double>(layer.state) * sizeof(float);
    std::int64_t kept = layer.window > 0 ? std::min(layer.window, length) : length;
    if (layer.kind == LayerKind::kCrossAttention) kept = shape.max_image_tokens;
    bytes += 2.0 * static_cast<double>(layer.kv_heads * layer.head_dim * kept) *
             static_cast<double>(size_of(kv));
  }
  return bytes;
}

Result<void> print_plan(Network& network, std::int64_t parameters, DType compute,
                        const Weights::Quantized& quantized, const InspectFlags& flags) {
  const ModelShape& shape = network.shape();
  const std::int64_t length = flags.length > 0 ? flags.length : shape.max_position;
  // Pages that nobody writes cost nothing, so the scratch can be laid out to learn its size.
  const auto device = make_reference_device();
  const Capacity text{
      .rows = flags.rows, .sequences = 64, .logit_rows = 64, .image_patches = 0, .length = length};
  TRY_DO(network.reserve(*device, text));
  const auto text_bytes = static_cast<double>(network.scratch_bytes());
  Capacity image = text;
  image.image_patches = shape.max_image_patches;
  TRY_DO(network.reserve(*device, image));
  const double image_bytes = static_cast<double>(network.scratch_bytes()) - text_bytes;

  std::printf("\nmemory plan\n");
  const double weights = static_cast<double>(parameters) * static_cast<double>(size_of(compute));
  line("  weights", fmt::format("{} in {}", bytes_text(weights), name_of(compute)));
  if (quantized.four_bits > 0)
    line("  on a CPU",
         fmt::format("{} with four bits kept",
                     bytes_text(weights + static_cast<double>(quantized.four_bit_bytes) -
                                static_cast<double>(quantized.four_bit_weights) *
                                    static_cast<double>(size_of(compute)))));
  line("  KV", fmt::format("{} for one sequence of {} tokens",
                           bytes_text(sequence_bytes(shape, shape.cache_dtype, length)), length));
  line("  step", fmt::format("{} of activations for {} rows", bytes_text(text_bytes), flags.rows));
  if (shape.has_vision)
    line("  encoder", fmt::format("{} of activations for the largest image, {} patches",
                                  bytes_text(image_bytes), shape.max_image_patches));
  return {};
}

// A sentence encoder keeps nothing between texts: its weights, and the activations of a step.
Result<void> inspect_encoder(const Family& family, const Checkpoint& checkpoint,
                             const InspectFlags& flags) {
  TRY(const auto encoder, create_encoder(checkpoint));
  const EncoderShape& shape = encoder->shape();
  const WeightTable table = encoder->weight_table();
  const std::int64_t parameters = parameter_count(table.specs());
  line("checkpoint", checkpoint.directory);
  line("family", std::string(family.name));
  line("parameters", fmt::format("{} in {} tensors", parameters, table.specs().size()));
  line("embedding", fmt::format("{} dimensions, {} pooling{}", shape.dimensions, shape.pooling,
                                shape.normalised ? ", normalised" : ""));
  line("vocabulary", fmt::format("{}", shape.vocab));
  line("longest text", fmt::format("{} tokens", shape.max_tokens));
  const auto weights = Weights::open(checkpoint.directory, family.aliases);
  const auto met = weights ? weights->require(table.specs(), table.ignored())
                           : Result<void>(tl::unexpected<Error>(weights.error()));
  line("weights", met ? fmt::format("{}, every tensor present",
                                    bytes_text(static_cast<double>(weights->bytes())))
                      : met.error().message);
  if (flags.tensors)
    for (const TensorSpec& spec : table.specs())
      std::printf("  %-60s %s\n", spec.name.c_str(), shape_text(spec.shape).c_str());
  const auto device = make_reference_device();
  const std::int64_t rows = std::max(flags.rows, shape.max_tokens);
  TRY_DO(encoder->reserve(*device, rows, std::min<std::int64_t>(rows, 256)));
  std::printf("\nmemory plan\n");
  line("  step", fmt::format("{} of activations for {} rows",
                             bytes_text(static_cast<double>(encoder->scratch_bytes())), rows));
  return {};
}

Result<void> inspect(const InspectFlags& flags) {
  TRY(const std::string directory, resolve_checkpoint(flags.model));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  TRY(const Family* family, family_of(checkpoint.config));
  if (family->create_encoder != nullptr) return inspect_encoder(*family, checkpoint, flags);
  TRY(const auto model, create_model(checkpoint));
  DType compute = stated_dtype(checkpoint.config).value_or(DType::kF32);
  const bool stored_f16 = compute == DType::kF16;
  compute = flags.dtype.value_or(compute);
  if (compute == DType::kF16) compute = DType::kF32;
  model.network->set_dtypes({.compute = compute, .embeddings = compute, .cache = compute});

  const ModelShape& shape = model.shape();
  const std::vector<TensorSpec> specs = model.network->weight_table().specs();
  const std::int64_t parameters = parameter_count(specs);
  line("checkpoint", directory);
  line("family", std::string(family->name));
  line("parameters", fmt::format("{} in {} tensors{}", parameters, specs.size(),
                                 stored_f16 ? ", stored as float16" : ""));
  line("hidden size", fmt::format("{}", shape.hidden));
  line("vocabulary", fmt::format("{}", shape.vocab));
  line("longest sequence", fmt::format("{} tokens", shape.max_position));
  line("end of text", fmt::format("{}", fmt::join(shape.eos, ", ")));
  print_layers(shape, compute);
  if (shape.has_vision)
    line("images", fmt::format("up to {} tokens each, an embedding of {} elements a token",
                               shape.max_image_tokens, shape.embedding_width()));
  if (shape.frames_per_grid > 0)
    line("videos",
         fmt::format("files and lists of frames, {} to a group of tokens", shape.frames_per_grid));

  TRY(const auto quantization, parse_quantization(checkpoint.config));
  const auto weights = Weights::open(directory, family->aliases, quantization);
  const auto quantized = weights ? weights->quantized() : Weights::Quantized{};
  if (weights) {
    const auto met = weights->require(specs, model.network->weight_table().ignored());
    line("weights", met ? fmt::format("{}, every tensor present",
                                      bytes_text(static_cast<double>(weights->bytes())))
                        : met.error().message);
    if (quantization)
      line(
          "quantisation",
          fmt::format("{}: {} matrices, {} in four bits, which a CPU keeps; others are dequantised",
                      describe(*quantization), quantized.matrices, quantized.four_bits));
  } else {
    line("weights", weights.error().message);
  }
  if (flags.tensors)
    for (const TensorSpec& spec : specs)
      std::printf("  %-60s %s\n", spec.name.c_str(), shape_text(spec.shape).c_str());
  return print_plan(*model.network, parameters, compute, quantized, flags);
}

}  // namespace

void add_model_inspect(CLI::App& model, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* const command =
      model.add_subcommand("inspect", "A checkpoint's shape and the memory that serving it takes");
  command->add_option("model", flags->model, "checkpoint: a folder, or ORG/NAME in HF_HOME")
      ->required();
  constexpr std::array<Named<std::optional<DType>>, 3> kDtypes{
      {{"auto", std::nullopt}, {"float32", DType::kF32}, {"bfloat16", DType::kBf16}}};
  add_choice(*command, "--dtype", flags->dtype, kDtypes, "of computing: bfloat16 or float32")
      ->capture_default_str();
  command->add_option("--max-model-len", flags->length, "tokens; 0: the checkpoint's");
  command->add_option("--max-num-batched-tokens", flags->rows, "most tokens of one step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--tensors", flags->tensors, "list every tensor");
  command->callback([flags, &exit_code] { exit_code = report(inspect(*flags)); });
}

}  // namespace saccade

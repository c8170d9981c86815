#include "engine/engine_setup.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "base/log.h"
#include "engine/admission/memory_budget.h"
#include "engine/step/graph_rows.h"

namespace saccade {
namespace {

constexpr double kShareOfFreeMemory = 0.5;  // for the KV pool, when nothing is said
constexpr std::int64_t kLeastFreeMemory = std::int64_t{1} << 30;  // assumed when it cannot be told
// Of a device's own, of two lanes that compute: lists and matrices on their way, 64 MiB each at the
// most, a library's workspace (40 MiB with its room to grow), sums that are finished apart (80) and
// parts of attention (40); and what the runtime keeps for kernels, streams and events.
constexpr std::int64_t kListBytes = std::int64_t{2 * (2 * 64 + 40 + 80 + 40) + 64} << 20;
// A step of a few hundred launches as a graph; an assumption, to be held against what a GPU's
// runtime takes (the log says it for each, at debug level).
constexpr std::int64_t kGraphBytes = std::int64_t{4} << 20;

// Bytes that hold max_sequences of the longest sequence: more would never be used.
Result<std::int64_t> most_useful_bytes(const EngineSettings& settings, const ModelShape& shape,
                                       const PagePlanSettings& plan_settings) {
  TRY(const PagePlan plan, make_page_plan(layer_specs(shape), plan_settings));
  const std::int64_t length = settings.max_model_len > 0
                                  ? std::min(settings.max_model_len, shape.max_position)
                                  : usual_length(shape);
  std::int64_t large_pages = 0;
  for (const GroupPlan& group : plan.groups) {
    // Of a model that attends across, with one image at its largest beside the text.
    std::int64_t tokens = group.stream == TokenStream::kEncoder ? 0 : length;
    if (group.stream != TokenStream::kText) tokens += shape.max_image_tokens;
    const std::int64_t blocks =
        make_layer_policy(group)->peak_blocks(tokens, settings.max_batched_tokens, {});
    large_pages += (blocks * group.tables + group.ratio - 1) / group.ratio;
  }
  return (large_pages + 1) * settings.max_sequences * plan.large_bytes;
}

// What computes in memory of its own does so while the host plans, and is not to wait for it.
void choose_steps_in_flight(EngineSettings& settings, const Device& device) {
  const bool said = settings.steps_in_flight > 0;
  if (!said) settings.steps_in_flight = device.space() == Space::kDevice ? 2 : 1;
  if (settings.steps_in_flight == 2)
    log::info("2 steps in flight: the next is planned while one runs{}",
              said ? "" : " (--no-async-scheduling: one)");
}

// Sizes that decode steps are padded to, where the device makes graphs. Padding rows have no KV
// pages of images, so models with cross-attention are not padded. All padding rows share one page
// of recurrent state, which each step resets.
Result<std::vector<std::int64_t>> choose_graph_rows(const EngineSettings& settings,
                                                    const ModelShape& shape, const Device& device) {
  std::vector<std::int64_t> sizes = settings.graph_rows;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || (i > 0 && sizes[i] <= sizes[i - 1]))
      return fail(ErrorCode::kInvalid, "cudagraph_capture_sizes: {} is not above {}", sizes[i],
                  i > 0 ? sizes[i - 1] : 0);
  }
  if (settings.eager || !device.makes_graphs() || shape.cross_attends())
    return std::vector<std::int64_t>();
  if (sizes.empty()) sizes = usual_graph_rows(settings.max_sequences);
  std::erase_if(sizes, [&](std::int64_t rows) { return rows > settings.max_sequences; });
  return sizes;
}

Capacity capacity_of(const EngineParts& parts) {
  Capacity capacity;
  capacity.rows = parts.settings.max_batched_tokens;
  capacity.sequences = parts.settings.max_sequences;
  capacity.logit_rows = parts.logit_rows();
  capacity.image_patches = parts.encoder.max_patches;
  capacity.length = parts.settings.max_model_len;
  capacity.lora_rank = parts.settings.max_loras > 0 ? parts.settings.max_lora_rank : 0;
  return capacity;
}

// What the rest of the engine takes beside the KV pool, and what of the device's memory is there.
// What it calls free is read before any of that is made: memory of the host is taken when it is
// first written to.
Result<DeviceMemory> memory_use(EngineParts parts, Network& network, Device& device) {
  const ModelShape& shape = network.shape();
  DeviceMemory use;
  use.total = device.total_bytes();
  use.free = device.free_bytes();
  if (parts.settings.max_model_len == 0) parts.settings.max_model_len = usual_length(shape);
  constexpr std::int64_t kLogit = sizeof(float);
  use.sampling = parts.logit_rows() * shape.vocab * kLogit;
  if (shape.has_vision) {
    TRY_DO(plan_images(parts, shape));
    const std::int64_t row_bytes = embedding_row_bytes(shape);
    use.images = parts.encoder.max_rows * row_bytes;
    use.images += parts.settings.encoder_cache == EncoderCache::kOverlay
                      ? parts.settings.max_batched_tokens * row_bytes
                      : static_cast<std::int64_t>(parts.settings.encoder_cache_bytes);
  }
  use.adapters = parts.settings.max_loras * packed_lora_bytes(network.lora_targets(),
                                                              parts.settings.max_lora_rank,
                                                              network.lora_compute());
  TRY_DO(network.reserve(device, capacity_of(parts)));
  use.scratch = static_cast<std::int64_t>(network.scratch_bytes());
  if (use.total == 0) return use;
  // Adjusted logits and their room to grow, and a quarter of the sequences with penalties.
  use.sampling += parts.sampled_rows() * shape.vocab * kLogit * 5 / 4;
  use.sampling += parts.settings.max_sequences / 4 * shape.vocab * kLogit;
  use.lists = kListBytes;
  use.graphs = static_cast<std::int64_t>(parts.graph_rows.size()) * kGraphBytes;
  // Of padding: a page behind all others, which begins at a whole number of pages.
  for (const LayerShape& layer : shape.layers)
    if (!parts.graph_rows.empty())
      use.graphs += 2 * layer.state * static_cast<std::int64_t>(sizeof(float));
  return use;
}

// A share of what is left, or of a device's own memory what its utilisation leaves; no more than
// would ever be used, but that a device's own memory is nobody else's, and a cache of prefixes
// finds use for all of it. taken: of what is free, bytes that have been given away and not yet been
// written to.
Result<std::int64_t> choose_kv_bytes(const EngineParts& parts, Network& network, Device& device,
                                     std::int64_t taken) {
  const EngineSettings& settings = parts.settings;
  if (parts.cache.pool_bytes > 0) return parts.cache.pool_bytes;
  EngineParts sketch;
  static_cast<EnginePlan&>(sketch) = parts;
  sketch.graph_rows = parts.graph_rows;
  TRY(const DeviceMemory use, memory_use(std::move(sketch), network, device));
  TRY(const std::int64_t useful, most_useful_bytes(settings, network.shape(), parts.cache.plan));
  if (use.total > 0) {
    TRY(const std::int64_t left,
        kv_bytes_of(settings.device_memory_utilization, use, kLeastFreeMemory / 64));
    const std::int64_t chosen = settings.prefix_caching ? left : std::min(left, useful);
    log::info(
        "KV cache: {:.2f} GiB; gpu_memory_utilization {} of {:.2f} GiB leaves {:.2f} beside "
        "{:.2f} of weights and others, {:.2f} of activations, {:.2f} of images, {:.2f} of logits, "
        "{:.2f} of adapters, {:.2f} of graphs and lists",
        gibibytes(chosen), settings.device_memory_utilization, gibibytes(use.total),
        gibibytes(left), gibibytes(use.total - use.free), gibibytes(use.scratch),
        gibibytes(use.images), gibibytes(use.sampling), gibibytes(use.adapters),
        gibibytes(use.graphs + use.lists));
    return chosen;
  }
  const std::int64_t free = std::max(std::max(kLeastFreeMemory, use.free) - use.sampling -
                                         use.images - use.adapters - use.scratch - taken,
                                     kLeastFreeMemory / 16);
  const auto share = static_cast<std::int64_t>(kShareOfFreeMemory * static_cast<double>(free));
  const std::int64_t chosen = std::min(share, useful);
  log::info("KV cache: {:.2f} GiB of the {:.2f} GiB that are free (kv_cache_bytes sets it)",
            gibibytes(chosen), gibibytes(free));
  return chosen;
}

// Null: no draft model.
Result<std::unique_ptr<DraftModel>> make_draft(const EngineParts& parts, const ModelShape& shape,
                                               Device& device, const Clock& clock) {
  const EngineSettings& settings = parts.settings;
  if (settings.draft == nullptr && !settings.speculation.draft.model.empty())
    return fail(ErrorCode::kInvalid, "draft model {}: it has not been loaded",
                settings.speculation.draft.model);
  if (settings.draft == nullptr || settings.speculation.max_tokens == 0) return nullptr;
  DraftPlan plan;
  plan.max_tokens = settings.speculation.max_tokens;
  plan.max_drafted = std::min(settings.max_sequences, settings.draft_rows());
  plan.max_sequences = settings.max_sequences;
  plan.length = settings.max_model_len > 0 ? settings.max_model_len : usual_length(shape);
  plan.vocab = shape.vocab;
  plan.block_tokens = settings.block_size;
  return DraftModel::create(plan, settings.speculation.draft, *settings.draft, device, clock);
}

}  // namespace

Result<EngineParts> set_up_engine(const EngineSettings& settings, Network& network, Device& device,
                                  const Clock& clock) {
  EngineParts parts;
  TRY(static_cast<EnginePlan&>(parts), plan_engine(settings));
  choose_steps_in_flight(parts.settings, device);
  const ModelShape& shape = network.shape();
  if (settings.max_loras > 0 && network.lora_targets().empty())
    return fail(ErrorCode::kUnsupported, "enable_lora: {} takes no adapters here", shape.family);
  TRY(parts.graph_rows, choose_graph_rows(parts.settings, shape, device));

  if (shape.keeps_state() && parts.settings.speculation.max_tokens > 0)
    return fail(ErrorCode::kUnsupported,
                "speculation: {} keeps a state, and what draft tokens wrote into it cannot be "
                "taken back",
                shape.family);

  TRY(parts.draft, make_draft(parts, shape, device, clock));
  TRY(parts.cache.pool_bytes,
      choose_kv_bytes(parts, network, device, parts.draft ? parts.draft->bytes() : 0));
  TRY(parts.kv, KvAllocator::create(layer_specs(shape), parts.cache));
  TRY_DO(plan_lengths(parts, shape, *parts.kv));
  std::erase_if(parts.graph_rows,
                [&](std::int64_t rows) { return rows > parts.settings.max_sequences; });
  TRY(parts.pool, KvPool::create(device, shape, parts.kv->plan(), parts.cache.pool_bytes,
                                 !parts.graph_rows.empty()));
  std::istringstream plan(parts.kv->plan().describe());
  for (std::string line; std::getline(plan, line);) log::info("KV cache, {}", line);

  if (shape.has_vision) {
    TRY_DO(plan_images(parts, shape));
    if (parts.settings.encoder_cache == EncoderCache::kOverlay) {
      if (shape.cross_attends()) {
        return fail(ErrorCode::kUnsupported,
                    "encoder_cache overlay: {} attends to images across, whose rows have no tokens "
                    "that they could be laid over",
                    shape.family);
      }
      if (!parts.pool->holds_embeddings()) {
        return fail(ErrorCode::kUnsupported,
                    "encoder_cache overlay: keys and values of the full-attention layers are "
                    "smaller than an embedding of {} elements",
                    shape.embedding_width());
      }
    } else {
      TRY(parts.arena, EmbeddingArena::create(
                           device, static_cast<std::int64_t>(parts.settings.encoder_cache_bytes),
                           kEmbeddingPageRows, shape.embedding_width(), shape.embedding_dtype));
    }
  }

  TRY_DO(network.reserve(device, capacity_of(parts)));
  TRY(parts.sampling,
      SamplingLane::create(device, parts.sampled_rows(), parts.settings.max_logprobs,
                           parts.settings.steps_in_flight));
  TRY(parts.scoring,
      SamplingLane::create(device, parts.logit_rows(), parts.settings.max_logprobs, 1));
  TRY(parts.batches, BatchBuilder::create(device, shape, parts.kv->plan().tables,
                                          parts.settings.max_batched_tokens, parts.logit_rows(),
                                          shape.has_vision && parts.settings.encoder_cache ==
                                                                  EncoderCache::kOverlay));
  return parts;
}

}  // namespace saccade

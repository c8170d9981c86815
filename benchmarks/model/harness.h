// A model alone, in process, with the clock and the roofs beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "benchmarks/kernels/roofs.h"
#include "benchmarks/model/counting_device.h"
#include "model/blocks/batch_lists.h"
#include "model/checkpoint/checkpoint.h"
#include "model/families.h"

namespace saccade {

constexpr std::int64_t kPrompt = 512;
constexpr std::int64_t kDecodeSteps = 32;
constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kSequences = 8;

// One timing, and the least time in which the machine could have moved those bytes or done that
// arithmetic, by the roofs measured just before it.
struct Timing {
  double seconds = 0;
  double least_seconds = 0;
  double cpu_seconds = 0;     // processor time of the process, a thread
  double submit_seconds = 0;  // until the calls returned: what a host that waits for nothing needs
  double bytes = 0;           // that have to be read
  double flops = 0;           // that have to be done, of bytes among them
  std::int64_t launches = 0;  // of a device: ops and copies, and what is uploaded besides
  std::int64_t uploads = 0;
};

struct HarnessSizes {
  std::int64_t prompt = kPrompt;
  std::int64_t decode_steps = kDecodeSteps;
  std::int64_t sequences = kSequences;
  int image_side = 1024;  // the largest
};

// The model with room for `sequences` sequences of prompt + decode_steps tokens, one block table
// each.
class Harness {
 public:
  static Result<std::unique_ptr<Harness>> create(const std::string& model,
                                                 std::shared_ptr<Device> device,
                                                 const LoadOptions& options = {},
                                                 const HarnessSizes& sizes = {}) {
    auto made = std::unique_ptr<Harness>(new Harness(sizes));
    made->device_ = std::move(device);
    made->counting_ = std::make_unique<CountingDevice>(*made->device_);
    if (made->device_->name() == "cpu") {
      // "cpu amx, 2 threads"
      const std::string description = made->device_->description();
      const std::size_t name = description.find(' ') + 1;
      TRY(made->isa_, cpu::choose_isa(description.substr(name, description.find(',') - name)));
    }
    TRY(const std::string directory, resolve_checkpoint(model));
    TRY(const Checkpoint checkpoint, open_checkpoint(directory));
    TRY(made->model_, load_model(checkpoint, *made->device_, options));
    TRY_DO(made->allocate());
    return made;
  }

  const ModelShape& shape() const { return model_.shape(); }
  Device& device() { return *device_; }

  // Of a CPU. Measured anew: neighbours on a shared machine move them by a fifth.
  void measure_roofs() {
    roofs_.read_bytes = measure_read_bytes(device_->pool());
    roofs_.f32_flops = measure_f32_flops(device_->pool(), isa_);
    roofs_.bf16_flops = measure_bf16_flops(device_->pool(), isa_);
    roofs_.int8_ops = measure_int8_ops(device_->pool(), isa_);
  }
  void set_roofs(const Roofs& roofs) { roofs_ = roofs; }
  const Roofs& roofs() const { return roofs_; }

  // The first sequence's prompt in one forward.
  Timing prefill() {
    set_rows(0, 1, 0, sizes_.prompt);
    return timed([&] { forward(); });
  }

  // A step of `sequences` rows, after prompts: the mean of all steps. `graphs`: as one launch, from
  // the third step of as many sequences on, where the device makes one of it.
  Timing decode(std::int64_t sequences, bool graphs = false) {
    Timing total;
    const auto steps = static_cast<double>(sizes_.decode_steps);
    for (std::int64_t step = 0; step < sizes_.decode_steps; ++step) {
      set_rows(0, sequences, sizes_.prompt + step, 1);
      const Timing one = timed([&] { forward(graphs ? sequences : 0); });
      total.seconds += one.seconds / steps;
      total.least_seconds += one.least_seconds / steps;
      total.cpu_seconds += one.cpu_seconds / steps;
      total.submit_seconds += one.submit_seconds / steps;
      total.bytes += one.bytes / steps;
      total.flops += one.flops / steps;
      total.launches = one.launches;  // of every step
      total.uploads = one.uploads;
    }
    return total;
  }

  // One image through the encoder, patches at hand.
  Timing encode(const PreparedImage& image) {
    const PreparedImage* images[] = {&image};
    const View out = embeddings_.view(model_.shape().embedding_dtype, image.layout.tokens,
                                      model_.shape().embedding_width());
    return timed([&] {
      Stream& stream = counting_->lane(Lane::kEncode);
      auto run = model_.network->begin_encode(stream, images, {&out, 1});
      while (!run->advance().value()) {
      }
      stream.retire();
    });
  }

  Result<PreparedImage> noise_image(int side) {
    Pixels pixels{side, side, std::vector<std::uint8_t>(static_cast<std::size_t>(side) * side * 3)};
    Rng rng(7);
    for (auto& value : pixels.rgb) value = static_cast<std::uint8_t>(rng.below(256));
    TRY(const ImageLayout layout, model_.processor->image_layout(side, side, {}));
    return model_.processor->prepare_image(pixels, layout, {});
  }

 private:
  explicit Harness(const HarnessSizes& sizes) : sizes_(sizes) {}

  Result<void> allocate() {
    const ModelShape& shape = model_.shape();
    const std::int64_t length = sizes_.prompt + sizes_.decode_steps;
    blocks_per_sequence_ = (length + kBlock - 1) / kBlock;
    std::int64_t patches = 4;
    if (shape.has_vision) {
      TRY(const ImageLayout layout,
          model_.processor->image_layout(sizes_.image_side, sizes_.image_side, {}));
      patches = layout.grid_t * layout.grid_h * layout.grid_w;
      TRY(embeddings_,
          device_->allocate(static_cast<std::size_t>(layout.tokens * shape.embedding_width()) * 4));
    }
    TRY_DO(model_.network->reserve(*device_, {.rows = std::max(sizes_.prompt, sizes_.sequences),
                                              .sequences = sizes_.sequences,
                                              .logit_rows = sizes_.sequences,
                                              .image_patches = patches,
                                              .length = length}));
    for (const LayerShape& layer : shape.layers) {
      KvLayer kv;
      kv.block_size = kBlock;
      kv.kv_heads = layer.kv_heads;
      kv.head_dim = layer.head_dim;
      const std::int64_t elements =
          kv_block_elements(shape.cache_dtype, kBlock, layer.kv_heads, layer.head_dim);
      const std::int64_t blocks = blocks_per_sequence_ * sizes_.sequences;
      TRY(Buffer cache, device_->allocate(static_cast<std::size_t>(elements * blocks) *
                                          size_of(shape.cache_dtype)));
      kv.blocks = cache.view(shape.cache_dtype, blocks, elements);
      caches_.push_back(std::move(cache));
      bindings_.push_back({kv, 0});
    }
    blocks_.resize(static_cast<std::size_t>(blocks_per_sequence_ * sizes_.sequences));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    TRY(logits_, device_->allocate(static_cast<std::size_t>(sizes_.sequences * shape.vocab) * 4));
    return {};
  }

  void set_rows(std::int64_t first, std::int64_t sequences, std::int64_t context,
                std::int64_t rows_each) {
    lists_.clear();
    position_.clear();
    spans_.clear();
    for (std::int64_t s = first; s < first + sequences; ++s) {
      spans_.push_back(
          {static_cast<std::int64_t>(lists_.ids.size()), rows_each, context, 0,
           std::span(blocks_).subspan(static_cast<std::size_t>(s * blocks_per_sequence_),
                                      static_cast<std::size_t>(blocks_per_sequence_))});
      for (std::int64_t i = 0; i < rows_each; ++i) {
        lists_.ids.push_back(
            static_cast<TokenId>(mix64(static_cast<std::uint64_t>(s * 4096 + context + i)) % 256));
        position_.push_back(static_cast<std::int32_t>(context + i));
      }
      lists_.logit_rows.push_back(static_cast<std::int32_t>(lists_.ids.size()) - 1);
    }
  }

  void forward(std::int64_t repeated = 0) {
    lists_.positions.assign(static_cast<std::size_t>(model_.shape().position_axes), position_);
    Stream& stream = counting_->lane(Lane::kStep);
    if (repeated > 0) stream.begin_repeated(repeated);
    const std::span<const SequenceSpan> group = spans_;
    Batch batch;
    lists_.upload(stream, batch);
    batch.spans = {&group, 1};
    batch.kv = bindings_;
    batch.logits = logits_.view(DType::kF32, static_cast<std::int64_t>(lists_.logit_rows.size()),
                                model_.shape().vocab);
    model_.network->forward(stream, batch);
    if (repeated > 0) stream.end_repeated();
    stream.retire();
  }

  static double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }

  template <typename Body>
  Timing timed(const Body& body) {
    counting_->take();
    const double cpu_begin = cpu_seconds();
    const Nanos begin = clock_.now();
    body();
    const double submitted = saccade::seconds(clock_.now() - begin);
    device_->synchronize();
    const double took = saccade::seconds(clock_.now() - begin);
    const double cpu = (cpu_seconds() - cpu_begin) / device_->pool().size();
    const Work work = counting_->take();
    Timing timing = {.seconds = took,
                     .cpu_seconds = cpu,
                     .submit_seconds = submitted,
                     .bytes = work.bytes,
                     .flops = work.flops + work.int8_ops,
                     .launches = work.launches,
                     .uploads = work.uploads};
    const bool matrix_unit =
        model_.shape().embedding_dtype == DType::kBf16 && roofs_.bf16_flops > 0;
    const double flops = matrix_unit ? roofs_.bf16_flops : roofs_.f32_flops;
    if (flops == 0) return timing;  // a warm-up, or no CPU: no roofs
    const double int8_ops = roofs_.int8_ops > 0 ? roofs_.int8_ops : flops;
    timing.least_seconds =
        std::max(work.bytes / roofs_.read_bytes, work.flops / flops + work.int8_ops / int8_ops);
    return timing;
  }

  const SteadyClock clock_;
  HarnessSizes sizes_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<CountingDevice> counting_;
  cpu::Isa isa_ = cpu::Isa::kPortable;
  Roofs roofs_;
  Model model_;
  std::int64_t blocks_per_sequence_ = 0;
  std::vector<Buffer> caches_;
  std::vector<KvBinding> bindings_;
  std::vector<std::int32_t> blocks_;
  Buffer logits_;
  Buffer embeddings_;
  BatchLists lists_;
  std::vector<std::int32_t> position_;  // of any axis
  std::vector<SequenceSpan> spans_;
};

}  // namespace saccade

// Speed of a whole model, in process: prefill, decode and image encoding, as shares of the
// machine's roofs, and beside a peer measured in turn with it (A B A B ...).
//   model_bench --model DIR [--runs 5] [--threads N]
//               [--peer LLAMA_BENCH --peer-model GGUF] [--peer-mtmd LLAMA_MTMD_CLI --peer-mmproj
//               GGUF] [--json FILE]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/rng.h"
#include "benchmarks/kernels/roofs.h"
#include "benchmarks/model/peer.h"
#include "model/checkpoint.h"
#include "model/families.h"

namespace saccade {
namespace {

constexpr std::int64_t kPrompt = 512;
constexpr std::int64_t kDecodeSteps = 32;
constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kSequences = 8;

struct Arguments {
  std::string model;
  int runs = 5;
  int threads = 0;
  PeerPaths peer;
  std::string json;
};

// The model with room for kSequences sequences of kPrompt + kDecodeSteps tokens, one block table
// each.
class Harness {
 public:
  static Result<std::unique_ptr<Harness>> create(const Arguments& arguments) {
    auto made = std::unique_ptr<Harness>(new Harness);
    TRY(made->backend_, make_cpu_backend(arguments.threads));
    TRY(const std::string directory, resolve_checkpoint(arguments.model));
    TRY(const Checkpoint checkpoint, open_checkpoint(directory));
    TRY(made->model_, load_model(checkpoint, *made->backend_));
    TRY_DO(made->allocate());
    return made;
  }

  Model& model() { return *model_; }
  Backend& backend() { return *backend_; }

  // Seconds for the first sequence's prompt in one forward.
  double prefill() {
    set_rows(0, 1, 0, kPrompt);
    return timed_forward();
  }

  // Seconds a step of `sequences` rows, after prompts of kPrompt tokens.
  double decode(std::int64_t sequences) {
    double total = 0;
    for (std::int64_t step = 0; step < kDecodeSteps; ++step) {
      set_rows(0, sequences, kPrompt + step, 1);
      total += timed_forward();
    }
    return total / kDecodeSteps;
  }

  // Seconds to encode one image of the given size, patches at hand.
  double encode(const PreparedImage& image) {
    const PreparedImage* images[] = {&image};
    const View out =
        embeddings_.view(model_->shape().kv_dtype, image.layout.tokens, model_->shape().hidden);
    const Nanos begin = clock_.now();
    auto run = model_->begin_encode(*backend_, images, {&out, 1});
    while (!run->advance()) {
    }
    backend_->synchronize();
    return seconds(clock_.now() - begin);
  }

  Result<PreparedImage> noise_image(int side) {
    Pixels pixels{side, side, std::vector<std::uint8_t>(static_cast<std::size_t>(side) * side * 3)};
    Rng rng(7);
    for (auto& value : pixels.rgb) value = static_cast<std::uint8_t>(rng.below(256));
    TRY(const ImageLayout layout, model_->image_layout(side, side, {}));
    return model_->prepare_image(pixels, layout);
  }

 private:
  Harness() = default;

  Result<void> allocate() {
    const ModelShape& shape = model_->shape();
    const std::int64_t length = kPrompt + kDecodeSteps;
    blocks_per_sequence_ = (length + kBlock - 1) / kBlock;
    std::int64_t patches = 4;
    if (shape.has_vision) {
      TRY(const ImageLayout layout, model_->image_layout(1024, 1024, {}));
      patches = layout.grid_t * layout.grid_h * layout.grid_w;
      TRY(embeddings_,
          backend_->allocate(static_cast<std::size_t>(layout.tokens * shape.hidden) * 4));
    }
    TRY_DO(model_->reserve(*backend_, {.rows = kPrompt,
                                       .sequences = kSequences,
                                       .logit_rows = kSequences,
                                       .image_patches = patches,
                                       .length = length}));
    for (const LayerShape& layer : shape.layers) {
      KvLayer kv;
      kv.block_size = kBlock;
      kv.kv_heads = layer.kv_heads;
      kv.head_dim = layer.head_dim;
      kv.dtype = shape.kv_dtype;
      kv.block_stride = static_cast<std::size_t>(2 * kBlock * layer.kv_heads * layer.head_dim) *
                        size_of(kv.dtype);
      TRY(Buffer cache,
          backend_->allocate(kv.block_stride *
                             static_cast<std::size_t>(blocks_per_sequence_ * kSequences)));
      kv.base = cache.data();
      caches_.push_back(std::move(cache));
      bindings_.push_back({kv, 0});
    }
    blocks_.resize(static_cast<std::size_t>(blocks_per_sequence_ * kSequences));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    TRY(logits_, backend_->allocate(static_cast<std::size_t>(kSequences * shape.vocab) * 4));
    return {};
  }

  void set_rows(std::int64_t first, std::int64_t sequences, std::int64_t context,
                std::int64_t rows_each) {
    ids_.clear();
    position_.clear();
    spans_.clear();
    logit_rows_.clear();
    for (std::int64_t s = first; s < first + sequences; ++s) {
      spans_.push_back(
          {static_cast<std::int64_t>(ids_.size()), rows_each, context, 0,
           std::span(blocks_).subspan(static_cast<std::size_t>(s * blocks_per_sequence_),
                                      static_cast<std::size_t>(blocks_per_sequence_))});
      for (std::int64_t i = 0; i < rows_each; ++i) {
        ids_.push_back(
            static_cast<TokenId>(mix64(static_cast<std::uint64_t>(s * 4096 + context + i)) % 256));
        position_.push_back(static_cast<std::int32_t>(context + i));
      }
      logit_rows_.push_back(static_cast<std::int32_t>(ids_.size()) - 1);
    }
  }

  double timed_forward() {
    const std::vector<std::span<const std::int32_t>> positions(
        static_cast<std::size_t>(model_->shape().position_axes), position_);
    const std::span<const SequenceSpan> group = spans_;
    Batch batch;
    batch.ids = ids_;
    batch.positions = positions;
    batch.spans = {&group, 1};
    batch.kv = bindings_;
    batch.logit_rows = logit_rows_;
    batch.logits = logits_.view(DType::kF32, static_cast<std::int64_t>(logit_rows_.size()),
                                model_->shape().vocab);
    const Nanos begin = clock_.now();
    model_->forward(*backend_, batch);
    backend_->synchronize();
    return seconds(clock_.now() - begin);
  }

  const SteadyClock clock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::int64_t blocks_per_sequence_ = 0;
  std::vector<Buffer> caches_;
  std::vector<KvBinding> bindings_;
  std::vector<std::int32_t> blocks_;
  Buffer logits_;
  Buffer embeddings_;
  std::vector<TokenId> ids_;
  std::vector<std::int32_t> position_;
  std::vector<SequenceSpan> spans_;
  std::vector<std::int32_t> logit_rows_;
};

struct Series {
  std::string name;
  std::string unit;
  std::vector<double> values;
  double roof = 0;  // in the same unit; 0: none

  double at(double share) const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
  }
};

Result<void> measure(const Arguments& arguments) {
  TRY(auto harness, Harness::create(arguments));
  const ModelShape& shape = harness->model().shape();
  std::printf("%s: %s, %.3f B parameters, %.2f GiB packed, %s\n", arguments.model.c_str(),
              shape.family.c_str(), static_cast<double>(shape.parameters) / 1e9,
              static_cast<double>(shape.weight_bytes) / (1 << 30),
              harness->backend().description().c_str());
  std::vector<std::pair<int, PreparedImage>> images;
  if (shape.has_vision) {
    for (const int side : {448, 1024}) {
      TRY(PreparedImage image, harness->noise_image(side));
      images.emplace_back(side, std::move(image));
    }
  }
  std::map<std::string, Series> ours;
  std::map<std::string, Series> theirs;
  const auto record = [](std::map<std::string, Series>& into, const std::string& name,
                         const char* unit, double value) {
    Series& series = into[name];
    series.name = name;
    series.unit = unit;
    series.values.push_back(value);
  };
  harness->prefill();  // pages of weights and scratch are touched once before anything counts
  for (int run = 0; run < arguments.runs; ++run) {
    record(ours, "prefill 512", "tok/s", kPrompt / harness->prefill());
    const double one = harness->decode(1);
    record(ours, "decode x1", "tok/s", 1 / one);
    record(ours, "decode x8", "tok/s", kSequences / harness->decode(kSequences));
    for (const auto& [side, image] : images) {
      record(ours, "encode " + std::to_string(side), "ms", 1e3 * harness->encode(image));
    }
    if (!arguments.peer.llama_bench.empty()) {
      TRY(const auto speeds, run_llama_bench(arguments.peer, kPrompt, kDecodeSteps));
      record(theirs, "prefill 512", "tok/s", speeds.prefill);
      record(theirs, "decode x1", "tok/s", speeds.decode);
    }
    if (!arguments.peer.mtmd.empty()) {
      for (const auto& [side, image] : images) {
        TRY(const double ms, run_mtmd_encode(arguments.peer, side));
        record(theirs, "encode " + std::to_string(side), "ms", ms);
      }
    }
    std::printf("run %d of %d done\n", run + 1, arguments.runs);
    std::fflush(stdout);
  }
  std::printf(
      "\n%-14s %10s %10s %10s %10s %8s   (median, lowest, highest of %d; peer; ratio of medians)\n",
      "", "median", "low", "high", "peer", "ratio", arguments.runs);
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  w.member("model", std::string_view(arguments.model));
  w.member("backend", std::string_view(harness->backend().description()));
  w.member("weight_bytes", static_cast<std::int64_t>(shape.weight_bytes));
  w.key("results");
  w.begin_array();
  for (const auto& [name, series] : ours) {
    const auto peer = theirs.find(name);
    const bool lower_is_better = series.unit == "ms";
    const double median = series.at(0.5);
    std::printf("%-14s %10.2f %10.2f %10.2f", (name + " " + series.unit).c_str(), median,
                series.at(0), series.at(1));
    if (peer != theirs.end()) {
      const double other = peer->second.at(0.5);
      std::printf(" %10.2f %7.2fx", other, lower_is_better ? other / median : median / other);
    }
    std::printf("\n");
    w.begin_object();
    w.member("name", std::string_view(name));
    w.member("unit", std::string_view(series.unit));
    for (const auto* side : {&ours, &theirs}) {
      const auto found = side->find(name);
      if (found == side->end()) continue;
      w.key(side == &ours ? "saccade" : "peer");
      w.begin_array();
      for (const double value : found->second.values) w.value(value);
      w.end_array();
    }
    w.end_object();
  }
  w.end_array();
  w.end_object();
  const double weights_read =
      static_cast<double>(shape.weight_bytes) * ours["decode x1"].at(0.5) / 1e9;
  std::printf(
      "\ndecode x1 reads at most %.2f GB/s of packed weights (vision tower included in the "
      "bytes)\n",
      weights_read);
  if (!arguments.json.empty()) std::ofstream(arguments.json) << out << "\n";
  return {};
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) {
  saccade::Arguments arguments;
  const std::map<std::string, std::string*> texts = {{"--model", &arguments.model},
                                                     {"--peer", &arguments.peer.llama_bench},
                                                     {"--peer-model", &arguments.peer.model},
                                                     {"--peer-mtmd", &arguments.peer.mtmd},
                                                     {"--peer-mmproj", &arguments.peer.mmproj},
                                                     {"--json", &arguments.json}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto found = texts.find(argv[i]);
    if (found != texts.end()) {
      *found->second = argv[i + 1];
    } else if (std::strcmp(argv[i], "--runs") == 0) {
      arguments.runs = std::max(1, std::atoi(argv[i + 1]));
    } else if (std::strcmp(argv[i], "--threads") == 0) {
      arguments.threads = std::atoi(argv[i + 1]);
    } else {
      std::fprintf(stderr, "model_bench: %s is not known\n", argv[i]);
      return 2;
    }
  }
  if (arguments.model.empty()) {
    std::fprintf(stderr, "model_bench: --model DIR is required\n");
    return 2;
  }
  const auto done = saccade::measure(arguments);
  if (!done) std::fprintf(stderr, "model_bench: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

// What memory decisions cost: a page taken and given back in a pool of 100,000 pages, new, cached
// and evicted, one planning step of the scheduler for 256 running requests, and the flattening of
// its plan into a batch on the device.
#include <benchmark/benchmark.h>

#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "engine/admission/scheduler.h"
#include "engine/step/batch_builder.h"
#include "ops/device.h"

namespace {

using namespace saccade;

constexpr std::int64_t kPages = 100'000;
constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kMaxSteps = 2048;  // of one set of sequences
constexpr std::int64_t kChunk = 512;      // tokens
constexpr std::int64_t kLength = 8192;    // tokens of a sequence

std::vector<LayerSpec> layers_of(bool mixed) {
  const LayerSpec full{CacheKind::kFull, 0, 8, 128, 0, 2, 0};
  LayerSpec window = full;
  window.kind = CacheKind::kSlidingWindow;
  window.window = 1024;
  if (!mixed) return {full};
  return {window, full};
}

std::unique_ptr<KvAllocator> make_allocator(bool mixed, bool prefix_caching) {
  KvSettings settings;
  settings.plan.block_tokens = kBlock;
  settings.pool_bytes = kPages * kBlock * 2 * 8 * 128 * 2;
  settings.plan.max_sequences = 256;
  settings.prefix_caching = prefix_caching;
  return *KvAllocator::create(layers_of(mixed), settings);
}

// Sequences of 8,192 tokens that share nothing come, are computed in chunks and go. With prefix
// caching on the pool is full of cached blocks soon, so that every page is an evicted one.
void sequences_come_and_go(benchmark::State& state, bool mixed, bool prefix_caching) {
  const auto kv = make_allocator(mixed, prefix_caching);
  std::vector<std::int32_t> tokens(kLength);
  std::vector<KvCopy> copies;
  std::int32_t next = 0;
  std::int64_t pages = 0;
  const auto run_one = [&] {
    std::iota(tokens.begin(), tokens.end(), next);
    next += static_cast<std::int32_t>(kLength);
    const PrefixContent content{tokens, {}, {}, "", 0};
    const KvShape shape{kLength, 0, {}, 0};
    KvSequence sequence;
    const PrefixHit hit = kv->match(content, shape, kLength - 1);
    CHECK(kv->admit(sequence, content, shape, hit, kChunk) == Admission::kNow, "pool {}", kPages);
    for (std::int64_t end = kChunk; end <= kLength; end += kChunk) {
      kv->free_skipped(sequence);
      CHECK(kv->extend(sequence, end), "no room at {}", end);
      kv->take_copies(sequence, copies);
      kv->commit(sequence, content, end);
    }
    pages += kLength / kBlock * kv->plan().tables;
    kv->release(sequence);
  };
  for (std::int64_t i = 0; i < kPages * kBlock / kLength + 1; ++i) run_one();
  pages = 0;
  for (auto _ : state) run_one();
  state.counters["time/page"] = benchmark::Counter(
      static_cast<double>(pages), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(sequences_come_and_go, full, false, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sequences_come_and_go, full_evicting, false, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sequences_come_and_go, mixed, true, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sequences_come_and_go, mixed_evicting, true, true)->Unit(benchmark::kMicrosecond);

// 256 sequences of some 300 tokens that decode, one token each in a step.
class RunningSequences {
 public:
  static constexpr std::int64_t kSequences = 256;

  explicit RunningSequences(KvAllocator& kv) : kv_(kv), images_(EncoderCache::kStore, 0, 1, 1) {
    settings_.max_sequences = kSequences;
    settings_.max_batched_tokens = 2048;
    begin();
  }
  ~RunningSequences() { finish(); }

  const ImagePlanner& images() const { return images_; }

  // Plan and commit, sampling left out. `build` is shown the plan in between.
  template <class Build>
  std::int64_t step(const Build& build) {
    const StepPlan plan = scheduler_->plan();
    sampled_.assign(plan.rows.size(), 7);
    scheduler_->launch(plan);
    build(plan);
    scheduler_->settle(plan, sampled_);
    return plan.decode_rows;
  }

  // Anew, from prompts of 300 tokens.
  void begin() {
    finish();
    scheduler_ = std::make_unique<Scheduler>(settings_, kv_, images_);
    for (std::int64_t i = 0; i < kSequences; ++i) {
      Request request;
      request.id = static_cast<RequestId>(i + 1);
      Prompt prompt;
      prompt.ids.resize(300);
      std::iota(prompt.ids.begin(), prompt.ids.end(), static_cast<TokenId>(1000 * i));
      prompt.positions.assign(1, std::vector<std::int32_t>(300));
      std::iota(prompt.positions[0].begin(), prompt.positions[0].end(), 0);
      request.prompt = std::move(prompt);
      request.sampling.max_tokens = kMaxSteps;
      sequences_.push_back(
          std::make_unique<Sequence>(std::move(request), "bench", 0, kBlock, 300 + kMaxSteps));
      scheduler_->add(*sequences_.back());
    }
    while (step([](const StepPlan&) {}) < kSequences) {
    }
  }

 private:
  void finish() {
    for (const auto& sequence : sequences_) scheduler_->finish(*sequence);
    sequences_.clear();
  }

  KvAllocator& kv_;
  ImagePlanner images_;
  EngineSettings settings_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<TokenId> sampled_;
  std::unique_ptr<Scheduler> scheduler_;
};

template <class Build>
void run_steps(benchmark::State& state, RunningSequences& running, const Build& build) {
  std::int64_t steps = 0;
  for (auto _ : state) {
    running.step(build);
    if (++steps % 1024 != 0) continue;  // fewer than kMaxSteps
    state.PauseTiming();
    running.begin();
    state.ResumeTiming();
  }
}

void planning_step(benchmark::State& state, bool mixed, bool prefix_caching) {
  const auto kv = make_allocator(mixed, prefix_caching);
  RunningSequences running(*kv);
  run_steps(state, running, [](const StepPlan&) {});
}
BENCHMARK_CAPTURE(planning_step, full, false, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(planning_step, full_caching, false, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(planning_step, mixed_caching, true, true)->Unit(benchmark::kMicrosecond);

// The same and the batch: its lists uploaded, no forward.
void planning_and_building(benchmark::State& state) {
  ModelShape shape;
  shape.hidden = 16;
  shape.vocab = 64;
  shape.max_position = kLength;
  shape.layers.assign(28, {LayerKind::kFull, 0, 1, 8});
  KvSettings settings;
  settings.plan.block_tokens = kBlock;
  settings.pool_bytes = std::int64_t{256} << 20;
  settings.plan.max_sequences = RunningSequences::kSequences;
  const auto kv = *KvAllocator::create(
      std::vector<LayerSpec>(28, LayerSpec{CacheKind::kFull, 0, 1, 8, 0, 4, 0}), settings);
  const auto device = *make_cpu_device(1);
  const auto pool = *KvPool::create(*device, shape, kv->plan(), settings.pool_bytes);
  BatchBuilder builder = *BatchBuilder::create(*device, shape, kv->plan().tables, 2048,
                                               RunningSequences::kSequences, false);
  RunningSequences running(*kv);
  Stream& stream = device->lane(Lane::kStep);
  run_steps(state, running, [&](const StepPlan& plan) {
    benchmark::DoNotOptimize(builder.build(
        stream, plan, {.last_tokens = {}, .pool = *pool, .images = running.images()}));
    stream.retire();
  });
}
BENCHMARK(planning_and_building)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();

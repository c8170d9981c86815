// What memory decisions cost: a page taken and given back in a pool of 100,000 pages, new, cached
// and evicted, and one planning step of the scheduler for 256 running requests.
#include <benchmark/benchmark.h>

#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "engine/scheduler.h"

namespace {

using namespace saccade;

constexpr std::int64_t kPages = 100'000;
constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kChunk = 512;    // tokens
constexpr std::int64_t kLength = 8192;  // tokens of a sequence

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
  settings.max_sequences = 256;
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

// 256 sequences of some 300 tokens, one token each: plan and commit, sampling left out.
void planning_step(benchmark::State& state, bool mixed, bool prefix_caching) {
  constexpr std::int64_t kSequences = 256;
  const auto kv = make_allocator(mixed, prefix_caching);
  ImagePlanner images(EncoderCache::kStore, 0, 1, 1);
  SchedulerSettings settings;
  settings.max_sequences = kSequences;
  settings.max_batched_tokens = 2048;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<TokenId> sampled;
  std::unique_ptr<Scheduler> scheduler;
  const auto step = [&] {
    const StepPlan plan = scheduler->plan();
    sampled.assign(plan.rows.size(), 7);
    scheduler->launch(plan);
    scheduler->settle(plan, sampled);
    return plan.decode_rows;
  };
  const auto begin = [&] {
    for (const auto& sequence : sequences) scheduler->finish(*sequence);
    sequences.clear();
    scheduler = std::make_unique<Scheduler>(settings, *kv, images);
    for (std::int64_t i = 0; i < kSequences; ++i) {
      Request request;
      request.id = static_cast<RequestId>(i + 1);
      Prompt prompt;
      prompt.ids.resize(300);
      std::iota(prompt.ids.begin(), prompt.ids.end(), static_cast<TokenId>(1000 * i));
      request.prompt = std::move(prompt);
      sequences.push_back(std::make_unique<Sequence>(std::move(request), "bench", 0));
      scheduler->add(*sequences.back());
    }
    while (step() < kSequences) {
    }
  };
  begin();
  std::int64_t steps = 0;
  for (auto _ : state) {
    step();
    if (++steps % 1024 != 0) continue;
    state.PauseTiming();
    begin();
    state.ResumeTiming();
  }
  for (const auto& sequence : sequences) scheduler->finish(*sequence);
}
BENCHMARK_CAPTURE(planning_step, full, false, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(planning_step, full_caching, false, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(planning_step, mixed_caching, true, true)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();

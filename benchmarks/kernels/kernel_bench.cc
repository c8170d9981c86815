// Every CPU kernel at the shapes of a real model, as a share of what the machine can do.
//
//   kernel_bench [--isa NAME] [--threads N] [--json FILE] [--benchmark_...]
//
// The first rows are the roofs: memory, f32, and bf16 and int8 where there is a unit for them. Each
// later row reports GB/s of the bytes it must move, GFLOP/s of the arithmetic it must do, and
// roof_%: the least time either could take, over the time the median iteration took. Weights rotate
// through 1.5 GB so that decode reads memory, as in a whole model, and not a cache.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "benchmarks/kernels/roofs.h"
#include "ops/device.h"

namespace saccade {
namespace {

struct Bench {
  std::unique_ptr<Device> device;
  Stream& stream() const { return device->lane(Lane::kStep); }
  cpu::Isa isa = cpu::Isa::kPortable;
  Roofs roofs;
};

struct Work {
  double bytes = 0;
  double flops = 0;
  DType type = DType::kF32;  // of the weights: whose unit may do the arithmetic
};

// Processor time of all threads.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Times each iteration of body. GB/s, GFLOP/s and roof_% are those of the median; best_% is roof_%
// of the fastest, and its distance from the median shows how quiet the machine was. cpu_% is roof_%
// by processor time, which leaves out what other processes took.
template <typename Body>
void measure(benchmark::State& state, const Bench& bench, const Work& work, const Body& body) {
  const SteadyClock clock;
  std::vector<double> times;
  body();  // scratch grows, weights are mapped
  const double cpu_start = cpu_seconds();
  for (auto _ : state) {
    const Nanos start = clock.now();
    body();
    times.push_back(seconds(clock.now() - start));
  }
  const double cpu =
      (cpu_seconds() - cpu_start) / static_cast<double>(times.size()) / bench.device->pool().size();
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  double peak = bench.roofs.f32_flops;
  if (work.type == DType::kBf16 && bench.roofs.bf16_flops > 0) peak = bench.roofs.bf16_flops;
  if (work.type == DType::kI8 && bench.roofs.int8_ops > 0) peak = bench.roofs.int8_ops;
  const double least = std::max(work.bytes / bench.roofs.read_bytes, work.flops / peak);
  state.counters["median_us"] = median * 1e6;
  state.counters["GB/s"] = work.bytes / median / 1e9;
  state.counters["GFLOP/s"] = work.flops / median / 1e9;
  state.counters["roof_%"] = least / median * 100;
  state.counters["best_%"] = least / times.front() * 100;
  state.counters["cpu_%"] = least / cpu * 100;
}

// A matrix of random activations that owns its memory.
struct Activations {
  Activations(std::int64_t rows, std::int64_t cols, std::uint64_t seed = 1)
      : buffer(*allocate_host(static_cast<std::size_t>(rows * cols) * 4)),
        view(buffer.view(DType::kF32, rows, cols)) {
    Rng rng(seed);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t col = 0; col < cols; ++col)
        view.row<float>(row)[col] = static_cast<float>(rng.uniform() - 0.5);
  }
  Buffer buffer;
  View view;
};

using Function = std::function<void(benchmark::State&)>;

void add(const std::string& name, Function run) {
  benchmark::RegisterBenchmark(name.c_str(), [run](benchmark::State& state) { run(state); })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

void add_roofs(Bench& bench) {
  ThreadPool& pool = bench.device->pool();
  bench.roofs.read_bytes = measure_read_bytes(pool);
  bench.roofs.f32_flops = measure_f32_flops(pool, bench.isa);
  bench.roofs.bf16_flops = measure_bf16_flops(pool, bench.isa);
  bench.roofs.int8_ops = measure_int8_ops(pool, bench.isa);
  const auto row = [&](const char* name, const char* unit, double rate) {
    add(name, [=](benchmark::State& state) {
      double kept = rate;
      for (auto _ : state) benchmark::DoNotOptimize(kept);
      state.counters[unit] = rate / 1e9;
    });
  };
  row("roof/read", "GB/s", bench.roofs.read_bytes);
  row("roof/f32", "GFLOP/s", bench.roofs.f32_flops);
  if (bench.roofs.bf16_flops > 0) {
    row("roof/bf16", "GFLOP/s", bench.roofs.bf16_flops);
    const double loaded = measure_loaded_bf16_flops(pool, bench.isa);
    if (loaded > 0) row("bf16 numbers from cache", "GFLOP/s", loaded);
  }
  if (bench.roofs.int8_ops > 0) row("roof/int8", "GFLOP/s", bench.roofs.int8_ops);
}

// Codes of four bits in groups of 128, with the memory they lie in.
struct FourBitSource {
  FourBitSource(std::int64_t out, std::int64_t in)
      : codes(random(out * in / 2)),
        zeros(random(in / kGroup * out / 2)),
        scales(static_cast<std::size_t>(in / kGroup * out), to_f16(0.01f)) {
    matrix.format = StoredMatrix::Format::kGptq;
    matrix.stored_out = matrix.out_end = out;
    matrix.stored_in = matrix.in_end = in;
    matrix.codes = {DType::kI32, codes};
    matrix.zeros = {DType::kI32, zeros};
    matrix.scales = {DType::kF16, std::as_bytes(std::span(scales))};
    matrix.group = kGroup;
  }
  static std::vector<std::byte> random(std::int64_t bytes) {
    Rng rng(1);
    std::vector<std::byte> values(static_cast<std::size_t>(bytes));
    for (std::byte& value : values) value = static_cast<std::byte>(rng.below(256));
    return values;
  }
  static constexpr std::int64_t kGroup = 128;
  std::vector<std::byte> codes;
  std::vector<std::byte> zeros;
  std::vector<F16> scales;
  StoredMatrix matrix;
};

// Weights of four bits, for a model of numbers of `type`; kI8: by rows of bytes.
void add_four_bit_gemm(Bench& bench, const std::string& name, std::int64_t rows, std::int64_t in,
                       std::int64_t out, DType type) {
  add("gemm/" + name + "/int4-" + std::string(name_of(type)) + "/rows:" + std::to_string(rows),
      [=, &bench](benchmark::State& state) {
        constexpr std::int64_t kRotated = 800'000'000;
        FourBitSource source(out, in);
        source.matrix.rounds_activations = type == DType::kI8;
        const DType numbers = type == DType::kI8 ? DType::kBf16 : type;
        std::vector<std::unique_ptr<PackedWeight>> weights;
        weights.push_back(bench.device->pack({&source.matrix, 1}, numbers));
        const auto bytes = static_cast<std::int64_t>(weights.front()->bytes());
        const std::int64_t copies =
            rows > 16 ? 2 : std::max<std::int64_t>(2, (kRotated + bytes - 1) / bytes);
        while (std::ssize(weights) < copies)
          weights.push_back(bench.device->pack({&source.matrix, 1}, numbers));
        const Activations x(rows, in);
        const Activations y(rows, out);
        GemmArgs args;
        args.x = x.view;
        args.y = y.view;
        std::size_t next = 0;
        const double r = static_cast<double>(rows);
        const Work work = {static_cast<double>(bytes) + r * static_cast<double>(in + out) * 4,
                           2 * r * static_cast<double>(in) * static_cast<double>(out), type};
        measure(state, bench, work, [&] {
          args.weight = weights[next++ % weights.size()].get();
          bench.stream().gemm(args);
        });
      });
}

void add_gemm(Bench& bench, const std::string& name, std::int64_t rows, std::int64_t in,
              std::int64_t out, DType type, Activation activation = Activation::kNone) {
  add("gemm/" + name + "/" + std::string(name_of(type)) + "/rows:" + std::to_string(rows),
      [=, &bench](benchmark::State& state) {
        constexpr std::int64_t kRotated = 1'500'000'000;
        const std::int64_t bytes = out * in * static_cast<std::int64_t>(size_of(type));
        const std::int64_t copies =
            rows > 16 ? 2 : std::max<std::int64_t>(2, (kRotated + bytes - 1) / bytes);
        const Activations source(1024, in);
        std::vector<StoredMatrix> parts;
        for (std::int64_t row = 0; row < out; row += 1024)
          parts.emplace_back(source.view.row_range(0, std::min<std::int64_t>(1024, out - row)));
        std::vector<std::unique_ptr<PackedWeight>> weights;
        for (std::int64_t i = 0; i < copies; ++i)
          weights.push_back(bench.device->pack(parts, type));
        const Activations x(rows, in);
        const Activations y(rows, out);
        GemmArgs args;
        args.x = x.view;
        args.y = y.view;
        args.activation = activation;
        std::size_t next = 0;
        const double r = static_cast<double>(rows);
        const Work work = {static_cast<double>(bytes) + r * static_cast<double>(in + out) * 4,
                           2 * r * static_cast<double>(in) * static_cast<double>(out), type};
        measure(state, bench, work, [&] {
          args.weight = weights[next++ % weights.size()].get();
          bench.stream().gemm(args);
        });
      });
}

// The two products of an MLP and what is between them, as one op and as those it is made of.
// `codes`: of four bits, by rows of bytes.
void add_mlp(Bench& bench, const std::string& name, std::int64_t rows, std::int64_t in,
             std::int64_t width, bool gated, bool composed, DType type, bool codes = false) {
  add((composed ? "mlp_composed/" : "mlp/") + name + "/" + (codes ? "int4-" : "") +
          std::string(name_of(type)) + "/rows:" + std::to_string(rows),
      [=, &bench](benchmark::State& state) {
        const std::int64_t inner_cols = gated ? 2 * width : width;
        const Activations source(1, std::max(in, width));
        const auto pack = [&](std::int64_t out, std::int64_t inputs) {
          if (codes) {
            FourBitSource four(out, inputs);
            four.matrix.rounds_activations = true;
            return bench.device->pack({&four.matrix, 1}, DType::kBf16);
          }
          const std::vector<StoredMatrix> parts(static_cast<std::size_t>(out),
                                                source.view.col_range(0, inputs));
          return bench.device->pack(parts, type);
        };
        const std::int64_t elements = inner_cols * in + in * width;
        const std::int64_t copies =
            rows > 16 ? 2 : std::max<std::int64_t>(2, 750'000'000 / elements);
        std::vector<std::unique_ptr<PackedWeight>> first;
        std::vector<std::unique_ptr<PackedWeight>> second;
        for (std::int64_t i = 0; i < copies; ++i) {
          first.push_back(pack(inner_cols, in));
          second.push_back(pack(in, width));
        }
        const Activations x(rows, in);
        const Activations inner(rows, inner_cols);
        const Activations y(rows, in);
        MlpArgs args{.x = x.view,
                     .in_bias = {},
                     .activation = gated ? Activation::kSilu : Activation::kQuickGelu,
                     .out_bias = {},
                     .residual = y.view,
                     .inner = inner.view,
                     .y = y.view};
        const double r = static_cast<double>(rows);
        const Work work = {
            static_cast<double>(elements) * (codes ? 0.5 : static_cast<double>(size_of(type))) +
                r * static_cast<double>(in) * 12,
            2 * r * static_cast<double>(elements), type};
        std::size_t next = 0;
        measure(state, bench, work, [&] {
          args.in = first[next % first.size()].get();
          args.out = second[next++ % second.size()].get();
          if (composed)
            bench.stream().Stream::mlp(args);
          else
            bench.stream().mlp(args);
        });
      });
}

void add_paged(Bench& bench, std::int64_t sequences, std::int64_t rows, std::int64_t context,
               DType type) {
  add("paged_attention/12x2x128/" + std::string(name_of(type)) +
          "/sequences:" + std::to_string(sequences) + "/rows:" + std::to_string(rows) +
          "/context:" + std::to_string(context),
      [=, &bench](benchmark::State& state) {
        constexpr std::int64_t kHeads = 12, kKvHeads = 2, kDim = 128, kBlock = 16, kLayers = 4;
        const std::int64_t length = context + rows;
        const std::int64_t blocks = (length + kBlock - 1) / kBlock;
        KvLayer layer;
        layer.block_size = kBlock;
        layer.kv_heads = kKvHeads;
        layer.head_dim = kDim;
        const std::int64_t elements = kv_block_elements(type, kBlock, kKvHeads, kDim);
        // Layers side by side, as a pool keeps them.
        const Buffer pool = *allocate_host(
            static_cast<std::size_t>(elements * kLayers * blocks * sequences) * size_of(type));
        const View all = pool.view(type, blocks * sequences, elements * kLayers);
        const auto blocks_of = [&](std::int64_t l) {
          return all.col_range(l * elements, (l + 1) * elements);
        };
        const AttentionGeometry geometry = {
            .block_size = kBlock, .heads = kHeads, .kv_heads = kKvHeads, .head_dim = kDim};
        std::vector<std::vector<std::int32_t>> tables;
        std::vector<SequenceSpan> fill;
        std::vector<SequenceSpan> spans;
        for (std::int64_t i = 0; i < sequences; ++i) {
          auto& table = tables.emplace_back();
          for (std::int64_t b = 0; b < blocks; ++b)
            table.push_back(static_cast<std::int32_t>(b * sequences + i));
        }
        for (std::int64_t i = 0; i < sequences; ++i) {
          const auto& table = tables[static_cast<std::size_t>(i)];
          fill.push_back({i * length, length, 0, 0, table});
          spans.push_back({i * rows, rows, context, 0, table});
        }
        const Activations k(sequences * length, kKvHeads * kDim);
        const AttentionPlan& filling = bench.stream().plan_attention(fill, geometry);
        for (std::int64_t l = 0; l < kLayers; ++l) {
          layer.blocks = blocks_of(l);
          bench.stream().kv_write({&filling, k.view, k.view, layer});
        }
        const Activations q(sequences * rows, kHeads * kDim);
        const Activations out(sequences * rows, kHeads * kDim);
        PagedAttentionArgs args;
        args.plan = &bench.stream().plan_attention(spans, geometry);
        args.q = q.view;
        args.scale = 0.0883883f;
        args.compute = type == DType::kF32 ? DType::kF32 : DType::kBf16;
        args.out = out.view;
        std::int64_t step = 0;
        const double seen = static_cast<double>(context) + static_cast<double>(rows + 1) / 2;
        const double queries = static_cast<double>(sequences * rows * kHeads);
        const std::int64_t row_bytes =
            kDim * static_cast<std::int64_t>(size_of(type)) + kv_scale_bytes(type);
        const Work work = {static_cast<double>(sequences * length * 2 * kKvHeads * row_bytes),
                           queries * seen * kDim * 4, is_coded(type) ? DType::kBf16 : type};
        measure(state, bench, work, [&] {
          layer.blocks = blocks_of(step++ % kLayers);
          args.layer = layer;
          bench.stream().paged_attention(args);
        });
        bench.stream().retire();
      });
}

void add_segment(Bench& bench, std::int64_t rows, std::int64_t segments, std::int64_t heads,
                 std::int64_t dim, DType compute) {
  add("segment_attention/" + std::to_string(heads) + "x" + std::to_string(dim) + "/" +
          std::string(name_of(compute)) + "/rows:" + std::to_string(rows) +
          "/segments:" + std::to_string(segments),
      [=, &bench](benchmark::State& state) {
        const Activations q(rows, heads * dim, 1);
        const Activations k(rows, heads * dim, 2);
        const Activations v(rows, heads * dim, 3);
        const Activations out(rows, heads * dim, 4);
        std::vector<std::int32_t> begins;
        for (std::int64_t i = 0; i <= segments; ++i)
          begins.push_back(static_cast<std::int32_t>(rows * i / segments));
        SegmentAttentionArgs args;
        args.plan = &bench.stream().plan_segments(
            begins, {.heads = heads, .kv_heads = heads, .head_dim = dim});
        args.q = q.view;
        args.k = k.view;
        args.v = v.view;
        args.scale = 0.1f;
        args.compute = compute;
        args.out = out.view;
        const double r = static_cast<double>(rows);
        const Work work = {
            r * static_cast<double>(heads * dim) * 16,
            4 * r * r / static_cast<double>(segments) * static_cast<double>(heads * dim), compute};
        measure(state, bench, work, [&] { bench.stream().segment_attention(args); });
        bench.stream().retire();
      });
}

// An op bound by the activations that it reads and writes; `touched` is floats an element.
void add_rows(Bench& bench, const std::string& name, std::int64_t rows, std::int64_t cols,
              double touched, const std::function<void(Stream&, View, View, View)>& op) {
  add(name + "/cols:" + std::to_string(cols) + "/rows:" + std::to_string(rows),
      [=, &bench](benchmark::State& state) {
        const Activations a(rows, cols, 1);
        const Activations b(rows, cols, 2);
        const Activations c(rows, cols, 3);
        const Work work = {static_cast<double>(rows * cols) * touched * 4, 0, DType::kF32};
        measure(state, bench, work, [&] { op(bench.stream(), a.view, b.view, c.view); });
      });
}

void add_all_rows(Bench& bench) {
  static const Activations weight(1, 8960);
  for (const std::int64_t rows : {1, 512}) {
    add_rows(bench, "rms_norm+add", rows, 1536, 4, [](Stream& cpu, View a, View b, View c) {
      NormArgs args;
      args.x = a;
      args.add = b;
      args.weight = weight.view.col_range(0, 1536);
      args.out = c;
      cpu.norm(args);
    });
    add_rows(bench, "gated_silu", rows, 8960, 3,
             [](Stream& cpu, View a, View b, View c) { cpu.gated({a, b, Activation::kSilu, c}); });
    add_rows(bench, "gated_gelu_erf", rows, 8960, 3, [](Stream& cpu, View a, View b, View c) {
      cpu.gated({a, b, Activation::kGeluErf, c});
    });
    add_rows(bench, "rope", rows, 1536, 2, [](Stream& cpu, View a, View b, View c) {
      cpu.rope({a, 128, b.col_range(0, 64), c.col_range(0, 64)});
    });
    add_rows(bench, "add", rows, 1536, 3,
             [](Stream& cpu, View a, View b, View) { cpu.add(a, b, 1.0f); });
    add_rows(bench, "softcap", rows, 8960, 2,
             [](Stream& cpu, View a, View, View) { cpu.softcap(a, 30.0f); });
  }
  for (const std::int64_t rows : {1, 8}) {
    add_rows(bench, "row_stats", rows, 151936, 2, [](Stream& cpu, View a, View, View) {
      std::vector<RowStats> stats(static_cast<std::size_t>(a.rows()));
      cpu.row_stats(a, View(stats.data(), DType::kU8, a.rows(), sizeof(RowStats)));
    });
  }
  add_rows(bench, "layer_norm", 5476, 1280, 3, [](Stream& cpu, View a, View, View c) {
    NormArgs args;
    args.x = a;
    args.weight = weight.view.col_range(0, 1280);
    args.bias = weight.view.col_range(0, 1280);
    args.subtract_mean = true;
    args.out = c;
    cpu.norm(args);
  });
}

// The shapes of Qwen2-VL-2B: 28 layers of width 1536, and a vision tower of 32 layers of width
// 1280, which sees a 448 x 448 image as 1024 patches and a 1024 x 1024 one as 5476.
void add_all(Bench& bench) {
  add_roofs(bench);
  for (const DType type : {DType::kI8, DType::kBf16, DType::kF32}) {
    for (const std::int64_t rows : {1, 2, 4, 8, 12, 16, 32, 512}) {
      add_four_bit_gemm(bench, "qkv:1536x2048", rows, 1536, 2048, type);
      add_four_bit_gemm(bench, "gate_up:1536x17920", rows, 1536, 17920, type);
      add_four_bit_gemm(bench, "down:8960x1536", rows, 8960, 1536, type);
    }
  }
  for (const bool composed : {true, false})
    add_mlp(bench, "1536x8960", 512, 1536, 8960, true, composed, DType::kI8, true);
  for (const DType type : {DType::kI8, DType::kBf16, DType::kF32}) {
    for (const std::int64_t rows : {1, 2, 4, 8, 512}) {
      add_gemm(bench, "qkv:1536x2048", rows, 1536, 2048, type);
      add_gemm(bench, "gate_up:1536x17920", rows, 1536, 17920, type);
      add_gemm(bench, "down:8960x1536", rows, 8960, 1536, type);
      if (rows <= 8 && type != DType::kF32)
        add_gemm(bench, "lm_head:1536x151936", rows, 1536, 151936, type);
    }
    for (const std::int64_t rows : {1024, 5476}) {
      add_gemm(bench, "vision_qkv:1280x3840", rows, 1280, 3840, type);
      add_gemm(bench, "vision_mlp:1280x5120", rows, 1280, 5120, type, Activation::kQuickGelu);
    }
    add_gemm(bench, "vision_patch:1176x1280", 1024, 1176, 1280, type);
    for (const bool composed : {true, false}) {
      for (const std::int64_t rows : {1, 8, 512})
        add_mlp(bench, "1536x8960", rows, 1536, 8960, true, composed, type);
      for (const std::int64_t rows : {1024, 5476})
        add_mlp(bench, "vision:1280x5120", rows, 1280, 5120, false, composed, type);
    }
  }
  for (const DType type : {DType::kBf16, DType::kF32, DType::kI8, DType::kE4m3}) {
    add_paged(bench, 1, 1, 1000, type);
    add_paged(bench, 1, 1, 16000, type);
    add_paged(bench, 8, 1, 1000, type);
    add_paged(bench, 1, 512, 0, type);
    add_paged(bench, 1, 512, 2048, type);
  }
  for (const DType type : {DType::kBf16, DType::kF32}) {
    add_segment(bench, 1024, 1, 16, 80, type);
    add_segment(bench, 5476, 1, 16, 80, type);
    add_segment(bench, 1024, 16, 16, 80, type);
    add_segment(bench, 1024, 1, 16, 72, type);
    add_segment(bench, 1024, 1, 16, 64, type);
  }
  add_all_rows(bench);
}

int run(int argc, char** argv) {
  std::string isa;
  int threads = 0;
  std::vector<std::string> passed = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--isa" && i + 1 < argc) {
      isa = argv[++i];
    } else if (flag == "--threads" && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else if (flag == "--json" && i + 1 < argc) {
      passed.push_back(std::string("--benchmark_out=") + argv[++i]);
      passed.emplace_back("--benchmark_out_format=json");
    } else {
      passed.push_back(flag);
    }
  }
  std::vector<char*> pointers;
  for (std::string& argument : passed) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());

  Bench bench;
  auto device = make_cpu_device(threads, isa);
  auto chosen = cpu::choose_isa(isa);
  if (!device || !chosen) {
    std::fprintf(stderr, "kernel_bench: %s\n", device.error().message.c_str());
    return 1;
  }
  bench.device = std::move(*device);
  bench.isa = *chosen;
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 1;
  benchmark::AddCustomContext("backend", bench.device->description());
  add_all(bench);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace saccade

int main(int argc, char** argv) { return saccade::run(argc, argv); }

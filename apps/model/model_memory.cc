// `saccade model memory`: what a model's cache does under a trace, for every policy, without the
// model.
#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "apps/flags/size_flag.h"
#include "apps/memory_plot.h"
#include "apps/model/model_commands.h"
#include "bench/traces/trace.h"
#include "memory/prefix/cache_shape.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxTokens = std::size_t{1} << 24;  // of one request

struct MemoryFlags {
  std::string shape;
  std::vector<std::string> policies = {"jenga", "maxpage", "static", "paged"};
  std::string trace;
  std::vector<std::int64_t> uniform;  // text, image, output tokens
  std::int64_t requests = 1000;
  std::int64_t images = 0;
  std::int64_t image_tokens = 0;
  std::int64_t max_model_len = 0;
  std::uint64_t memory_bytes = 0;
  std::int64_t block_size = 16;
  std::int64_t max_sequences = 256;
  std::int64_t max_batched_tokens = 2048;
  std::int64_t sample_every = 32;
  bool prefix_caching = true;
  std::string plot;
};

// Requests, and the trace that their prefixes point into.
struct Workload {
  bench::Trace trace;
  std::vector<ReplayRequest> requests;
  std::int64_t too_long = 0;
};

Result<Workload> load(const MemoryFlags& flags, const CacheShape& shape) {
  Workload workload;
  if (flags.trace.empty() == flags.uniform.empty()) {
    return fail(ErrorCode::kInvalid, "give either --trace or --uniform");
  }
  if (!flags.uniform.empty()) {
    ReplayRequest request;
    request.text_tokens = flags.uniform[0];
    request.image_tokens = flags.uniform[1];
    request.output_tokens = flags.uniform[2];
    const std::int64_t count = std::max<std::int64_t>(1, flags.requests);
    workload.requests.assign(static_cast<std::size_t>(count), request);
    return workload;
  }
  TRY(workload.trace, bench::read_trace(flags.trace));
  const std::int64_t image_tokens =
      flags.image_tokens > 0 ? flags.image_tokens : shape.image_tokens;
  for (const bench::TraceRow& row : workload.trace.rows) {
    if (row.input_tokens < 0 || row.output_tokens < 0) {
      return fail(ErrorCode::kInvalid, "{} has no lengths", flags.trace);
    }
    ReplayRequest request;
    request.text_tokens = std::max<std::int64_t>(1, row.input_tokens);
    request.image_tokens = image_tokens * (row.num_images >= 0 ? row.num_images : flags.images);
    request.output_tokens = std::max<std::int64_t>(1, row.output_tokens);
    request.prefix = workload.trace.hashes_of(row);
    const std::int64_t length = request.text_tokens + request.image_tokens + request.output_tokens;
    const auto limit =
        flags.max_model_len > 0 ? flags.max_model_len : static_cast<std::int64_t>(kMaxTokens);
    if (length > limit) {
      ++workload.too_long;
      continue;
    }
    workload.requests.push_back(request);
    if (static_cast<std::int64_t>(workload.requests.size()) == flags.requests) break;
  }
  if (workload.requests.empty()) {
    return fail(ErrorCode::kInvalid, "{} has no request of at most {} tokens", flags.trace,
                flags.max_model_len);
  }
  return workload;
}

ReplaySettings settings_of(const MemoryFlags& flags, const Workload& workload, KvPolicy policy) {
  ReplaySettings settings;
  settings.kv.plan.policy = policy;
  settings.kv.plan.block_tokens = flags.block_size;
  settings.kv.plan.state_interval =
      flags.prefix_caching ? (511 / flags.block_size + 1) * flags.block_size : 0;
  settings.kv.plan.max_sequences = flags.max_sequences;
  // As engines that set embeddings aside do it: room for a step's tokens or the largest image.
  for (const ReplayRequest& request : workload.requests) {
    settings.kv.plan.embedding_tokens =
        std::max(settings.kv.plan.embedding_tokens, request.image_tokens);
  }
  if (settings.kv.plan.embedding_tokens > 0) {
    settings.kv.plan.embedding_tokens =
        std::max(settings.kv.plan.embedding_tokens, flags.max_batched_tokens);
  }
  settings.kv.pool_bytes = static_cast<std::int64_t>(flags.memory_bytes);
  settings.kv.prefix_caching = flags.prefix_caching;
  settings.max_batched_tokens = flags.max_batched_tokens;
  settings.sample_every = flags.sample_every;
  return settings;
}

void print_head(const MemoryFlags& flags, const CacheShape& shape, const Workload& workload) {
  double text = 0;
  double image = 0;
  double output = 0;
  for (const ReplayRequest& request : workload.requests) {
    text += static_cast<double>(request.text_tokens);
    image += static_cast<double>(request.image_tokens);
    output += static_cast<double>(request.output_tokens);
  }
  const auto n = static_cast<double>(workload.requests.size());
  std::printf("%s: %s\n", shape.name.c_str(), shape.source.c_str());
  std::printf(
      "%zu requests, all waiting from the start: on average %.0f text, %.0f image and "
      "%.0f output tokens",
      workload.requests.size(), text / n, image / n, output / n);
  if (workload.too_long > 0)
    std::printf("; %lld longer than %lld left out", static_cast<long long>(workload.too_long),
                static_cast<long long>(flags.max_model_len));
  std::printf(
      "\npool %.2f GB, blocks of %lld tokens, %lld tokens a step, at most %lld sequences, "
      "prefix caching %s\n\n",
      static_cast<double>(flags.memory_bytes) / 1e9, static_cast<long long>(flags.block_size),
      static_cast<long long>(flags.max_batched_tokens), static_cast<long long>(flags.max_sequences),
      flags.prefix_caching ? "on" : "off");
}

void print_table(const std::vector<std::pair<std::string, ReplayReport>>& reports) {
  std::printf("per cent of the pool, mean while requests waited for room\n");
  std::printf("%-8s %7s %7s %7s %9s %6s %6s %6s %8s | %12s\n", "policy", "useful", "cached", "free",
              "overhold", "slack", "tail", "pad", "reserve", "waste of held");
  for (const auto& [name, report] : reports) {
    const MemoryUse& use = report.mean;
    const auto share = [&](std::int64_t bytes) {
      return 100.0 * static_cast<double>(bytes) / static_cast<double>(use.total());
    };
    std::printf("%-8s %7.2f %7.2f %7.2f %9.2f %6.2f %6.2f %6.2f %8.2f | %11.2f %%\n", name.c_str(),
                share(use.useful), share(use.cached), share(use.free), share(use.overhold),
                share(use.slack), share(use.tail), share(use.pad), share(use.reserve),
                100 * report.waste());
  }
  std::printf("\n%-8s %9s %9s %9s %9s %8s %8s %12s %12s\n", "policy", "running", "most", "steps",
              "finished", "refused", "preempt", "recomputed", "prefix hits");
  for (const auto& [name, report] : reports) {
    std::printf("%-8s %9.1f %9lld %9lld %9lld %8lld %8llu %12lld %10.1f %%\n", name.c_str(),
                report.mean_running, static_cast<long long>(report.peak_running),
                static_cast<long long>(report.steps), static_cast<long long>(report.finished),
                static_cast<long long>(report.refused),
                static_cast<unsigned long long>(report.preemptions),
                static_cast<long long>(report.recomputed_tokens),
                100.0 * static_cast<double>(report.hit_tokens) /
                    static_cast<double>(std::max<std::int64_t>(1, report.prompt_tokens)));
  }
}

Result<void> memory(const MemoryFlags& flags) {
  TRY(const CacheShape shape, read_cache_shape(flags.shape));
  TRY(const Workload workload, load(flags, shape));
  print_head(flags, shape, workload);
  std::vector<std::pair<std::string, ReplayReport>> reports;
  for (const std::string& name : flags.policies) {
    const KvPolicy policy = find_named(kKvPolicies, name)->value;  // checked as it was written
    auto report = replay(shape.layers, workload.requests, settings_of(flags, workload, policy));
    if (!report) {
      std::printf("%s: %s\n", name.c_str(), report.error().message.c_str());
      continue;
    }
    std::printf("%s\n", report->plan.c_str());
    reports.emplace_back(name, *std::move(report));
  }
  if (reports.empty()) return fail(ErrorCode::kTooLarge, "no policy fits the pool");
  std::printf("\n");
  print_table(reports);
  if (flags.plot.empty()) return {};
  std::ofstream file(flags.plot);
  file << plot_replays(
      fmt::format("{}, {} requests, pool of {:.1f} GB", shape.name, workload.requests.size(),
                  static_cast<double>(flags.memory_bytes) / 1e9),
      reports);
  file.close();
  if (!file) return fail(ErrorCode::kInvalid, "cannot write {}", flags.plot);
  return {};
}

}  // namespace

void add_model_memory(CLI::App& model, int& exit_code) {
  auto flags = std::make_shared<MemoryFlags>();
  CLI::App* const command = model.add_subcommand(
      "memory", "Replay a trace against the KV allocator alone: utilisation and waste by policy");
  command->add_option("SHAPE", flags->shape, "what the layers keep: a file as in data/shapes")
      ->required();
  command->add_option("--policy", flags->policies, "jenga, maxpage, static, paged")
      ->delimiter(',')
      ->check(CLI::IsMember({"jenga", "maxpage", "static", "paged"}))
      ->capture_default_str();
  command->add_option("--trace", flags->trace, "Azure or BurstGPT CSV, Mooncake JSON lines");
  command
      ->add_option("--uniform", flags->uniform,
                   "TEXT,IMAGE,OUTPUT: equal requests of so many tokens, instead of a trace")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::Range(0, 1 << 24));
  command
      ->add_option("--requests", flags->requests,
                   "how many: of the trace its first, 0 all; of --uniform at least 1")
      ->capture_default_str()
      ->check(CLI::Range(0, 10'000'000));
  command->add_option("--images", flags->images, "images a request where the trace does not say")
      ->check(CLI::Range(0, 1000));
  command->add_option("--image-tokens", flags->image_tokens, "of an image; 0: the shape's")
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--max-model-len", flags->max_model_len, "leave out longer requests; 0: none")
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--memory-bytes", flags->memory_bytes, "of the KV pool, as 40GiB")
      ->required()
      ->transform(as_bytes())
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 42));
  command->add_option("--block-size", flags->block_size, "tokens of a block of the cache")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command->add_option("--max-num-seqs", flags->max_sequences, "most requests at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16));
  command
      ->add_option("--max-num-batched-tokens", flags->max_batched_tokens, "most tokens of one step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--sample-every", flags->sample_every, "steps between exact measurements")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", flags->prefix_caching,
                    "keep what prompts begin with");
  command->add_option("--plot", flags->plot, "SVG to write");
  command->callback([flags, &exit_code] { exit_code = report(memory(*flags)); });
}

}  // namespace saccade

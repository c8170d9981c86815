// The sampling op: what the host can work out of a row's parameters, and its lists.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/shapes.h"

namespace saccade::cuda {

static_assert(sizeof(SampledEntry) == sizeof(SampledToken));
static_assert(sizeof(AlternativeEntry) == sizeof(TokenLogit));

// Made at the first use, when the size of the vocabulary is known.
std::int32_t* CudaStream::counts_of(TokenCounts& counts, std::int64_t vocab) {
  auto& of = static_cast<CudaTokenCounts&>(counts);
  if (of.counts_ != nullptr) {
    CHECK(of.vocab_ == vocab, "counts of {} tokens, logits of {}", of.vocab_, vocab);
    return of.counts_;
  }
  auto& spares = device_.spare_counts_;
  const auto spare =
      std::find_if(spares.begin(), spares.end(), [&](const auto& at) { return at.vocab == vocab; });
  const std::size_t bytes = static_cast<std::size_t>(vocab) * sizeof(std::int32_t);
  if (spare != spares.end()) {
    of.counts_ = spare->counts;
    spares.erase(spare);
  } else {
    of.counts_ = reinterpret_cast<std::int32_t*>(runtime_.allocate(bytes));
    if (of.counts_ == nullptr)
      throw DeviceFailed(fmt::format("no {} bytes on the device for a sequence's counts", bytes));
  }
  of.vocab_ = vocab;
  runtime_.zero(reinterpret_cast<std::byte*>(of.counts_), bytes, stream_);
  const std::int32_t* const prompt = send_list(std::span<const std::int32_t>(of.prompt_));
  flush();
  launch_count_prompt({.prompt = prompt,
                       .tokens = static_cast<std::int64_t>(of.prompt_.size()),
                       .counts = of.counts_,
                       .vocab = vocab},
                      launching());
  of.prompt_ = {};
  return of.counts_;
}

SampleKernelRow CudaStream::sample_row(const SampleArgs& args, std::size_t index) {
  const SamplingRow& row = args.rows[index];
  const auto at = static_cast<std::int64_t>(index);
  SampleKernelRow kernel;
  kernel.row = row.row;
  kernel.allowed = send_list(row.allowed);
  kernel.allowed_words = static_cast<std::int32_t>(row.allowed.size());
  for (std::size_t list = 0; list < row.masked.size(); ++list) {
    kernel.masked[list] = send_list(row.masked[list]);
    kernel.masked_count[list] = static_cast<std::int32_t>(row.masked[list].size());
  }
  std::vector<TokenBias> bias;
  for (const auto& [token, value] : row.bias) bias.push_back({token, value});
  kernel.bias = send_list(std::span<const TokenBias>(bias));
  kernel.bias_count = static_cast<std::int32_t>(bias.size());
  if (row.counts != nullptr && row.given < 0)
    kernel.counts = counts_of(*row.counts, args.logits.cols());
  kernel.repetition_penalty = row.repetition_penalty;
  kernel.frequency_penalty = row.frequency_penalty;
  kernel.presence_penalty = row.presence_penalty;
  kernel.adjusts = row.adjusts() && row.given < 0;
  kernel.greedy = row.temperature < kGreedyTemperature;
  // Above 0 at any temperature: what is masked stays so.
  kernel.scale = static_cast<float>(std::max<double>(
      1.0 / std::max(row.temperature, kLeastTemperature), std::numeric_limits<float>::min()));
  kernel.floor = row.min_p > 0 ? static_cast<float>(std::log(row.min_p))
                               : std::numeric_limits<float>::lowest();
  kernel.top_k = row.top_k;
  kernel.top_p = row.top_p;
  kernel.uniform = Rng(row.draw).uniform();
  kernel.alternatives = row.alternatives;
  kernel.given = row.given;
  kernel.sampled = reinterpret_cast<SampledEntry*>(
      args.sampled.data() + static_cast<std::size_t>(at) * args.sampled.row_bytes());
  if (row.alternatives > 0)
    kernel.list = reinterpret_cast<AlternativeEntry*>(
        args.alternatives.data() + static_cast<std::size_t>(at) * args.alternatives.row_bytes());
  if (row.slot >= 0)
    kernel.last_token = reinterpret_cast<std::int32_t*>(args.last_tokens.data() +
                                                        static_cast<std::size_t>(row.slot) *
                                                            args.last_tokens.row_bytes());
  return kernel;
}

void CudaStream::sample(const SampleArgs& args) {
  check_shapes(args);
  if (args.rows.empty()) return;
  repeated_.interrupt();
  CHECK(args.logits.cols() < (std::int64_t{1} << 24), "a vocabulary of {}", args.logits.cols());
  std::vector<SampleKernelRow> rows;
  bool adjusts = false;
  for (std::size_t i = 0; i < args.rows.size(); ++i) {
    rows.push_back(sample_row(args, i));
    adjusts = adjusts || rows.back().adjusts;
  }
  SampleKernelArgs kernel;
  kernel.logits = rows_of(args.logits);
  kernel.stats = reinterpret_cast<const RowStatsEntry*>(args.stats.data());
  kernel.stats_stride = args.stats.stride();
  kernel.rows = send_list(std::span<const SampleKernelRow>(rows));
  kernel.count = static_cast<std::int64_t>(rows.size());
  if (adjusts)
    kernel.scratch = reinterpret_cast<float*>(logits_.reserve(
        rows.size() * static_cast<std::size_t>(args.logits.cols()) * sizeof(float)));
  flush();
  launch_sample(kernel, launching());
}

}  // namespace saccade::cuda

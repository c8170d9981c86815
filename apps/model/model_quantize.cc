// `saccade model quantize`: a checkpoint's text layers as integers of four or eight bits, on disk.
#include <array>
#include <memory>
#include <string>

#include "apps/flags/choice_flag.h"
#include "apps/model/model_commands.h"
#include "base/progress.h"
#include "base/threads/end_signals.h"
#include "base/threads/processors.h"
#include "model/quantization/quantize_checkpoint.h"

namespace saccade {
namespace {

constexpr std::array<Named<int>, 2> kBits{{{"int8", 8}, {"int4", 4}}};

struct QuantizeFlags {
  std::string model;
  int threads = 0;
  QuantizeOptions options;
};

constexpr int kQuantizeInterrupted = 130;  // as shells have it

Result<void> quantize(QuantizeFlags& flags) {
  TRY(const std::string directory, resolve_checkpoint(flags.model));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  QuantizeOptions& options = flags.options;
  const std::string kind(name_in(kBits, options.bits));
  stop_in_order();
  const std::atomic<bool>& stop = stop_flag();
  options.stopped = [&stop] { return stop.load(); };
  Progress progress("rounding to " + kind);
  options.progress = [&](std::size_t done, std::size_t total) {
    progress.show(static_cast<double>(done) / static_cast<double>(total), done, "");
  };
  ThreadPool pool(flags.threads > 0 ? flags.threads : find_processors().compute_threads());
  const auto outcome = quantize_checkpoint(checkpoint, options, pool);
  progress.end();
  if (!outcome) return tl::unexpected<Error>(outcome.error());
  std::printf("%s: %zu matrices in %s%s, %.3f GB before, %.3f GB after\n",
              options.directory.c_str(), outcome->matrices, kind.c_str(),
              outcome->left == 0
                  ? ""
                  : fmt::format(" ({} left as they were: their inputs are no multiple of 32)",
                                outcome->left)
                        .c_str(),
              static_cast<double>(outcome->bytes_before) / 1e9,
              static_cast<double>(outcome->bytes_after) / 1e9);
  return {};
}

}  // namespace

void add_model_quantize(CLI::App& model, int& exit_code) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* const command = model.add_subcommand(
      "quantize",
      "Write a checkpoint again with its text layers in 4 or 8 bits (compressed-tensors), as "
      "`serve --quantization` rounds them while loading");
  command->add_option("model", flags->model, "checkpoint: a folder, or ORG/NAME in HF_HOME")
      ->required();
  command->add_option("out", flags->options.directory, "folder to write: not there yet, or empty")
      ->required();
  add_choice(*command, "--quantization", flags->options.bits, kBits,
             "int8: bytes, a scale an output, activations too (W8A8); int4: groups of inputs "
             "(W4A16)")
      ->required();
  command
      ->add_option("--group-size", flags->options.group,
                   "of int4: inputs that share a scale; a matrix that they do not divide takes "
                   "half, or a quarter")
      ->capture_default_str()
      ->check(CLI::IsMember({128, 64, 32}));
  command->add_flag("--quantize-head", flags->options.head,
                    "of int8: the head too, where it is not the embedding");
  command->add_option("--threads", flags->threads, "0: one a core")->check(CLI::Range(0, 1024));
  command->callback([flags, &exit_code] {
    const Result<void> outcome = quantize(*flags);
    exit_code = report(outcome);
    if (!outcome && outcome.error().code == ErrorCode::kCancelled) exit_code = kQuantizeInterrupted;
  });
}

}  // namespace saccade

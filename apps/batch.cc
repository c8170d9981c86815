// saccade batch: a file of requests, answered without a server.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "apps/commands.h"
#include "apps/flags/serve_flags.h"
#include "apps/flags/vllm_flags.h"
#include "base/log.h"
#include "batch/batch_run.h"

namespace saccade {
namespace {

constexpr int kSomeFailed = 1;
constexpr int kInterrupted = 130;  // as a shell has it of Ctrl-C

struct BatchFlags {
  ServeFlags server;
  batch::BatchSettings files;
  bool no_progress = false;
};

// "[######..............] 30/100, 2 errors, 4.1/s, 17 s left", over itself.
class ProgressLine {
 public:
  void show(const batch::BatchCounts& counts) {
    using std::chrono::steady_clock;
    const auto now = steady_clock::now();
    if (!began_) began_ = now;
    if (shown_ && now - *shown_ < std::chrono::milliseconds(200)) return;
    shown_ = now;
    const std::int64_t answered = counts.before + counts.done;
    const std::int64_t filled = counts.lines > 0 ? kWidth * answered / counts.lines : kWidth;
    std::string line = fmt::format("\r\033[K[{:#<{}}{:.<{}}] {}/{}", "", filled, "",
                                   kWidth - filled, answered, counts.lines);
    if (counts.errors > 0) line += fmt::format(", {} errors", counts.errors);
    const double seconds = std::chrono::duration<double>(now - *began_).count();
    if (counts.done > 0 && seconds > 0) {
      const double rate = static_cast<double>(counts.done) / seconds;
      line += fmt::format(", {:.1f}/s, {:.0f} s left", rate,
                          static_cast<double>(counts.lines - answered) / rate);
    }
    if (counts.interrupted) line += ", ending";
    std::fputs(line.c_str(), stderr);
  }
  void clear() const {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  static constexpr std::int64_t kWidth = 24;
  std::optional<std::chrono::steady_clock::time_point> began_;
  std::optional<std::chrono::steady_clock::time_point> shown_;
};

Result<int> run_batch(BatchFlags& flags) {
  TRY_DO(complete(flags.server));
  for (const std::string& notice : flags.server.notices) log::info("{}", notice);
  TRY_DO(batch::check_files(flags.files));
  TRY_DO(fetch_checkpoint(flags.server));
  const serve::ServeSettings& settings = flags.server.settings;
  // As many again as run wait, so that none of the places is ever empty.
  flags.files.max_in_flight = static_cast<std::size_t>(settings.engine.max_sequences) * 2;
  flags.files.max_line_bytes = settings.max_body_bytes;
  flags.files.drain_time = settings.drain_time;

  const bool terminal = !flags.no_progress && ::isatty(STDERR_FILENO) == 1;
  ProgressLine line;
  batch::BatchCounts counts;
  TRY_DO(serve::run_offline(settings, [&](const serve::Offline& server) -> Result<void> {
    auto done = batch::run_batch(flags.files, server, [&](const batch::BatchCounts& so_far) {
      if (terminal) line.show(so_far);
    });
    line.clear();
    TRY(counts, std::move(done));
    return {};
  }));
  fmt::print(stderr, "{}: {} of {} lines answered, {} of them before, {} with an error\n",
             flags.files.output, counts.before + counts.done, counts.lines, counts.before,
             counts.errors);
  if (counts.interrupted) {
    fmt::print(stderr, "interrupted: the same command goes on from here\n");
    return kInterrupted;
  }
  return counts.errors > 0 ? kSomeFailed : 0;
}

}  // namespace

void add_batch(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<BatchFlags>();
  auto seen = std::make_shared<VllmFlagsSeen>();
  CLI::App* cmd = app.add_subcommand(
      "batch", "answer a file of requests (OpenAI's batch JSONL) without a server");
  cmd->alias("run-batch");
  cmd->add_option("input,-i,--input-file", flags->files.input,
                  "JSONL file: a request per line, with custom_id, method, url and body")
      ->required();
  cmd->add_option(
         "-o,--output,--output-file", flags->files.output,
         "JSONL file to append an answer per line to; requests that it has already are skipped")
      ->required();
  cmd->add_flag("--disable-tqdm", flags->no_progress, "show no progress line");
  add_offline_flags(*cmd, flags->server);
  add_log_flags(*cmd, flags->server);
  add_vllm_flags(*cmd, *seen);
  cmd->callback([flags, seen, &exit_code] {
    for (const std::string& refusal : seen->refusals) log::error("{}", refusal);
    if (!seen->refusals.empty()) {
      exit_code = 2;
      return;
    }
    for (const std::string& notice : seen->notices) log::info("{}", notice);
    const Result<int> done = run_batch(*flags);
    exit_code = done ? *done : 1;
    if (!done) log::error("{}", done.error().message);
  });
}

}  // namespace saccade

// saccade fit: which models this machine holds, as what, and how fast one answer is written.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "base/host_memory.h"
#include "base/json.h"
#include "base/threads/processors.h"
#include "model/checkpoint/checkpoint.h"
#include "model/dummies/dummy_sizes.h"
#include "model/weight_memory.h"
#include "ops/cpu/read_bandwidth.h"
#include "ops/device.h"
#include "serve/assembly/quantization_choice.h"

namespace saccade {
namespace {

struct FitFlags {
  std::vector<std::string> models;
  bool text = false;
  bool json = false;
};

// A way to keep weights.
struct Way {
  std::string_view name;
  LoadOptions options;
};

// As `serve --quantization` takes them on this device.
LoadOptions rounded(LoadOptions options, const Device& device) {
  serve::choose_fastest(device, options);
  return options;
}

using Ways = std::array<Way, 3>;
Ways ways_on(const Device& device) {
  return {{{"bf16", {}},
           {"int8", rounded({.text_layers = DType::kI8}, device)},
           {"int4", rounded({.four_bit_text = true}, device)}}};
}

struct Machine {
  Ways ways;
  double free = 0;       // bytes
  double bandwidth = 0;  // bytes a second
  int threads = 0;
};

struct Fit {
  bool fits = false;
  double bytes = 0;   // weights
  double tokens = 0;  // a second, one sequence
};

struct Row {
  std::string name;
  bool sees = false;  // has a vision tower
  std::array<Fit, 3> ways;
};

// Beside the weights: keys and values of some sequences, images, activations.
constexpr double kBeside = 1.5e9;

Result<Row> row_of(std::string name, const Checkpoint& checkpoint, const Machine& machine) {
  TRY(const ParameterCounts parameters, parameter_counts(checkpoint));
  Row row{std::move(name), parameters.tower > 0, {}};
  std::ranges::transform(machine.ways, row.ways.begin(), [&](const Way& way) {
    Fit fit;
    fit.bytes = weight_bytes(parameters, way.options);
    fit.fits = fit.bytes + kBeside <= machine.free;
    fit.tokens = 1 / token_seconds(parameters, way.options, machine.bandwidth);
    return fit;
  });
  return row;
}

// Every published size of every family that takes images, or with `text` of those that do not too.
Result<std::vector<Row>> published_rows(const Machine& machine, bool text) {
  std::vector<Row> rows;
  for (const Family* family : families()) {
    if (family->create == nullptr) continue;
    for (const std::string_view size : dummy_sizes(family->name)) {
      if (size.find("tiny") != std::string_view::npos || size.ends_with("-hf")) continue;
      TRY(const Checkpoint checkpoint, published_checkpoint(*family, size));
      TRY(rows.emplace_back(),
          row_of(fmt::format("{} {}", family->name, size), checkpoint, machine));
    }
  }
  if (!text) std::erase_if(rows, [](const Row& row) { return !row.sees; });
  std::ranges::sort(rows, {}, [](const Row& row) { return row.ways[0].bytes; });
  return rows;
}

std::string fit_cell(const Fit& fit) {
  if (!fit.fits) return fmt::format("{:>6.1f} GB {:>11}", fit.bytes / 1e9, "too large");
  return fmt::format("{:>6.1f} GB {:>5.{}f} tok/s", fit.bytes / 1e9, fit.tokens,
                     fit.tokens < 10 ? 1 : 0);
}

std::string fits_text(const std::vector<Row>& rows, const Machine& machine) {
  std::string text =
      fmt::format("{:.1f} GB of memory are free; {} threads read {:.1f} GB/s\n\n{:<24}",
                  machine.free / 1e9, machine.threads, machine.bandwidth / 1e9, "");
  for (const Way& way : machine.ways) text += fmt::format("  {:>21}", way.name);
  text += "\n";
  std::size_t left_out = 0;
  for (const Row& row : rows) {
    const bool any = std::ranges::any_of(row.ways, &Fit::fits);
    left_out += any || rows.size() == 1 ? 0 : 1;
    if (!any && rows.size() > 1) continue;
    text += fmt::format("{:<24}", row.name);
    for (const Fit& fit : row.ways) text += "  " + fit_cell(fit);
    text += "\n";
  }
  if (left_out > 0) text += fmt::format("{} larger ones do not fit\n", left_out);
  return text +
         "\nGB: the weights; 1.5 GB are kept for what stands beside them. tok/s: of one answer, "
         "expected from the\nbandwidth measured just now; several at once are faster together. "
         "int8 and int4: `saccade serve MODEL --quantization int8`\n";
}

std::string fits_json(const std::vector<Row>& rows, const Machine& machine) {
  std::string text;
  json::JsonWriter w(text);
  w.begin_object();
  w.member("free_bytes", machine.free);
  w.member("read_bytes_per_second", machine.bandwidth);
  w.member("threads", machine.threads);
  w.key("models");
  w.begin_array();
  for (const Row& row : rows) {
    w.begin_object();
    w.member("model", std::string_view(row.name));
    for (std::size_t i = 0; i < row.ways.size(); ++i) {
      w.key(machine.ways[i].name);
      w.begin_object();
      w.member("fits", row.ways[i].fits);
      w.member("weight_bytes", row.ways[i].bytes);
      w.member("tokens_per_second", row.ways[i].tokens);
      w.end_object();
    }
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return text + "\n";
}

Result<void> fit(const FitFlags& flags) {
  // A name that is wrong is said before the machine is measured.
  std::vector<Checkpoint> checkpoints;
  for (const std::string& name : flags.models) {
    TRY(const std::string directory, resolve_checkpoint(name));
    TRY(Checkpoint checkpoint, open_checkpoint(directory));
    checkpoints.push_back(std::move(checkpoint));
  }
  Machine machine;
  machine.free = static_cast<double>(available_host_bytes());
  machine.threads = find_processors().compute_threads();
  TRY(const auto device, make_cpu_device(machine.threads));
  machine.ways = ways_on(*device);
  TRY(machine.bandwidth, cpu::measure_read_bandwidth(device->pool()));
  std::vector<Row> rows;
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    TRY(rows.emplace_back(), row_of(flags.models[i], checkpoints[i], machine));
  }
  if (flags.models.empty()) {
    TRY(rows, published_rows(machine, flags.text));
  }
  std::fputs((flags.json ? fits_json(rows, machine) : fits_text(rows, machine)).c_str(), stdout);
  return {};
}

}  // namespace

void add_fit(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<FitFlags>();
  CLI::App* cmd = app.add_subcommand(
      "fit", "which models this machine holds, in which precision, and how fast it would answer");
  cmd->add_option("MODEL", flags->models,
                  "checkpoints: folders, or ORG/NAME in the Hugging Face cache; without any: all "
                  "published sizes of the families with vision");
  cmd->add_flag("--text", flags->text, "without MODEL, list text-only families too");
  cmd->add_flag("--json", flags->json, "print JSON");
  cmd->callback([flags, &exit_code] {
    const Result<void> done = fit(*flags);
    if (!done) std::fprintf(stderr, "saccade fit: %s\n", done.error().message.c_str());
    exit_code = done ? 0 : 1;
  });
}

}  // namespace saccade

// Speed of a whole model, in process: prefill, decode and image encoding, as shares of the
// machine's roofs, and beside a peer measured in turn with it (A B A B ...).
//   model_bench --model DIR [--runs 5] [--threads N]
//               [--peer LLAMA_BENCH --peer-model GGUF] [--peer-mtmd LLAMA_MTMD_CLI --peer-mmproj
//               GGUF] [--json FILE]
//   model_bench --model DIR --quantization int8|int4[-a8][-head][-tower] [--runs 5] ...
//               rounded at load (a8: activations before four bits; head, tower: to bytes), and in
//               turn with it the same model as it is stored
//   model_bench --model DIR --launches SIDE     what a device is asked to do instead of how fast
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "benchmarks/model/harness.h"
#include "benchmarks/model/peer.h"

namespace saccade {
namespace {

struct Arguments {
  std::string model;
  int runs = 5;
  int launches_side = 0;  // count launches of a step and of an image of this side, time nothing
  int threads = 0;
  PeerPaths peer;
  std::string json;
  std::string quantization;  // empty: as stored, and nothing beside it
};

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

// One row of the table: a speed, run by run.
struct Row {
  std::string name;
  std::string unit;  // tok/s: higher is better; ms: lower is
  std::vector<double> ours;
  std::vector<double> roof_share;  // of ours, percent
  std::vector<double> peer;
  std::vector<double> peer_roof_share;  // of the same model as stored

  void add(double value, const Timing& timing) {
    ours.push_back(value);
    roof_share.push_back(100 * timing.least_seconds / timing.seconds);
  }
  double ratio() const {
    const double ratio = quantile(ours, 0.5) / quantile(peer, 0.5);
    return unit == "ms" ? 1 / ratio : ratio;
  }
};

class ModelBench {
 public:
  // beside: the same model as it is stored, or null.
  ModelBench(const Arguments& arguments, Harness& harness, Harness* beside)
      : arguments_(arguments), harness_(harness), beside_(beside) {}

  Result<void> run() {
    if (harness_.shape().has_vision && beside_ == nullptr) {
      for (const int side : {448, 1024}) {
        TRY(PreparedImage image, harness_.noise_image(side));
        images_.emplace_back(side, std::move(image));
      }
    }
    harness_.prefill();  // pages of weights and scratch are touched once before anything counts
    if (beside_ != nullptr) beside_->prefill();
    for (int run = 0; run < arguments_.runs; ++run) {
      measure_roofs();
      if (beside_ != nullptr && run % 2 == 1) measure_beside();
      measure_ours();
      if (beside_ != nullptr && run % 2 == 0) measure_beside();
      TRY_DO(measure_peer());
      std::printf("run %d of %d done\n", run + 1, arguments_.runs);
      std::fflush(stdout);
    }
    return {};
  }

  void print() const {
    std::printf(
        "\nmedian, lowest and highest of %d runs; share of the roof (median); peer and how many "
        "times its speed\n%-18s %10s %10s %10s %7s %10s %8s\n",
        arguments_.runs, "", "median", "low", "high", "roof %", "peer", "ratio");
    for (const auto& [name, row] : rows_) {
      std::printf("%-18s %10.2f %10.2f %10.2f %7.1f", (name + " " + row.unit).c_str(),
                  quantile(row.ours, 0.5), quantile(row.ours, 0), quantile(row.ours, 1),
                  quantile(row.roof_share, 0.5));
      if (!row.peer.empty()) std::printf(" %10.2f %7.2fx", quantile(row.peer, 0.5), row.ratio());
      if (!row.peer_roof_share.empty())
        std::printf("   peer low %.2f high %.2f roof %.1f %%", quantile(row.peer, 0),
                    quantile(row.peer, 1), quantile(row.peer_roof_share, 0.5));
      std::printf("\n");
    }
    std::printf(
        "roofs, best of all runs: read %.1f GB/s, f32 %.0f GFLOP/s, bf16 %.0f GFLOP/s, int8 %.0f "
        "Gop/s\n",
        best_.read_bytes / 1e9, best_.f32_flops / 1e9, best_.bf16_flops / 1e9,
        best_.int8_ops / 1e9);
    if (!peer_version_.empty()) std::printf("peer: %s\n", peer_version_.c_str());
  }

  std::string json() const {
    std::string out;
    json::JsonWriter w(out);
    w.begin_object();
    w.member("backend", std::string_view(harness_.device().description()));
    w.member("weight_bytes", static_cast<std::int64_t>(harness_.shape().weight_bytes));
    w.member("peer", std::string_view(peer_version_));
    w.member("read_bytes_per_second", best_.read_bytes);
    w.member("f32_flops_per_second", best_.f32_flops);
    w.member("bf16_flops_per_second", best_.bf16_flops);
    w.member("int8_ops_per_second", best_.int8_ops);
    w.key("results");
    w.begin_array();
    for (const auto& [name, row] : rows_) {
      w.begin_object();
      w.member("name", std::string_view(name));
      w.member("unit", std::string_view(row.unit));
      write(w, "saccade", row.ours);
      write(w, "roof_percent", row.roof_share);
      write(w, "peer", row.peer);
      write(w, "peer_roof_percent", row.peer_roof_share);
      w.end_object();
    }
    w.end_array();
    w.end_object();
    return out;
  }

 private:
  static void write(json::JsonWriter& w, std::string_view name, const std::vector<double>& values) {
    if (values.empty()) return;
    w.key(name);
    w.begin_array();
    for (const double value : values) w.value(value);
    w.end_array();
  }

  Row& row(const std::string& name, const char* unit) {
    Row& row = rows_[name];
    row.unit = unit;
    return row;
  }
  static std::string encode_name(int side) { return fmt::format("encode {}x{}", side, side); }

  void measure_roofs() {
    harness_.measure_roofs();
    const Roofs& roofs = harness_.roofs();
    if (beside_ != nullptr) beside_->set_roofs(roofs);
    best_.read_bytes = std::max(best_.read_bytes, roofs.read_bytes);
    best_.f32_flops = std::max(best_.f32_flops, roofs.f32_flops);
    best_.bf16_flops = std::max(best_.bf16_flops, roofs.bf16_flops);
    best_.int8_ops = std::max(best_.int8_ops, roofs.int8_ops);
  }

  // As the peer's figures.
  void measure_beside() {
    const auto keep = [&](const std::string& name, double tokens, const Timing& timing) {
      Row& kept = row(name, "tok/s");
      kept.peer.push_back(tokens / timing.seconds);
      kept.peer_roof_share.push_back(100 * timing.least_seconds / timing.seconds);
      row(name + by_cpu(), "tok/s").peer.push_back(tokens / timing.cpu_seconds);
    };
    keep("prefill 512", kPrompt, beside_->prefill());
    keep("decode x1", 1, beside_->decode(1));
    keep("decode x8", kSequences, beside_->decode(kSequences));
    peer_version_ = "the same model as it is stored";
  }
  // By the processor time of a thread: what other programs take of the machine is left out.
  static const char* by_cpu() { return ", cpu"; }

  void add_tokens(const std::string& name, double tokens, const Timing& timing) {
    row(name, "tok/s").add(tokens / timing.seconds, timing);
    if (beside_ == nullptr) return;
    Row& cpu = row(name + by_cpu(), "tok/s");
    cpu.ours.push_back(tokens / timing.cpu_seconds);
    cpu.roof_share.push_back(100 * timing.least_seconds / timing.cpu_seconds);
  }

  void measure_ours() {
    const Timing prefill = harness_.prefill();
    add_tokens("prefill 512", kPrompt, prefill);
    const Timing one = harness_.decode(1);
    add_tokens("decode x1", 1, one);
    const Timing eight = harness_.decode(kSequences);
    add_tokens("decode x8", kSequences, eight);
    for (const auto& [side, image] : images_) {
      const Timing encode = harness_.encode(image);
      row(encode_name(side), "ms").add(1e3 * encode.seconds, encode);
    }
  }

  Result<void> measure_peer() {
    if (!arguments_.peer.llama_bench.empty()) {
      TRY(const PeerSpeeds speeds, run_llama_bench(arguments_.peer, kPrompt, kDecodeSteps));
      row("prefill 512", "tok/s").peer.push_back(speeds.prefill);
      row("decode x1", "tok/s").peer.push_back(speeds.decode);
      peer_version_ = speeds.version;
    }
    if (!arguments_.peer.mtmd.empty()) {
      for (const auto& [side, image] : images_) {
        TRY(const double ms, run_mtmd_encode(arguments_.peer, side));
        row(encode_name(side), "ms").peer.push_back(ms);
      }
    }
    return {};
  }

  const Arguments& arguments_;
  Harness& harness_;
  Harness* beside_;
  std::vector<std::pair<int, PreparedImage>> images_;
  std::map<std::string, Row> rows_;
  Roofs best_;
  std::string peer_version_;
};

// What a device is asked to do for one decode step, and for one image.
Result<void> count_launches(const Arguments& arguments, Harness& harness) {
  const Timing step = harness.decode(1);
  std::printf("%s decode %lld %lld", harness.shape().family.c_str(),
              static_cast<long long>(step.launches), static_cast<long long>(step.uploads));
  if (harness.shape().has_vision) {
    const int side = arguments.launches_side;
    TRY(const PreparedImage image, harness.noise_image(side));
    const Timing encode = harness.encode(image);
    std::printf(" image %dx%d %lld %lld", side, side, static_cast<long long>(encode.launches),
                static_cast<long long>(encode.uploads));
  }
  std::printf("\n");
  return {};
}

// --quantization's words.
Result<LoadOptions> rounded_as(const std::string& text) {
  LoadOptions options;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, '-');) {
    if (word == "int8")
      options.text_layers = DType::kI8;
    else if (word == "int4")
      options.four_bit_text = true;
    else if (word == "a8")
      options.int8_rows = Int8Rows::kBeforeFourBits;
    else if (word == "head")
      options.head = DType::kI8;
    else if (word == "tower")
      options.tower_layers = DType::kI8;
    else
      return fail(ErrorCode::kInvalid,
                  "--quantization {}: int8 or int4 is known, with -a8, -head and -tower behind it",
                  text);
  }
  return options;
}

Result<void> measure(const Arguments& arguments) {
  TRY(auto made, make_cpu_device(arguments.threads));
  const std::shared_ptr<Device> device = std::move(made);
  TRY(const LoadOptions options, rounded_as(arguments.quantization));
  TRY(const auto harness, Harness::create(arguments.model, device, options));
  std::unique_ptr<Harness> beside;
  if (!arguments.quantization.empty()) {
    TRY(beside, Harness::create(arguments.model, device));
  }
  const ModelShape& shape = harness->shape();
  std::printf("%s: %s, %.3f B parameters, %.2f GiB packed, %s\n", arguments.model.c_str(),
              shape.family.c_str(), static_cast<double>(shape.parameters) / 1e9,
              static_cast<double>(shape.weight_bytes) / (1 << 30),
              harness->device().description().c_str());
  if (arguments.launches_side > 0) return count_launches(arguments, *harness);
  ModelBench bench(arguments, *harness, beside.get());
  TRY_DO(bench.run());
  bench.print();
  if (!arguments.json.empty()) std::ofstream(arguments.json) << bench.json() << "\n";
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
                                                     {"--quantization", &arguments.quantization},
                                                     {"--json", &arguments.json}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto found = texts.find(argv[i]);
    if (found != texts.end()) {
      *found->second = argv[i + 1];
    } else if (std::strcmp(argv[i], "--runs") == 0) {
      arguments.runs = std::max(1, std::atoi(argv[i + 1]));
    } else if (std::strcmp(argv[i], "--launches") == 0) {
      arguments.launches_side = std::atoi(argv[i + 1]);
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

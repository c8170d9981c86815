#include "apps/flags/gpu_flags.h"

#include <algorithm>
#include <cctype>

#include "base/text/ascii.h"
#include "engine/step/graph_rows.h"

namespace saccade {

void add_gpu_flags(CLI::App& cmd, ServeFlags& f) {
  cmd.add_option("--gpu-memory-utilization,--device-memory-utilization", f.gpu_memory_utilization,
                 "share of a GPU's memory for weights, activations and the KV cache together; 0.9 "
                 "by itself")
      ->check(CLI::Range(0.01, 1.0));
  cmd.add_flag("--enforce-eager,!--no-enforce-eager", f.eager,
               "on a GPU no step of decode becomes a graph");
  cmd.add_option("--cudagraph-capture-sizes", f.graph_rows,
                 "rows that steps of decode are padded to on a GPU, so that each size becomes a "
                 "graph; 1, 2, 4, 8 and every 8th up to 256 by themselves")
      ->expected(1, -1)
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  cmd.add_option("--max-cudagraph-capture-size", f.max_graph_rows,
                 "the largest of them; 0: as --enforce-eager")
      ->check(CLI::Range(0, 65536));
  cmd.add_option("--cuda-libraries", f.settings.device.cuda.libraries,
                 "where NVIDIA's libraries lie: a folder, a file, or none for Saccade's own "
                 "kernels; SACCADE_CUDA_LIBS, or else the usual places, by itself");
  cmd.add_flag("--batch-invariant,!--no-batch-invariant", f.settings.device.cuda.batch_invariant,
               "on a GPU a row's bits are the same in batches of every size; off by default "
               "(docs/cuda.md)");
  cmd.add_option("--attention-backend", f.attention_backend,
                 "whose kernels attend over many rows on a GPU: flashinfer (an error where they "
                 "cannot), own, or auto for FlashInfer's where they can; auto by itself");
}

namespace {

// Of vLLM's names one is here. With any other a server starts there, and so it does here.
AttentionBackend attention_backend(const std::string& typed, std::vector<std::string>& notices) {
  const std::string name = ascii::lower(typed);
  if (name == "own") return AttentionBackend::kOwn;
  if (name == "flashinfer") return AttentionBackend::kFlashInfer;
  if (name != "auto")
    notices.push_back(fmt::format(
        "--attention-backend {} has no effect here: there are auto, own and flashinfer", typed));
  return AttentionBackend::kAuto;
}

}  // namespace

void complete_gpu_flags(ServeFlags& f) {
  const bool on_cpu = f.settings.device.kind == serve::DeviceChoice::Kind::kCpu;
  const auto idle = [&](std::string_view name, std::string_view why) {
    if (on_cpu) f.notices.push_back(fmt::format("{} has no effect here: {}", name, why));
  };
  if (f.gpu_memory_utilization >= 0) {
    f.settings.engine.device_memory_utilization = f.gpu_memory_utilization;
    idle("--gpu-memory-utilization",
         "on a CPU the cache takes a share of free memory; --kv-cache-bytes sets it");
  }
  if (!f.attention_backend.empty()) {
    idle("--attention-backend", "a CPU has one kind of attention");
    if (!on_cpu)
      f.settings.device.cuda.attention = attention_backend(f.attention_backend, f.notices);
  }
  const std::string_view no_graphs = "a CPU makes no graphs";
  auto& e = f.settings.engine;
  e.eager = f.eager || f.max_graph_rows == 0;
  if (f.eager) idle("--enforce-eager", no_graphs);
  if (!f.graph_rows.empty()) idle("--cudagraph-capture-sizes", no_graphs);
  if (f.max_graph_rows >= 0) idle("--max-cudagraph-capture-size", no_graphs);
  std::ranges::sort(f.graph_rows);
  f.graph_rows.erase(std::ranges::unique(f.graph_rows).begin(), f.graph_rows.end());
  e.graph_rows = f.graph_rows;
  if (f.max_graph_rows > 0) {
    if (e.graph_rows.empty()) e.graph_rows = usual_graph_rows(f.max_graph_rows);
    std::erase_if(e.graph_rows, [&](std::int64_t rows) { return rows > f.max_graph_rows; });
    e.eager = e.eager || e.graph_rows.empty();
  }
}

}  // namespace saccade

#include "apps/flags/gpu_flags.h"

#include <algorithm>
#include <cctype>

#include "base/text/ascii.h"
#include "engine/step/graph_rows.h"

namespace saccade {

void add_gpu_flags(CLI::App& cmd, ServeFlags& f) {
  cmd.add_option("--gpu-memory-utilization,--device-memory-utilization", f.gpu_memory_utilization,
                 "share of the GPU's memory for weights, activations and KV cache together")
      ->default_str(fmt::format("{}", f.settings.engine.device_memory_utilization))
      ->check(CLI::Range(0.01, 1.0));
  cmd.add_flag("--enforce-eager,!--no-enforce-eager", f.eager, "do not use CUDA graphs");
  cmd.add_option("--cudagraph-capture-sizes", f.graph_rows,
                 "CUDA graph batch sizes; decode steps are padded to the next one")
      ->expected(1, -1)
      ->delimiter(',')
      ->default_str("1,2,4,8,16,24,...,256")
      ->check(CLI::Range(1, 65536));
  cmd.add_option("--max-cudagraph-capture-size", f.max_graph_rows,
                 "largest CUDA graph batch size; 0: do not use CUDA graphs")
      ->default_str("256")
      ->check(CLI::Range(0, 65536));
  cmd.add_option("--cuda-libraries", f.settings.device.cuda.libraries,
                 "folder or file of NVIDIA's libraries (also SACCADE_CUDA_LIBS), or none: use "
                 "Saccade's own kernels alone")
      ->default_str("searched for");
  cmd.add_flag(
      "--batch-invariant,!--no-batch-invariant", f.settings.device.cuda.batch_invariant,
      "give a request the same bits on a GPU whatever runs beside it, at the price of speed");
  cmd.add_option("--attention-backend", f.attention_backend,
                 "attention kernels on a GPU: flashinfer, own, or auto (FlashInfer's where they "
                 "can be used)")
      ->default_str("auto");
  cmd.add_flag_callback(
      "--no-warm-up", [&f] { f.settings.warm_up = false; },
      "take requests at once; a server on a GPU otherwise loads kernels and makes CUDA graphs "
      "before its first request");
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
         "on a CPU the KV cache gets half of the free memory; --kv-cache-bytes sets its size");
  }
  if (!f.attention_backend.empty()) {
    idle("--attention-backend", "a CPU has one attention backend");
    if (!on_cpu)
      f.settings.device.cuda.attention = attention_backend(f.attention_backend, f.notices);
  }
  const std::string_view no_graphs = "there are no CUDA graphs on a CPU";
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

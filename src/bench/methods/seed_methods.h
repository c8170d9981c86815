// Published methods as one command each, on top of serve: each fixes what its publication fixes,
// and prints and writes what that one prints and writes.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "bench/datasets/dashinfer_dataset.h"
#include "bench/serve_settings.h"

namespace saccade::bench {

struct MethodOutcome {
  std::string text;
  int exit_code = 0;
};

// Replays a peak trace of arrivals against an image caption dataset: genai-bench's JSON as
// "EXPERIMENTS/TASK/Trace with Peak QPS_ID.json" with answers and references, TTFT and E2EL
// distributions as SVG beside it, experiment_metadata.json, and the run log.
struct TraceRunSettings {
  ServeSettings serve;
  std::string task_name = "run";
  std::string experiments = "experiments/sharegpt4o_image_caption";
  // No request begins later; serve.load.drain_s is how long those under way may then take to end.
  double max_time_per_run_min = 10;
};
Result<MethodOutcome> trace_run(const TraceRunSettings& settings, std::atomic<bool>& stop);

// DashInfer-VLM's script: a closed loop of batch_size conversations, not streamed, four lines.
struct DashInferRunSettings {
  ServeSettings serve;  // target, checks, log
  DashInferSettings data;
  std::int64_t batch_size = 32;
  double frequency = 1000;  // conversations submitted per second
  bool ignore_eos = true;   // the published numbers have answers of the full length
};
Result<MethodOutcome> dashinfer_run(const DashInferRunSettings& settings, std::atomic<bool>& stop);

// SQZB's two runs: with answers of max_output_len and, on a cold server, of one token; generation
// is the difference. Both runs are made here when the server can be made cold: it is restarted
// (--server-cmd), its caches are reset, or allow_warm says that there is nothing to be cold. Else
// it is one run, of max_output_len, on a server that a person has restarted; its log is kept in
// `folder`, and when that holds the other run of the same prompts, both are summarised.
struct SummarizationSettings {
  ServeSettings serve;
  std::int32_t max_input_len = 1024;
  std::int32_t max_output_len = 1024;
  std::vector<std::int32_t> stop_token_ids;  // with a dataset; without one, eos is ignored
  bool allow_warm = false;
  std::string folder = "summarization";
  std::vector<std::string> summarize;  // two run logs, in any order, or a folder: no run is made
};
Result<MethodOutcome> summarization_run(const SummarizationSettings& settings,
                                        std::atomic<bool>& stop);
// The summary of two measured runs.
std::string summarization_text(const RunLog& full, const RunLog& prefill);

// The test kit's profiles: one result a load in `output`, engine_params.txt, mem_usage.txt.
struct KitSettings {
  ServeSettings serve;
  bool vision = false;
  std::int32_t width = 512;
  std::int32_t height = 512;
  std::string output = "output";
  std::vector<std::string> profiles;  // text: high, mid, low; vision: 1, 2. Empty: all
};
struct KitLoad {
  std::string profile;
  std::int32_t input_len = 0;
  std::int32_t output_len = 0;
  std::int32_t prompts = 0;
};
// kInvalid when the high profile does not fit into max_model_len, or a profile is not known.
Result<std::vector<KitLoad>> kit_loads(const KitSettings& settings, std::int64_t max_model_len);
std::string kit_file_name(const std::string& model, const KitLoad& load);
Result<MethodOutcome> kit_run(const KitSettings& settings, std::atomic<bool>& stop);

}  // namespace saccade::bench

// Everything that `saccade bench serve` can be told, in groups. The defaults are those of vLLM's
// client where it has the option.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/datasets/dataset.h"
#include "bench/datasets/dataset_files.h"
#include "bench/datasets/mmmu_pro.h"
#include "bench/load/arrivals.h"
#include "bench/load/request_body.h"
#include "bench/load/server/server_probe.h"
#include "bench/reports/report_command.h"

namespace saccade::bench {

struct TargetChoice {
  std::string backend = "openai";  // openai, openai-chat, vllm, vllm-chat
  std::string base_url;            // empty: http://host:port
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string endpoint;              // empty: by backend
  std::vector<std::string> headers;  // "K=V"; the key of OPENAI_API_KEY is added
  bool insecure = false;             // TLS without verification
  std::string ca_file;
  bool fresh_connections = false;
  std::string model;                      // empty: the first that /v1/models names
  std::string served_model_name;          // sent instead of model
  std::vector<std::string> lora_modules;  // adapters that are sent instead, by request
  bool lora_in_turn = false;              // else at random
  std::string tokenizer;                  // directory; empty: model, when that is one
  // Without a tokenizer here, made-up text is as long as the server's /tokenize says.
  bool count_by_server = false;
  bool skip_tokenizer = false;
};

struct DataChoice {
  std::string name = "random";
  std::string path;
  std::size_t num_prompts = 1000;
  std::optional<std::int32_t> input_len;   // --input-len: over the dataset's own
  std::optional<std::int32_t> output_len;  // --output-len, as above
  bool no_oversample = false;
  bool disable_shuffle = false;
  RandomImagesSettings random;        // text and images
  std::optional<double> range_ratio;  // of lengths; meaning and default by compat
  std::string image_buckets;          // vLLM's table; empty: random.buckets
  std::string image_pattern = "noise";
  std::string image_encoding = "jpeg";
  std::int32_t sharegpt_output_len = -1;
  SonnetSettings sonnet;
  PrefixSettings prefix;
  std::int32_t custom_output_len = 256;
  std::string image_folder;
  bool images_first = false;  // in each message, before its text
  std::int32_t max_turns = 0;
  std::string hf_subset;
  std::string hf_split;
  std::int32_t hf_output_len = -1;
  TokensSettings tokens;
  bool row_by_request_number = false;  // captions: the published fork's draw
  std::string scenario;                // genai-bench's language
  TraceTextSettings trace_text;
};

struct LoadChoice {
  ArrivalSettings arrivals;
  std::int64_t max_concurrency = 0;
  bool closed_loop = false;          // max_concurrency requests always at once
  std::vector<std::int64_t> levels;  // closed loops, one run each
  std::string rate_sweep;            // "0.2:4.0:0.2", one run each
  double duration_s = 0;
  double drain_s = 60;
  double timeout_s = 6 * 3600;
  int threads = 1;
  std::string trace;  // a file, or the peak of a shipped one: "4"
  TraceWindow window;
  TraceLabels labels;
  bool gap_after_last = false;  // gap files: one more request, right after the last
};

struct CheckChoice {
  double ready_timeout_s = 0;
  int num_warmups = 1;
  bool reset_cache = false;    // after the warm-up, before the run
  bool require_cold = false;   // fail when the server's cache knew the prompts
  bool profile = false;        // /start_profile and /stop_profile around the run
  double scrape_period_s = 1;  // of /metrics and memory; 0: never
  double max_failures = 0;     // requests; below 1: a share of them. More: exit code 1
  std::string server_cmd;      // started before and stopped after every run
  std::string server_log;      // its output; empty: server.log in the result directory
  int repeat = 1;
};

struct OutputChoice {
  std::string compat = "auto";
  std::string label;
  std::vector<std::string> metadata;  // "K=V"
  bool save_result = false;
  bool append_result = false;
  std::string result_dir;
  std::string result_filename;
  std::string log;  // the run log; empty: beside the result, or not kept
  std::string csv;
  std::string html;
  std::string svg;          // TTFT
  std::string genai;        // genai-bench's JSON
  bool keep_texts = false;  // prompts and answers in the log
  bool progress = true;
  bool brief = false;  // the block alone
  VllmReportSettings vllm;
  std::vector<std::string> goodput;
};

struct ServeSettings {
  TargetChoice target;
  DataChoice data;
  LoadChoice load;
  BodySettings body;                 // sampling; model and endpoint are filled in
  std::string extra_body;            // JSON object
  std::string chat_template_kwargs;  // JSON object
  // Usage in every event, for token-exact latencies: asked for when unset, and given up when the
  // server refuses it. Never asked with --compat of another tool.
  std::optional<bool> continuous_usage;
  bool server_timings = false;  // "metrics": true, Saccade's own: stage times of every request
  CheckChoice check;
  OutputChoice output;
  std::uint64_t seed = 0;
  std::vector<std::string> argv;  // as typed, secrets replaced
};

// What the settings mean, once the model is known. kInvalid for JSON that is none.
Result<BodySettings> body_settings(const ServeSettings& settings, const std::string& model,
                                   bool has_tokenizer);
ArrivalSettings arrival_settings(const ServeSettings& settings, double request_rate);
Result<ServerTarget> server_target(const TargetChoice& choice);
std::string endpoint_of(const TargetChoice& choice);
// kInvalid with every problem that can be seen before anything runs.
Result<void> check(const ServeSettings& settings);

// The compat that "auto" means: vllm-2024 for the dataset that only that client had (MMMU-Pro by
// --dataset-name hf), else saccade.
std::string resolved_compat(const ServeSettings& settings);

}  // namespace saccade::bench

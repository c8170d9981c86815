// What the flags of `saccade serve` fill besides the server's own settings, and what becomes of it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/flags/lora_flags.h"
#include "base/result.h"
#include "serve/settings.h"

namespace saccade {

struct ServeFlags {
  serve::ServeSettings settings;
  std::string positional_model;
  std::string projector;    // --mmproj
  bool text_alone = false;  // --no-mmproj
  std::string tokenizer;
  std::string tokenizer_revision;
  std::string revision;
  std::string download_directory;
  std::vector<std::string> hub_token;  // given without a value: one that is empty
  std::string config_overrides;
  std::string chat_template_kwargs;
  std::string generation_overrides;
  std::vector<std::string> limit_mm;
  bool language_model_only = false;
  bool per_layer_pages = false;
  double media_cache_gib = -1;  // below 0: not given
  double kept_image_gib = 0.25;
  std::string mm_processor_kwargs;
  std::string media_io_kwargs;
  std::string generation_config = "auto";
  std::string config;
  std::string image_size = "vanilla";
  std::string seed_line;
  std::string kv_events_config;
  std::string speculative_config;
  std::string structured_outputs_config;
  double gpu_memory_utilization = -1;  // below 0: not given
  std::string attention_backend;       // empty: not given
  bool eager = false;
  std::vector<std::int64_t> graph_rows;
  std::int64_t max_graph_rows = -1;  // below 0: not given
  LoraFlags lora;
  std::string ttft_target = "2s";
  std::string shared_rows_ttl = "1h";
  std::string log_level;          // empty: not given
  std::string uvicorn_log_level;  // the same
  std::size_t body_mib = 64;
  int drain_seconds = 30;
  int media_seconds = -1;  // below 0: not given
  int video_seconds = 60;
  int throughput_seconds = -1;       // the same
  std::vector<std::string> notices;  // variables that change nothing
};

// What `saccade batch` has too: neither HTTP's nor a cluster's.
void add_offline_flags(CLI::App& cmd, ServeFlags& flags);
// The last of them, so that their group stands last in --help.
void add_log_flags(CLI::App& cmd, ServeFlags& flags);

// Checks what has been given and fills `settings`; nothing is loaded. Sets the log's level. Errors
// name the flag.
Result<void> complete(ServeFlags& flags);

// Finds the folders of the checkpoint, the tokenizer and the draft model; ORG/NAME that is not
// there is downloaded unless HF_HUB_OFFLINE forbids it. Blocks.
Result<void> fetch_checkpoint(ServeFlags& flags);

}  // namespace saccade

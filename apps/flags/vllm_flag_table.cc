// The table itself. Facts about vLLM's side: `vllm serve --help=all` of 0.32.0 and its
// configuration classes (Apache-2.0); the sentences say what Saccade does.

#include "apps/flags/vllm_flags.h"

namespace saccade {
namespace {

using enum Takes;
using enum Fate;

constexpr std::string_view kOneServer =
    "a server is one process on one machine; --tensor-parallel-size splits a model over its "
    "devices, and `saccade proxy --pd URL,URL` balances several servers (docs/proxy.md)";
constexpr std::string_view kRanksAreThreads =
    "ranks are threads of one process; --tensor-parallel-size sets their number";
constexpr std::string_view kNoGraphs =
    "kernels are compiled ahead of time; nothing is compiled at start";
constexpr std::string_view kKernels =
    "kernels are chosen for the processor; `saccade doctor` shows them";
constexpr std::string_view kExpertsByWidth =
    "there is one implementation of experts; ranks split the width of each expert";
constexpr std::string_view kOneState =
    "recurrent states are float32, with one implementation; prefix caching keeps one every "
    "--mamba-block-size tokens";
constexpr std::string_view kTextAdapters =
    "adapters apply to the text decoder only; merge an adapter of the vision tower into the "
    "checkpoint (docs/lora.md)";
constexpr std::string_view kNoExpertAdapters = "experts take no adapters";
constexpr std::string_view kNoPython = "the server runs no Python; do it in a proxy in front";
constexpr std::string_view kOneConfig =
    "use --speculative-config "
    "'{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"prompt_lookup_max\":4}' or "
    "'{\"model\":\"DIR\",\"num_speculative_tokens\":4}'";
constexpr std::string_view kNoTraces =
    "no traces are sent; the times of stages are in /metrics, and in answers to requests with "
    "\"metrics\": true";
constexpr std::string_view kBoundRanks =
    "ranks on a CPU get a NUMA node each if there are enough, or what VLLM_CPU_OMP_THREADS_BIND "
    "says; with a GPU use numactl";
constexpr std::string_view kNoOffload =
    "nothing is offloaded: weights and KV cache are in main memory on a CPU, in GPU memory on a "
    "GPU";
constexpr std::string_view kMmapped =
    "safetensors are memory-mapped, read by all compute threads, and released as they are packed";
constexpr std::string_view kNoLogText =
    "prompts and answers are not logged, only their sizes (--enable-log-requests)";
constexpr std::string_view kLogHere =
    "the log goes to standard error, a line per event; --log-level sets the level";
constexpr std::string_view kEncodersApart =
    "prefill and decode are not split over servers; only image encoding is: --role encoder and "
    "--encoders (docs/cluster.md)";
constexpr std::string_view kNoSleep =
    "memory is not released while the server runs; stop the server and start it again";
constexpr std::string_view kFixedHeaders =
    "request headers are limited to 64 KiB (SECURITY.md), bodies to --max-body-mib";
constexpr std::string_view kNoCohere = "Cohere models are not supported";
constexpr std::string_view kOneProcess =
    "there is one process; --io-threads and --worker-threads set the threads that prepare requests";
constexpr std::string_view kRunnerIsFixed =
    "the model's config.json decides: it generates, or it is a sentence encoder and embeds";
constexpr std::string_view kHubPull =
    "pickles and code are never downloaded, and only one GGUF model of a repository";
constexpr std::string_view kClientCertificates =
    "client certificates are not supported; use --api-key, or a proxy in front that asks for them";
constexpr std::string_view kOnePool =
    "--kv-policy sets how layers share the KV cache (docs/memory.md)";

constexpr VllmFlag works(std::string_view names, std::string_view sentence = "") {
  return {names, kValue, kWorks, "", sentence};
}
constexpr VllmFlag works_switch(std::string_view names, std::string_view sentence = "") {
  return {names, kSwitch, kWorks, "", sentence};
}
constexpr VllmFlag idle(std::string_view names, std::string_view sentence) {
  return {names, kValue, kNoEffect, "", sentence};
}
constexpr VllmFlag idle_list(std::string_view names, std::string_view sentence) {
  return {names, kValues, kNoEffect, "", sentence};
}
constexpr VllmFlag idle_switch(std::string_view names, std::string_view sentence) {
  return {names, kSwitch, kNoEffect, "", sentence};
}
constexpr VllmFlag refused(std::string_view names, std::string_view harmless,
                           std::string_view sentence) {
  return {names, kValue, kRefused, harmless, sentence};
}
constexpr VllmFlag refused_list(std::string_view names, std::string_view harmless,
                                std::string_view sentence) {
  return {names, kValues, kRefused, harmless, sentence};
}
constexpr VllmFlag refused_switch(std::string_view names, std::string_view sentence) {
  return {names, kSwitch, kRefused, "", sentence};
}
constexpr VllmFlag older(VllmFlag flag) {
  flag.older = true;
  return flag;
}

constexpr VllmFlag kTable[] = {
    idle("--additional-config", "there are no platform plugins"),
    idle_switch("--aggregate-engine-logging", "there is one engine and one log"),
    idle("--all2all-backend", kExpertsByWidth),
    works_switch("--allow-credentials"),
    idle_switch("--allow-deprecated-quantization",
                "docs/quantised.md has the methods that are read, deprecated in vLLM or not"),
    refused("--allowed-headers", "* [\"*\"] \"*\"",
            "--allowed-origins may send any header, other origins none"),
    works("--allowed-local-media-path"),
    works("--allowed-media-domains"),
    refused("--allowed-methods", "* [\"*\"] \"*\"",
            "--allowed-origins may use every method of a route, other origins none"),
    works("--allowed-origins --cors-allow-origins"),
    idle("--anthropic-disabled-thinking-effort", "there are no levels of reasoning effort"),
    works("--api-key",
          "every route needs a key but /, /health, /ping, /version, /openapi.json and /metrics"),
    idle("--api-server-count -asc", kOneProcess),
    works_switch("--async-scheduling"),
    works("--attention-backend",
          "FLASHINFER, auto and own; other names mean auto; no effect on a CPU"),
    idle("--attention-config -ac", kKernels),
    refused("--aux-output-config", "{}", "there are no auxiliary outputs"),
    works("--block-size"),
    works("--chat-template"),
    idle("--chat-template-content-format", "the format is detected by rendering the template"),
    idle("--code-revision", "code in a checkpoint is never run"),
    idle("--cohere-format", kNoCohere),
    idle_switch("--cohere-is-reasoning-model", kNoCohere),
    idle_list("--collect-detailed-traces", kNoTraces),
    idle("--compilation-config -cc", kNoGraphs),
    works("--config", "TOML, INI or flat YAML"),
    refused("--config-format", "auto hf", "give a checkpoint with Hugging Face's config.json"),
    refused("--convert", "auto none",
            "generative models cannot be converted to embedders; serve a sentence encoder"),
    idle("--cp-kv-cache-interleave-size", kRanksAreThreads),
    idle("--cpu-distributed-timeout-seconds", kRanksAreThreads),
    idle("--cpu-offload-gb", kNoOffload),
    idle_list("--cpu-offload-params", kNoOffload),
    works("--cudagraph-capture-sizes",
          "a graph is captured when a step of its size first runs; no effect on a CPU"),
    idle_switch("--cudagraph-metrics", kNoGraphs),
    idle("--custom-histogram-buckets", "the histograms of /metrics have fixed buckets"),
    idle("--data-parallel-address -dpa", kRanksAreThreads),
    idle("--data-parallel-backend -dpb", kRanksAreThreads),
    refused_switch("--data-parallel-external-lb -dpe", kOneServer),
    refused_switch("--data-parallel-hybrid-lb -dph", kOneServer),
    refused_switch("--data-parallel-multi-port-external-lb -dpm", kOneServer),
    refused("--data-parallel-rank -dpn", "0", kOneServer),
    idle("--data-parallel-rpc-port -dpp", kRanksAreThreads),
    refused("--data-parallel-size -dp", "1", kOneServer),
    refused("--data-parallel-size-local -dpl", "0 1", kOneServer),
    refused("--data-parallel-start-rank -dpr", "0", kOneServer),
    idle("--data-parallel-supervisor-port", kRanksAreThreads),
    idle("--dbo-decode-token-threshold", "batches are not split into microbatches"),
    idle("--dbo-prefill-token-threshold", "batches are not split into microbatches"),
    idle("--dcp-comm-backend", kRanksAreThreads),
    idle("--dcp-kv-cache-interleave-size", kRanksAreThreads),
    idle_switch("--dcp-q-replicate", kRanksAreThreads),
    refused("--decode-context-parallel-size -dcp", "1", kOneServer),
    works("--default-chat-template-kwargs"),
    refused("--default-mm-loras", "{}", "a request names its adapter as its model"),
    refused("--device-ids", "0", "one device is used, the first; CUDA_VISIBLE_DEVICES says which"),
    refused("--diffusion-config -dc", "{}", "diffusion models are not supported"),
    idle("--disable-access-log-for-endpoints",
         "HTTP requests are not logged; --enable-log-requests logs those that generate"),
    idle_switch("--disable-cascade-attn", kKernels),
    idle_switch("--disable-chunked-mm-input",
                "an image is always encoded before the first prefill chunk that needs it"),
    idle_switch("--disable-custom-all-reduce", kRanksAreThreads),
    idle_switch("--disable-fastapi-docs", "the server has no documentation pages"),
    idle_switch("--disable-hybrid-kv-cache-manager", kOnePool),
    works_switch("--disable-log-stats"),
    idle_switch("--disable-nccl-for-dp-synchronization", kRanksAreThreads),
    refused_switch("--disable-sliding-window",
                   "sliding-window layers run as trained; --max-model-len WINDOW keeps sequences "
                   "within the window"),
    idle_switch("--disable-uvicorn-access-log",
                "HTTP requests are not logged; --enable-log-requests logs those that generate"),
    idle("--distributed-executor-backend", kRanksAreThreads),
    idle("--distributed-timeout-seconds", kRanksAreThreads),
    works("--download-dir"),
    idle("--dp-supervisor-probe-failure-threshold", kRanksAreThreads),
    idle("--dp-supervisor-probe-interval-s", kRanksAreThreads),
    idle("--dp-supervisor-probe-timeout-s", kRanksAreThreads),
    idle("--dp-sync-interval", kRanksAreThreads),
    works("--dtype", "float16 is computed as float32"),
    refused("--ec-manager-config", "{}", kEncodersApart),
    refused("--ec-transfer-config", "{}", kEncodersApart),
    idle("--elastic-ep-max-dp-size", kExpertsByWidth),
    works_switch(
        "--enable-auto-tool-choice",
        "on by default; --no-enable-auto-tool-choice refuses tool_choice \"auto\" with 400"),
    idle_switch("--enable-batch-sharded-sampling", kRanksAreThreads),
    idle_switch("--enable-chunked-prefill",
                "prefill is always chunked; --long-prefill-token-threshold limits the chunks"),
    idle_switch("--enable-cumem-allocator", kNoOffload),
    idle_switch("--enable-dbo", "batches are not split into microbatches"),
    idle_switch("--enable-elastic-ep", kExpertsByWidth),
    idle_switch("--enable-ep-weight-filter", kExpertsByWidth),
    idle_switch("--enable-eplb", kExpertsByWidth),
    idle_switch("--enable-expert-parallel -ep", kExpertsByWidth),
    idle_switch("--enable-fault-tolerance", kRanksAreThreads),
    idle_switch("--enable-flash-late-interaction", "late-interaction models are not supported"),
    idle_switch("--enable-flashinfer-autotune", kKernels),
    works_switch("--enable-force-include-usage"),
    idle_switch("--enable-hc-sp", kRanksAreThreads),
    idle_switch("--enable-layerwise-nvtx-tracing", kNoTraces),
    idle_switch("--enable-log-deltas", kNoLogText),
    idle_switch("--enable-log-outputs", kNoLogText),
    works_switch("--enable-log-requests --disable-log-requests"),
    idle_switch("--enable-logging-iteration-details",
                "the log has tokens/s; steps are in /metrics"),
    works_switch("--enable-lora"),
    idle_switch("--enable-mamba-cache-stochastic-rounding", kOneState),
    idle_switch("--enable-mamba-shared-prefix-checkpoint", kOneState),
    idle_switch("--enable-mfu-metrics",
                "/metrics has tokens and times, no utilisation of peak FLOPS"),
    idle_switch("--enable-mixed-moe-lora-format", kNoExpertAdapters),
    works_switch("--enable-mm-embeds", "image_embeds for images (docs/api.md), not for videos"),
    idle_switch("--enable-moe-shared-loras", kNoExpertAdapters),
    idle_switch("--enable-nccl-comm-suspend", kRanksAreThreads),
    idle_switch("--enable-offline-docs", "the server has no documentation pages"),
    works_switch("--enable-per-request-metrics",
                 "adds the `metrics` member of docs/api.md to every answer"),
    works_switch("--enable-prefix-caching"),
    refused_switch("--enable-prompt-embeds", "send the prompt as text or token ids"),
    idle_switch("--enable-prompt-tokens-details", "usage always has prompt_tokens_details"),
    works_switch("--enable-request-id-headers"),
    refused_switch("--enable-return-routed-experts", "answers do not list the chosen experts"),
    refused_switch("--enable-scale-out",
                   "there are no such routes; /tokenize turns a request into tokens"),
    idle_switch("--enable-server-load-tracking", "the load is always counted: GET /load"),
    idle_switch("--enable-shm-tensor-arena", kOneProcess),
    refused_switch("--enable-sleep-mode", kNoSleep),
    idle_switch("--enable-ssl-refresh",
                "changed certificate files are always reloaded, for new connections"),
    idle_switch("--enable-tokenizer-info-endpoint", "GET /tokenizer_info is always there"),
    refused_switch("--enable-tower-connector-lora", kTextAdapters),
    refused_switch("--enable-trace-replay", "decoding cannot follow given tokens"),
    works("--enforce-eager", "no effect on a CPU"),
    refused("--engram-config", "{}", "models with engram tables are not supported"),
    idle("--eplb-config", kExpertsByWidth),
    works_switch("--exclude-tools-when-tool-choice-none"),
    idle("--expert-placement-strategy", kExpertsByWidth),
    idle_switch("--fail-on-environ-validation",
                "environment variables without effect are listed at start"),
    idle("--fault-tolerance-config", kRanksAreThreads),
    idle("--fingerprint-mode", "answers have no system_fingerprint"),
    idle("--fingerprint-value", "answers have no system_fingerprint"),
    idle_switch("--fully-sharded-loras",
                "adapters do not work with --tensor-parallel-size above 1"),
    idle("--gdn-prefill-backend", kKernels),
    works("--generation-config"),
    works("--gpu-memory-utilization --device-memory-utilization",
          "default 0.9; no effect on a CPU, where --kv-cache-bytes sets the cache's size"),
    refused_switch("--grpc", "the API is HTTP only"),
    refused("--grpc-port", "", "the API is HTTP only"),
    idle("--h11-max-header-count", kFixedHeaders),
    idle("--h11-max-incomplete-event-size", kFixedHeaders),
    refused_switch("--headless", kOneServer),
    refused("--hf-config-path", "", "make a folder with that config.json and links to the weights"),
    works("--hf-overrides", "a JSON object that is merged into config.json"),
    works("--hf-token"),
    works("--host", "the default is 127.0.0.1, not all addresses"),
    idle_list("--ignore-patterns", kHubPull),
    idle_switch("--interleave-mm-strings", "images always stay at their places in the content"),
    refused("--io-processor-plugin", "", kNoPython),
    idle("--ir-op-priority", kKernels),
    idle("--jit-monitor-mode", kNoGraphs),
    idle_switch("--jit-monitor-verbose", kNoGraphs),
    idle("--kda-decode-backend", kKernels),
    idle("--kda-prefill-backend", kKernels),
    idle("--kernel-config", kKernels),
    works("--kv-cache-dtype",
          "auto, bfloat16, float32, int8 and fp8; int8_per_token_head and fp8_per_token_head are "
          "the same as the last two"),
    refused_list("--kv-cache-dtype-skip-layers", "", "all layers have the same KV cache type"),
    works("--kv-cache-memory-bytes --kv-cache-memory"),
    idle_switch("--kv-cache-metrics", "/metrics has the cache's use and hits"),
    idle("--kv-cache-metrics-sample", "/metrics has the cache's use and hits"),
    works("--kv-events-config",
          "loopback endpoints are bound too; a full queue is reported as AllBlocksCleared"),
    idle("--kv-offloading-backend", kNoOffload),
    refused("--kv-offloading-size", "0",
            "the KV cache is not offloaded; --kv-cache-bytes sets its size"),
    idle_switch("--kv-sharing-fast-prefill",
                "models that share keys and values between layers are not supported"),
    refused("--kv-transfer-config", "{}", kEncodersApart),
    works_switch("--language-model-only", "requests with images or videos are refused"),
    works("--limit-mm-per-prompt", "{\"image\": {\"count\": N}} is read as N"),
    idle("--linear-backend", kKernels),
    works("--load-format", "auto, safetensors and dummy"),
    idle("--log-config-file", kLogHere),
    idle_switch("--log-error-stack", kLogHere),
    works("--log-level", "trace means debug, critical means error"),
    idle("--logging-config", kLogHere),
    refused_list("--logits-processors", "", kNoPython),
    refused("--logprobs-mode", "raw_logprobs",
            "log-probabilities are of the model's own distribution, before penalties and "
            "temperature (raw_logprobs)"),
    works("--long-prefill-token-threshold"),
    idle_switch("--long-prefill-token-threshold-adaptive",
                "--fairness already shares steps among clients"),
    idle("--lora-dtype", "adapters use the model's compute type"),
    works("--lora-modules"),
    idle_list("--lora-target-modules", "adapter_config.json names the modules"),
    idle("--mamba-backend", kOneState),
    works("--mamba-block-size"),
    idle("--mamba-cache-dtype", kOneState),
    idle("--mamba-cache-mode", kOneState),
    idle("--mamba-cache-philox-rounds", kOneState),
    idle("--mamba-ssm-cache-dtype", kOneState),
    idle("--mamba-ssu-algorithm", kOneState),
    idle("--master-addr", kRanksAreThreads),
    idle("--master-port", kRanksAreThreads),
    works("--max-cpu-loras"),
    works("--max-cudagraph-capture-size", "no effect on a CPU"),
    idle("--max-log-len", kNoLogText),
    works("--max-logprobs", "-1 is no limit"),
    idle("--max-lora-cls-labels", "classifiers are not supported"),
    works("--max-lora-rank", "any rank up to 4096"),
    works("--max-loras"),
    works("--max-model-len",
          "1k is 1000, 1K is 1024; auto and -1: what the model and the KV cache allow"),
    refused("--max-num-active-seqs", "", "use --max-num-seqs"),
    works("--max-num-batched-tokens", "1k is 1000, 1K is 1024"),
    refused("--max-num-queued-reqs", "",
            "use --max-waiting N: a client's queued requests, beyond which it gets 429"),
    refused("--max-num-queued-tokens", "",
            "use --max-waiting N to limit queued requests, or --image-size dynamic with "
            "--ttft-target and --over-target refuse to limit their wait"),
    refused("--max-num-scheduled-tokens", "", "use --max-num-batched-tokens"),
    works("--max-num-seqs"),
    idle("--max-parallel-loading-workers", kMmapped),
    works("--media-io-kwargs", "video: num_frames and fps"),
    refused_list("--middleware", "", kNoPython),
    idle_switch("--mm-device-do-normalize", "pixels are normalised while they are resized"),
    idle("--mm-encoder-attn-backend", kKernels),
    refused("--mm-encoder-attn-dtype", "None", "the vision tower's attention uses --dtype"),
    idle("--mm-encoder-fp8-scale-path", "the vision tower does not run in fp8"),
    idle("--mm-encoder-fp8-scale-save-margin", "the vision tower does not run in fp8"),
    idle("--mm-encoder-fp8-scale-save-path", "the vision tower does not run in fp8"),
    refused_switch("--mm-encoder-only",
                   "use --role encoder --cluster-listen HOST:PORT (docs/cluster.md)"),
    idle("--mm-encoder-tp-mode", "each rank has the whole vision tower and encodes for itself"),
    idle("--mm-hasher-algorithm", "images are identified by SHA-256"),
    idle("--mm-ipc-gpu-memory-gb", kOneProcess),
    works("--mm-processor-cache-gb",
          "the size of the cache of image embeddings (--encoder-cache-bytes); 0 turns it off"),
    idle("--mm-processor-cache-type",
         "image embeddings are cached in the process, least recently used out first"),
    idle("--mm-processor-device", "images are decoded and resized on the CPU"),
    works("--mm-processor-kwargs", "min_pixels and max_pixels"),
    idle("--mm-shm-cache-max-object-size-mb", kOneProcess),
    idle("--mm-tensor-ipc", kOneProcess),
    works("--model"),
    refused("--model-class-overrides", "{}", kNoPython),
    refused("--model-impl", "auto vllm transformers",
            "each family has one implementation, checked against transformers"),
    idle("--model-loader-extra-config", kMmapped),
    idle("--moe-backend", kExpertsByWidth),
    refused("--nnodes -n", "1", kOneServer),
    refused("--node-rank -r", "0", kOneServer),
    refused("--num-gpu-blocks-override", "", "--kv-cache-bytes sets the size of the cache"),
    idle_switch("--numa-bind", kBoundRanks),
    idle_list("--numa-bind-cpus", kBoundRanks),
    idle_list("--numa-bind-nodes", kBoundRanks),
    idle("--offload-backend", kNoOffload),
    idle("--offload-group-size", kNoOffload),
    idle("--offload-num-in-group", kNoOffload),
    idle_list("--offload-params", kNoOffload),
    idle("--offload-prefetch-step", kNoOffload),
    idle("--optimization-level -O", kNoGraphs),
    idle("--otlp-traces-endpoint", kNoTraces),
    works("--override-generation-config",
          "temperature, top_p, top_k, min_p, repetition_penalty and max_new_tokens, which limits "
          "every answer"),
    idle("--per-request-spec-decode-metrics",
         "vllm:spec_decode_* in /metrics count all requests together"),
    refused("--performance-mode", "balanced interactivity throughput",
            "use --tpot-target-ms and --max-num-batched-tokens to trade latency for throughput"),
    refused("--pipeline-parallel-size -pp", "1", kOneServer),
    refused("--pooler-config", "{}", "modules.json sets how a sentence encoder pools"),
    works("--port"),
    refused("--prefill-context-parallel-size -pcp", "1", kOneServer),
    idle("--prefill-schedule-interval", kRanksAreThreads),
    idle("--prefix-cache-retention-interval", kOnePool),
    idle("--prefix-caching-hash-algo", "blocks are compared token by token, not by hash alone"),
    idle("--prefix-match-unit", "prefixes match in whole blocks of --block-size tokens"),
    refused("--profiler-config", "{}", "there is no profiler; use perf and /metrics"),
    idle("--pt-load-map-location", "PyTorch files are not read"),
    works("--quantization -q",
          "int8 and int4 quantise text layers at load; awq, gptq, fp8 and compressed-tensors must "
          "be what the checkpoint has"),
    refused("--quantization-config", "{}",
            "the checkpoint's quantization_config is used (docs/quantised.md)"),
    idle_switch("--ray-workers-use-nsight", kRanksAreThreads),
    refused("--reasoning-config", "{}", "there is no budget for reasoning; max_tokens counts it"),
    works("--reasoning-parser"),
    refused("--reasoning-parser-plugin", "", kNoPython),
    works("--renderer-num-workers", "same as --worker-threads"),
    idle("--replayssm-buffer-len", kOneState),
    refused("--response-role", "assistant", "the role of answers is assistant"),
    refused_switch("--return-sampling-mask", "ask for `logprobs` with `top_logprobs` instead"),
    works_switch("--return-tokens-as-token-ids"),
    works("--revision"),
    works("--root-path", "routes answer with and without the prefix"),
    refused("--runner", "auto generate pooling", kRunnerIsFixed),
    idle("--safetensors-load-strategy", kMmapped),
    idle("--safetensors-prefetch-block-size", kMmapped),
    idle("--safetensors-prefetch-num-threads", kMmapped),
    refused("--scheduler-cls", "", kNoPython),
    idle_switch("--scheduler-reserve-full-isl",
                "a sequence starts only when its whole prompt fits the KV cache"),
    works("--scheduling-policy"),
    works("--seed"),
    works("--served-model-name"),
    idle("--show-hidden-metrics-for-version", "no metrics are hidden"),
    works("--shutdown-timeout", "same as --drain-seconds; the default is 30"),
    idle_switch("--skip-mm-profiling", "memory is computed, not measured by encoding an image"),
    refused_switch("--skip-tokenizer-init",
                   "the tokenizer is always loaded; prompts may be token ids, and return_token_ids "
                   "returns them"),
    idle_switch("--sleep-mode-offload-cudagraph", kNoGraphs),
    idle_list("--sleep-preserve-parameter-names", kNoSleep),
    idle("--sparse-indexer-topk-backend", kKernels),
    refused("--spec-method", "", kOneConfig),
    refused("--spec-model", "", kOneConfig),
    refused("--spec-tokens", "", kOneConfig),
    idle_switch("--specialize-active-lora", kNoGraphs),
    works("--speculative-config -sc",
          "methods ngram (prompt_lookup_max and prompt_lookup_min up to 16) and draft_model "
          "(model, revision, quantization, max_model_len); num_speculative_tokens up to 32 "
          "(docs/speculative.md)"),
    refused("--sse-keep-alive-interval", "0",
            "streams send nothing between tokens; raise your proxy's read timeout"),
    refused("--ssl-ca-certs", "", kClientCertificates),
    refused("--ssl-cert-reqs", "0", kClientCertificates),
    works("--ssl-certfile"),
    refused("--ssl-ciphers", "", "set the ciphers in OpenSSL's configuration file"),
    works("--ssl-keyfile"),
    idle("--stream-interval", "tokens are sent after each step"),
    works("--structured-outputs-config",
          "disable_any_whitespace and reasoning_parser; backend, disable_fallback and "
          "disable_additional_properties are ignored (docs/structured-output.md)"),
    idle_switch("--swa-bounded-replay", kOnePool),
    works("--tensor-parallel-size -tp", "on one machine (docs/cuda.md)"),
    works("--tokenizer"),
    refused("--tokenizer-mode", "auto hf slow fast",
            "tokenizer.json, tokenizer.model, or vocab.json with merges.txt is read"),
    works("--tokenizer-revision"),
    refused_switch("--tokens-only",
                   "send token ids to /v1/completions; --return-tokens-as-token-ids and "
                   "return_token_ids return them"),
    works("--tool-call-parser"),
    refused("--tool-parser-plugin", "", kNoPython),
    refused("--tool-server", "", "clients run the tools"),
    refused("--tool-strict-level", "auto",
            "tool_choice required, or a function by name, makes calls follow their schemas "
            "(docs/tools.md)"),
    idle_switch("--trust-remote-code", "code in a checkpoint is never run, nor needed"),
    works_switch("--trust-request-chat-template"),
    idle_switch("--trust-request-mm-kwargs",
                "requests may always set min_pixels and max_pixels; --max-image-pixels and "
                "--limit-mm-per-prompt limit them"),
    refused("--ubatch-size", "0", "batches are not split into microbatches"),
    works("--uds"),
    idle_switch("--use-fp64-gumbel", "sampling is in float64"),
    idle_switch("--use-replayssm", kOneState),
    idle_switch("--use-tqdm-on-load", "the log has the progress of loading"),
    works("--uvicorn-log-level", "same as --log-level, which takes precedence"),
    idle("--video-pruning-method", "video tokens are not pruned"),
    refused("--video-pruning-rate", "0 0.0", "video tokens are not pruned; send fewer frames"),
    refused("--watermark", "0 0.0", "use a smaller --max-num-seqs to keep room in the KV cache"),
    refused("--watermark-config", "{}", "answers are not watermarked"),
    refused("--weight-transfer-config", "{}", "weights are loaded once; start the server again"),
    refused("--worker-cls", "auto", kNoPython),
    refused("--worker-extension-cls", "", kNoPython),

    // What people still type.
    older(works("--device")),
    older(works_switch("--disable-mm-preprocessor-cache", "same as --mm-processor-cache-gb 0")),
    older(idle_switch("--disable-frontend-multiprocessing", kOneProcess)),
    older(idle_switch("--disable-v2-block-manager", kOnePool)),
    older(idle_switch("--use-v2-block-manager", kOnePool)),
    older(works_switch("--use-per-layer-block-manager", "same as --kv-policy jenga")),
    older(idle_switch("--enable-two-level-page", kOnePool)),
    older(idle_switch("--disable-async-output-proc", "see --async-scheduling")),
    older(idle("--guided-decoding-backend",
               "there is one implementation of grammars (docs/structured-output.md)")),
    older(works_switch("--guided-decoding-disable-any-whitespace",
                       "same as --structured-outputs-config '{\"disable_any_whitespace\": true}'")),
    older(idle("--max-concurrent-partial-prefills",
               "prompts share a step's tokens; --long-prefill-token-threshold limits one prompt")),
    older(idle("--max-long-partial-prefills",
               "prompts share a step's tokens; --long-prefill-token-threshold limits one prompt")),
    older(idle("--max-seq-len-to-capture", kNoGraphs)),
    older(idle("--num-scheduler-steps", "each step is scheduled; see --async-scheduling")),
    older(idle("--num-lookahead-slots", "KV pages for draft tokens are allocated step by step")),
    older(idle("--preemption-mode",
               "preempted sequences are recomputed, with the prefix cache; nothing is swapped")),
    older(idle("--swap-space",
               "preempted sequences are recomputed, with the prefix cache; nothing is swapped")),
    older(refused("--task", "auto generate embed embedding", kRunnerIsFixed)),
    older(refused("--rope-scaling", "{}", "use --hf-overrides '{\"rope_scaling\": ...}'")),
    older(refused("--rope-theta", "", "use --hf-overrides '{\"rope_theta\": N}'")),
};

}  // namespace

std::span<const VllmFlag> vllm_flags() { return kTable; }

}  // namespace saccade

// The table itself. Facts about vLLM's side: `vllm serve --help=all` of 0.32.0 and its
// configuration classes (Apache-2.0); the sentences say what Saccade does.

#include "apps/flags/vllm_flags.h"

namespace saccade {
namespace {

using enum Takes;
using enum Fate;

constexpr std::string_view kOneServer =
    "a server is one process on one machine, whose devices share a model by "
    "--tensor-parallel-size; several servers behind `saccade proxy --pd URL,URL` share the load "
    "(docs/proxy.md)";
constexpr std::string_view kRanksAreThreads =
    "ranks are threads of one process, as many as --tensor-parallel-size says";
constexpr std::string_view kNoGraphs =
    "kernels are compiled ahead of time; nothing is captured or compiled at start";
constexpr std::string_view kKernels =
    "kernels are chosen by the processor; `saccade doctor` shows which";
constexpr std::string_view kExpertsByWidth =
    "experts are computed in one way, and ranks share the width of every one";
constexpr std::string_view kOneState =
    "states are f32, computed in one way and kept every --mamba-block-size tokens";
constexpr std::string_view kTextAdapters =
    "adapters go to the text's decoder alone; merge one of a vision tower into the checkpoint and "
    "serve that (docs/lora.md)";
constexpr std::string_view kNoExpertAdapters = "experts take no adapters";
constexpr std::string_view kNoPython =
    "there is no Python in the server that could load it; a proxy in front can do what it does";
constexpr std::string_view kOneConfig =
    "--speculative-config says it: "
    "'{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"prompt_lookup_max\":4}' or "
    "'{\"model\":\"DIR\",\"num_speculative_tokens\":4}'";
constexpr std::string_view kNoTraces =
    "no traces are sent; stage times are in /metrics, and in an answer with \"metrics\": true";
constexpr std::string_view kBoundRanks =
    "ranks on the CPU have a node each where there are as many, or what VLLM_CPU_OMP_THREADS_BIND "
    "says; threads beside a GPU stay where numactl puts them";
constexpr std::string_view kNoOffload = "weights and cache are in main memory already";
constexpr std::string_view kMmapped =
    "safetensors are mapped, read by all compute threads and let go as they are packed";
constexpr std::string_view kNoLogText =
    "neither prompts nor answers are written to the log, only their sizes "
    "(--enable-log-requests)";
constexpr std::string_view kLogHere =
    "the log goes to standard error, a line an event; --log-level says how much";
constexpr std::string_view kEncodersApart =
    "of a request only encoding can run elsewhere: --role encoder and --encoders "
    "(docs/cluster.md)";
constexpr std::string_view kNoSleep =
    "memory is not given back while the server runs; stop it and start it again";
constexpr std::string_view kFixedHeaders =
    "a request's header may have 64 KiB (SECURITY.md), a body --max-body-mib";
constexpr std::string_view kNoCohere = "no Cohere family is served";
constexpr std::string_view kOneProcess =
    "one process does all; --io-threads and --worker-threads say how many threads prepare requests";
constexpr std::string_view kRunnerIsFixed =
    "a model does what its config.json says: it generates, or it is a sentence encoder and embeds";
constexpr std::string_view kHubPull =
    "pickles and code are never downloaded, and of GGUF files one model";
constexpr std::string_view kClientCertificates =
    "clients are known by --api-key; put a proxy that asks for certificates in front";
constexpr std::string_view kOnePool =
    "--kv-policy says how the cache is divided among layers (docs/memory.md)";

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
    idle("--additional-config", "it is for other platforms' plugins"),
    idle_switch("--aggregate-engine-logging", "there is one engine and one log"),
    idle("--all2all-backend", kExpertsByWidth),
    works_switch("--allow-credentials"),
    idle_switch("--allow-deprecated-quantization",
                "what is read is in docs/quantised.md, deprecated elsewhere or not"),
    refused("--allowed-headers", "* [\"*\"] \"*\"",
            "pages of --allowed-origins may send any header; others none"),
    works("--allowed-local-media-path"),
    works("--allowed-media-domains"),
    refused("--allowed-methods", "* [\"*\"] \"*\"",
            "pages of --allowed-origins may use every method a route has; others none"),
    works("--allowed-origins --cors-allow-origins"),
    idle("--anthropic-disabled-thinking-effort", "thoughts have no levels of effort here"),
    works("--api-key",
          "every route but /health, /ping, /version and /metrics asks for one of them"),
    idle("--api-server-count -asc", kOneProcess),
    works_switch("--async-scheduling"),
    works("--attention-backend",
          "FLASHINFER, and here auto and own; other names are auto; a CPU has one kind"),
    idle("--attention-config -ac", kKernels),
    refused("--aux-output-config", "{}", "answers have no such outputs"),
    works("--block-size"),
    works("--chat-template"),
    idle("--chat-template-content-format",
         "which form a template takes is found by rendering it, role by role"),
    idle("--code-revision", "no code of a checkpoint is run"),
    idle("--cohere-format", kNoCohere),
    idle_switch("--cohere-is-reasoning-model", kNoCohere),
    idle_list("--collect-detailed-traces", kNoTraces),
    idle("--compilation-config -cc", kNoGraphs),
    works("--config", "TOML, INI or flat YAML"),
    refused("--config-format", "auto hf", "give a checkpoint with Hugging Face's config.json"),
    refused("--convert", "auto none",
            "a model that generates is not turned into one that embeds; serve a sentence encoder"),
    idle("--cp-kv-cache-interleave-size", kRanksAreThreads),
    idle("--cpu-distributed-timeout-seconds", kRanksAreThreads),
    idle("--cpu-offload-gb", kNoOffload),
    idle_list("--cpu-offload-params", kNoOffload),
    works("--cudagraph-capture-sizes",
          "a size is captured when steps of it come; a CPU makes no graphs"),
    idle_switch("--cudagraph-metrics", kNoGraphs),
    idle("--custom-histogram-buckets", "the histograms of /metrics have fixed bounds"),
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
    idle("--dbo-decode-token-threshold", "batches are not split in two"),
    idle("--dbo-prefill-token-threshold", "batches are not split in two"),
    idle("--dcp-comm-backend", kRanksAreThreads),
    idle("--dcp-kv-cache-interleave-size", kRanksAreThreads),
    idle_switch("--dcp-q-replicate", kRanksAreThreads),
    refused("--decode-context-parallel-size -dcp", "1", kOneServer),
    works("--default-chat-template-kwargs"),
    refused("--default-mm-loras", "{}", "a request names its adapter as its model"),
    refused("--device-ids", "0", "one device is used, the first; CUDA_VISIBLE_DEVICES says which"),
    refused("--diffusion-config -dc", "{}", "no family that is served generates by diffusion"),
    idle("--disable-access-log-for-endpoints",
         "HTTP requests are not logged; --enable-log-requests logs those that generate"),
    idle_switch("--disable-cascade-attn", kKernels),
    idle_switch("--disable-chunked-mm-input",
                "an image is encoded before the first step that needs it, wherever a chunk ends"),
    idle_switch("--disable-custom-all-reduce", kRanksAreThreads),
    idle_switch("--disable-fastapi-docs", "there are no pages of documentation to leave out"),
    idle_switch("--disable-hybrid-kv-cache-manager", kOnePool),
    works_switch("--disable-log-stats"),
    idle_switch("--disable-nccl-for-dp-synchronization", kRanksAreThreads),
    refused_switch("--disable-sliding-window",
                   "layers with a window are served as they were trained; --max-model-len WINDOW "
                   "keeps texts within it"),
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
    works_switch("--enable-auto-tool-choice",
                 "on by itself; --no-enable-auto-tool-choice leaves calls in the content"),
    idle_switch("--enable-batch-sharded-sampling", kRanksAreThreads),
    idle_switch("--enable-chunked-prefill",
                "prompts are always computed in chunks, with the same answers; "
                "--long-prefill-token-threshold bounds them"),
    idle_switch("--enable-cumem-allocator", kNoOffload),
    idle_switch("--enable-dbo", "batches are not split in two"),
    idle_switch("--enable-elastic-ep", kExpertsByWidth),
    idle_switch("--enable-ep-weight-filter", kExpertsByWidth),
    idle_switch("--enable-eplb", kExpertsByWidth),
    idle_switch("--enable-expert-parallel -ep", kExpertsByWidth),
    idle_switch("--enable-fault-tolerance", kRanksAreThreads),
    idle_switch("--enable-flash-late-interaction", "no late-interaction model is served"),
    idle_switch("--enable-flashinfer-autotune", kKernels),
    works_switch("--enable-force-include-usage"),
    idle_switch("--enable-hc-sp", kRanksAreThreads),
    idle_switch("--enable-layerwise-nvtx-tracing", kNoTraces),
    idle_switch("--enable-log-deltas", kNoLogText),
    idle_switch("--enable-log-outputs", kNoLogText),
    works_switch("--enable-log-requests --disable-log-requests"),
    idle_switch("--enable-logging-iteration-details",
                "the log has tokens a second; steps are in /metrics"),
    works_switch("--enable-lora"),
    idle_switch("--enable-mamba-cache-stochastic-rounding", kOneState),
    idle_switch("--enable-mamba-shared-prefix-checkpoint", kOneState),
    idle_switch("--enable-mfu-metrics", "/metrics has tokens and times, not shares of a peak"),
    idle_switch("--enable-mixed-moe-lora-format", kNoExpertAdapters),
    works_switch("--enable-mm-embeds",
                 "image_embeds of images (docs/api.md); of videos there are none"),
    idle_switch("--enable-moe-shared-loras", kNoExpertAdapters),
    idle_switch("--enable-nccl-comm-suspend", kRanksAreThreads),
    idle_switch("--enable-offline-docs", "there are no pages of documentation"),
    works_switch("--enable-per-request-metrics",
                 "answers have the member `metrics` of docs/api.md"),
    works_switch("--enable-prefix-caching"),
    refused_switch("--enable-prompt-embeds", "send the prompt as text or as token ids"),
    idle_switch("--enable-prompt-tokens-details", "usage always has them"),
    works_switch("--enable-request-id-headers"),
    refused_switch("--enable-return-routed-experts",
                   "answers do not say which experts were chosen; leave it out"),
    refused_switch("--enable-scale-out",
                   "there are no such routes; /tokenize renders a request to tokens"),
    idle_switch("--enable-server-load-tracking", "the load is always counted: GET /load"),
    idle_switch("--enable-shm-tensor-arena", kOneProcess),
    refused_switch("--enable-sleep-mode", kNoSleep),
    idle_switch("--enable-ssl-refresh",
                "files of a certificate that change are always read again, for new connections"),
    idle_switch("--enable-tokenizer-info-endpoint", "it is always there: GET /tokenizer_info"),
    refused_switch("--enable-tower-connector-lora", kTextAdapters),
    refused_switch("--enable-trace-replay", "decoding cannot be made to follow given tokens"),
    works("--enforce-eager", "a CPU makes no graphs"),
    refused("--engram-config", "{}", "no family that is served has such tables"),
    idle("--eplb-config", kExpertsByWidth),
    works_switch("--exclude-tools-when-tool-choice-none"),
    idle("--expert-placement-strategy", kExpertsByWidth),
    idle_switch("--fail-on-environ-validation",
                "variables that have no effect are named in a line at start"),
    idle("--fault-tolerance-config", kRanksAreThreads),
    idle("--fingerprint-mode", "answers have no system_fingerprint"),
    idle("--fingerprint-value", "answers have no system_fingerprint"),
    idle_switch("--fully-sharded-loras", "a model that is shared by ranks takes no adapters"),
    idle("--gdn-prefill-backend", kKernels),
    works("--generation-config"),
    works("--gpu-memory-utilization --device-memory-utilization",
          "0.9 by itself; on a CPU it has no effect, the cache takes a share of free memory"),
    refused_switch("--grpc", "clients speak HTTP; gRPC is between servers and encoders alone"),
    refused("--grpc-port", "", "clients speak HTTP; gRPC is between servers and encoders alone"),
    idle("--h11-max-header-count", kFixedHeaders),
    idle("--h11-max-incomplete-event-size", kFixedHeaders),
    refused_switch("--headless", kOneServer),
    refused("--hf-config-path", "",
            "put that config.json beside the weights, in a folder of links"),
    works("--hf-overrides", "a JSON object that is laid over config.json"),
    works("--hf-token"),
    works("--host", "127.0.0.1 by itself, not every address"),
    idle_list("--ignore-patterns", kHubPull),
    idle_switch("--interleave-mm-strings",
                "placeholders always stand where the content has its images"),
    refused("--io-processor-plugin", "", kNoPython),
    idle("--ir-op-priority", kKernels),
    idle("--jit-monitor-mode", kNoGraphs),
    idle_switch("--jit-monitor-verbose", kNoGraphs),
    idle("--kda-decode-backend", kKernels),
    idle("--kda-prefill-backend", kKernels),
    idle("--kernel-config", kKernels),
    works("--kv-cache-dtype",
          "auto, bfloat16, float32; int8 and fp8, int8_per_token_head and fp8_per_token_head: a "
          "scale for every token and head"),
    refused_list("--kv-cache-dtype-skip-layers", "",
                 "all layers keep keys and values as one type; leave it out"),
    works("--kv-cache-memory-bytes --kv-cache-memory"),
    idle_switch("--kv-cache-metrics", "/metrics has the cache's use and hits"),
    idle("--kv-cache-metrics-sample", "/metrics has the cache's use and hits"),
    works("--kv-events-config",
          "endpoints of loopback are bound too; a full queue is told as AllBlocksCleared"),
    idle("--kv-offloading-backend", kNoOffload),
    refused("--kv-offloading-size", "0",
            "the cache is in main memory; --kv-cache-bytes makes it larger"),
    idle_switch("--kv-sharing-fast-prefill", "no family that is served shares keys between layers"),
    refused("--kv-transfer-config", "{}", kEncodersApart),
    works_switch("--language-model-only", "requests with images or videos are refused"),
    works("--limit-mm-per-prompt", "of {\"image\": {\"count\": N}} the count is taken"),
    idle("--linear-backend", kKernels),
    works("--load-format", "auto and safetensors are the same; dummy makes random weights"),
    idle("--log-config-file", kLogHere),
    idle_switch("--log-error-stack", kLogHere),
    works("--log-level", "trace is debug, critical is error"),
    idle("--logging-config", kLogHere),
    refused_list("--logits-processors", "", kNoPython),
    refused("--logprobs-mode", "raw_logprobs",
            "log-probabilities are of the model's own distribution, before penalties and "
            "temperature (raw_logprobs)"),
    works("--long-prefill-token-threshold"),
    idle_switch("--long-prefill-token-threshold-adaptive",
                "clients share a step's budget by turns already (--fairness)"),
    idle("--lora-dtype", "adapters are multiplied as the model's matrices are"),
    works("--lora-modules"),
    idle_list("--lora-target-modules", "an adapter's own configuration names its modules"),
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
    works("--max-cudagraph-capture-size", "a CPU makes no graphs"),
    idle("--max-log-len", kNoLogText),
    works("--max-logprobs", "-1 is the whole vocabulary"),
    idle("--max-lora-cls-labels", "no family that is served classifies"),
    works("--max-lora-rank", "any number up to 4096"),
    works("--max-loras"),
    works("--max-model-len", "1k is 1000, 1K is 1024; auto and -1: as far as the cache holds one"),
    refused("--max-num-active-seqs", "", "--max-num-seqs is the most that run at once"),
    works("--max-num-batched-tokens", "1k is 1000, 1K is 1024"),
    refused("--max-num-queued-reqs", "",
            "--max-waiting N bounds what one client may have waiting, with 429 over it"),
    refused(
        "--max-num-queued-tokens", "",
        "--max-waiting N bounds requests; --ttft-target with --over-target refuse goes by time"),
    refused("--max-num-scheduled-tokens", "", "--max-num-batched-tokens is a step's budget"),
    works("--max-num-seqs"),
    idle("--max-parallel-loading-workers", kMmapped),
    works("--media-io-kwargs", "video: num_frames and fps"),
    refused_list("--middleware", "", kNoPython),
    idle_switch("--mm-device-do-normalize", "pixels are normalised as they are resized"),
    idle("--mm-encoder-attn-backend", kKernels),
    refused("--mm-encoder-attn-dtype", "None", "the tower computes in --dtype; leave it out"),
    idle("--mm-encoder-fp8-scale-path", "the tower is not computed in fp8"),
    idle("--mm-encoder-fp8-scale-save-margin", "the tower is not computed in fp8"),
    idle("--mm-encoder-fp8-scale-save-path", "the tower is not computed in fp8"),
    refused_switch("--mm-encoder-only",
                   "--role encoder --cluster-listen HOST:PORT serves the tower alone "
                   "(docs/cluster.md)"),
    idle("--mm-encoder-tp-mode", "every rank has the whole tower, and encodes for itself"),
    idle("--mm-hasher-algorithm", "images are known by the SHA-256 of their bytes"),
    idle("--mm-ipc-gpu-memory-gb", kOneProcess),
    works("--mm-processor-cache-gb",
          "the cache of image embeddings (--encoder-cache-bytes); 0 turns it off"),
    idle("--mm-processor-cache-type", "embeddings are kept in the process, the oldest leave first"),
    idle("--mm-processor-device", "images are decoded and resized on the processor"),
    works("--mm-processor-kwargs", "min_pixels and max_pixels"),
    idle("--mm-shm-cache-max-object-size-mb", kOneProcess),
    idle("--mm-tensor-ipc", kOneProcess),
    works("--model"),
    refused("--model-class-overrides", "{}", kNoPython),
    refused("--model-impl", "auto vllm transformers",
            "each family has one implementation, whose answers are those of transformers"),
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
          "temperature, top_p, top_k, min_p, repetition_penalty and max_new_tokens, which bounds "
          "every answer"),
    idle("--per-request-spec-decode-metrics", "vllm:spec_decode_* in /metrics count all requests"),
    refused("--performance-mode", "balanced interactivity throughput",
            "--tpot-target-ms and --max-num-batched-tokens weigh latency against throughput"),
    refused("--pipeline-parallel-size -pp", "1", kOneServer),
    refused("--pooler-config", "{}", "a sentence encoder pools as its modules.json says"),
    works("--port"),
    refused("--prefill-context-parallel-size -pcp", "1", kOneServer),
    idle("--prefill-schedule-interval", kRanksAreThreads),
    idle("--prefix-cache-retention-interval", kOnePool),
    idle("--prefix-caching-hash-algo", "blocks are compared token by token, not by a hash alone"),
    idle("--prefix-match-unit", "hits are whole blocks of --block-size tokens"),
    refused("--profiler-config", "{}", "there is no profiler; perf and /metrics see the process"),
    idle("--pt-load-map-location", "PyTorch files are not read"),
    works("--quantization -q",
          "int8 and int4 round text layers at load; awq, gptq, fp8 and compressed-tensors have to "
          "be what "
          "the checkpoint says"),
    refused("--quantization-config", "{}",
            "weights are read as the checkpoint's quantization_config says (docs/quantised.md)"),
    idle_switch("--ray-workers-use-nsight", kRanksAreThreads),
    refused("--reasoning-config", "{}", "thoughts have no budget here; leave it out"),
    works("--reasoning-parser"),
    refused("--reasoning-parser-plugin", "", kNoPython),
    works("--renderer-num-workers", "another name of --worker-threads"),
    idle("--replayssm-buffer-len", kOneState),
    refused("--response-role", "assistant", "answers are by the assistant, as OpenAI's are"),
    refused_switch("--return-sampling-mask",
                   "`logprobs` with `top_logprobs` shows what was likely"),
    works_switch("--return-tokens-as-token-ids"),
    works("--revision"),
    works("--root-path", "routes are served with and without it"),
    refused("--runner", "auto generate pooling", kRunnerIsFixed),
    idle("--safetensors-load-strategy", kMmapped),
    idle("--safetensors-prefetch-block-size", kMmapped),
    idle("--safetensors-prefetch-num-threads", kMmapped),
    refused("--scheduler-cls", "", kNoPython),
    idle_switch("--scheduler-reserve-full-isl",
                "a sequence starts only where its whole prompt has room"),
    works("--scheduling-policy"),
    works("--seed"),
    works("--served-model-name"),
    idle("--show-hidden-metrics-for-version", "no metrics are hidden"),
    works("--shutdown-timeout", "another name of --drain-seconds; 30 by itself"),
    idle_switch("--skip-mm-profiling", "no image is encoded at start to measure memory"),
    refused_switch("--skip-tokenizer-init",
                   "the tokenizer is always loaded; prompts may still be token ids, and "
                   "return_token_ids returns them"),
    idle_switch("--sleep-mode-offload-cudagraph", kNoGraphs),
    idle_list("--sleep-preserve-parameter-names", kNoSleep),
    idle("--sparse-indexer-topk-backend", kKernels),
    refused("--spec-method", "", kOneConfig),
    refused("--spec-model", "", kOneConfig),
    refused("--spec-tokens", "", kOneConfig),
    idle_switch("--specialize-active-lora", kNoGraphs),
    works("--speculative-config -sc",
          "methods ngram (prompt_lookup_max and prompt_lookup_min up to 16) and draft_model "
          "(model, revision, quantization, max_model_len); num_speculative_tokens up to 32; "
          "answers are the same to the bit, and guessing stops where it does not pay "
          "(docs/speculative.md)"),
    refused("--sse-keep-alive-interval", "0",
            "streams send nothing between tokens; raise the proxy's read timeout"),
    refused("--ssl-ca-certs", "", kClientCertificates),
    refused("--ssl-cert-reqs", "0", kClientCertificates),
    works("--ssl-certfile"),
    refused("--ssl-ciphers", "", "TLS has OpenSSL's own list; its configuration file changes it"),
    works("--ssl-keyfile"),
    idle("--stream-interval", "a step's tokens are sent as soon as they are there"),
    works("--structured-outputs-config",
          "disable_any_whitespace; the other members ask for what is done anyway, or are refused: "
          "grammars are the server's own "
          "(docs/structured-output.md)"),
    idle_switch("--swa-bounded-replay", kOnePool),
    works("--tensor-parallel-size -tp", "on one machine (docs/cuda.md)"),
    works("--tokenizer"),
    refused("--tokenizer-mode", "auto hf slow fast",
            "tokenizer.json, tokenizer.model and vocab.json with merges.txt are read"),
    works("--tokenizer-revision"),
    refused_switch("--tokens-only",
                   "prompts may be token ids at /v1/completions; --return-tokens-as-token-ids and "
                   "return_token_ids return them"),
    works("--tool-call-parser"),
    refused("--tool-parser-plugin", "", kNoPython),
    refused("--tool-server", "", "tools are run by the client; the server only reads the calls"),
    refused("--tool-strict-level", "auto",
            "tool_choice required, or a function by name, holds calls to their schemas "
            "(docs/tools.md)"),
    idle_switch("--trust-remote-code", "no code of a checkpoint is run, nor is it needed"),
    works_switch("--trust-request-chat-template"),
    idle_switch("--trust-request-mm-kwargs",
                "requests may give pixel limits; --max-image-pixels and --limit-mm-per-prompt "
                "bound them"),
    refused("--ubatch-size", "0", "batches are not split; leave it out"),
    works("--uds"),
    idle_switch("--use-fp64-gumbel", "tokens are drawn by a request's own seed, in float64"),
    idle_switch("--use-replayssm", kOneState),
    idle_switch("--use-tqdm-on-load", "loading is a line in the log"),
    works("--uvicorn-log-level", "as --log-level, which goes before it"),
    idle("--video-pruning-method", "no tokens of a video are left out"),
    refused("--video-pruning-rate", "0 0.0",
            "no tokens of a video are left out; send fewer frames"),
    refused("--watermark", "0 0.0",
            "preempted sequences come back when they have room; --max-num-seqs keeps room free"),
    refused("--watermark-config", "{}", "texts are not watermarked"),
    refused("--weight-transfer-config", "{}", "weights are read once; start the server again"),
    refused("--worker-cls", "auto", kNoPython),
    refused("--worker-extension-cls", "", kNoPython),

    // What people still type.
    older(works("--device")),
    older(works_switch("--disable-mm-preprocessor-cache", "as --mm-processor-cache-gb 0")),
    older(idle_switch("--disable-frontend-multiprocessing", kOneProcess)),
    older(idle_switch("--disable-v2-block-manager", kOnePool)),
    older(idle_switch("--use-v2-block-manager", kOnePool)),
    older(works_switch("--use-per-layer-block-manager", "as --kv-policy jenga")),
    older(idle_switch("--enable-two-level-page", kOnePool)),
    older(idle_switch("--disable-async-output-proc", "--async-scheduling plans ahead")),
    older(idle("--guided-decoding-backend",
               "grammars are the server's own (docs/structured-output.md)")),
    older(works_switch("--guided-decoding-disable-any-whitespace",
                       "as --structured-outputs-config with disable_any_whitespace")),
    older(idle("--max-concurrent-partial-prefills",
               "several prompts share a step's budget; --long-prefill-token-threshold bounds one")),
    older(idle("--max-long-partial-prefills",
               "several prompts share a step's budget; --long-prefill-token-threshold bounds one")),
    older(idle("--max-seq-len-to-capture", kNoGraphs)),
    older(idle("--num-scheduler-steps", "a step is one token; --async-scheduling plans ahead")),
    older(idle("--num-lookahead-slots",
               "pages for guessed tokens are taken and given back by the step")),
    older(idle("--preemption-mode", "a preempted sequence is computed again, from cached blocks")),
    older(idle("--swap-space", "a preempted sequence is computed again, from cached blocks")),
    older(refused("--task", "auto generate embed embedding", kRunnerIsFixed)),
    older(refused("--rope-scaling", "{}", "--hf-overrides '{\"rope_scaling\": ...}' does it")),
    older(refused("--rope-theta", "", "--hf-overrides '{\"rope_theta\": N}' does it")),
};

}  // namespace

std::span<const VllmFlag> vllm_flags() { return kTable; }

}  // namespace saccade

// Facts about llama-server's side: its `--help` and README (MIT); the sentences say what Saccade
// does. docs/migrate-from-llama-server.md has the same flags in a table, and tests/docs compares.
#include "apps/flags/llama_server_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace saccade {
namespace {

struct Instead {
  std::string_view names;  // between blanks
  std::string_view sentence;
};

constexpr std::array kInstead = {
    // The model
    Instead{" -m -hf -hfr --hf-repo -hff --hf-file -mu --model-url -dr --docker-repo ",
            "name the model first, `saccade serve MODEL.gguf`, or use --model: a file, a folder, "
            "or on the Hugging Face hub ORG/NAME, ORG/NAME:Q4_K_M or ORG/NAME:FILE.gguf"},
    Instead{" -mm -mmu --mmproj-url ",
            "use --mmproj: a file, or with ORG/NAME the name of one in that repository; no URL"},
    Instead{" --no-mmproj-auto ", "use --no-mmproj"},
    Instead{" --mmproj-auto --mmproj-offload --no-mmproj-offload -mmdev --mmproj-device ",
            "not needed: the mmproj file of ORG/NAME or of a folder is found without --mmproj, and "
            "runs on the model's device"},
    Instead{" -hft ", "use --hf-token"},
    Instead{" --offline ", "set the environment variable HF_HUB_OFFLINE=1"},
    Instead{" -a --alias ", "use --served-model-name"},
    Instead{" --tags ", "not supported"},
    Instead{" --lora --lora-scaled --lora-init-without-apply ",
            "use --enable-lora --lora-modules NAME=FOLDER, a folder as PEFT saves it; no GGUF"},
    Instead{" --control-vector --control-vector-scaled --control-vector-layer-range ",
            "not supported"},
    Instead{
        " --override-kv --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale "
        "--yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast ",
        "use --hf-overrides with the names of config.json, e.g. '{\"rope_scaling\": {...}}'"},
    Instead{" --check-tensors ",
            "not needed: shapes and types are always checked; `saccade model inspect` shows them"},
    Instead{" --models-dir --models-preset --models-max --models-autoload --no-models-autoload ",
            "not supported: start a server for each model"},
    // Memory and context
    Instead{" -c --ctx-size --kv-unified-per-slot ",
            "use --max-model-len; it is per request and not divided by -np"},
    Instead{" -np --parallel ",
            "use --max-num-seqs; each sequence may have all of --max-model-len"},
    Instead{" -b --batch-size -ub --ubatch-size ", "use --max-num-batched-tokens"},
    Instead{" -ctk --cache-type-k -ctv --cache-type-v ",
            "use --kv-cache-dtype: bfloat16, float32, int8 or fp8, for keys and values alike"},
    Instead{" -cram --cache-ram ", "use --kv-cache-bytes; running and cached sequences share it"},
    Instead{" --cache-reuse --cache-prompt --no-cache-prompt ",
            "not needed: prefix caching is on; turn it off with --no-enable-prefix-caching"},
    Instead{" -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step ",
            "use --mamba-block-size, the tokens between two kept states of recurrent layers; "
            "sliding windows need no checkpoints"},
    Instead{" --slots --props --no-slots --slot-save-path -sps --slot-prompt-similarity "
            "--cache-idle-slots --no-cache-idle-slots ",
            "not needed: there are no slots; cached prefixes are found by their content"},
    Instead{" --context-shift --no-context-shift --keep ",
            "not supported: an answer ends where the context does"},
    Instead{" --swa-full -dt --defrag-thold ",
            "not needed: KV pages behind a sliding window are freed, and there is nothing to "
            "defragment"},
    Instead{" -fit --fit -fitt --fit-target -fitc --fit-ctx ",
            "not needed: --max-model-len is by default what the KV cache allows; `saccade fit` "
            "lists models that fit"},
    Instead{" -lm --load-mode -lzm --lazy-mode --mlock --mmap --no-mmap --direct-io -dio ",
            "not needed: files are memory-mapped while weights are packed, then released"},
    // Processors and devices
    Instead{" -t -tb --threads-batch ", "use --threads"},
    Instead{" -C --cpu-mask -Cr --cpu-range --cpu-strict -Cb --cpu-mask-batch -Crb "
            "--cpu-range-batch --cpu-strict-batch --prio --prio-batch --poll --poll-batch ",
            "use taskset and nice"},
    Instead{" --numa ",
            "use numactl, or with --tensor-parallel-size the environment variable "
            "VLLM_CPU_OMP_THREADS_BIND"},
    Instead{" -dev ", "use --device: cpu, cuda, cuda:N or auto"},
    Instead{" --list-devices ", "use `saccade doctor`"},
    Instead{" -ngl --gpu-layers --n-gpu-layers -kvo --kv-offload --op-offload --no-op-offload ",
            "not needed; choose the device with --device cuda"},
    Instead{" -mg --main-gpu ", "use --device cuda:N"},
    Instead{" -ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe --moe-cache-mib -ncffn "
            "--n-cpu-ffn -nkvo --no-kv-offload ",
            "not supported: a model is on one device as a whole; choose it with --device"},
    Instead{" -sm --split-mode -ts --tensor-split ",
            "use --tensor-parallel-size N, which splits the model over N equal devices"},
    Instead{" --rpc ",
            "not supported: a model runs on one machine; `saccade proxy` balances several servers"},
    // What is always so
    Instead{" -fa --flash-attn -cb --cont-batching --jinja --metrics --kv-unified -kvu --repack ",
            "not needed: always on"},
    Instead{
        " -nocb --no-cont-batching --no-jinja --no-kv-unified -no-kvu --no-repack -nr --no-host ",
        "not supported: always on"},
    Instead{" --perf --no-perf ", "set \"metrics\": true in the request"},
    Instead{" --warmup --no-warmup ", "use --no-warm-up to skip the warm-up"},
    // HTTP
    Instead{" --threads-http ", "use --io-threads and --worker-threads"},
    Instead{" --no-webui --webui ", "use --ui or --no-ui"},
    Instead{" --ui-config --webui-config --ui-config-file --webui-config-file --ui-mcp-proxy "
            "--webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy --path ",
            "not supported: the page at / has no settings; --no-ui turns it off"},
    Instead{" --ssl-key-file ", "use --ssl-keyfile"},
    Instead{" --ssl-cert-file ", "use --ssl-certfile"},
    Instead{" --api-key-file ", "use --api-key KEY, or the environment variable SACCADE_API_KEY"},
    Instead{" --api-prefix ", "use --root-path"},
    Instead{" --cors-origins ", "use --allowed-origins"},
    Instead{" --cors-methods --cors-headers --cors-credentials --no-cors-credentials ",
            "not needed: --allowed-origins may use every method and header; with cookies: "
            "--allow-credentials"},
    Instead{" -to --timeout --sse-ping-interval --reuse-port ",
            "not supported: docs/api.md has the limits of a connection"},
    Instead{" --media-path ", "use --allowed-local-media-path"},
    Instead{" --tools --tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent -no-ag "
            "--no-agent ",
            "not supported: clients run tools (docs/tools.md)"},
    Instead{" --sleep-idle-seconds ",
            "not supported: memory is not released while the server runs"},
    // Chat
    Instead{" --chat-template-file ", "use --chat-template, which takes a file too"},
    Instead{" --chat-template-kwargs ", "use --default-chat-template-kwargs"},
    Instead{" --reasoning-format --skip-chat-parsing --no-skip-chat-parsing ",
            "use --reasoning-parser; without it reasoning stays in the content"},
    Instead{" -rea --reasoning --reasoning-effort ",
            "set `reasoning_effort` in the request, or a default with "
            "--default-chat-template-kwargs '{\"enable_thinking\": false}'"},
    Instead{" --reasoning-budget --reasoning-budget-message --reasoning-preserve "
            "--no-reasoning-preserve ",
            "not supported: `max_tokens` of a request counts reasoning too"},
    Instead{" --prefill-assistant --no-prefill-assistant ",
            "set `continue_final_message` in the request"},
    Instead{" --embedding --embeddings --rerank --reranking --pooling --embd-normalize ",
            "not needed: a sentence encoder embeds and ranks without a flag"},
    Instead{" --spm-infill ", "not supported: there is no /infill"},
    // Images and videos
    Instead{
        " --image-min-tokens --image-max-tokens ",
        "use --mm-processor-kwargs '{\"min_pixels\": N, \"max_pixels\": N}': pixels, not tokens"},
    Instead{" --mtmd-batch-max-tokens ",
            "use --tpot-target-ms: images are encoded in pieces that keep to it"},
    Instead{" --video-fps ", "use --media-io-kwargs '{\"video\": {\"fps\": N}}'"},
    Instead{" --video-timestamp-interval --video-ffmpeg-dir ",
            "not supported: videos are decoded by saccade-video-decoder, with the model's own "
            "timestamps (docs/videos.md)"},
    // Sampling
    Instead{" -n --predict --n-predict ", "set `max_tokens` in the request"},
    Instead{" --temp --temperature ",
            "set `temperature` in the request, or a default with --override-generation-config "
            "'{\"temperature\": 0.7}'"},
    Instead{" --top-k ",
            "set `top_k` in the request, or a default with --override-generation-config "
            "'{\"top_k\": 40}'"},
    Instead{" --top-p ",
            "set `top_p` in the request, or a default with --override-generation-config "
            "'{\"top_p\": 0.95}'"},
    Instead{" --min-p ",
            "set `min_p` in the request, or a default with --override-generation-config "
            "'{\"min_p\": 0.05}'"},
    Instead{" --repeat-penalty ",
            "set `repetition_penalty` in the request, or a default with "
            "--override-generation-config '{\"repetition_penalty\": 1.1}'"},
    Instead{" -s ", "use --seed"},
    Instead{" --presence-penalty ", "set `presence_penalty` in the request"},
    Instead{" --frequency-penalty ", "set `frequency_penalty` in the request"},
    Instead{" --ignore-eos ", "set `ignore_eos` in the request"},
    Instead{" -l --logit-bias ", "set `logit_bias` in the request"},
    Instead{" --grammar --grammar-file ",
            "set `grammar` in the request (docs/structured-output.md)"},
    Instead{" -j --json-schema -jf --json-schema-file ",
            "set `json_schema` in the request (docs/structured-output.md)"},
    Instead{" -r --reverse-prompt ", "set `stop` in the request"},
    Instead{" -sp --special ", "set `skip_special_tokens` to false in the request"},
    Instead{" -e --escape --no-escape ", "not needed: prompts are JSON strings"},
    Instead{
        " --samplers --sampler-seq --sampling-seq --top-nsigma --top-n-sigma --xtc-probability "
        "--xtc-threshold --typical --typical-p --repeat-last-n --dry-multiplier --dry-base "
        "--dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker --adaptive-target "
        "--adaptive-decay --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent ",
        "not supported: the samplers are temperature, top_p, top_k, min_p and penalties"},
    Instead{" -bs --backend-sampling ",
            "not needed: tokens are always sampled on the model's device"},
    // Speculative decoding
    Instead{" -md --model-draft --spec-draft-model --spec-draft-hf -hfd -hfrd --hf-repo-draft "
            "--draft --draft-n --draft-max --spec-draft-n-max --spec-type --spec-default -lcs "
            "--lookup-cache-static -lcd --lookup-cache-dynamic ",
            "use --speculative-config '{\"model\": \"DIR\", \"num_speculative_tokens\": 4}', or "
            "'{\"method\": \"ngram\", \"num_speculative_tokens\": 4}'"},
    Instead{" -td --threads-draft -tbd --threads-batch-draft -Cd --cpu-mask-draft -Crd "
            "--cpu-range-draft --cpu-strict-draft --prio-draft --poll-draft -Cbd "
            "--cpu-mask-batch-draft --cpu-strict-batch-draft --prio-batch-draft --poll-batch-draft "
            "-otd --override-tensor-draft -cmoed --cpu-moe-draft -ncmoed --n-cpu-moe-draft -devd "
            "--device-draft -ngld --gpu-layers-draft --n-gpu-layers-draft -ctkd "
            "--cache-type-k-draft -ctvd --cache-type-v-draft ",
            "not needed: a draft model runs on the model's device, with its threads"},
    // The log
    Instead{" -v --verbose --log-verbose -lv --verbosity --log-verbosity ",
            "use --log-level debug"},
    Instead{" --log-disable --log-file --log-jsonl --no-log-jsonl --log-colors --log-prefix "
            "--no-log-prefix --log-timestamps --no-log-timestamps ",
            "not supported: the log goes to standard error, a line per event"},
    Instead{" --log-prompts-dir ", "not supported: prompts are never logged"},
    Instead{" -cl --cache-list ",
            "not supported: downloads are in the Hugging Face cache (HF_HOME)"},
    Instead{" --completion-bash ", "use `saccade completion bash`"},
};

// Whole families of flags, by how they begin.
constexpr std::array kBegins = {
    Instead{"--spec-", "use --speculative-config"},
    Instead{"--draft-", "use --speculative-config"},
};

}  // namespace

std::string_view instead_of_llama_server_flag(std::string_view flag) {
  const auto found = std::ranges::find_if(kInstead, [&](const Instead& row) {
    return row.names.find(fmt::format(" {} ", flag)) != std::string_view::npos;
  });
  if (found != kInstead.end()) return found->sentence;
  const auto begun = std::ranges::find_if(
      kBegins, [&](const Instead& row) { return flag.starts_with(row.names); });
  return begun == kBegins.end() ? std::string_view() : begun->sentence;
}

}  // namespace saccade

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
    Instead{
        " -m -hf -hfr --hf-repo -hff --hf-file -mu --model-url -dr --docker-repo ",
        "the model is the first word, `saccade serve MODEL.gguf`, or --model: a file, a folder, "
        "or of the Hugging Face hub ORG/NAME and ORG/NAME:Q4_K_M or ORG/NAME:FILE.gguf"},
    Instead{" -mm -mmu --mmproj-url ", "--mmproj takes a file, or the name of one beside ORG/NAME"},
    Instead{" --no-mmproj-auto ", "--no-mmproj"},
    Instead{
        " --mmproj-auto --mmproj-offload --no-mmproj-offload "
        "-mmdev --mmproj-device ",
        "a vision tower is on the model's device; of ORG/NAME and of a folder the projector that "
        "lies beside the model is taken without --mmproj"},
    Instead{" -hft ", "--hf-token"},
    Instead{" --offline ", "the variable HF_HUB_OFFLINE=1"},
    Instead{" -a --alias ", "--served-model-name"},
    Instead{" --tags ", "/v1/models lists names, and no tags"},
    Instead{" --lora --lora-scaled --lora-init-without-apply ",
            "--enable-lora --lora-modules NAME=FOLDER, a folder as PEFT saves it; no GGUF"},
    Instead{" --control-vector --control-vector-scaled --control-vector-layer-range ",
            "there are no control vectors"},
    Instead{" --override-kv --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale "
            "--yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow "
            "--yarn-beta-fast ",
            "--hf-overrides JSON is laid over config.json, which a GGUF's metadata become"},
    Instead{" --check-tensors ",
            "shapes and types are always checked; `saccade model inspect` shows them"},
    Instead{" --models-dir --models-preset --models-max --models-autoload --no-models-autoload ",
            "a server has one model: start one for each"},
    // Memory and context
    Instead{" -c --ctx-size --kv-unified-per-slot ", "--max-model-len, of one request"},
    Instead{" -np --parallel ", "--max-num-seqs; each has the whole --max-model-len"},
    Instead{" -b --batch-size -ub --ubatch-size ", "--max-num-batched-tokens"},
    Instead{" -ctk --cache-type-k -ctv --cache-type-v ", "--kv-cache-dtype"},
    Instead{" -cram --cache-ram ", "--kv-cache-bytes, of all keys and values, cached ones too"},
    Instead{" --cache-reuse --cache-prompt --no-cache-prompt ", "--enable-prefix-caching"},
    Instead{" -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step ",
            "--mamba-block-size says how far apart kept states are; windows need none"},
    Instead{" --slots --props --no-slots --slot-save-path -sps --slot-prompt-similarity "
            "--cache-idle-slots --no-cache-idle-slots ",
            "there are no slots: prefixes are found again by their content "
            "(--enable-prefix-caching)"},
    Instead{" --context-shift --no-context-shift --keep ",
            "an answer ends where the context does; nothing is shifted out"},
    Instead{" --swa-full -dt --defrag-thold ",
            "pages that a window has passed are given back, and nothing has to be defragmented"},
    Instead{" -fit --fit -fitt --fit-target -fitc --fit-ctx ",
            "--max-model-len 0 takes what the cache holds; `saccade fit` says what fits"},
    Instead{" -lm --load-mode -lzm --lazy-mode --mlock --mmap --no-mmap --direct-io -dio ",
            "files are mapped while weights are packed, then let go"},
    // Processors and devices
    Instead{" -t -tb --threads-batch ", "--threads"},
    Instead{" -C --cpu-mask -Cr --cpu-range --cpu-strict -Cb --cpu-mask-batch -Crb "
            "--cpu-range-batch --cpu-strict-batch --prio --prio-batch --poll --poll-batch ",
            "taskset and nice say it of the process"},
    Instead{" --numa ", "numactl, or the variable VLLM_CPU_OMP_THREADS_BIND with ranks"},
    Instead{" -dev ", "--device"},
    Instead{" --list-devices ", "`saccade doctor` shows them"},
    Instead{" -ngl --gpu-layers --n-gpu-layers -mg --main-gpu -ot --override-tensor -cmoe "
            "--cpu-moe -ncmoe --n-cpu-moe --moe-cache-mib -ncffn --n-cpu-ffn -kvo --kv-offload "
            "-nkvo --no-kv-offload --op-offload --no-op-offload ",
            "a model is on one device as a whole: --device"},
    Instead{" -sm --split-mode -ts --tensor-split ",
            "--tensor-parallel-size N shares a model by N equal devices"},
    Instead{" --rpc ", "a model is on one machine; `saccade proxy` puts several in front"},
    // What is always so
    Instead{" -fa --flash-attn -cb --cont-batching --jinja --metrics --kv-unified -kvu --repack ",
            "always on: leave it out"},
    Instead{" -nocb --no-cont-batching --no-jinja --no-kv-unified -no-kvu --no-repack -nr "
            "--no-host ",
            "always on: it cannot be turned off"},
    Instead{" --perf --no-perf ", "requests say it: \"metrics\": true"},
    Instead{" --warmup --no-warmup ", "--no-warm-up"},
    // HTTP
    Instead{" --threads-http ", "--io-threads and --worker-threads"},
    Instead{" --no-webui --webui ", "--no-ui"},
    Instead{" --ui-config --webui-config --ui-config-file --webui-config-file --ui-mcp-proxy "
            "--webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy --path ",
            "the page at / has no settings; --no-ui leaves it out"},
    Instead{" --ssl-key-file ", "--ssl-keyfile"},
    Instead{" --ssl-cert-file ", "--ssl-certfile"},
    Instead{" --api-key-file ", "--api-key KEY..., or the variable VLLM_API_KEY"},
    Instead{" --api-prefix ", "--root-path"},
    Instead{" --cors-origins ", "--allowed-origins"},
    Instead{" --cors-methods --cors-headers --cors-credentials --no-cors-credentials ",
            "pages of --allowed-origins may use every method and header; --allow-credentials"},
    Instead{" -to --timeout --sse-ping-interval --reuse-port ",
            "there is no such setting; docs/api.md has the limits of a connection"},
    Instead{" --media-path ", "--allowed-local-media-path"},
    Instead{" --tools --tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent -no-ag "
            "--no-agent ",
            "the server runs no tools: clients do (docs/tools.md)"},
    Instead{" --sleep-idle-seconds ", "memory is not given back while the server runs"},
    // Chat
    Instead{" --chat-template-file ", "--chat-template takes a file, too"},
    Instead{" --chat-template-kwargs ", "--default-chat-template-kwargs"},
    Instead{" --reasoning-format --skip-chat-parsing --no-skip-chat-parsing ",
            "--reasoning-parser; none leaves thoughts in the content"},
    Instead{" -rea --reasoning --reasoning-effort ",
            "requests say it, reasoning_effort; for those that do not, "
            "--default-chat-template-kwargs '{\"enable_thinking\": false}'"},
    Instead{" --reasoning-budget --reasoning-budget-message --reasoning-preserve "
            "--no-reasoning-preserve ",
            "thoughts have no budget of their own; max_tokens counts them"},
    Instead{" --prefill-assistant --no-prefill-assistant ",
            "requests say it: continue_final_message"},
    Instead{" --embedding --embeddings --rerank --reranking --pooling --embd-normalize ",
            "a sentence encoder embeds and ranks without a flag, pooled as it was trained"},
    Instead{" --spm-infill ", "there is no /infill"},
    // Images and videos
    Instead{" --image-min-tokens --image-max-tokens ",
            "--mm-processor-kwargs '{\"min_pixels\": N, \"max_pixels\": N}'"},
    Instead{" --mtmd-batch-max-tokens ",
            "images are encoded between steps, by time: --tpot-target-ms"},
    Instead{" --video-fps ", "--media-io-kwargs '{\"video\": {\"fps\": N}}'"},
    Instead{
        " --video-timestamp-interval --video-ffmpeg-dir ",
        "the video decoder is saccade-video-decoder, and times are the model's (docs/videos.md)"},
    // Sampling
    Instead{" -n --predict --n-predict ", "requests say it: max_tokens"},
    Instead{
        " --temp --temperature --top-k --top-p --min-p --repeat-penalty ",
        "requests say it; for those that do not, --override-generation-config '{\"temperature\": "
        "0.7}'"},
    Instead{" -s ", "--seed"},
    Instead{" --presence-penalty --frequency-penalty --ignore-eos -l --logit-bias --grammar "
            "--grammar-file -j --json-schema -jf --json-schema-file -r --reverse-prompt -sp "
            "--special -e --escape --no-escape ",
            "requests say it (docs/api.md)"},
    Instead{" --samplers --sampler-seq --sampling-seq --top-nsigma --top-n-sigma "
            "--xtc-probability --xtc-threshold --typical --typical-p --repeat-last-n "
            "--dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n "
            "--dry-sequence-breaker --adaptive-target --adaptive-decay --dynatemp-range "
            "--dynatemp-exp --mirostat --mirostat-lr --mirostat-ent ",
            "there is no such sampler: temperature, top_p, top_k, min_p and penalties are vLLM's"},
    Instead{" -bs --backend-sampling ", "tokens are always sampled on the device"},
    // Speculative decoding
    Instead{" -md --model-draft --spec-draft-model --spec-draft-hf -hfd -hfrd --hf-repo-draft "
            "--draft --draft-n --draft-max --spec-draft-n-max --spec-type --spec-default "
            "-lcs --lookup-cache-static -lcd --lookup-cache-dynamic ",
            "--speculative-config '{\"model\":\"DIR\",\"num_speculative_tokens\":4}', or "
            "'{\"method\":\"ngram\",\"num_speculative_tokens\":4}'"},
    Instead{" -td --threads-draft -tbd --threads-batch-draft -Cd --cpu-mask-draft -Crd "
            "--cpu-range-draft --cpu-strict-draft --prio-draft --poll-draft -Cbd "
            "--cpu-mask-batch-draft --cpu-strict-batch-draft --prio-batch-draft "
            "--poll-batch-draft -otd --override-tensor-draft -cmoed --cpu-moe-draft -ncmoed "
            "--n-cpu-moe-draft -devd --device-draft -ngld --gpu-layers-draft "
            "--n-gpu-layers-draft -ctkd --cache-type-k-draft -ctvd --cache-type-v-draft ",
            "a draft model runs on the model's device, with its threads and types"},
    // The log
    Instead{" -v --verbose --log-verbose -lv --verbosity --log-verbosity ", "--log-level debug"},
    Instead{" --log-disable --log-file --log-jsonl --no-log-jsonl --log-colors --log-prefix "
            "--no-log-prefix --log-timestamps --no-log-timestamps ",
            "the log goes to standard error, a line an event"},
    Instead{" --log-prompts-dir ", "prompts are never written to the log"},
    Instead{" -cl --cache-list ", "`saccade model pull` downloads; HF_HOME is where"},
    Instead{" --completion-bash ", "`saccade completion bash`"},
};

// Whole families of flags, by how they begin.
constexpr std::array kBegins = {
    Instead{"--spec-", "speculative decoding has one flag: --speculative-config"},
    Instead{"--draft-", "speculative decoding has one flag: --speculative-config"},
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

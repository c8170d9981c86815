// Facts about llama-server's side: its `--help` and README (MIT); the sentences say what Saccade
// does.
#include "apps/llama_server_flags.h"

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
    Instead{
        " -m -hf -hfr --hf-repo -hff --hf-file -mu --model-url ",
        "the model is the first word, `saccade serve MODEL.gguf`, or --model: a file, a folder, "
        "or ORG/NAME of a Hugging Face checkpoint"},
    Instead{" -mm -mmu --mmproj-url ", "--mmproj takes a file"},
    Instead{" --mmproj-offload --no-mmproj ",
            "a vision tower is on the model's device; without --mmproj there is none"},
    Instead{" -c --ctx-size ", "--max-model-len, of one request"},
    Instead{" -n --predict --n-predict ", "requests say it: max_tokens"},
    Instead{" -np --parallel ", "--max-num-seqs; each has the whole --max-model-len"},
    Instead{" -b --batch-size -ub --ubatch-size ", "--max-num-batched-tokens"},
    Instead{" -ngl --gpu-layers --n-gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu ",
            "a model is on one device as a whole: --device"},
    Instead{" -t -tb --threads-batch ", "--threads"},
    Instead{" --threads-http ", "--io-threads and --worker-threads"},
    Instead{" -a --alias ", "--served-model-name"},
    Instead{" -fa --flash-attn -cb --cont-batching --jinja --metrics --kv-unified -kvu ",
            "always on: leave it out"},
    Instead{
        " --slots --props --no-slots --slot-save-path ",
        "there are no slots: prefixes are found again by their content (--enable-prefix-caching)"},
    Instead{" --cache-reuse --cache-prompt --no-cache-prompt ", "--enable-prefix-caching"},
    Instead{" -ctk --cache-type-k -ctv --cache-type-v ", "--kv-cache-dtype"},
    Instead{" --mlock --mmap --no-mmap ",
            "safetensors are mapped while they are packed, then let go"},
    Instead{" --chat-template-file ", "--chat-template takes a file, too"},
    Instead{" --embedding --embeddings --rerank --reranking ",
            "a sentence encoder embeds and ranks without a flag"},
    Instead{" --reasoning-format ", "--reasoning-parser"},
    Instead{" --no-webui --webui ", "--no-ui"},
    Instead{" --ssl-key-file ", "--ssl-keyfile"},
    Instead{" --ssl-cert-file ", "--ssl-certfile"},
    Instead{" --api-key-file ", "--api-key KEY..., or the variable VLLM_API_KEY"},
    Instead{" --api-prefix ", "--root-path"},
    Instead{" -md --model-draft --draft --draft-max ",
            "--speculative-config '{\"model\":\"DIR\",\"num_speculative_tokens\":4}'"},
    Instead{" --lora --lora-scaled ", "docs/flags.md says it of --enable-lora"},
    Instead{
        " --temp --top-k --top-p --min-p --repeat-penalty -s ",
        "requests say it; for those that do not, --override-generation-config '{\"temperature\": "
        "0.7}'"},
};

}  // namespace

std::string_view instead_of_llama_server_flag(std::string_view flag) {
  const auto found = std::ranges::find_if(kInstead, [&](const Instead& row) {
    return row.names.find(fmt::format(" {} ", flag)) != std::string_view::npos;
  });
  return found == kInstead.end() ? std::string_view() : found->sentence;
}

}  // namespace saccade

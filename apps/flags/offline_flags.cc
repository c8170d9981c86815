// Flags that `saccade serve` and `saccade batch` share, by the groups of --help.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "apps/flags/choice_flag.h"
#include "apps/flags/device_flag.h"
#include "apps/flags/gpu_flags.h"
#include "apps/flags/serve_flags.h"
#include "apps/flags/size_flag.h"

namespace saccade {
namespace {

// To names that vLLM has besides.
std::string_view kv_dtype_instead(std::string_view name) {
  if (name == "fp8_e5m2") return "; fp8_e4m3 takes as many bytes";
  if (name == "fp8_inc" || name == "fp8_ds_mla") return "; that one is of other devices: say fp8";
  if (name == "float16" || name == "half") return "; bfloat16 takes as many bytes";
  if (name == "nvfp4" || name == "int4_per_token_head" || name.starts_with("turboquant"))
    return "; bytes are the least: say int8 or fp8";
  return "";
}

// Names become those of serve::kKvDtypes.
CLI::Validator kv_dtype() {
  return {[](std::string& text) {
            if (text == "fp8_e4m3" || text == "fp8_per_token_head") text = "fp8";
            if (text == "int8_per_token_head") text = "int8";
            if (find_named(serve::kKvDtypes, text) != nullptr) return std::string();
            return fmt::format(
                "'{}' is not supported: keys and values are kept as bfloat16, float32, int8 or fp8 "
                "(e4m3), and auto is as --dtype{}",
                text, kv_dtype_instead(text));
          },
          ""};
}

// Whether weights are made up.
constexpr std::array<Named<bool>, 3> kLoadFormats{
    {{"auto", false}, {"safetensors", false}, {"dummy", true}}};

CLI::Validator load_format() {
  return {[](std::string& text) {
            if (find_named(kLoadFormats, text) != nullptr) return std::string();
            return fmt::format(
                "'{}' is not supported: checkpoints are read from safetensors (auto), or made up "
                "(dummy); convert others with transformers' save_pretrained",
                text);
          },
          ""};
}

// auto and -1 are 0.
CLI::Validator length_or_auto() {
  return {[](std::string& text) {
            if (text == "auto" || text == "-1") text = "0";
            return as_count()(text);
          },
          ""};
}

void add_model_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.option_defaults()->group("Model");
  cmd.add_option(
      "--model", s.model,
      "checkpoint: a folder, MODEL.gguf, or on the Hugging Face hub ORG/NAME or ORG/NAME:Q4_K_M");
  cmd.add_option("--served-model-name", s.served_model_name, "model names that requests may use")
      ->expected(1, -1)
      ->default_str("the value of --model");
  cmd.add_option("--mmproj", f.projector,
                 "vision tower of a GGUF model: a file, or with ORG/NAME the name of one in that "
                 "repository (docs/gguf.md)");
  cmd.add_flag("--no-mmproj", f.text_alone, "serve a GGUF model without its vision tower")
      ->excludes("--mmproj");
  add_device_flag(cmd, s.device);
  add_choice(cmd, "--dtype", s.dtype, serve::kDtypes,
             "compute type; auto: the checkpoint's; float16 is computed as float32")
      ->capture_default_str();
  cmd.add_option("--threads", s.threads,
                 "compute threads; 0: one per core, within the control group's CPU quota")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  cmd.add_option(
         "--tensor-parallel-size", s.tensor_parallel,
         "number of GPUs to split the model over, or on a CPU of parts of --threads (docs/cuda.md)")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  add_named(cmd, "--load-format", s.random_weights, kLoadFormats,
            "auto or safetensors: the checkpoint's weights; dummy: random weights")
      ->capture_default_str()
      ->check(load_format());
  cmd.add_option("--packed-cache", s.packed_cache,
                 "folder for packed weights: the first start on a CPU writes them, later starts "
                 "read them and load faster (docs/quantised.md)");
  cmd.add_option("--tokenizer", f.tokenizer,
                 "folder or ORG/NAME to take the tokenizer and chat template from")
      ->default_str("the checkpoint's");
  cmd.add_option("--tokenizer-revision", f.tokenizer_revision,
                 "branch, tag or commit of a --tokenizer on the hub")
      ->default_str("main");
  cmd.add_option("--revision", f.revision, "branch, tag or commit of a --model on the hub")
      ->default_str("main");
  cmd.add_option("--download-dir", f.download_directory,
                 "folder to look for hub checkpoints in, and to download them to")
      ->default_str("the Hugging Face cache");
  // No default: CLI11 would take it for a value that is left out.
  cmd.add_option("--hf-token", f.hub_token,
                 "token for downloads from the hub (also HF_TOKEN); without a value: the stored "
                 "one, of HF_TOKEN_PATH")
      ->expected(0, 1);
  cmd.add_option("--hf-overrides", f.config_overrides, "JSON to merge into config.json");
}

void add_quantization_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.option_defaults()->group("Quantization (docs/quantised.md)");
  cmd.add_option(
         "--quantization", s.quantization,
         "quantise the text layers at load: int8 (W8A8) or int4 (W4A8, on a GPU W4A16), on a CPU "
         "the head too; awq, gptq, fp8, compressed-tensors: must be what the checkpoint has")
      ->default_str("what the checkpoint has");
  cmd.add_flag("--quantize-head", s.quantize_head,
               "quantise the output head to int8, with --quantization int8 or int4; on a CPU the "
               "default, except with --weight-only");
  cmd.add_flag("--quantize-tower", s.quantize_tower,
               "quantise the vision tower's layers to int8 at load; all encoders and decoders of a "
               "cluster must agree on it");
  cmd.add_flag("--quantize-activations", s.quantize_activations,
               "round activations to int8 before products with 4-bit weights (W4A8); on a CPU the "
               "default of --quantization int4, except with --weight-only");
  cmd.add_flag("--dequantize", s.dequantize,
               "dequantise the weights of an AWQ, GPTQ, fp8, compressed-tensors or GGUF checkpoint "
               "to --dtype at load");
  cmd.add_flag("--weight-only", s.weight_only,
               "do not round activations or the head: int4 is W4A16, 8-bit checkpoints are W8A16, "
               "of a GGUF only Q4_0 stays quantised; --quantization int8 stays W8A8");
}

void add_chat_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.option_defaults()->group("Requests and answers");
  cmd.add_option("--chat-template", s.chat_template, "chat template: a file, or the template text")
      ->default_str("the checkpoint's");
  cmd.add_flag("--trust-request-chat-template,!--no-trust-request-chat-template",
               s.trust_request_chat_template, "accept chat_template in requests");
  cmd.add_option("--default-chat-template-kwargs", f.chat_template_kwargs,
                 "JSON of chat template variables for requests that do not set them, e.g. "
                 "{\"enable_thinking\": false}");
  cmd.add_option("--tool-call-parser", s.tool_call_parser,
                 "format of tool calls in the model's output (docs/tools.md); auto: found in the "
                 "chat template")
      ->capture_default_str();
  cmd.add_flag("--enable-auto-tool-choice,!--no-enable-auto-tool-choice", s.auto_tool_choice,
               "accept tool_choice \"auto\"; --no-enable-auto-tool-choice refuses it with 400")
      ->default_str("on");
  cmd.add_flag_callback(
      "--exclude-tools-when-tool-choice-none", [&s] { s.tools_without_choice = false; },
      "hide the tools from the chat template when tool_choice is \"none\"");
  cmd.add_option("--reasoning-parser", s.reasoning_parser,
                 "format of the reasoning to separate from the content (docs/tools.md); auto: "
                 "found in the chat template; without this flag it stays in the content");
  cmd.add_option("--structured-outputs-config", f.structured_outputs_config,
                 "JSON: {\"disable_any_whitespace\": true} allows the least whitespace in JSON "
                 "answers, false any amount (docs/structured-output.md)")
      ->default_str("at most 32 bytes in a row");
  cmd.add_flag_callback(
      "--guided-decoding-disable-any-whitespace",
      [&s] { s.blanks = api::StructuredOutput::Blanks::kNone; },
      "same as --structured-outputs-config '{\"disable_any_whitespace\": true}'");
  cmd.add_option("--generation-config", f.generation_config,
                 "sampling defaults: auto (the checkpoint's), vllm (none), or a folder with "
                 "generation_config.json")
      ->capture_default_str();
  cmd.add_option("--override-generation-config", f.generation_overrides,
                 "JSON of sampling defaults, e.g. {\"temperature\": 0.7}, over those of "
                 "--generation-config; max_new_tokens also limits every answer");
  cmd.add_option("--seed", s.engine.seed, "seed for requests that set none")->capture_default_str();
  cmd.add_option("--max-logprobs", s.engine.max_logprobs,
                 "most log-probabilities per token that a request may ask for; -1: no limit")
      ->capture_default_str()
      ->check(CLI::Range(-1, 1 << 20));
  cmd.add_flag("--return-tokens-as-token-ids,!--no-return-tokens-as-token-ids",
               s.tokens_as_ids_always, "write tokens in logprobs as \"token_id:42\"");
  cmd.add_flag("--enable-force-include-usage,!--no-enable-force-include-usage", s.usage_always,
               "send usage with every chunk of a stream, and in a last chunk of its own");
  cmd.add_flag(
      "--enable-per-request-metrics,!--no-enable-per-request-metrics", s.metrics_always,
      "add the times of its stages to every answer, as \"metrics\": true in a request does");
}

void add_server_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.option_defaults()->group("Server");
  cmd.add_option("--max-body-mib", f.body_mib, "largest request body in MiB; larger ones get 413")
      ->capture_default_str()
      ->check(CLI::Range(1, 65'536));
  cmd.add_option(
         "--worker-threads,--renderer-num-workers", s.worker_threads,
         "threads that parse and tokenise requests; of two or more, one takes short texts only")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_option("--drain-seconds,--shutdown-timeout", f.drain_seconds,
                 "seconds that running requests have to finish after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
}

void add_fetch_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.add_option("--allowed-local-media-path", s.media.allowed_local_path,
                 "folder that file:// URLs may read; without it they are refused");
  cmd.add_option("--allowed-media-domains", s.media.allowed_domains,
                 "hosts that http(s) media may come from, and their subdomains; without it http(s) "
                 "URLs are refused")
      ->expected(1, -1);
  cmd.add_flag("--media-environment-proxies", s.media.environment_proxies,
               "fetch media through HTTP_PROXY, HTTPS_PROXY and NO_PROXY; the proxy then resolves "
               "the host names");
  cmd.add_flag("--allow-private-media-addresses", s.media.allow_private_addresses,
               "let --allowed-media-domains resolve to loopback, private and link-local addresses");
  cmd.add_option("--media-timeout", f.media_seconds, "seconds to fetch all media of a request")
      ->default_str("30")
      ->check(CLI::Range(1, 86'400));
}

void add_media_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.option_defaults()->group("Images and videos");
  cmd.add_option("--limit-mm-per-prompt", f.limit_mm,
                 "most images and videos per request: image=10 video=2, or JSON")
      ->expected(1, -1)
      ->default_str(fmt::format("image={} video={}", s.limit_mm_per_prompt.at("image"),
                                s.limit_mm_per_prompt.at("video")));
  cmd.add_flag("--language-model-only,!--no-language-model-only", f.language_model_only,
               "refuse requests with images or videos");
  add_fetch_flags(cmd, f);
  cmd.add_option("--mm-processor-kwargs", f.mm_processor_kwargs,
                 "JSON {\"min_pixels\": N, \"max_pixels\": N}: bounds of an image's size, for "
                 "requests that set none")
      ->default_str("the checkpoint's");
  cmd.add_option("--max-image-pixels", s.max_image_pixels, "most pixels of one image, as sent")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{178'956'970}));
  add_bytes(cmd, "--max-request-media-bytes", s.max_request_media_bytes,
            "most bytes of all images and frames of a request, as sent, e.g. 512MiB");
  add_bytes(cmd, "--max-pixel-bytes", s.engine.max_pixel_bytes,
            "memory for decoded images that wait for the encoder, of all requests, e.g. 512MiB");
  cmd.add_option("--image-threads", s.engine.pixel_threads, "threads that decode and resize images")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_option("--media-io-kwargs", f.media_io_kwargs,
                 "JSON {\"video\": {\"num_frames\": N, \"fps\": N}}: frames to take from a video "
                 "file, for requests that do not say")
      ->default_str("the checkpoint's");
  cmd.add_option("--max-video-frames", s.max_video_frames, "most frames of one video")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  add_bytes(cmd, "--max-video-bytes", s.media.max_video_bytes,
            "most bytes of one video file, e.g. 256MiB");
  cmd.add_option("--video-timeout", f.video_seconds, "most seconds for decoding one video file")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
  cmd.add_option("--video-threads", s.video_threads, "video files decoded at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_flag("--enable-mm-embeds,!--no-enable-mm-embeds", s.mm_embeds,
               "accept image_embeds in requests; only for clients that you trust");
}

void add_image_size_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings.image_size;
  cmd.option_defaults()->group("Image sizes (docs/image-sizes.md)");
  cmd.add_option("--image-size", f.image_size,
                 "rule for image sizes: vanilla (what clients and the checkpoint say), static:N, "
                 "seed, seed-as-published, or dynamic (keeps to --ttft-target)")
      ->capture_default_str();
  cmd.add_option("--ttft-target", f.ttft_target,
                 "time to first token that --image-size seed and dynamic aim at, e.g. 500ms")
      ->capture_default_str();
  cmd.add_option("--seed-line", f.seed_line,
                 "SLOPE,INTERCEPT[,SECOND] for --image-size seed; `saccade profile` prints the "
                 "line of this machine")
      ->default_str(fmt::format("{},{}", s.seed_line.slope, s.seed_line.intercept));
  cmd.add_option("--image-floor", s.floor,
                 "fewest tokens that --image-size dynamic leaves an image")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  add_choice(cmd, "--over-target", s.refuse_late, kOverTargets,
             "with --image-size dynamic, requests that are late even at the least sizes: accept, "
             "or refuse with 503")
      ->capture_default_str();
  cmd.add_option("--profile-folder", s.profile_folder,
                 "folder for the measured costs of encoding and prefill")
      ->default_str("~/.cache/saccade");
}

void add_memory_flags(CLI::App& cmd, ServeFlags& f) {
  auto& e = f.settings.engine;
  cmd.option_defaults()->group("Memory and caches (docs/memory.md)");
  cmd.add_option("--max-model-len", e.max_model_len,
                 "most tokens of a prompt and its answer; auto, 0 or -1: what the model and the KV "
                 "cache allow")
      ->default_str("auto")
      ->transform(length_or_auto())
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
  add_bytes(cmd, "--kv-cache-bytes,--kv-cache-memory-bytes,--kv-cache-memory", e.kv_cache_bytes,
            "size of the KV cache, e.g. 4GiB; 0: half of the free memory, at most what "
            "--max-num-seqs can use; on a GPU what --gpu-memory-utilization leaves");
  add_named(cmd, "--kv-cache-dtype", f.settings.kv_dtype, serve::kKvDtypes,
            "type of the KV cache: auto (as --dtype), bfloat16, float32, or int8 and fp8, which "
            "take about half of bfloat16's memory")
      ->capture_default_str()
      ->transform(kv_dtype());
  cmd.add_option("--block-size", e.block_size, "tokens per KV cache block")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cmd.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", e.prefix_caching,
               "reuse the KV cache of prompts that begin alike")
      ->default_str("on");
  cmd.add_option("--mamba-block-size", e.state_interval,
                 "tokens between the states of recurrent layers that prefix caching keeps, rounded "
                 "up to whole blocks")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  add_choice(
      cmd, "--kv-policy", e.kv_policy, kKvPolicies,
      "how layers of different kinds share the KV cache: jenga, or a baseline to compare with")
      ->capture_default_str();
  cmd.add_flag("--use-per-layer-block-manager", f.per_layer_pages, "same as --kv-policy jenga");
  add_choice(cmd, "--encoder-cache", e.encoder_cache, kEncoderCaches,
             "image embeddings: store keeps them for later requests, overlay puts them into the "
             "request's own KV pages, off encodes each image again")
      ->capture_default_str();
  add_bytes(cmd, "--encoder-cache-bytes", e.encoder_cache_bytes,
            "memory for cached image embeddings, e.g. 1GiB");
  cmd.add_option("--mm-processor-cache-gb", f.media_cache_gib,
                 "same as --encoder-cache-bytes, in GiB; 0: same as --encoder-cache off")
      ->check(CLI::Range(0.0, 65536.0));
  cmd.add_flag_callback(
      "--disable-mm-preprocessor-cache", [&f] { f.media_cache_gib = 0; },
      "same as --mm-processor-cache-gb 0");
  cmd.add_option("--mm-uuid-cache-gb", f.kept_image_gib,
                 "GiB of images kept under the uuid that a client gave them; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 65536.0));
  add_bytes(
      cmd, "--max-preparing-bytes", f.settings.max_preparing_bytes,
      "memory for the bodies and media of all requests, e.g. 1GiB; beyond it requests get 503");
  add_bytes(cmd, "--response-store-bytes", f.settings.response_store_bytes,
            "memory for stored answers of /v1/responses, e.g. 1GiB; 0: none are stored");
}

void add_scheduling_flags(CLI::App& cmd, ServeFlags& f) {
  auto& e = f.settings.engine;
  cmd.option_defaults()->group("Scheduling");
  cmd.add_option("--max-num-seqs", e.max_sequences, "most sequences that run at once")
      ->transform(as_count())
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  cmd.add_option("--max-num-batched-tokens", e.max_batched_tokens, "most tokens computed in a step")
      ->transform(as_count())
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  cmd.add_option("--long-prefill-token-threshold", e.long_prefill_threshold,
                 "most prompt tokens of one request in a step; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  cmd.add_option("--max-waiting", e.max_waiting,
                 "most queued requests of one client; beyond it they get 429")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  add_choice(cmd, "--scheduling-policy", e.scheduling_policy, kSchedulingPolicies,
             "fcfs: first come, first served; priority: by the priority field of requests")
      ->capture_default_str();
  add_choice(cmd, "--fairness", e.fairness, kFairness,
             "client: clients (API keys, else addresses) get equal shares; none: all requests "
             "share one queue")
      ->capture_default_str();
  cmd.add_option("--tpot-target-ms", e.tpot_target_ms,
                 "target time per output token in ms: prefill is cut into chunks that keep each "
                 "step within it; 0: no target")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9));
  cmd.add_flag(
         "--async-scheduling,!--no-async-scheduling",
         [&e](std::int64_t on) { e.steps_in_flight = on > 0 ? 2 : 1; },
         "plan the next step while one runs")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->default_str("on with a GPU, off on a CPU");
}

void add_speculation_flag(CLI::App& cmd, ServeFlags& f) {
  cmd.option_defaults()->group("Speculative decoding (docs/speculative.md)");
  cmd.add_option(
      "--speculative-config", f.speculative_config,
      "JSON: {\"method\": \"ngram\", \"num_speculative_tokens\": 4} drafts tokens from the text so "
      "far, {\"model\": \"DIR or ORG/NAME\", \"num_speculative_tokens\": 4} with a smaller model");
}

}  // namespace

void add_offline_flags(CLI::App& cmd, ServeFlags& f) {
  const std::string before = cmd.option_defaults()->get_group();
  add_model_flags(cmd, f);
  add_quantization_flags(cmd, f);
  add_server_flags(cmd, f);
  add_chat_flags(cmd, f);
  add_media_flags(cmd, f);
  add_image_size_flags(cmd, f);
  add_memory_flags(cmd, f);
  add_scheduling_flags(cmd, f);
  add_speculation_flag(cmd, f);
  cmd.option_defaults()->group("LoRA (docs/lora.md)");
  add_lora_flags(cmd, f.lora, f.settings);
  cmd.option_defaults()->group("GPU (docs/cuda.md)");
  add_gpu_flags(cmd, f);
  cmd.option_defaults()->group(before);
}

void add_log_flags(CLI::App& cmd, ServeFlags& f) {
  const std::string before = cmd.option_defaults()->get_group();
  cmd.option_defaults()->group("Logging");
  const std::vector<std::string> levels = {"debug", "info",     "warning", "error",
                                           "trace", "critical", "notset"};
  cmd.add_option("--log-level", f.log_level, "debug, info, warning or error")
      ->default_str("info")
      ->check(CLI::IsMember(levels, CLI::ignore_case));
  cmd.add_option("--uvicorn-log-level", f.uvicorn_log_level,
                 "same as --log-level, which takes precedence")
      ->check(CLI::IsMember(levels, CLI::ignore_case));
  cmd.add_flag("--enable-log-requests,!--disable-log-requests,!--no-enable-log-requests",
               f.settings.log_requests, "log a line per request; --disable-log-requests: do not");
  cmd.option_defaults()->group(before);
}

}  // namespace saccade

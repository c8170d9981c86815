// Flags of requests, the model, image sizes and the engine: those of `saccade serve` and `saccade
// batch`.
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
                "'{}' is not supported: keys and values are kept as bfloat16, float32, int8 or "
                "fp8 (e4m3), and auto is as --dtype{}",
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
                "'{}' is not supported: checkpoints are read from safetensors (auto), "
                "or made up (dummy); convert others with transformers' "
                "save_pretrained",
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

void add_request_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.add_option(
      "--model", s.model,
      "checkpoint: a folder, MODEL.gguf, or of the hub ORG/NAME, ORG/NAME:Q4_K_M (GGUF)");
  cmd.add_option("--mmproj", f.projector,
                 "the vision tower of a GGUF model, a file of its own; with ORG/NAME also the name "
                 "of one there (docs/gguf.md)");
  cmd.add_flag("--no-mmproj", f.text_alone, "of a GGUF model the text alone")->excludes("--mmproj");
  cmd.add_option("--served-model-name", s.served_model_name, "names that requests may use")
      ->expected(1, -1);
  cmd.add_option("--max-body-mib", f.body_mib, "largest request body")
      ->capture_default_str()
      ->check(CLI::Range(1, 65'536));
  cmd.add_option("--max-preparing-bytes", s.max_preparing_bytes,
                 "most bytes of bodies and media that all requests hold; over it 503; accepts 1GiB")
      ->transform(as_bytes());
  cmd.add_option("--response-store-bytes", s.response_store_bytes,
                 "most bytes of responses that /v1/responses keeps; 0: none; accepts 1GiB")
      ->transform(as_bytes());
  cmd.add_option("--worker-threads,--renderer-num-workers", s.worker_threads,
                 "threads that parse and tokenise; of several, one for short texts alone")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_option("--drain-seconds,--shutdown-timeout", f.drain_seconds,
                 "time for running answers after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  const std::vector<std::string> levels = {"debug", "info",     "warning", "error",
                                           "trace", "critical", "notset"};
  cmd.add_option("--log-level", f.log_level, "debug, info, warning or error; info by itself")
      ->check(CLI::IsMember(levels, CLI::ignore_case));
  cmd.add_option("--uvicorn-log-level", f.uvicorn_log_level, "as --log-level, which goes before it")
      ->check(CLI::IsMember(levels, CLI::ignore_case));
  cmd.add_flag("--enable-log-requests,!--disable-log-requests,!--no-enable-log-requests",
               s.log_requests, "one line a request");
  cmd.add_flag("--enable-force-include-usage,!--no-enable-force-include-usage", s.usage_always,
               "every chunk of a stream has its usage, and a last one");
  cmd.add_flag("--enable-per-request-metrics,!--no-enable-per-request-metrics", s.metrics_always,
               "every answer says where its time went, as with \"metrics\": true");
  cmd.add_flag("--return-tokens-as-token-ids,!--no-return-tokens-as-token-ids",
               s.tokens_as_ids_always, "logprobs name tokens \"token_id:42\"");
}

void add_weight_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  add_choice(cmd, "--dtype", s.dtype, serve::kDtypes, "auto, float32, bfloat16 or float16")
      ->capture_default_str();
  add_device_flag(cmd, s.device);
  add_named(cmd, "--kv-cache-dtype", s.kv_dtype, serve::kKvDtypes,
            "what keys and values are kept as: bfloat16, float32 (and so embeddings of "
            "images), int8 or fp8, which take half of bfloat16's bytes; auto: as --dtype")
      ->capture_default_str()
      ->transform(kv_dtype());
  cmd.add_option(
      "--quantization", s.quantization,
      "int8, int4: matrices of the text's layers are rounded at load, and what else makes "
      "this processor faster at a small cost, which the log says; awq, gptq, fp8, "
      "compressed-tensors: has to be what the checkpoint says");
  cmd.add_flag(
      "--quantize-head", s.quantize_head,
      "with int8 or int4: the head too, to bytes, and an embedding tied to it; on a CPU by "
      "itself but for --weight-only");
  cmd.add_flag(
      "--quantize-tower", s.quantize_tower,
      "matrices of the vision tower's layers are rounded to bytes at load, with or without "
      "--quantization; encoders and decoders of one cluster have to say the same");
  cmd.add_flag("--quantize-activations", s.quantize_activations,
               "rows of activations become bytes before products with weights of four bits, as "
               "int8 does before its own: faster but for prompts on AMX; with int4 by "
               "itself but for --weight-only");
  cmd.add_flag("--dequantize", s.dequantize,
               "matrices that the checkpoint has in four bits, or a GGUF in any quantised type, "
               "become numbers of --dtype");
  cmd.add_flag("--weight-only", s.weight_only,
               "activations stay what they are where a checkpoint says that they are rounded to 8 "
               "bits like its weights, int8 and int4 round nothing but the text's layers, as "
               "`saccade model quantize` does, and of a GGUF Q4_0 alone stays quantised");
}

void add_source_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  add_named(cmd, "--load-format", s.random_weights, kLoadFormats,
            "auto, safetensors, or dummy: random weights, no weight file is read")
      ->capture_default_str()
      ->check(load_format());
  cmd.add_option("--packed-cache", s.packed_cache,
                 "folder where weights are kept as a CPU packs and rounds them, a file for each "
                 "model and its options: the next start reads that file and makes nothing");
  cmd.add_option("--tokenizer", f.tokenizer,
                 "folder or ORG/NAME whose tokenizer and chat template are taken");
  cmd.add_option("--tokenizer-revision", f.tokenizer_revision, "as --revision, of --tokenizer");
  cmd.add_option("--revision", f.revision,
                 "branch, tag or commit of ORG/NAME on the hub; main by itself");
  cmd.add_option("--download-dir", f.download_directory,
                 "where ORG/NAME is looked for and downloaded to, instead of the Hugging Face "
                 "cache");
  cmd.add_option("--hf-token", f.hub_token,
                 "token for downloads; without a value the one of HF_TOKEN_PATH")
      ->expected(0, 1);
  cmd.add_option("--hf-overrides", f.config_overrides, "JSON that is laid over config.json");
  cmd.add_option("--threads", s.threads,
                 "compute threads; 0: one a core, within the control group's quota")
      ->check(CLI::Range(0, 1024));
  cmd.add_option(
         "--tensor-parallel-size", s.tensor_parallel,
         "ranks that share the heads and widths of the text's layers: with --device cuda as "
         "many GPUs from the first on, else parts of --threads (docs/cuda.md)")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
}

void add_template_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.add_option("--chat-template", s.chat_template, "file, or the template itself");
  cmd.add_flag("--trust-request-chat-template,!--no-trust-request-chat-template",
               s.trust_request_chat_template, "requests may bring a chat_template");
  cmd.add_option("--default-chat-template-kwargs", f.chat_template_kwargs,
                 "JSON; what the template sees where a request's chat_template_kwargs say nothing");
  cmd.add_option("--structured-outputs-config", f.structured_outputs_config,
                 "JSON: {\"disable_any_whitespace\":true} has JSON written without blanks where a "
                 "request does not say, false "
                 "as many as the model likes (docs/structured-output.md)");
  cmd.add_flag_callback(
      "--guided-decoding-disable-any-whitespace",
      [&s] { s.blanks = api::StructuredOutput::Blanks::kNone; },
      "as --structured-outputs-config {\"disable_any_whitespace\":true}");
  cmd.add_flag("--enable-auto-tool-choice,!--no-enable-auto-tool-choice", s.auto_tool_choice,
               "tools may be called on demand (tool_choice auto); on by default");
  cmd.add_flag_callback(
      "--exclude-tools-when-tool-choice-none", [&s] { s.tools_without_choice = false; },
      "with tool_choice none the template sees no tools");
  cmd.add_option("--tool-call-parser", s.tool_call_parser,
                 "form in which the model calls tools; auto: the chat template's (docs/tools.md)")
      ->capture_default_str();
  cmd.add_option(
      "--reasoning-parser", s.reasoning_parser,
      "form of thoughts, which become reasoning and reasoning_content; auto: the chat template's; "
      "none is content");
  cmd.add_option("--generation-config", f.generation_config,
                 "auto: the checkpoint's sampling defaults; vllm: none; or a folder that has "
                 "generation_config.json")
      ->capture_default_str();
  cmd.add_option("--override-generation-config", f.generation_overrides,
                 "JSON that is laid over generation_config.json; max_new_tokens bounds every "
                 "answer");
}

void add_media_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.add_option("--limit-mm-per-prompt", f.limit_mm,
                 "most media in a request: image=10 video=2, or JSON")
      ->expected(1, -1);
  cmd.add_flag("--language-model-only,!--no-language-model-only", f.language_model_only,
               "no image and no video is taken");
  cmd.add_option("--max-video-frames", s.max_video_frames, "most frames of one video")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cmd.add_option("--media-io-kwargs", f.media_io_kwargs,
                 "JSON; video: {num_frames, fps} of video files, where a request says nothing");
  cmd.add_option("--max-video-bytes", s.media.max_video_bytes,
                 "most bytes of one video file, 64MiB by itself; accepts 256MiB")
      ->transform(as_bytes());
  cmd.add_option("--video-timeout", f.video_seconds, "most seconds to decode one video file")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
  cmd.add_option("--video-threads", s.video_threads, "video files that are decoded at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_option("--max-request-media-bytes", s.max_request_media_bytes,
                 "most bytes of a request's images and frames, as fetched; accepts 256MiB")
      ->transform(as_bytes());
  cmd.add_option("--max-pixel-bytes", s.engine.max_pixel_bytes,
                 "most bytes of pixels between decoding and encoding, all requests together; "
                 "accepts 256MiB")
      ->transform(as_bytes());
  cmd.add_option("--image-threads", s.engine.pixel_threads, "threads that decode and resize images")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_option("--mm-processor-kwargs", f.mm_processor_kwargs, "JSON; min_pixels and max_pixels");
  cmd.add_option("--allowed-local-media-path", s.media.allowed_local_path,
                 "folder that file:// may read");
  cmd.add_option("--allowed-media-domains", s.media.allowed_domains,
                 "hosts that http(s) images may come from")
      ->expected(1, -1);
  cmd.add_flag("--media-environment-proxies", s.media.environment_proxies,
               "fetch media through what HTTP_PROXY, HTTPS_PROXY and NO_PROXY name; the proxy then "
               "decides which addresses names have");
  cmd.add_flag("--allow-private-media-addresses", s.media.allow_private_addresses,
               "let those hosts be loopback, private or link-local addresses");
  cmd.add_option("--media-timeout", f.media_seconds,
                 "seconds to fetch all images of a request, 30 by itself")
      ->check(CLI::Range(1, 86'400));
  cmd.add_option("--max-image-pixels", s.max_image_pixels, "most pixels of one image as sent")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{178'956'970}));
}

void add_image_size_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings.image_size;
  cmd.add_option("--image-size", f.image_size,
                 "how large images become: vanilla, static:N, seed, seed-as-published or dynamic")
      ->capture_default_str();
  cmd.add_option("--ttft-target", f.ttft_target,
                 "time to first token that seed and dynamic aim at: 2s, 500ms")
      ->capture_default_str();
  cmd.add_option(
      "--seed-line", f.seed_line,
      "SLOPE,INTERCEPT[,SECOND]: what seed takes instead of the published 0.1197,-36.72; "
      "the straight line that `saccade profile` prints");
  cmd.add_option("--image-floor", s.floor, "tokens that dynamic leaves an image at the least")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  add_choice(cmd, "--over-target", s.refuse_late, kOverTargets,
             "dynamic: requests that even the least sizes make too late are taken, or refused "
             "with 503")
      ->capture_default_str();
  cmd.add_option("--profile-folder", s.profile_folder,
                 "where the measured costs of encoding and prefill are kept");
}

void add_engine_flags(CLI::App& cmd, ServeFlags& f) {
  auto& e = f.settings.engine;
  cmd.add_option("--max-model-len", e.max_model_len,
                 "longest prompt plus answer, tokens; 0, auto and -1: the checkpoint's, as far as "
                 "the cache holds one")
      ->transform(length_or_auto())
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
  cmd.add_option("--max-num-batched-tokens", e.max_batched_tokens, "token budget of a step")
      ->transform(as_count())
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  cmd.add_option("--max-num-seqs", e.max_sequences, "sequences running at once")
      ->transform(as_count())
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  cmd.add_option("--max-waiting", e.max_waiting, "requests of a client that may queue; over it 429")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  cmd.add_option("--block-size", e.block_size, "tokens of a KV block")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cmd.add_option("--kv-cache-bytes,--kv-cache-memory-bytes,--kv-cache-memory", e.kv_cache_bytes,
                 "bytes of the KV cache; accepts 4GiB; 0: a share of free memory")
      ->transform(as_bytes());
  add_gpu_flags(cmd, f);
  cmd.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", e.prefix_caching,
               "on by default");
  cmd.add_option("--mamba-block-size", e.state_interval,
                 "tokens between the states that prefix caching keeps, of models whose layers have "
                 "one; rounded up to whole blocks")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
}

void add_cache_flags(CLI::App& cmd, ServeFlags& f) {
  auto& e = f.settings.engine;
  add_choice(cmd, "--kv-policy", e.kv_policy, kKvPolicies,
             "how memory is shared by kinds of layers (docs/memory.md): jenga, or a baseline "
             "to compare with")
      ->capture_default_str();
  cmd.add_flag("--use-per-layer-block-manager", f.per_layer_pages, "as --kv-policy jenga");
  add_choice(cmd, "--encoder-cache", e.encoder_cache, kEncoderCaches,
             "what becomes of encoded images: store keeps them for other requests, overlay "
             "lends them pages of the request, off encodes again")
      ->capture_default_str();
  cmd.add_option("--encoder-cache-bytes", e.encoder_cache_bytes,
                 "of encoded images that are kept; accepts 1GiB")
      ->transform(as_bytes());
  cmd.add_option("--mm-processor-cache-gb", f.media_cache_gib,
                 "the same in GiB; 0: --encoder-cache off")
      ->check(CLI::Range(0.0, 65536.0));
  cmd.add_option("--mm-uuid-cache-gb", f.kept_image_gib,
                 "GiB of images that clients refer to by a uuid, as they came; 0: none is kept")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 65536.0));
  cmd.add_flag("--enable-mm-embeds,!--no-enable-mm-embeds", f.settings.mm_embeds,
               "take image_embeds, of trusted clients; off by default");
  cmd.add_flag_callback(
      "--disable-mm-preprocessor-cache", [&f] { f.media_cache_gib = 0; }, "as its 0");
}

void add_scheduling_flags(CLI::App& cmd, ServeFlags& f) {
  auto& e = f.settings.engine;
  cmd.add_option("--long-prefill-token-threshold", e.long_prefill_threshold,
                 "most tokens of one prompt in a step; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  add_choice(cmd, "--scheduling-policy", e.scheduling_policy, kSchedulingPolicies,
             "who goes first: fcfs, or priority of the requests")
      ->capture_default_str();
  add_choice(cmd, "--fairness", e.fairness, kFairness,
             "client: API keys, else addresses, share the server; none: first come, first served")
      ->capture_default_str();
  cmd.add_option("--tpot-target-ms", e.tpot_target_ms,
                 "chunk prefills so that decode steps stay under this; 0: fixed")
      ->check(CLI::Range(0.0, 1e9));
  cmd.add_option("--max-logprobs", e.max_logprobs,
                 "most that a request may ask for; -1: any number")
      ->capture_default_str()
      ->check(CLI::Range(-1, 1 << 20));
  cmd.add_flag(
         "--async-scheduling,!--no-async-scheduling",
         [&e](std::int64_t on) { e.steps_in_flight = on > 0 ? 2 : 1; },
         "plan the next step while one runs; by itself on a GPU")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  cmd.add_flag_callback(
      "--no-warm-up", [&f] { f.settings.warm_up = false; },
      "take requests at once: on a GPU kernels are otherwise loaded and graphs made before the "
      "first");
  cmd.add_option("--speculative-config", f.speculative_config,
                 "JSON: {\"method\":\"ngram\",\"num_speculative_tokens\":4,"
                 "\"prompt_lookup_max\":4,\"prompt_lookup_min\":2} guesses tokens from the text "
                 "itself, {\"model\":\"DIR or ORG/NAME\",\"num_speculative_tokens\":4} has a "
                 "smaller model guess them (docs/speculative.md)");
  cmd.add_option("--seed", e.seed, "of requests that bring none")->capture_default_str();
}

}  // namespace

void add_offline_flags(CLI::App& cmd, ServeFlags& f) {
  const std::string before = cmd.option_defaults()->get_group();
  cmd.option_defaults()->group("Requests, the log and the end");
  add_request_flags(cmd, f);
  cmd.option_defaults()->group("The model, its templates and media");
  add_weight_flags(cmd, f);
  add_source_flags(cmd, f);
  add_template_flags(cmd, f);
  add_media_flags(cmd, f);
  cmd.option_defaults()->group("Sizes of images (docs/image-sizes.md)");
  add_image_size_flags(cmd, f);
  cmd.option_defaults()->group("Memory, batches and scheduling");
  add_engine_flags(cmd, f);
  add_cache_flags(cmd, f);
  add_scheduling_flags(cmd, f);
  cmd.option_defaults()->group("Adapters (docs/lora.md)");
  add_lora_flags(cmd, f.lora, f.settings);
  cmd.option_defaults()->group(before);
}

}  // namespace saccade

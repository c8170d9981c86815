// Everything `saccade serve` can be told, with its default. apps/serve.cc fills it; the server
// prints it at start.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/requests/fields/structured_output.h"
#include "base/json.h"
#include "base/named_values.h"
#include "base/threads/processors.h"
#include "cluster/events/cache_events.h"
#include "engine/engine.h"
#include "model/images/image_controls.h"
#include "serve/assembly/device_choice.h"
#include "serve/image_sizes/image_size_settings.h"
#include "serve/media/media_fetcher.h"
#include "tensor/dtype.h"

namespace saccade::serve {

// What a process does: everything; encodes for others and answers nothing; has others encode.
enum class Role : std::uint8_t { kAll, kEncoder, kPd };

inline constexpr std::array<Named<Role>, 3> kRoles{
    {{"all", Role::kAll}, {"encoder", Role::kEncoder}, {"pd", Role::kPd}}};

// What is computed in, and what keys and values are kept as. Nothing: auto.
using DTypeChoice = std::optional<DType>;

inline constexpr std::array<Named<DTypeChoice>, 6> kDtypes{{{"auto", std::nullopt},
                                                            {"float32", DType::kF32},
                                                            {"float", DType::kF32},
                                                            {"bfloat16", DType::kBf16},
                                                            {"float16", DType::kF16},
                                                            {"half", DType::kF16}}};
inline constexpr std::array<Named<DTypeChoice>, 5> kKvDtypes{{{"auto", std::nullopt},
                                                              {"bfloat16", DType::kBf16},
                                                              {"float32", DType::kF32},
                                                              {"int8", DType::kI8},
                                                              {"fp8", DType::kE4m3}}};

// What a server is among others.
struct ClusterSettings {
  Role role = Role::kAll;
  std::vector<std::string> listen;    // where others ask for encodes
  std::vector<std::string> encoders;  // whom this process asks
  bool fallback = true;               // encodes here too; false: the tower is not loaded
  bool any_numerics = false;
  double verify_share = 0;
  std::string key_file;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_authority;
  std::string registry;  // parse_store_address(); empty: none
  std::string registry_password_file;
  std::string advertise;  // the host under which others reach this process; empty: as listened on
  bool shared_rows = true;
  Nanos shared_rows_ttl = 3600 * kSecond;
  std::size_t shared_rows_bytes = std::size_t{64} << 20;  // of one image
};

// An adapter that requests may name instead of the model.
struct LoraModule {
  std::string name;
  std::string path;             // a folder as PEFT's save_pretrained leaves it
  std::string base_model_name;  // what /v1/models says is its parent; empty: the model's first name
};

struct LoraSettings {
  std::vector<LoraModule> modules;         // loaded at start
  std::int64_t max_in_memory = 0;          // 0: EngineSettings::max_loras
  bool runtime_updates = false;            // /v1/load_lora_adapter and /v1/unload_lora_adapter
  std::vector<std::string> allowed_paths;  // folders that adapters may lie in; empty: any
};

struct ServeSettings {
  std::string model;       // folder, or ORG/NAME in HF_HOME
  std::string checkpoint;  // its folder, where that has been found; empty: found by `model`
  std::string tokenizer;   // folder of another one and of its template; empty: the checkpoint's
  std::vector<std::string>
      served_model_name;  // names that requests may use; empty: `model` as given
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::vector<std::string> api_keys;         // empty: none needed
  std::vector<std::string> allowed_origins;  // of web pages, besides may_use()'s; "*": all
  // Names in Host that requests may come with where no key is needed: names_this_server(); `host`
  // counts among them.
  std::vector<std::string> allowed_hosts;
  bool allow_credentials = false;   // of those pages
  std::string root_path;            // "/x": a prefix that paths may have; empty: none
  bool page = true;                 // GET / shows a page that tries the model
  bool request_id_headers = false;  // X-Request-Id: the client's, or a new one
  std::size_t max_body_bytes = 64u << 20;
  // Bodies, from their headers on, and media of all requests together; over it 503.
  std::size_t max_preparing_bytes = 512u << 20;
  int io_threads = 1;
  int worker_threads = 2;  // parsing, hashing, tokenising; of several, one for short texts alone
  std::size_t response_store_bytes = 256u << 20;  // of /v1/responses, kept in memory; 0: none is
  std::size_t max_preparing = 1024;               // requests waiting for a worker; over it 429
  cluster::CacheEventSettings cache_events;       // of the prefix cache, for routers
  DeviceChoice device;
  DTypeChoice dtype;     // of kDtypes
  DTypeChoice kv_dtype;  // of kKvDtypes
  // int8, int4: the text's layers are rounded at load. Else what the checkpoint has to be; empty:
  // whatever it is.
  std::string quantization;
  bool quantize_head = false;         // with int8 or int4: the head too, to bytes
  bool quantize_tower = false;        // its layers, to bytes, whatever the text's are
  bool quantize_activations = false;  // before products with four bits, to bytes
  bool dequantize = false;            // four bits of a checkpoint become numbers
  bool weight_only = false;           // activations are not rounded, whatever a checkpoint says
  bool random_weights = false;        // instead of the checkpoint's
  std::string packed_cache;           // folder of files of packed weights; empty: none
  json::object config_overrides;      // laid over config.json
  int threads = 0;                    // compute threads; 0: one a core
  int tensor_parallel = 1;            // ranks that share the text's layers
  std::vector<ProcessorSet> rank_processors;  // of each, on the CPU; empty: wherever there is room
  std::string chat_template;  // path or the template's text; empty: the checkpoint's
  bool trust_request_chat_template = false;
  json::object chat_template_kwargs;  // where a request brings none of that name
  // Of JSON that a schema or json_object holds, where a request says nothing of them.
  api::StructuredOutput::Blanks blanks = api::StructuredOutput::Blanks::kBounded;
  bool auto_tool_choice = true;           // false: requests for calls on demand are refused
  bool tools_without_choice = true;       // tools reach the template also with tool_choice none
  std::string tool_call_parser = "auto";  // by the chat template, or a name of src/tools/
  std::string reasoning_parser;           // empty: thoughts are content; auto: by the template
  bool use_generation_config = true;      // sampling defaults
  std::string generation_config;          // folder that has them; empty: the checkpoint
  json::object generation_overrides;      // laid over them
  std::map<std::string, std::int64_t> limit_mm_per_prompt{{"image", 64}, {"video", 16}};
  bool mm_embeds = false;               // image_embeds is taken: who sends rows is trusted
  std::int64_t max_video_frames = 768;  // of one video
  FrameChoice video_frames;             // of video files, where a request says nothing
  std::chrono::seconds video_time{60};  // the most that decoding one may take
  int video_threads = 2;                // video files that are decoded at a time
  std::size_t max_request_media_bytes = 256u
                                        << 20;  // of all images and frames of a request, as fetched
  std::size_t kept_image_bytes = 256u << 20;    // of images that are kept under a client's `uuid`
  std::optional<std::int64_t> min_pixels;       // server-wide mm_processor_kwargs
  std::optional<std::int64_t> max_pixels;
  // What one image may decode to: 3 bytes a pixel on each decoding thread, and about as much again
  // while a progressive JPEG is read. Below PIL's 179 megapixels.
  std::int64_t max_image_pixels = std::int64_t{64} << 20;
  std::int64_t low_detail_tokens = 256;  // most tokens of an image with detail "low"
  // Of every answer, as if its request had asked for it.
  bool usage_always = false;
  bool metrics_always = false;
  bool tokens_as_ids_always = false;
  bool log_requests = false;
  std::chrono::seconds throughput_interval{10};  // of the line about tokens/s under load; 0: none
  std::chrono::seconds drain_time{30};
  std::string tls_certificate;
  std::string tls_key;
  ImageSizeSettings image_size;
  LoraSettings lora;
  MediaSettings media;
  EngineSettings engine;
  std::optional<bool> warm_up;  // before the first request; absent: where there is a GPU
  ClusterSettings cluster;
};

}  // namespace saccade::serve

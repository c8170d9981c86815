// What routers in front ask a server of itself (SGLang's shapes): /server_info, /model_info,
// /v1/loads.
#pragma once

#include <cstdint>
#include <string>

namespace saccade::api {

struct ServerInfo {
  std::string model_path = {};
  std::string served_model_name = {};
  std::string version = {};
  bool generates = true;  // else embeds
  bool vision = false;
  std::string quantization = {};    // at load; none: as the checkpoint is
  std::string kv_cache_dtype = {};  // auto: as the weights
  std::int64_t max_model_len = 0;
  std::int64_t max_running = 0;       // sequences
  int tensor_parallel = 1;            // ranks
  std::int64_t uuid_cache_bytes = 0;  // most that are kept of images with a uuid
  bool mm_embeds = false;             // image_embeds is taken
};

struct ServerLoad {
  std::int64_t running = 0;  // requests
  std::int64_t waiting = 0;
  double token_usage = 0;  // share of the KV cache, 0 to 1
};

std::string server_info(const ServerInfo& info);
std::string model_info(const ServerInfo& info);
// GET /load, vLLM's: how many requests are not yet answered.
std::string server_load(const ServerLoad& load);
std::string server_loads(const ServerInfo& info, const ServerLoad& load);

}  // namespace saccade::api

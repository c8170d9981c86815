#include "api/pages/server_info.h"

#include "base/json.h"

namespace saccade::api {
namespace {

void write_model(json::JsonWriter& w, const ServerInfo& info) {
  w.member("model_path", info.model_path);
  w.member("tokenizer_path", info.model_path);
  w.member("served_model_name", info.served_model_name);
  w.member("is_generation", info.generates);
  w.member("has_image_understanding", info.vision);
  w.member("max_model_len", info.max_model_len);
}

}  // namespace

std::string server_info(const ServerInfo& info) {
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  w.member("model_id", info.served_model_name);
  write_model(w, info);
  w.member("version", info.version);
  w.member("engine", "saccade");
  w.member("status", "ready");
  w.member("tp_size", info.tensor_parallel);
  w.member("dp_size", 1);
  w.member("max_running_requests", info.max_running);
  w.member("quantization", info.quantization);
  w.member("kv_cache_dtype", info.kv_cache_dtype);
  w.member("mm_uuid_cache_bytes", info.uuid_cache_bytes);
  w.member("enable_mm_embeds", info.mm_embeds);
  w.end_object();
  return body;
}

std::string model_info(const ServerInfo& info) {
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  write_model(w, info);
  w.key("preferred_sampling_params");
  w.null();
  w.member("weight_version", "default");
  w.end_object();
  return body;
}

std::string server_load(const ServerLoad& load) {
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  w.member("server_load", load.running + load.waiting);
  w.end_object();
  return body;
}

std::string server_loads(const ServerInfo& info, const ServerLoad& load) {
  std::string body;
  json::JsonWriter w(body);
  const auto write_load = [&] {
    w.member("num_running_reqs", load.running);
    w.member("num_waiting_reqs", load.waiting);
    w.member("num_total_reqs", load.running + load.waiting);
    w.member("token_usage", load.token_usage);
  };
  w.begin_object();
  w.member("version", info.version);
  w.member("dp_rank_count", 1);
  w.key("loads");
  w.begin_array();
  w.begin_object();
  w.member("dp_rank", 0);
  write_load();
  w.member("max_running_requests", info.max_running);
  w.end_object();
  w.end_array();
  w.key("aggregate");
  w.begin_object();
  write_load();
  w.end_object();
  w.end_object();
  return body;
}

}  // namespace saccade::api

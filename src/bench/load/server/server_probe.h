// What can be learnt from a server besides its answers: whether it is ready, its models and
// parameters, its metrics and memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/log/run_log.h"
#include "net/client/http_client.h"

namespace saccade::bench {

// Where requests go. base_url may end in "/v1", as OpenAI's clients have it.
struct ServerTarget {
  std::string base_url = "http://127.0.0.1:8000";
  StringPairs headers;  // Authorization and the user's own
  net::HttpClientSettings client;

  Result<net::Url> url(std::string_view endpoint) const;   // base_url + endpoint
  Result<net::Url> root_url(std::string_view path) const;  // scheme, host, port + path
  Result<net::Url> api_url(std::string_view path) const;   // "/models" below /v1
};

struct ServedModel {
  std::string id;
  std::string root;                 // as /v1/models says; empty when it does not
  std::int64_t max_model_len = -1;  // as above; -1
};

struct ServerDescription {
  std::vector<ServedModel> models;
  std::string version;
  StringPairs parameters;
};

// Asks a server. Blocking; one thread.
class ServerProbe {
 public:
  static Result<ServerProbe> create(ServerTarget target);

  // Until /health or /v1/models answers 200, with growing pauses; 0 s: one try. kUnavailable says
  // what the last try gave.
  Result<void> wait_ready(double timeout_s);
  Result<ServerDescription> describe();

  // POSTs to the cache resets that servers are known to have (/reset_prefix_cache, /reset_mm_cache,
  // /reset_encoder_cache, /flush_cache); kUnsupported when none of them answers 200.
  Result<std::string> reset_caches();
  Result<void> post(std::string_view path);  // "/start_profile"

  // Tokens of a text as POST /tokenize counts them, with the special tokens that a completion adds
  // or without; kUnsupported where there is no such endpoint.
  Result<std::int32_t> count_tokens(const std::string& model, std::string_view text,
                                    bool with_added);

  // The page as parsed; kNotFound where there is none.
  Result<std::vector<std::pair<std::string, double>>> scrape();

 private:
  ServerProbe(ServerTarget target, std::unique_ptr<net::HttpClient> client);
  Result<net::ClientResponse> ask(std::string_view method, const net::Url& url,
                                  std::string body = {});
  ServerTarget target_;
  std::unique_ptr<net::HttpClient> client_;
};

// Reads /metrics and memory in the background while a run goes on.
class ServerWatch {
 public:
  // One reading at once, then one every `period`, until stop(). `server_pid` below 0: not known.
  static Result<std::unique_ptr<ServerWatch>> start(ServerTarget target, Nanos period,
                                                    int server_pid);
  virtual ~ServerWatch() = default;
  // One last reading, then what was read. Instants are on the SteadyClock.
  virtual std::vector<Sample> stop() = 0;
};

// The process that listens on a local port, as the kernel says; none for other machines.
std::optional<int> listening_process(std::string_view host, std::uint16_t port);
// Resident and peak bytes of a process.
std::vector<std::pair<std::string, double>> process_memory(int pid);
// "gpu0_memory_used_bytes", ... from nvidia-smi; empty where there is none.
std::vector<std::pair<std::string, double>> gpu_readings();
// Name, driver and memory of each GPU, as nvidia-smi prints them; empty where there is none.
std::string gpu_description();

HostFacts host_facts();

}  // namespace saccade::bench

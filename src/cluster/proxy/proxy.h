// `saccade proxy`: one address for several servers of the OpenAI API. Bodies go through as they
// came; who gets a request goes by its predicted work and by who has seen its beginning before.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::cluster {

struct ProxySettings {
  std::vector<std::string> pds;  // URLs of servers
  std::string registry;          // that has more of them: parse_store_address(); empty: none
  std::string registry_password_file;
  std::string cluster_key_file;  // of those who register; empty: anybody's word is taken
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::vector<std::string> api_keys;  // that clients must send; empty: none needed
  // Names in Host that requests may come with where no key is needed: net::names_this_server();
  // `host` counts among them.
  std::vector<std::string> allowed_hosts;
  std::string pd_api_key;  // sent to the servers instead of the client's; empty: its own
  std::size_t max_body_bytes = 64u << 20;
  std::size_t max_held_bytes = 512u << 20;  // of bodies on their way; over it 503
  int io_threads = 1;                       // each with a client thread beside it
  std::string tls_certificate;
  std::string tls_key;
  std::string pd_ca_file;  // PEM; empty: the system's
  bool verify_pd_tls = true;
  Nanos connect_timeout = 2 * kSecond;
  Nanos probe_period = kSecond;
  Nanos probe_timeout = 2 * kSecond;
  int max_retries = 2;  // of one request, all before the first byte of its answer
  std::chrono::seconds drain_time{30};
};

// Blocks until SIGINT or SIGTERM has been answered: running answers end within drain_time, a second
// signal ends at once. Logs the URL and "Application startup complete." when it takes requests.
Result<void> run_proxy(const ProxySettings& settings);

}  // namespace saccade::cluster

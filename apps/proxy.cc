// saccade proxy: flags to settings, settings to a running proxy.
#include "cluster/proxy/proxy.h"

#include <array>
#include <memory>
#include <string>

#include "apps/cluster_commands.h"
#include "apps/flags/choice_flag.h"
#include "apps/flags/duration_flag.h"
#include "apps/flags/size_flag.h"
#include "base/log.h"

namespace saccade {
namespace {

struct ProxyFlags {
  cluster::ProxySettings settings;
  std::size_t body_mib = 64;
  int drain_seconds = 30;
  std::string connect_timeout = "2s";
  std::string probe_period = "1s";
  bool any_certificate = false;
  log::Level log_level = log::Level::kInfo;
};

Result<void> run_proxy(ProxyFlags& f) {
  auto& s = f.settings;
  s.max_body_bytes = f.body_mib << 20;
  s.drain_time = std::chrono::seconds(f.drain_seconds);
  s.verify_pd_tls = !f.any_certificate;
  TRY(s.connect_timeout, parse_duration("--connect-timeout", f.connect_timeout));
  TRY(s.probe_period, parse_duration("--probe-period", f.probe_period));
  for (const std::string& key : s.api_keys) {
    if (key.empty())
      return fail(ErrorCode::kInvalid, "--api-key is empty: it would let everybody in");
  }
  if (s.tls_certificate.empty() && !s.tls_key.empty())
    return fail(ErrorCode::kInvalid,
                "--ssl-keyfile is given without --ssl-certfile: the proxy would speak plain HTTP");
  if (s.tls_key.empty()) s.tls_key = s.tls_certificate;  // one file may have both
  log::set_level(f.log_level);
  return cluster::run_proxy(s);
}

}  // namespace

void add_proxy(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ProxyFlags>();
  auto& s = flags->settings;
  CLI::App* cmd = app.add_subcommand("proxy", "one address for several servers of the OpenAI API");
  cmd->add_option("--pd", s.pds, "URLs of the servers, separated by commas")->delimiter(',');
  cmd->add_option("--registry", s.registry,
                  "Redis or Valkey through which servers are found: "
                  "redis://[:password@]HOST:PORT[/DATABASE] or unix:///PATH");
  cmd->add_option("--registry-password-file", s.registry_password_file,
                  "file with the password of --registry");
  cmd->add_option(
      "--cluster-key-file", s.cluster_key_file,
      "file with the cluster's key; only servers with the same key are found in --registry");
  cmd->add_option("--host", s.host, "address to listen on")->capture_default_str();
  cmd->add_option("--port", s.port, "port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  cmd->add_option("--api-key", s.api_keys, "keys, one of which clients must send")->expected(1, -1);
  cmd->add_option("--allowed-hosts", s.allowed_hosts,
                  "without an API key, host names by which the proxy may be reached, besides "
                  "addresses, localhost and --host; *.NAME: subdomains; *: any")
      ->expected(1, -1);
  cmd->add_option("--pd-api-key", s.pd_api_key,
                  "key to send to the servers instead of the client's");
  cmd->add_option("--max-body-mib", flags->body_mib,
                  "largest request body in MiB; larger ones get 413")
      ->capture_default_str()
      ->check(CLI::Range(1, 65'536));
  cmd->add_option("--max-held-bytes", s.max_held_bytes,
                  "memory for request bodies, e.g. 1GiB; beyond it requests get 503")
      ->transform(as_bytes())
      ->default_str(bytes_text(s.max_held_bytes));
  cmd->add_option("--io-threads", s.io_threads, "threads that read and write connections")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  cmd->add_option("--retries", s.max_retries,
                  "most retries of a request, all before the first byte of its answer")
      ->capture_default_str()
      ->check(CLI::Range(0, 8));
  cmd->add_option("--connect-timeout", flags->connect_timeout,
                  "longest wait for a connection to a server")
      ->capture_default_str();
  cmd->add_option("--probe-period", flags->probe_period,
                  "time between two requests to a server's /health")
      ->capture_default_str();
  cmd->add_option("--ssl-certfile", s.tls_certificate, "PEM file of a certificate; turns on HTTPS");
  cmd->add_option(
      "--ssl-keyfile", s.tls_key,
      "PEM file of the certificate's private key, if --ssl-certfile does not contain it");
  cmd->add_option("--pd-ca-file", s.pd_ca_file,
                  "PEM file of the authority that signs the servers' certificates");
  cmd->add_flag("--pd-any-certificate", flags->any_certificate,
                "do not check the servers' certificates");
  cmd->add_option("--drain-seconds", flags->drain_seconds,
                  "seconds that running requests have to finish after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  constexpr std::array<Named<log::Level>, 4> kLevels{{{"debug", log::Level::kDebug},
                                                      {"info", log::Level::kInfo},
                                                      {"warning", log::Level::kWarning},
                                                      {"error", log::Level::kError}}};
  add_choice(*cmd, "--log-level", flags->log_level, kLevels, "debug, info, warning or error")
      ->capture_default_str();
  cmd->callback([flags, &exit_code] { exit_code = logged(run_proxy(*flags)); });
}

}  // namespace saccade

// saccade serve: its flags for HTTP and a cluster, and from all of them to a running server.
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/flags/choice_flag.h"
#include "apps/flags/config_file.h"
#include "apps/flags/serve_flags.h"
#include "apps/flags/size_flag.h"
#include "apps/flags/vllm_flags.h"
#include "apps/manual/flags_page.h"
#include "base/log.h"
#include "serve/server.h"

namespace saccade {
namespace {

void add_http_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  auto* const host = cmd.add_option("--host", s.host, "address to listen on");
  host->capture_default_str();
  cmd.add_option("--port", s.port, "port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  cmd.add_option_function<std::string>(
         "--uds",
         [&s](const std::string& path) {
           if (path.empty()) throw CLI::ValidationError("--uds is empty");
           s.host = std::filesystem::absolute(path).string();
         },
         "path of a Unix socket to listen on, instead of --host and --port")
      ->excludes(host);
  cmd.add_option("--root-path", s.root_path,
                 "path prefix that a proxy in front keeps, e.g. /api; routes answer with and "
                 "without it");
  cmd.add_option("--api-key", s.api_keys,
                 "keys, one of which clients must send (also SACCADE_API_KEY, VLLM_API_KEY)")
      ->expected(1, -1);
  cmd.add_option("--allowed-hosts", s.allowed_hosts,
                 "without an API key, host names by which the server may be reached, besides "
                 "addresses, localhost and --host; *.NAME: subdomains; *: any")
      ->expected(1, -1);
  cmd.add_option("--allowed-origins,--cors-allow-origins", s.allowed_origins,
                 "origins of web pages that may use the API, besides localhost and the server's "
                 "own; *: any")
      ->expected(1, -1);
  cmd.add_flag("--allow-credentials,!--no-allow-credentials", s.allow_credentials,
               "let pages of --allowed-origins send cookies; the server does not read them");
  cmd.add_flag("--ui,!--no-ui", s.page, "serve a page at / to try the model (docs/playground.md)")
      ->default_str("on");
  cmd.add_flag("--enable-request-id-headers,!--no-enable-request-id-headers", s.request_id_headers,
               "send X-Request-Id with every answer: the request's own, or a new one");
  cmd.add_option("--ssl-certfile", s.tls_certificate, "PEM file of a certificate; turns on HTTPS");
  cmd.add_option(
      "--ssl-keyfile", s.tls_key,
      "PEM file of the certificate's private key, if --ssl-certfile does not contain it");
  cmd.add_option("--io-threads", s.io_threads, "threads that read and write connections")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
}

void add_throughput_flags(CLI::App& cmd, ServeFlags& f) {
  cmd.add_option("--throughput-log-seconds", f.throughput_seconds,
                 "seconds between log lines with tokens/s while requests run; 0: none")
      ->default_str("10")
      ->check(CLI::Range(0, 86'400));
  cmd.add_flag_callback(
      "--disable-log-stats", [&f] { f.throughput_seconds = 0; },
      "do not log throughput; same as --throughput-log-seconds 0");
}

void add_encoder_flags(CLI::App& cmd, ServeFlags& f) {
  auto& c = f.settings.cluster;
  add_choice(cmd, "--role", c.role, serve::kRoles,
             "all: encode images and answer; encoder: only encode images, for other servers; pd: "
             "answer, and have --encoders encode")
      ->capture_default_str();
  cmd.add_option("--cluster-listen", c.listen,
                 "HOST:PORT or unix:PATH on which to encode images for other servers; beyond this "
                 "machine only with --cluster-key-file or TLS")
      ->expected(1, -1)
      ->delimiter(',');
  cmd.add_option("--encoders", c.encoders,
                 "HOST:PORT or unix:PATH of encoders to use, separated by commas")
      ->expected(1, -1)
      ->delimiter(',');
  add_choice(cmd, "--encoder-fallback", c.fallback, kEncoderFallbacks,
             "local: encode images here too, where encoders fail or are slower; refuse: answer 503 "
             "instead, and do not load the vision tower")
      ->capture_default_str();
  constexpr std::array<Named<bool>, 2> kAnyNumerics{{{"strict", false}, {"any", true}}};
  add_choice(cmd, "--numerics", c.any_numerics, kAnyNumerics,
             "strict: use only encoders that produce bit-identical embeddings; any: use others too")
      ->capture_default_str();
  cmd.add_option("--verify-embeddings", c.verify_share,
                 "share of the encoders' images to encode here again and compare, 0 to 1")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  cmd.add_option("--cluster-key-file", c.key_file,
                 "file with a key that all processes of a cluster share");
  cmd.add_option("--cluster-tls-cert", c.tls_certificate,
                 "PEM file of this process's certificate, for mutual TLS within a cluster; needs "
                 "--cluster-tls-key and --cluster-tls-ca");
  cmd.add_option("--cluster-tls-key", c.tls_key,
                 "PEM file of the private key of --cluster-tls-cert");
  cmd.add_option("--cluster-tls-ca", c.tls_authority,
                 "PEM file of the authority that signs the certificates of a cluster");
}

void add_registry_flags(CLI::App& cmd, ServeFlags& f) {
  auto& c = f.settings.cluster;
  cmd.add_option("--registry", c.registry,
                 "Redis or Valkey through which servers find each other and share image "
                 "embeddings: redis://[:password@]HOST:PORT[/DATABASE] or unix:///PATH");
  cmd.add_option("--registry-password-file", c.registry_password_file,
                 "file with the password of --registry");
  cmd.add_option("--advertise", c.advertise,
                 "host name or address under which --registry tells others to reach this process")
      ->default_str("the address it listens on");
  constexpr std::array<Named<bool>, 2> kOnOff{{{"on", true}, {"off", false}}};
  add_choice(cmd, "--shared-rows", c.shared_rows, kOnOff,
             "share image embeddings through --registry; off: find other processes only")
      ->capture_default_str();
  cmd.add_option("--shared-rows-ttl", f.shared_rows_ttl,
                 "how long shared embeddings stay in the registry, e.g. 30m")
      ->capture_default_str();
  cmd.add_option("--shared-rows-bytes", c.shared_rows_bytes,
                 "largest embedding of an image that is shared through the registry, e.g. 128MiB")
      ->transform(as_bytes())
      ->default_str(bytes_text(c.shared_rows_bytes));
  cmd.add_option("--kv-events-config", f.kv_events_config,
                 "JSON: publish what the prefix cache holds over ZeroMQ, in vLLM's format: "
                 "{\"enable_kv_cache_events\": true, \"endpoint\": \"tcp://127.0.0.1:5557\"}");
}

// The flags that matter to most stand first in --help and in docs/flags.md.
void put_first(CLI::App& cmd) {
  constexpr const char* kGroup = "Common";
  for (const char* const name : {"--help",
                                 "--config",
                                 "--model",
                                 "--served-model-name",
                                 "--host",
                                 "--port",
                                 "--api-key",
                                 "--allowed-hosts",
                                 "--device",
                                 "--dtype",
                                 "--quantization",
                                 "--threads",
                                 "--max-model-len",
                                 "--max-num-seqs",
                                 "--kv-cache-bytes",
                                 "--kv-cache-dtype",
                                 "--chat-template",
                                 "--tool-call-parser",
                                 "--reasoning-parser",
                                 "--limit-mm-per-prompt",
                                 "--allowed-local-media-path",
                                 "--log-level"})
    cmd.get_option(name)->group(kGroup);
}

void add_decode_share_flag(CLI::App& cmd, EngineSettings& engine) {
  engine.decode_share = EngineSettings::kServingDecodeShare;
  cmd.add_option("--decode-share", engine.decode_share,
                 "least share of a step's time for decoding while prompts are prefilled (prefill "
                 "gets at least 50 ms); ignored with --tpot-target-ms; 0: prefill first")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.99));
}

CLI::App* add_serve_flags(CLI::App& app, ServeFlags& flags, VllmFlagsSeen& seen) {
  CLI::App* cmd = app.add_subcommand("serve", "answer the OpenAI API from a checkpoint");
  const std::string unnamed = cmd->option_defaults()->get_group();
  cmd->option_defaults()->group("Server");
  cmd->add_option("model_positional", flags.positional_model,
                  "same as --model: a folder, MODEL.gguf, or ORG/NAME on the hub");
  cmd->add_option("--config", flags.config,
                  "file that sets flags by their names: TOML, INI or flat YAML");
  add_offline_flags(*cmd, flags);
  add_http_flags(*cmd, flags);
  cmd->option_defaults()->group("Scheduling");
  add_decode_share_flag(*cmd, flags.settings.engine);
  cmd->option_defaults()->group("Cluster (docs/cluster.md)");
  add_encoder_flags(*cmd, flags);
  add_registry_flags(*cmd, flags);
  add_log_flags(*cmd, flags);
  cmd->option_defaults()->group("Logging");
  add_throughput_flags(*cmd, flags);
  cmd->option_defaults()->group(unnamed);
  add_vllm_flags(*cmd, seen);
  put_first(*cmd);
  return cmd;
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  auto seen = std::make_shared<VllmFlagsSeen>();
  CLI::App* cmd = add_serve_flags(app, *flags, *seen);
  auto page = std::make_shared<bool>(false);
  cmd->add_flag("--help-flags-markdown", *page, "print docs/flags.md and exit")->group("Other");
  cmd->callback([cmd, flags, seen, page, &exit_code] {
    if (*page) {
      std::fputs(flags_page(*cmd).c_str(), stdout);
      return;
    }
    auto ready = flags->config.empty() ? Result<void>() : read_config_file(*cmd, flags->config);
    for (const std::string& refusal : seen->refusals) log::error("{}", refusal);
    if (ready && !seen->refusals.empty()) {
      exit_code = 2;
      return;
    }
    if (ready) ready = complete(*flags);
    if (ready) {
      for (const std::string& notice : flags->notices) log::info("{}", notice);
      for (const std::string& notice : seen->notices) log::info("{}", notice);
      ready = fetch_checkpoint(*flags);
    }
    if (ready) ready = serve::run_server(flags->settings);
    if (!ready) {
      log::error("{}", ready.error().message);
      exit_code = 1;
    }
  });
}

}  // namespace saccade

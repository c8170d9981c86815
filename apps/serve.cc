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
#include "apps/flags/vllm_flags.h"
#include "apps/manual/flags_page.h"
#include "base/log.h"
#include "serve/server.h"

namespace saccade {
namespace {

void add_http_flags(CLI::App& cmd, ServeFlags& f) {
  auto& s = f.settings;
  cmd.add_option("--root-path", s.root_path,
                 "prefix that a proxy in front leaves on paths; they are served with and without");
  auto* const host = cmd.add_option("--host", s.host, "address to listen on");
  host->capture_default_str();
  cmd.add_option("--port", s.port, "port; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  cmd.add_option_function<std::string>(
         "--uds",
         [&s](const std::string& path) {
           if (path.empty()) throw CLI::ValidationError("--uds is empty");
           s.host = std::filesystem::absolute(path).string();
         },
         "path of a Unix socket to listen on, instead of an address and a port")
      ->excludes(host);
  cmd.add_option("--api-key", s.api_keys,
                 "key that clients must send (also SACCADE_API_KEY, VLLM_API_KEY)")
      ->expected(1, -1);
  cmd.add_option("--allowed-origins,--cors-allow-origins", s.allowed_origins,
                 "web pages that may use the server, besides its own and this machine's; *: all")
      ->expected(1, -1);
  cmd.add_option("--allowed-hosts", s.allowed_hosts,
                 "names besides localhost and --host by which the server is reached where no API "
                 "key is needed; *.NAME: those below it; *: any")
      ->expected(1, -1);
  cmd.add_flag("--ui,!--no-ui", s.page,
               "a page at / that tries the model (docs/playground.md); on by default");
  cmd.add_flag("--allow-credentials,!--no-allow-credentials", s.allow_credentials,
               "let those pages send cookies along; the server reads none");
  cmd.add_flag("--enable-request-id-headers,!--no-enable-request-id-headers", s.request_id_headers,
               "answers have X-Request-Id: the request's, or a new one");
  cmd.add_option("--io-threads", s.io_threads, "threads that read and write connections")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  cmd.add_option("--ssl-certfile", s.tls_certificate, "PEM; then the server speaks HTTPS");
  cmd.add_option("--ssl-keyfile", s.tls_key, "PEM of its key, where --ssl-certfile has none");
  cmd.add_option("--throughput-log-seconds", f.throughput_seconds,
                 "between lines about tokens a second under load, 10 by itself; 0: none")
      ->check(CLI::Range(0, 86'400));
  cmd.add_flag_callback("--disable-log-stats", [&f] { f.throughput_seconds = 0; }, "no such lines");
}

void add_cluster_flags(CLI::App& cmd, ServeFlags& f) {
  auto& c = f.settings.cluster;
  add_choice(cmd, "--role", c.role, serve::kRoles,
             "all: everything here; encoder: encodes images for others and answers nothing; "
             "pd: has --encoders encode")
      ->capture_default_str();
  cmd.add_option("--cluster-listen", c.listen,
                 "HOST:PORT or unix:PATH where others ask for encodes; beyond this machine with a "
                 "key or TLS only")
      ->expected(1, -1)
      ->delimiter(',');
  cmd.add_option("--encoders", c.encoders, "HOST:PORT or unix:PATH of encoders, comma between")
      ->expected(1, -1)
      ->delimiter(',');
  add_choice(cmd, "--encoder-fallback", c.fallback, kEncoderFallbacks,
             "local: encodes here what encoders cannot; refuse: 503, and the tower is not loaded");
  constexpr std::array<Named<bool>, 2> kAnyNumerics{{{"strict", false}, {"any", true}}};
  add_choice(cmd, "--numerics", c.any_numerics, kAnyNumerics,
             "strict: only encoders whose rows are equal to the bit; any: others too");
  cmd.add_option("--verify-embeddings", c.verify_share,
                 "share of images from encoders that are encoded here too and compared")
      ->check(CLI::Range(0.0, 1.0));
  cmd.add_option("--cluster-key-file", c.key_file, "file with a key that all of a cluster share");
  cmd.add_option("--cluster-tls-cert", c.tls_certificate, "PEM; with the two below");
  cmd.add_option("--cluster-tls-key", c.tls_key, "PEM; the key of that certificate");
  cmd.add_option("--cluster-tls-ca", c.tls_authority, "PEM; whose certificates are believed");
  cmd.add_option("--registry", c.registry,
                 "redis://[:password@]HOST:PORT[/DATABASE] or unix:///PATH of a Redis or Valkey: "
                 "finds encoders, is found by proxies, shares rows (docs/cluster.md)");
  cmd.add_option("--registry-password-file", c.registry_password_file,
                 "file with its password, instead of one in the address");
  cmd.add_option("--advertise", c.advertise,
                 "HOST under which others reach this process; as listened on by itself");
  constexpr std::array<Named<bool>, 2> kOnOff{{{"on", true}, {"off", false}}};
  add_choice(
      cmd, "--shared-rows", c.shared_rows, kOnOff,
      "on: rows that are encoded for others are kept in the registry's server too, and looked "
      "for there; off: only processes are found there");
  cmd.add_option("--shared-rows-ttl", f.shared_rows_ttl, "how long they are kept; 1h by itself");
  cmd.add_option("--shared-rows-bytes", c.shared_rows_bytes,
                 "most bytes of one image's rows that are kept there; accepts 64MiB")
      ->transform(CLI::AsSizeValue(false));
  cmd.add_option("--kv-events-config", f.kv_events_config,
                 "JSON; what the prefix cache holds, told to routers over ZeroMQ as vLLM does "
                 "(docs/cluster.md): {\"enable_kv_cache_events\": true, \"endpoint\": "
                 "\"tcp://127.0.0.1:5557\"}");
}

// What most people need stands first in --help.
void put_first(CLI::App& cmd) {
  constexpr std::string_view kGroup = "What most need";
  if (CLI::Option* const help = cmd.get_help_ptr(); help != nullptr)
    help->group(std::string(kGroup));
  for (const char* const name : {"--config",
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
    cmd.get_option(name)->group(std::string(kGroup));
}

void add_decode_share_flag(CLI::App& cmd, EngineSettings& engine) {
  engine.decode_share = EngineSettings::kServingDecodeShare;
  cmd.add_option("--decode-share", engine.decode_share,
                 "without --tpot-target-ms, the least part of a step's time that is theirs who are "
                 "given tokens, while prompts are "
                 "computed (which have 50 ms at least); 0: prompts go first")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.99));
}

CLI::App* add_serve_flags(CLI::App& app, ServeFlags& flags, VllmFlagsSeen& seen) {
  CLI::App* cmd = app.add_subcommand("serve", "answer the OpenAI API from a checkpoint");
  cmd->add_option("--config", flags.config, "file with these names: TOML, INI or flat YAML");
  cmd->add_option("model_positional", flags.positional_model,
                  "checkpoint: a folder, MODEL.gguf, or ORG/NAME in HF_HOME");
  const std::string unnamed = cmd->option_defaults()->get_group();
  cmd->option_defaults()->group("HTTP and who may use it");
  add_http_flags(*cmd, flags);
  add_offline_flags(*cmd, flags);
  cmd->option_defaults()->group("Memory, batches and scheduling");
  add_decode_share_flag(*cmd, flags.settings.engine);
  cmd->option_defaults()->group("Several processes (docs/cluster.md)");
  add_cluster_flags(*cmd, flags);
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
  cmd->add_flag("--help-flags-markdown", *page, "print docs/flags.md and exit");
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

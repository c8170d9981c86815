// saccade chat: its flags.
#include "chat/chat.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "apps/commands.h"

namespace saccade {
namespace {

struct ChatFlags {
  chat::ChatSettings settings;
  std::string where;  // a server, or a model of the default one
  std::vector<std::string> fields;
  bool insecure = false;
};

std::string key_of_environment() {
  for (const char* name : {"SACCADE_API_KEY", "OPENAI_API_KEY"}) {
    const char* const key = std::getenv(name);
    if (key != nullptr && *key != '\0') return key;
  }
  return {};
}

Result<bool> run_chat(ChatFlags& flags) {
  chat::ChatSettings& s = flags.settings;
  if (chat::names_server(flags.where)) {
    s.base_url = flags.where;
  } else if (!flags.where.empty()) {
    s.model = flags.where;
  }
  if (s.api_key.empty()) s.api_key = key_of_environment();
  s.verify_tls = !flags.insecure;
  for (const std::string& field : flags.fields) {
    const std::size_t equals = field.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(ErrorCode::kInvalid, "--set '{}': NAME=VALUE is required", field);
    s.fields.emplace_back(field.substr(0, equals), field.substr(equals + 1));
  }
  return chat::run_chat(s);
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ChatFlags>();
  chat::ChatSettings& s = flags->settings;
  CLI::App* cmd = app.add_subcommand("chat", "talk to a server on the terminal, with images");
  cmd->add_option("server", flags->where,
                  "URL of the server, or the name of a model of http://127.0.0.1:8000")
      ->default_str("http://127.0.0.1:8000");
  cmd->add_option("--model", s.model, "model to talk to")->default_str("the server's first");
  cmd->add_option("--image", s.images, "image to send with the first question: a file or a URL")
      ->expected(1, -1);
  cmd->add_option("--system", s.system, "system message");
  cmd->add_option("--set", flags->fields,
                  "NAME=VALUE: field to set in every request, e.g. temperature=0 max_tokens=64")
      ->expected(1, -1);
  cmd->add_option("--api-key", s.api_key,
                  "API key of the server (also SACCADE_API_KEY, OPENAI_API_KEY)");
  cmd->add_flag("!--no-preview", s.previews,
                "do not show images in the terminal, even if it can (sixel or kitty's graphics)");
  cmd->add_flag("--insecure", flags->insecure, "do not verify the server's certificate");
  cmd->add_option("--ca-file", s.ca_file,
                  "PEM file of the authorities whose certificates are trusted");
  cmd->callback([flags, &exit_code] {
    const auto done = run_chat(*flags);
    if (!done) std::fprintf(stderr, "saccade chat: %s\n", done.error().message.c_str());
    exit_code = done && *done ? 0 : 1;
  });
}

}  // namespace saccade

// saccade doctor: what this machine gives a server, what is slow about it, and why.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/doctor_checks.h"
#include "base/json.h"

namespace saccade {
namespace {

struct DoctorFlags {
  std::uint16_t port = 8000;
  bool json = false;
};

const char* word_of(Verdict verdict) {
  return verdict == Verdict::kFine ? "ok" : verdict == Verdict::kSlow ? "slow" : "wrong";
}

std::string findings_json(const std::vector<Finding>& findings) {
  std::string text;
  json::JsonWriter w(text);
  w.begin_array();
  for (const Finding& each : findings) {
    w.begin_object();
    w.member("section", std::string_view(each.section));
    w.member("name", std::string_view(each.name));
    w.member("value", std::string_view(each.value));
    w.member("verdict", std::string_view(word_of(each.verdict)));
    w.member("advice", std::string_view(each.advice));
    w.end_object();
  }
  w.end_array();
  return text + "\n";
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  std::string section;
  for (const Finding& each : findings) {
    if (each.section != section)
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", each.section);
    section = each.section;
    text += fmt::format("  {:<6}{}: {}\n", word_of(each.verdict), each.name, each.value);
    if (!each.advice.empty()) text += fmt::format("        {}\n", each.advice);
  }
  return text;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* cmd = app.add_subcommand(
      "doctor", "what this machine gives a server, what is slow about it, and why");
  cmd->add_option("--port", flags->port, "port to check for being free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  cmd->add_flag("--json", flags->json,
                "print JSON: a list of {section, name, value, verdict, advice}");
  cmd->callback([flags, &exit_code] {
    const std::vector<Finding> findings = check_machine(flags->port);
    std::fputs((flags->json ? findings_json(findings) : findings_text(findings)).c_str(), stdout);
    exit_code = 0;
  });
}

}  // namespace saccade

#include "apps/manual/flags_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "apps/flags/serve_environment.h"
#include "apps/flags/vllm_flags.h"

namespace saccade {
namespace {

// Within a cell of a table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// "`--x` `-y`"
std::string code_of(std::string_view names) {
  std::string text;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find_first_of(" ,"), names.size());
    text += (text.empty() ? "`" : " `") + std::string(names.substr(0, end)) + "`";
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return text;
}

std::string flag_names(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_lnames()) {
    const auto& off = option.get_fnames();
    if (std::ranges::find(off, name) != off.end() && name.starts_with("no-")) continue;
    names += (names.empty() ? "--" : " --") + name;
  }
  return names;
}

// "Cluster (docs/cluster.md)" as a heading, with a link to the page below it.
std::string heading_of(std::string_view group) {
  constexpr std::string_view kPage = " (docs/";
  const std::size_t at = group.find(kPage);
  std::string text = fmt::format("\n### {}\n\n", group.substr(0, at));
  if (at == std::string_view::npos) return text;
  std::string_view name = group.substr(at + kPage.size());
  name.remove_suffix(1);
  return text + fmt::format("More: [{0}]({0}).\n\n", name);
}

void own_flags(const CLI::App& serve, std::string& page) {
  page += "## Flags of `saccade serve`\n\nSwitches are off unless the default is on.\n";
  for (const std::string& group : serve.get_groups()) {
    std::string rows;
    for (const CLI::Option* option : serve.get_options()) {
      if (option->get_group() != group || option->get_lnames().empty()) continue;
      std::string names = code_of(flag_names(*option));
      if (option->get_expected_max() > 1) names += " ...";
      rows += fmt::format("| {} | {} | {} |\n", names, cell(option->get_description()),
                          cell(option->get_default_str()));
    }
    if (!group.empty() && !rows.empty())
      page += heading_of(group) + "| flag | what it does | default |\n|---|---|---|\n" + rows;
  }
}

std::string outcome(const VllmFlag& flag) {
  switch (flag.fate) {
    case Fate::kWorks:
      return flag.sentence.empty() ? "works" : fmt::format("works: {}", flag.sentence);
    case Fate::kNoEffect:
      return fmt::format("no effect: {}", flag.sentence);
    case Fate::kRefused:
      break;
  }
  const std::string_view but =
      flag.takes == Takes::kSwitch ? " (its `--no-` form is accepted)" : "";
  if (flag.harmless.empty()) return fmt::format("refused{}: {}", but, flag.sentence);
  return fmt::format("{} accepted, all else refused: {}", code_of(flag.harmless), flag.sentence);
}

void other_flags(bool older, std::string& page) {
  page += "| flag | in Saccade |\n|---|---|\n";
  for (const VllmFlag& flag : vllm_flags()) {
    if (flag.older == older)
      page += fmt::format("| {} | {} |\n", code_of(flag.names), cell(outcome(flag)));
  }
}

}  // namespace

std::string flags_page(const CLI::App& serve) {
  const auto all = vllm_flags();
  const auto count = [&](Fate fate) {
    return std::ranges::count_if(
        all, [&](const VllmFlag& flag) { return !flag.older && flag.fate == fate; });
  };
  std::string page =
      "# Flags and environment variables\n\n"
      "Every flag and environment variable of `saccade serve`, and what it does with each flag of "
      "`vllm serve`.\n\n"
      "```\n"
      "$ saccade serve models/glimpse --max-num-seqs 8 --kv-cache-bytes 64MiB --port 8000\n"
      "I KV cache,   full attention: 4 layers, 1 pages of 24576 bytes a block\n"
      "I listening on http://127.0.0.1:8000\n"
      "```\n\n"
      "`saccade serve --help` prints the same groups, the common flags first. "
      "`saccade serve --help-flags-markdown` prints this page; a test compares the two. Coming "
      "from llama-server: [its flags](migrate-from-llama-server.md).\n\n"
      "- Names may be written with underscores instead of dashes.\n"
      "- A flag that is given again replaces its value; those with ... add to it.\n"
      "- `--max-model-len`, `--max-num-batched-tokens`, `--max-num-seqs` and sizes in bytes "
      "may be 4096, 4k (4000) or 4K (4096); bytes also 4GiB.\n"
      "- JSON may be given in parts: `--limit-mm-per-prompt.image 2` is "
      "`--limit-mm-per-prompt '{\"image\": 2}'`, and `--flag.list+ a` appends to a list.\n"
      "- `--config FILE` sets the same names; the command line takes precedence.\n\n";
  own_flags(serve, page);
  page += fmt::format(
      "\n## Flags of `vllm serve`\n\n"
      "All {} of vLLM 0.32.0: {} work, {} are accepted without effect (a line at start says why), "
      "{} are refused with what to do instead, except for values that ask for what the server does "
      "anyway. Switches have a `--no-` form.\n\n",
      count(Fate::kWorks) + count(Fate::kNoEffect) + count(Fate::kRefused), count(Fate::kWorks),
      count(Fate::kNoEffect), count(Fate::kRefused));
  other_flags(false, page);
  page += "\nFlags of older versions:\n\n";
  other_flags(true, page);
  page += "\n## Environment variables\n\n| variable | what it does |\n|---|---|\n";
  for (const EnvironmentVariable& variable : environment_variables())
    page += fmt::format("| `{}` | {}{} |\n", variable.name,
                        variable.works ? "" : "no effect: ", cell(variable.sentence));
  return page;
}

}  // namespace saccade

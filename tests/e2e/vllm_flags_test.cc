// What vLLM's users type: every flag works, or is accepted with a line that says why it changes
// nothing, or is refused with what to do instead; and docs/flags.md says which.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/e2e/checkpoints.h"
#include "tests/support/occurrences.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;

const std::string kSource = SACCADE_SOURCE_DIR;
const std::string kPublished = kSource + "/../shared/data/vllm_flags";

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// "works", "no effect" or "refused" with its sentence, by every name of the page's tables.
std::map<std::string, std::string> outcomes() {
  std::map<std::string, std::string> found;
  bool of_vllm = false;
  for (const std::string& line : lines_of(kSource + "/docs/flags.md")) {
    if (line.starts_with("## ")) of_vllm = line.find("vllm serve") != std::string::npos;
    if (!of_vllm || !line.starts_with("| `-")) continue;
    const std::size_t cell = line.find(" | ", 2);
    std::istringstream names(line.substr(2, cell - 2));
    for (std::string name; names >> name;)
      found[name.substr(1, name.size() - 2)] = line.substr(cell + 3, line.size() - cell - 5);
  }
  return found;
}

// A line of tried_120.tsv as arguments: values have no blanks but between several.
std::vector<std::string> typed(const std::string& line, const TemporaryDirectory& folder) {
  std::vector<std::string> words;
  std::istringstream stream(line.substr(line.find('\t') + 1));
  for (std::string word; stream >> word;) {
    if (const std::size_t at = word.find("DIR"); at != std::string::npos)
      word = words.back() == "--tokenizer" ? kCheckpoint : folder.path() + word.substr(at + 3);
    words.push_back(word);
  }
  return words;
}

// The flag's name in the page: dashes for underscores, no value, nothing behind a dot, without no-.
std::string page_name(std::string flag, const std::map<std::string, std::string>& page) {
  flag = flag.substr(0, flag.find_first_of("=."));
  for (char& c : flag) c = c == '_' ? '-' : c;
  if (flag.starts_with("-O")) return "-O";
  if (flag.starts_with("--no-") && !page.contains(flag)) return "--" + flag.substr(5);
  return flag;
}

TEST(VllmFlags, EveryTriedLineStartsOrSaysWhatToDo) {
  const auto lines = lines_of(kPublished + "/tried_120.tsv");
  if (lines.empty()) GTEST_SKIP() << "no " << kPublished;
  ASSERT_EQ(lines.size(), 120u);
  const auto page = outcomes();
  const TemporaryDirectory folder;
  int started = 0;
  for (const std::string& line : lines) {
    SCOPED_TRACE(line);
    const auto flags = typed(line, folder);
    const std::string name = page_name(flags.front(), page);
    const auto outcome = page.find(name);
    ASSERT_NE(outcome, page.end()) << name << " is not in docs/flags.md";
    std::vector<std::string> arguments = {"serve", "--model", kCheckpoint};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Tried tried = start_or_end(SACCADE_BINARY, arguments);
    const std::string& output = tried.ended.output;
    const std::size_t notices = count(output, "has no effect here: ");
    const std::string sentence = outcome->second.substr(outcome->second.find(": ") + 2);
    EXPECT_EQ(count(output, "not expected"), 0u) << output;
    if (tried.started) {
      ++started;
      EXPECT_EQ(tried.ended.status, 0) << output;
      // What works on a GPU alone says so on the CPU that this server runs on.
      const bool works_here = outcome->second.starts_with("works") &&
                              outcome->second.find("on a CPU") == std::string::npos;
      EXPECT_EQ(notices, works_here ? 0u : 1u) << output;
      if (outcome->second.starts_with("no effect")) {
        EXPECT_NE(output.find("has no effect here: " + sentence), std::string::npos) << output;
      }
      continue;
    }
    EXPECT_TRUE(tried.ended.status == 1 || tried.ended.status == 2) << output;
    EXPECT_FALSE(outcome->second.starts_with("no effect")) << output;
    if (!outcome->second.starts_with("works")) {
      EXPECT_NE(output.find(" is not supported: " + sentence), std::string::npos) << output;
    }
    // It names the flag, and says something of it.
    EXPECT_NE(output.find(name.starts_with("--") ? name : "--"), std::string::npos) << output;
    EXPECT_GT(output.size(), 40u) << output;
  }
  std::printf("%d of %zu lines start\n", started, lines.size());
}

TEST(VllmFlags, AllOfARealServerAreInThePage) {
  const auto lines = lines_of(kPublished + "/serve_0.32.txt");
  if (lines.empty()) GTEST_SKIP() << "no " << kPublished;
  const auto page = outcomes();
  std::size_t flags = 0;
  for (const std::string& line : lines) {
    if (line.starts_with("-h")) continue;
    ++flags;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.ends_with(",")) word.pop_back();
      if (!word.starts_with("-") || word.starts_with("--no-")) continue;
      EXPECT_TRUE(page.contains(word)) << word << " of: " << line;
    }
  }
  EXPECT_EQ(flags, 316u);
}

TEST(VllmFlags, ThePageIsWhatTheProgramPrints) {
  const Ended printed = run_to_end(SACCADE_BINARY, {"serve", "--help-flags-markdown"});
  EXPECT_EQ(printed.status, 0) << printed.output;
  EXPECT_EQ(printed.output, read_file(kSource + "/docs/flags.md"))
      << "docs/flags.md is made by: saccade serve --help-flags-markdown > docs/flags.md";
}

// Whatever works elsewhere has a flag of our own behind it.
TEST(VllmFlags, WhatWorksIsAFlagOfTheProgram) {
  const std::string help = run_to_end(SACCADE_BINARY, {"serve", "--help"}).output;
  int working = 0;
  for (const auto& [name, outcome] : outcomes()) {
    if (!outcome.starts_with("works") || !name.starts_with("--")) continue;
    ++working;
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
  EXPECT_GT(working, 60);
}

TEST(VllmFlags, AllRefusalsOfALineAreSaid) {
  const Ended ended =
      run_to_end(SACCADE_BINARY, {"serve", "--model", kCheckpoint, "-pp", "4",
                                  "--enable-tower-connector-lora", "--ssl-ciphers", "X",
                                  "--no-enable-sleep-mode", "--structured-outputs-config.backend",
                                  "xgrammar", "--pooler-config.pooling_type", "CLS"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(count(ended.output, " is not supported: "), 4u) << ended.output;
  for (const char* words : {"--pipeline-parallel-size 4 is", "--enable-tower-connector-lora is",
                            "--ssl-ciphers X is", R"(--pooler-config {"pooling_type":"CLS"} is)"})
    EXPECT_NE(ended.output.find(words), std::string::npos) << words << " in " << ended.output;
}

TEST(VllmFlags, AFileMayHaveThemToo) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "vllm.yaml")
      << "model: " << kCheckpoint << "\ngpu-memory-utilization: 0.5\nenforce-eager: true\n";
  const Tried tried = start_or_end(SACCADE_BINARY, {"serve", "--config", folder / "vllm.yaml"});
  EXPECT_TRUE(tried.started) << tried.ended.output;
  EXPECT_EQ(count(tried.ended.output, "has no effect here: "), 2u) << tried.ended.output;
}

}  // namespace
}  // namespace saccade::test

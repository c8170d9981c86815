// What becomes of every flag of `vllm serve` here: one table for the parser, for the lines at start
// and for docs/flags.md.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

enum class Takes : std::uint8_t {
  kSwitch,    // --x and --no-x
  kValue,     // one
  kValues,    // one or more
  kOptional,  // one or none
};

enum class Fate : std::uint8_t {
  kWorks,     // a flag of `saccade serve`, by this or another name of the same option
  kNoEffect,  // accepted; a line at start says why it changes nothing
  kRefused,   // the server does not start; the sentence says what to do instead
};

struct VllmFlag {
  std::string_view names;  // with a blank between; the first is the one that is shown
  Takes takes = Takes::kValue;
  Fate fate = Fate::kNoEffect;
  // Of kRefused: values that ask for what is done anyway, with a blank between; they are accepted,
  // and so is the negative form of a switch. "{}" is an empty JSON object, "{a,b}" one that has no
  // other members.
  std::string_view harmless;
  std::string_view sentence;  // why, or what to do instead; of kWorks: how it differs, or empty
  bool older = false;         // no longer in vLLM 0.32
};

// All flags of vLLM 0.32.0, and older ones that are still typed.
std::span<const VllmFlag> vllm_flags();
// By any of its names, with its dashes; null: none.
const VllmFlag* find_vllm_flag(std::string_view name);

// What was given of those that do not work: filled while the command line and the file are read.
struct VllmFlagsSeen {
  std::vector<std::string> notices;   // "--enforce-eager has no effect here: ..."
  std::vector<std::string> refusals;  // "--enable-lora is not supported: ..."
};

// Adds those of kNoEffect and kRefused, hidden from --help. After the command's own. `seen`
// outlives the command.
void add_vllm_flags(CLI::App& command, VllmFlagsSeen& seen);

}  // namespace saccade

// What `saccade doctor` looks at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saccade {

enum class Verdict : std::uint8_t { kFine, kSlow, kWrong };

// One thing about this machine or this process.
struct Finding {
  std::string section;  // "processor"
  std::string name;     // "kernels"
  std::string value;    // "amx"
  Verdict verdict = Verdict::kFine;
  std::string advice;  // what to do about it; empty: nothing
};

// Takes about a second: memory is read to measure it. `port`: looked at whether it is free.
std::vector<Finding> check_machine(std::uint16_t port);

}  // namespace saccade

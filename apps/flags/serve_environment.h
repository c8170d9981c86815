// Environment variables that `saccade serve` reads, and those of vLLM that change nothing here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/settings.h"

namespace saccade {

struct EnvironmentVariable {
  std::string_view name;
  bool works = true;
  std::string_view sentence;  // what it says; or why it changes nothing
};

std::span<const EnvironmentVariable> environment_variables();

// A variable's text; empty where it is not set.
std::string environment(const char* name);
bool environment_switch(const char* name);  // 1, true, yes or on

// Of flags that have not been given. Errors name the variable and its value.
struct EnvironmentDefaults {
  std::vector<std::string> api_keys;
  std::string log_level;             // as --log-level; empty: not said
  double log_interval = -1;          // seconds; below 0: not said
  double media_seconds = -1;         // below 0: not said
  std::size_t kv_cache_bytes = 0;    // 0: not said
  std::vector<std::string> notices;  // of those that change nothing
};
Result<EnvironmentDefaults> read_environment();

struct BoundProcessors {
  int threads = 0;                  // 0: nobody said how many
  std::vector<ProcessorSet> ranks;  // of each rank; empty: they are not told apart
};
// VLLM_CPU_OMP_THREADS_BIND: this thread, and all that it starts, stay on those processors, and
// each of `ranks` ranks on its own; without it several ranks get a node of memory each, where there
// are as many. kInvalid names a list that cannot be read or had.
Result<BoundProcessors> bind_processors(int ranks);

}  // namespace saccade

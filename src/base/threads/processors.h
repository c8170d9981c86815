// The processors that this process may compute on, and threads that stay on some of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade {

// Linux's numbers of processors, ascending.
using ProcessorSet = std::vector<int>;

struct Processors {
  ProcessorSet usable;              // by the process's affinity
  std::vector<ProcessorSet> nodes;  // of memory (NUMA), those that have usable ones; at least one
  double quota = 0;                 // that control groups give, in processors; 0: all of them

  // How many threads should compute: one a processor, and no more than whole ones of the quota,
  // because who waits for a thread that has been stopped waits with all others.
  int compute_threads() const;
};

// root: where sys and proc are looked for. What cannot be read counts as absent.
Processors find_processors(const std::string& root = "");

// "0-3,8"; nothing where it is no such list.
std::optional<ProcessorSet> parse_processors(std::string_view text);
std::string format_processors(const ProcessorSet& processors);

// The calling thread, and those that it starts, from here on. kInvalid: there are no such.
Result<void> stay_on(const ProcessorSet& processors);

// The calling thread, until this ends on the same thread; of no processors nothing is done. Where
// the system refuses, the thread stays where it may run.
class StayingOn {
 public:
  explicit StayingOn(const ProcessorSet& processors);
  ~StayingOn();
  StayingOn(const StayingOn&) = delete;
  StayingOn& operator=(const StayingOn&) = delete;

 private:
  ProcessorSet before_;
};

}  // namespace saccade

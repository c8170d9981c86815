// A batch: every line of a file is asked of a server's router, as HTTP would ask it, and its answer
// written to another file as soon as it is there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "serve/server.h"

namespace saccade::batch {

struct BatchSettings {
  std::string input;
  std::string output;
  std::size_t max_in_flight = 128;         // lines that are asked and not yet answered
  std::size_t max_line_bytes = 64u << 20;  // over it 413; a body's limit over HTTP
  std::chrono::seconds drain_time{30};     // for what runs when it is told to end
};

struct BatchCounts {
  std::int64_t lines = 0;   // of the input
  std::int64_t before = 0;  // whose answers were in the output already
  std::int64_t done = 0;    // whose answers were written now
  std::int64_t errors = 0;  // of both: those without a 200
  bool interrupted = false;
};

// Told now and then, on the calling thread.
using BatchProgress = std::function<void(const BatchCounts& so_far)>;

// What run_batch() would refuse of the files, to be heard before a model is loaded.
Result<void> check_files(const BatchSettings& settings);

// Blocks until every line has its answer, or until the process has been told to end: then nothing
// more is asked, and what runs has drain_time. What is in the output is not asked again. Memory:
// the lines in flight, and some 120 bytes a line for custom_ids. Errors: of the files, or an engine
// that has stopped, whose last answers are not written.
Result<BatchCounts> run_batch(const BatchSettings& settings, const serve::Offline& server,
                              const BatchProgress& progress);

}  // namespace saccade::batch

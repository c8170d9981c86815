// What every long run does: asks each question alone first, comes as the traces do, and says what
// it finds as it goes.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tests/soak/question.h"
#include "tests/soak/tally.h"
#include "tests/support/server_process.h"

namespace saccade::soak {

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
  std::fflush(stdout);
}

// The times between requests of the published traces, one behind the other.
Result<std::vector<Nanos>> trace_gaps(const std::string& source_dir);

// Each question by itself, whole and streamed, to a server that does nothing else and ends by it.
// `headers`: of each request.
Result<void> ask_alone(test::ServerProcess& server, std::vector<Question>& questions, Tally& tally,
                       const std::string& headers = "");

// Findings behind the first `said`, which then counts them.
void say_findings(const Tally& tally, std::size_t& said);
// How often what was done.
void say_counts(const Tally& tally, double elapsed_s);

}  // namespace saccade::soak

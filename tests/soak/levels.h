// What a server holds where it has nothing to do, and whether that grows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/server_process.h"

namespace saccade::soak {

struct Levels {
  double minutes = 0;  // since the server's start
  std::int64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
};

// The sum over all lines of a metric; absent where there is none.
std::optional<double> value_of(std::string_view page, const std::string& name);

// Those of these gauges that are not zero or not there, as "name value".
std::vector<std::string> not_zero(std::string_view page, const std::vector<std::string>& names);

// The gauges that are to be zero at rest, in the exposition of `page`: those that are not, as
// "name value"; also what is missing, and memory terms that do not add up to the pool.
std::vector<std::string> restless(std::string_view page);

// Waits until the server is at rest: nothing runs, waits or is held, and descriptors and threads
// are as `before`. What is not, after `patience_s`.
struct Rest {
  Levels levels;
  std::vector<std::string> wrong;
};
Rest wait_for_rest(const test::ServerProcess& server, const Levels& before, int patience_s);

// What grows over one server's life. The first points are warming up: caches and pools fill.
std::vector<std::string> growth(const std::vector<Levels>& life, std::int64_t allowed_bytes);

}  // namespace saccade::soak

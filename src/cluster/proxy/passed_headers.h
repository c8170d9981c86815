// The headers of a message that go on to the next hop.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace saccade::cluster {

// Without those that are between two neighbours (RFC 9110 7.6.1), those that a Connection header
// claims for this hop, and those that the next hop's client writes itself. Names in lower case.
std::vector<std::pair<std::string, std::string>> passed_on(
    const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace saccade::cluster

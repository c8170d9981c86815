#include "cluster/proxy/passed_headers.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text/ascii.h"

namespace saccade::cluster {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr std::array<std::string_view, 12> kHopByHop = {"connection",
                                                        "keep-alive",
                                                        "proxy-authenticate",
                                                        "proxy-authorization",
                                                        "proxy-connection",
                                                        "te",
                                                        "trailer",
                                                        "transfer-encoding",
                                                        "upgrade",
                                                        "host",
                                                        "content-length",
                                                        "expect"};

// Names that a Connection header claims for this hop, sorted: there may be as many as a header has
// room for.
std::vector<std::string> claimed(const Headers& headers) {
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    if (name != "connection") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view one = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      while (!one.empty() && (one.front() == ' ' || one.front() == '\t')) one.remove_prefix(1);
      while (!one.empty() && (one.back() == ' ' || one.back() == '\t')) one.remove_suffix(1);
      if (!one.empty()) names.push_back(ascii::lower(one));
    }
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

Headers passed_on(const Headers& headers) {
  const std::vector<std::string> own = claimed(headers);
  Headers passed;
  for (const auto& header : headers) {
    if (std::ranges::find(kHopByHop, header.first) != kHopByHop.end()) continue;
    if (std::ranges::binary_search(own, header.first)) continue;
    passed.push_back(header);
  }
  return passed;
}

}  // namespace saccade::cluster

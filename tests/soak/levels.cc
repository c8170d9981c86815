#include "tests/soak/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <thread>

namespace saccade::soak {
namespace {

constexpr std::size_t kWarming = 3;           // points
constexpr std::int64_t kKeptConnections = 8;  // to hosts of images, for the next image

}  // namespace

std::optional<double> value_of(std::string_view page, const std::string& name) {
  std::optional<double> sum;
  const std::string start = "\n" + name;
  for (std::size_t at = page.find(start); at != std::string_view::npos;
       at = page.find(start, at + 1)) {
    const std::size_t behind = at + start.size();
    if (behind >= page.size() || (page[behind] != '{' && page[behind] != ' ')) continue;
    const std::size_t value = page[behind] == ' ' ? behind : page.find("} ", behind) + 1;
    if (value == 0) break;
    sum = sum.value_or(0) + std::strtod(std::string(page.substr(value, 40)).c_str(), nullptr);
  }
  return sum;
}

std::vector<std::string> not_zero(std::string_view page, const std::vector<std::string>& names) {
  std::vector<std::string> wrong;
  for (const std::string& name : names) {
    const auto value = value_of(page, name);
    if (!value || *value != 0) wrong.push_back(fmt::format("{} {}", name, value.value_or(-1)));
  }
  return wrong;
}

std::vector<std::string> restless(std::string_view page) {
  std::vector<std::string> wrong = not_zero(
      page, {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
             "saccade:requests_preparing", "saccade:request_bytes", "saccade:pixel_bytes",
             "saccade:images_loading", "saccade:encoder_queue_images"});
  // Embeddings are held beside keys and values.
  const auto kv = value_of(page, "saccade:kv_cache_bytes");
  const auto embeddings = value_of(page, "saccade:encoder_cache_bytes");
  const double pool = kv.value_or(-1) + embeddings.value_or(-1);
  const auto terms = value_of(page, "saccade:memory_bytes");
  if (!terms || std::abs(pool - *terms) >= 1)
    wrong.push_back(
        fmt::format("saccade:memory_bytes add up to {} of {}", terms.value_or(-1), pool));
  return wrong;
}

Rest wait_for_rest(const test::ServerProcess& server, const Levels& before, int patience_s) {
  Rest rest;
  for (int i = 0; i < patience_s * 5; ++i) {
    const test::RawAnswer page = test::exchange(server.port(), "GET", "/metrics", "");
    rest.wrong = restless(page.body);
    rest.levels.descriptors = server.descriptors();
    rest.levels.threads = server.threads();
    for (const auto& [name, now, then] :
         {std::tuple("descriptors", rest.levels.descriptors, before.descriptors + kKeptConnections),
          std::tuple("threads", rest.levels.threads, before.threads)}) {
      if (before.threads > 0 && now > then)
        rest.wrong.push_back(fmt::format("{} {}, were {}", name, now, then));
    }
    if (rest.wrong.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  rest.levels.resident_bytes = server.resident_bytes();
  return rest;
}

std::vector<std::string> growth(const std::vector<Levels>& life, std::int64_t allowed_bytes) {
  std::vector<std::string> wrong;
  if (life.size() <= kWarming) return wrong;
  const Levels& warm = life[kWarming];
  const auto highest = std::max_element(
      life.begin() + kWarming, life.end(),
      [](const Levels& a, const Levels& b) { return a.resident_bytes < b.resident_bytes; });
  if (highest->resident_bytes > warm.resident_bytes + allowed_bytes) {
    wrong.push_back(fmt::format("resident memory was {} MiB at minute {:.1f} and {} MiB at {:.1f}",
                                warm.resident_bytes >> 20, warm.minutes,
                                highest->resident_bytes >> 20, highest->minutes));
  }
  return wrong;
}

}  // namespace saccade::soak

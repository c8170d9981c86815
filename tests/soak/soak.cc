// saccade_soak SERVER MINUTES: the real server under traffic, faults and time.
//
// One long life of the server, half of the time, then short ones that end by SIGTERM and by kill -9
// in the middle of traffic. At the end of each round clients stop coming, and the server has to be
// as it was before. Ends with 1 when anything was wrong.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/soak/image_host.h"
#include "tests/soak/levels.h"
#include "tests/soak/run.h"
#include "tests/soak/traffic.h"
#include "tests/support/server_process.h"

namespace saccade::soak {
namespace {

constexpr double kSpeed = 4;  // of the traces: their busiest second is 40 requests
constexpr int kRestSeconds = 600;
constexpr int kEndSeconds = 700;  // above --drain-seconds
constexpr std::int64_t kAllowedGrowth = 32 << 20;
constexpr double kRoundSeconds = 30;

class Soak {
 public:
  Soak(std::string server, double minutes)
      : server_(std::move(server)),
        source_(std::filesystem::current_path()),
        length_(static_cast<Nanos>(minutes * 60e9)),
        host_({source_ + "/data/glimpse", source_ + "/data/images"}) {}

  Result<int> run() {
    TRY(world_.questions, question_pool(source_, host_.url()));
    world_.image_host = host_.url();
    world_.hostile = hostile_requests(host_.url());
    world_.key = "patient";
    world_.hostile_key = "hostile";
    TRY(const std::vector<Nanos> gaps, trace_gaps(source_));
    arrivals_ = std::make_unique<Arrivals>(gaps, kSpeed);
    {
      test::ServerProcess server(server_, flags(), environment());
      TRY_DO(ask_alone(server, world_.questions, tally_, "Authorization: Bearer patient\r\n"));
    }
    const Nanos start = clock_.now();
    const Nanos long_life = length_ / 2;
    const Nanos short_life = std::max<Nanos>(length_ / 20, 15 * kSecond);
    for (int life = 0; clock_.now() < start + length_; ++life)
      live(life, life == 0 ? long_life : short_life);
    report(seconds(clock_.now() - start));
    return tally_.findings().empty() ? 0 : 1;
  }

 private:
  std::vector<std::string> flags() const {
    return {"serve", "--model", source_ + "/models/glimpse", "--threads", "1", "--api-key",
            "patient", "hostile",
            // Little room, so that sequences wait, are preempted and images are made again.
            "--max-num-seqs", "24", "--max-num-batched-tokens", "256", "--kv-cache-bytes", "12MiB",
            "--encoder-cache-bytes", "4MiB", "--max-pixel-bytes", "16MiB",
            "--allowed-local-media-path", source_ + "/data", "--allowed-media-domains", "127.0.0.1",
            "--allow-private-media-addresses", "--media-timeout", "20", "--drain-seconds", "600"};
  }
  // The sanitizer must not keep back what has been freed.
  static test::Environment environment() {
    return {{"ASAN_OPTIONS", "quarantine_size_mb=4:detect_leaks=1"}};
  }

  void live(int life, Nanos duration) {
    const Nanos start = clock_.now();
    test::ServerProcess server(server_, flags(), environment());
    std::vector<Levels> levels;
    Levels before;
    const auto round = static_cast<Nanos>(std::min(kRoundSeconds, seconds(duration) / 4) * 1e9);
    while (clock_.now() + round < start + duration) {
      Traffic traffic(world_, *arrivals_, tally_, server.port(), ++seed_);
      traffic.come_for(round);
      traffic.finish();
      rest(server, life, before, seconds(clock_.now() - start) / 60, levels);
    }
    for (const std::string& wrong : growth(levels, kAllowedGrowth))
      tally_.find(fmt::format("life {}: {}", life, wrong));
    if (life == 0) long_life_ = levels;
    end(server, life, round);
  }

  // As it was at the first quiet point.
  void rest(const test::ServerProcess& server, int life, Levels& before, double minutes,
            std::vector<Levels>& levels) {
    Rest rest = wait_for_rest(server, before, kRestSeconds);
    rest.levels.minutes = minutes;
    if (levels.empty()) before = rest.levels;
    levels.push_back(rest.levels);
    tally_.count("quiet points");
    for (const std::string& wrong : rest.wrong)
      tally_.find(fmt::format("life {}, minute {:.1f}, at rest: {}", life, minutes, wrong));
    say("life {}, minute {:.1f}: {} requests so far, {} findings; at rest {:.1f} MiB, {} "
        "descriptors, "
        "{} threads",
        life, minutes, tally_.counts()["requests"], tally_.findings().size(),
        static_cast<double>(rest.levels.resident_bytes) / (1 << 20), rest.levels.descriptors,
        rest.levels.threads);
    say_findings(tally_, said_);
  }

  // In the middle of traffic: by turns asked to end, and killed.
  void end(test::ServerProcess& server, int life, Nanos traffic_before) {
    Traffic traffic(world_, *arrivals_, tally_, server.port(), ++seed_);
    traffic.come_for(std::min(traffic_before, 10 * kSecond));
    const bool killed = life % 2 == 1;
    traffic.enter(killed ? Phase::kKilled : Phase::kDraining);
    server.signal(killed ? SIGKILL : SIGTERM);
    traffic.come_for(2 * kSecond);
    const int status = server.wait_at_most(kEndSeconds);
    traffic.finish();
    tally_.count(killed ? "ended by kill -9" : "ended by SIGTERM");
    if (!killed && status != 0)
      tally_.find(
          fmt::format("life {}: status {} after SIGTERM: {}", life, status,
                      server.log().substr(server.log().size() -
                                          std::min<std::size_t>(server.log().size(), 2000))));
    say("life {} ended by {}", life, killed ? "kill -9" : "SIGTERM");
    say_findings(tally_, said_);
  }

  void report(double elapsed) const {
    say_counts(tally_, elapsed);
    if (!long_life_.empty()) {
      fmt::print("resident MiB at the quiet points of the long life:");
      for (const Levels& levels : long_life_) fmt::print(" {}", levels.resident_bytes >> 20);
      fmt::print("\n");
    }
    fmt::print("{} findings\n", tally_.findings().size());
  }

  const std::string server_;
  const std::string source_;
  const Nanos length_;
  const SteadyClock clock_;
  ImageHost host_;
  World world_;
  std::unique_ptr<Arrivals> arrivals_;
  Tally tally_;
  std::vector<Levels> long_life_;
  std::uint64_t seed_ = 0;
  std::size_t said_ = 0;  // findings
};

}  // namespace
}  // namespace saccade::soak

int main(int argc, char** argv) {
  const double minutes = argc == 3 ? std::atof(argv[2]) : 0;
  if (minutes <= 0) {
    fmt::print(stderr, "saccade_soak SERVER MINUTES, in the repository's folder\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  saccade::log::set_level(saccade::log::Level::kWarning);
  const auto status = saccade::soak::Soak(argv[1], minutes).run();
  if (status) return *status;
  fmt::print(stderr, "saccade_soak: {}\n", status.error().message);
  return 1;
}

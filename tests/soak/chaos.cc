// saccade_chaos SERVER MINUTES [SEED]: two encoders, two servers, a proxy and a Redis under
// traffic, one of them killed, frozen or restarted every five seconds.
//
// Every answer has to be the one that the same request had alone, and every request has to have
// one. Each minute clients stop coming, and nothing may be left over. Ends with 1 when anything was
// wrong.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "tests/soak/levels.h"
#include "tests/soak/member.h"
#include "tests/soak/patient_clients.h"
#include "tests/soak/run.h"

namespace saccade::soak {
namespace {

constexpr double kSpeed = 8;  // of the traces: their busiest second is 80 requests
constexpr Nanos kBetweenFaults = 5 * kSecond;
constexpr Nanos kLongestOutage = 8 * kSecond;
constexpr Nanos kSettling = 2 * kSecond;  // after a fault, until the next may strike its like
constexpr double kRoundSeconds = 60;
constexpr int kRestSeconds = 120;
// At rest: connections that are kept for the next request. The proxy's are the most: one to each of
// 24 clients at once, and as many to each of two servers.
constexpr std::int64_t kKeptDescriptors = 80;
constexpr std::int64_t kAllowedGrowth = 64 << 20;

class Chaos {
 public:
  Chaos(std::string server, double minutes, std::uint64_t seed)
      : server_(std::move(server)),
        source_(std::filesystem::current_path()),
        length_(static_cast<Nanos>(minutes * 60e9)),
        rng_(seed) {}

  Result<int> run() {
    TRY(questions_, unseen_pool(source_));
    TRY(const std::vector<Nanos> gaps, trace_gaps(source_));
    Arrivals arrivals(gaps, kSpeed);
    {
      test::ServerProcess server(server_, serve(narrow()));
      TRY_DO(ask_alone(server, questions_, tally_));
    }
    begin();
    const Nanos start = clock_.now();
    PatientClients clients(questions_, arrivals, faults_, tally_, proxy_port_, rng_());
    while (clock_.now() < start + length_) {
      const auto round =
          static_cast<Nanos>(std::min(kRoundSeconds * 1e9, static_cast<double>(length_)));
      std::jthread striking([this, round] { strike_for(round); });
      clients.come_for(round);
      striking.join();
      for (Struck& each : struck_)
        if (each.healing.valid()) each.healing.wait();
      clients.finish();
      rest((clock_.now() - start) / kSecond);
    }
    end();
    report(seconds(clock_.now() - start), clients.times());
    return tally_.findings().empty() ? 0 : 1;
  }

 private:
  struct Struck {
    std::future<void> healing;  // of the last fault
    Nanos well_since = 0;       // written by it
  };

  std::vector<std::string> serve(std::vector<std::string> more) const {
    std::vector<std::string> flags = {
        "serve", "--model", source_ + "/models/glimpse", "--threads", "1", "--host", "127.0.0.1"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  // Little room, so that sequences wait, are preempted and images are made again.
  static std::vector<std::string> narrow() {
    return {"--max-num-seqs",   "12",    "--max-num-batched-tokens", "256",
            "--kv-cache-bytes", "12MiB", "--encoder-cache-bytes",    "4MiB",
            "--drain-seconds",  "60"};
  }

  // --- the cluster ---

  void begin() {
    members_.push_back(std::make_unique<Member>("redis"));
    members_.back()->start();
    const std::string registry = members_.back()->redis()->url();
    const auto add = [&](std::string name, Part part, std::vector<std::string> flags) {
      const std::uint16_t port = quiet_port();
      flags.insert(flags.end(), {"--port", std::to_string(port)});
      members_.push_back(std::make_unique<Member>(std::move(name), part, server_, flags));
      members_.back()->start();
      return port;
    };
    std::vector<std::string> encoders;
    for (int i = 0; i < 2; ++i) {
      encoders.push_back(fmt::format("127.0.0.1:{}", quiet_port()));
      add(fmt::format("encoder {}", i), Part::kEncoder,
          serve({"--role", "encoder", "--cluster-listen", encoders.back(), "--registry", registry,
                 "--encoder-cache-bytes", "4MiB"}));
    }
    // One server has a tower of its own, the other has not: there all images come from elsewhere.
    std::vector<std::string> pds;
    for (int i = 0; i < 2; ++i) {
      std::vector<std::string> flags = {"--role",
                                        "pd",
                                        "--registry",
                                        registry,
                                        "--encoders",
                                        fmt::format("{}", fmt::join(encoders, ",")),
                                        "--encoder-fallback",
                                        i == 0 ? "local" : "refuse"};
      const std::vector<std::string> room = narrow();
      flags.insert(flags.end(), room.begin(), room.end());
      pds.push_back(fmt::format("http://127.0.0.1:{}",
                                add(fmt::format("pd {}", i), Part::kPd, serve(flags))));
    }
    proxy_port_ =
        add("proxy", Part::kProxy,
            {"proxy", "--host", "127.0.0.1", "--pd", fmt::format("{}", fmt::join(pds, ",")),
             "--registry", registry, "--probe-period", "200ms", "--drain-seconds", "60"});
    struck_.resize(members_.size());
    say("a cluster of {} processes behind 127.0.0.1:{}", members_.size(), proxy_port_);
  }

  void strike_for(Nanos duration) {
    const Nanos end = clock_.now() + duration;
    for (Nanos due = clock_.now() + kBetweenFaults; due < end; due += kBetweenFaults) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<Nanos>(0, due - clock_.now())));
      strike();
    }
  }

  bool well(std::size_t i) const {
    const std::future<void>& healing = struck_[i].healing;
    return !healing.valid() ||
           (healing.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
            clock_.now() >= struck_[i].well_since + kSettling);
  }

  // Of two alike one at a time: a cluster of which nothing is left cannot answer.
  void strike() {
    std::vector<std::size_t> possible;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      bool all_well = true;
      for (std::size_t k = 0; k < members_.size(); ++k)
        all_well = all_well && (members_[k]->part() != members_[i]->part() || well(k));
      if (all_well) possible.push_back(i);
    }
    if (possible.empty()) return tally_.count("faults that had to wait");
    const std::size_t victim = possible[rng_.below(possible.size())];
    const auto fault = static_cast<Fault>(rng_.below(3));
    const auto outage = static_cast<Nanos>(rng_.uniform() * static_cast<double>(kLongestOutage));
    tally_.count(fmt::format("{} {}", members_[victim]->name(), name_of(fault)));
    const std::size_t entry = faults_.begins(victim, members_[victim]->part(), fault, clock_.now());
    struck_[victim].healing = std::async(std::launch::async, [this, victim, fault, outage, entry] {
      suffer(*members_[victim], fault, outage);
      struck_[victim].well_since = clock_.now();
      faults_.ends(entry, clock_.now());
    });
  }

  // Who has ended without being told to.
  void look_for_dead(Member& member) {
    if (member.server() == nullptr) return;
    const auto status = member.server()->ended();
    if (!status) return;
    const std::string log = member.server()->log();
    tally_.find(fmt::format("{} ended by itself, status {}: ...{}", member.name(), *status,
                            log.substr(log.size() - std::min<std::size_t>(log.size(), 4000))));
    member.start();
  }

  void suffer(Member& member, Fault fault, Nanos outage) {
    look_for_dead(member);
    if (fault == Fault::kFrozen) {
      member.signal(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::nanoseconds(outage));
      return member.signal(SIGCONT);
    }
    const int status = member.end(fault == Fault::kKilled ? SIGKILL : SIGTERM);
    if (fault == Fault::kRestarted && status != 0)
      tally_.find(fmt::format("{}: status {} after SIGTERM", member.name(), status));
    std::this_thread::sleep_for(std::chrono::nanoseconds(outage / 2));
    member.start();
  }

  // --- quiet points ---

  // What is left over at a process that has nothing to do.
  std::vector<std::string> left_over(Member& member) {
    if (member.part() == Part::kStore) {
      const std::size_t nodes = member.redis()->keys("saccade:node:*").size();
      if (nodes == 4) return {};
      return {fmt::format("{} processes registered instead of 4", nodes)};
    }
    const std::string page = test::exchange(member.server()->port(), "GET", "/metrics", "").body;
    std::vector<std::string> wrong;
    switch (member.part()) {
      case Part::kEncoder:
        wrong = not_zero(page,
                         {"saccade:lent_calls", "saccade:lent_images", "saccade:lent_media_bytes"});
        break;
      case Part::kPd:
        wrong = restless(page);
        for (std::string& more :
             not_zero(page, {"saccade:exchange_open_images", "saccade:exchange_receiving_bytes"}))
          wrong.push_back(std::move(more));
        break;
      case Part::kProxy:
        wrong = not_zero(page, {"saccade:proxy_held_bytes", "saccade:proxy_server_requests",
                                "saccade:proxy_server_work_tokens"});
        break;
      case Part::kStore:
        break;
    }
    const std::int64_t descriptors = member.server()->descriptors();
    const auto least = least_descriptors_.try_emplace(member.name(), descriptors).first;
    least->second = std::min(least->second, descriptors);
    if (descriptors > least->second + kKeptDescriptors)
      wrong.push_back(fmt::format("{} descriptors, were {}", descriptors, least->second));
    return wrong;
  }

  void rest(Nanos second) {
    tally_.count("quiet points");
    std::string levels;
    for (const auto& member : members_) {
      look_for_dead(*member);
      std::vector<std::string> wrong;
      for (int i = 0; i < kRestSeconds * 5; ++i) {
        wrong = left_over(*member);
        if (wrong.empty()) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
      for (const std::string& what : wrong)
        tally_.find(fmt::format("second {}, {} at rest: {}", second, member->name(), what));
      if (member->server() != nullptr) levels += level_of(*member, second);
      if (member->part() == Part::kPd) note_images(*member);
    }
    const auto counts = tally_.counts();
    const auto of = [&](const char* what) { return counts.contains(what) ? counts.at(what) : 0; };
    say("second {}: {} requests, {} as alone, {} findings;{}", second, of("requests"),
        of("answers as alone"), tally_.findings().size(), levels);
    say_findings(tally_, said_);
  }

  // Where its images came from so far, in this life.
  void note_images(Member& member) {
    const std::string page = test::exchange(member.server()->port(), "GET", "/metrics", "").body;
    const std::string name = "saccade:exchange_images_total";
    for (const char* source : {"local", "remote", "cache", "hedge", "store"}) {
      std::istringstream lines(page);
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(name) &&
            line.find(fmt::format("source=\"{}\"", source)) != std::string::npos)
          images_[{member.name(), member.lives(), source}] =
              std::stoll(line.substr(line.rfind(' ') + 1));
      }
    }
  }

  // Its memory, which may not grow through a life.
  std::string level_of(Member& member, Nanos second) {
    const std::int64_t resident = member.server()->resident_bytes();
    auto& first = first_levels_[{member.name(), member.lives()}];
    if (first == 0) first = resident;
    if (resident > first + kAllowedGrowth)
      tally_.find(fmt::format("second {}, {}: {} MiB resident, {} at this life's first rest",
                              second, member.name(), resident >> 20, first >> 20));
    return fmt::format(" {} {} MiB {} fds", member.name(), resident >> 20,
                       member.server()->descriptors());
  }

  void end() {
    for (auto member = members_.rbegin(); member != members_.rend(); ++member) {
      const int status = (*member)->end(SIGTERM);
      if (status != 0)
        tally_.find(fmt::format("{}: status {} at the end", (*member)->name(), status));
    }
    members_.clear();
  }

  void report(double elapsed, std::vector<Nanos> times) const {
    say_counts(tally_, elapsed);
    std::map<std::string, std::int64_t> images;
    for (const auto& [of, count] : images_) images[std::get<2>(of)] += count;
    for (const auto& [source, count] : images)
      fmt::print("{:>8}  images {}, counted at quiet points\n", count, source);
    std::ranges::sort(times);
    for (const double share : {0.5, 0.9, 0.99, 1.0}) {
      if (times.empty()) break;
      const auto at = static_cast<std::size_t>(share * static_cast<double>(times.size() - 1));
      fmt::print("{:>8.2f}  s from asking to the right answer, P{:.0f}\n", seconds(times[at]),
                 share * 100);
    }
    fmt::print("{} findings\n", tally_.findings().size());
  }

  const std::string server_;
  const std::string source_;
  const Nanos length_;
  const SteadyClock clock_;
  Rng rng_;
  std::vector<Question> questions_;
  Tally tally_;
  FaultLog faults_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Struck> struck_;  // as members_
  std::uint16_t proxy_port_ = 0;
  std::map<std::string, std::int64_t> least_descriptors_;
  std::map<std::pair<std::string, int>, std::int64_t> first_levels_;  // by life
  std::map<std::tuple<std::string, int, std::string>, std::int64_t>
      images_;            // member, life, source
  std::size_t said_ = 0;  // findings
};

}  // namespace
}  // namespace saccade::soak

int main(int argc, char** argv) {
  const double minutes = argc == 3 || argc == 4 ? std::atof(argv[2]) : 0;
  if (minutes <= 0) {
    fmt::print(stderr, "saccade_chaos SERVER MINUTES [SEED], in the repository's folder\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  saccade::log::set_level(saccade::log::Level::kWarning);
  if (saccade::test::RedisProcess::binary().empty()) {
    fmt::print(stderr, "saccade_chaos: neither redis-server nor valkey-server is here\n");
    return 2;
  }
  const std::uint64_t seed = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const auto status = saccade::soak::Chaos(argv[1], minutes, seed).run();
  if (status) return *status;
  fmt::print(stderr, "saccade_chaos: {}\n", status.error().message);
  return 1;
}

#include "tests/soak/patient_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"
#include "tests/soak/levels.h"

namespace saccade::soak {
namespace {

constexpr int kMaxInFlight = 24;
constexpr int kMaxAskings = 40;
constexpr Nanos kPatience = 300 * kSecond;     // with one asking
constexpr Nanos kPause = 300 * kMillisecond;   // before the next
constexpr Nanos kUnseen = 200 * kMillisecond;  // between a fault and what clients see of it
constexpr Nanos kFindingOut = 15 * kSecond;    // until servers are connected to an encoder again

}  // namespace

struct PatientClients::Visit {
  const Question* question = nullptr;
  bool streamed = false;
  std::shared_ptr<const std::string> asked;
  Nanos came = 0;
  Nanos began = 0;  // the present asking
  int askings = 0;
  std::string body;  // of the present answer
};

PatientClients::PatientClients(const std::vector<Question>& questions, Arrivals& arrivals,
                               const FaultLog& faults, Tally& tally, std::uint16_t proxy_port,
                               std::uint64_t seed)
    : questions_(questions),
      arrivals_(arrivals),
      faults_(faults),
      tally_(tally),
      port_(proxy_port),
      rng_(seed) {
  auto client = net::HttpClient::create({});
  CHECK(client, "a client");
  client_ = *std::move(client);
}

PatientClients::~PatientClients() = default;

void PatientClients::come_for(Nanos duration) {
  const SteadyClock clock;
  const Nanos end = clock.now() + duration;
  for (Nanos due = clock.now(); due < end;) {
    auto visit = std::make_shared<Visit>();
    visit->question = &questions_[rng_.below(questions_.size())];
    visit->streamed = rng_.below(2) != 0;
    visit->came = clock.now();
    // Half of the pictures have been seen before: rows that are kept are part of the matter.
    visit->asked = std::make_shared<const std::string>(
        rng_.below(2) != 0 ? visit->question->body(visit->streamed)
                           : visit->question->unseen_body(visit->streamed, rng_));
    tally_.count("requests");
    {
      const std::lock_guard lock(mutex_);
      ++in_flight_;
    }
    ask(visit);
    due += arrivals_.next_gap();
    {
      std::unique_lock lock(mutex_);
      fewer_.wait(lock, [this] { return in_flight_ < kMaxInFlight; });
    }
    due = std::max(due, clock.now());
    const Nanos wait = std::min(due, end) - clock.now();
    if (wait > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(wait));
  }
}

void PatientClients::finish() {
  std::unique_lock lock(mutex_);
  fewer_.wait(lock, [this] { return in_flight_ == 0; });
}

std::vector<Nanos> PatientClients::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

void PatientClients::ask(const VisitPtr& visit) {
  ++visit->askings;
  visit->began = steady_now();
  visit->body.clear();
  net::ClientRequest request;
  request.url = {"http", "127.0.0.1", port_, visit->question->path};
  request.body = {visit->asked};
  request.deadline = visit->began + kPatience;
  net::ClientHandlers handlers;
  handlers.on_body = [visit](std::string_view bytes, Nanos) {
    visit->body += bytes;
    return true;
  };
  handlers.on_done = [this, visit](const net::ClientResponse& response) { ended(visit, response); };
  client_->start(std::move(request), std::move(handlers));
}

void PatientClients::ended(const VisitPtr& visit, const net::ClientResponse& response) {
  const Nanos now = steady_now();
  if (response.failure == net::ClientFailure::kNone && response.status == 200) {
    const auto gist = gist_of(visit->body, visit->streamed);
    if (gist && *gist == visit->question->answer) {
      tally_.count("answers as alone");
      {
        const std::lock_guard lock(mutex_);
        times_.push_back(now - visit->came);
      }
      return leave();
    }
    if (gist) {
      tally_.find(fmt::format("another answer than alone: {} instead of {}", *gist,
                              visit->question->answer));
      return leave();
    }
  }
  const std::string why = excuse(*visit, response);
  if (why.empty()) {
    tally_.find(
        fmt::format("at {:.1f} s: no answer: status {}, {} {}, after {:.1f} s, asking {}; got '{}'",
                    seconds(now), response.status, net::name_of(response.failure), response.error,
                    seconds(now - visit->began), visit->askings, visit->body.substr(0, 300)));
  } else {
    tally_.count("asked again: " + why);
  }
  if (visit->askings < kMaxAskings) return ask_again(visit);
  tally_.find(fmt::format("never answered in {} askings", visit->askings));
  leave();
}

std::string PatientClients::excuse(const Visit& visit, const net::ClientResponse& response) {
  const Nanos from = visit.began - kUnseen;
  const Nanos to = steady_now();
  const bool proxy_went = faults_.count(Part::kProxy, Fault::kKilled, from, to) > 0 ||
                          faults_.count(Part::kProxy, Fault::kRestarted, from, to) > 0;
  const int pds_killed = faults_.count(Part::kPd, Fault::kKilled, from, to);
  const bool answered = response.failure == net::ClientFailure::kNone;
  if (!answered && proxy_went) return "the proxy went";
  const bool cut = (!answered && response.status == 200) ||
                   (answered && response.status == 200 &&
                    visit.body.find("the server broke off its answer") != std::string::npos);
  if (cut && pds_killed > 0) return "cut behind the first byte, its server was killed";
  if (!answered) return {};
  if (proxy_went && response.status == 503 &&
      visit.body.find("the proxy is shutting down") != std::string::npos)
    return "the proxy was ending";
  if (response.status != 502 && response.status != 503) return {};
  if (faults_.count(Part::kPd, {}, from, to) > 1) return "both servers were struck meanwhile";
  // One server has no tower; while the other is away it is all there is.
  if (faults_.count(Part::kPd, {}, from - kFindingOut, to) > 0 &&
      faults_.count(Part::kEncoder, {}, from - kFindingOut, to) > 0)
    return "a server and an encoder were struck meanwhile";
  if (faults_.count(Part::kPd, {}, from, to) > 0 && beyond_retries())
    return "beyond the budget of retries";
  return {};
}

// On the client's thread, so by a request of its own.
bool PatientClients::beyond_retries() {
  const test::RawAnswer page = test::exchange(port_, "GET", "/metrics", "");
  return value_of(page.body, "saccade:proxy_retries_denied_total").value_or(0) > 0;
}

void PatientClients::ask_again(const VisitPtr& visit) {
  client_->at(steady_now() + kPause, [this, visit] { ask(visit); });
}

void PatientClients::leave() {
  const std::lock_guard lock(mutex_);
  --in_flight_;
  fewer_.notify_all();
}

}  // namespace saccade::soak

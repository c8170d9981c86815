// Clients of one server at the times of a trace: most ask and wait, some leave, some read slowly,
// one in twenty is hostile. Each answer is judged.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "net/client/http_client.h"
#include "tests/soak/hostile.h"
#include "tests/soak/question.h"
#include "tests/soak/tally.h"

namespace saccade::soak {

// What of the server may be expected. After kDraining only what began before it has to be
// answered, after kKilled nothing has to be.
enum class Phase { kServing, kDraining, kKilled };

// The arrival times of several traces one after another, again and again.
class Arrivals {
 public:
  Arrivals(std::vector<Nanos> gaps, double speed) : gaps_(std::move(gaps)), speed_(speed) {}
  Nanos next_gap() {
    return static_cast<Nanos>(static_cast<double>(gaps_[next_++ % gaps_.size()]) / speed_);
  }

 private:
  std::vector<Nanos> gaps_;
  double speed_;
  std::size_t next_ = 0;
};

struct World {
  std::vector<Question> questions;
  std::vector<HostileRequest> hostile;
  std::string image_host;
  std::string key;          // of the well-behaved
  std::string hostile_key;  // of the others
};

class Traffic {
 public:
  Traffic(const World& world, Arrivals& arrivals, Tally& tally, std::uint16_t port,
          std::uint64_t seed);
  ~Traffic();  // finish() has been called

  // Lets clients come for so long; those that have come last are still at it when it returns.
  void come_for(Nanos duration);
  // From now on clients meet a server that is ending. With kDraining all that have come before are
  // in the server's hands when it returns.
  void enter(Phase phase);
  // Waits until each has been answered or is known not to be, and hangs up.
  void finish();

 private:
  struct Visit;  // one request of the client

  void arrive();
  void ask(bool leaves);
  void ask_with_late_image();
  void read_slowly();
  void be_hostile();
  void be_hostile_on_a_connection();

  void send(std::shared_ptr<Visit> visit);
  void ended(const Visit& visit, const net::ClientResponse& response);
  void judge_answer(const Visit& visit, const net::ClientResponse& response);
  bool excused(const Visit& visit, const net::ClientResponse& response) const;
  void find(const Visit& visit, const net::ClientResponse& response, const std::string& what);
  const Question& any_question(bool one_choice);

  const World& world_;
  Arrivals& arrivals_;
  Tally& tally_;
  const std::uint16_t port_;
  Rng rng_;
  std::atomic<Phase> phase_{Phase::kServing};
  std::mutex mutex_;
  std::condition_variable fewer_;
  int in_flight_ = 0;                 // under mutex_
  std::vector<std::thread> sockets_;  // clients that work on a socket themselves
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace saccade::soak

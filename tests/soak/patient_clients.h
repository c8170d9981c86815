// Clients of a cluster to whose processes things happen: each wants one answer, asks again where it
// was told clearly that it will not come, and judges what it got.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/rng.h"
#include "net/client/http_client.h"
#include "tests/soak/member.h"
#include "tests/soak/question.h"
#include "tests/soak/tally.h"
#include "tests/soak/traffic.h"

namespace saccade::soak {

// What may be asked again is what the proxy says it may cut (docs/proxy.md): an answer behind whose
// first byte its server was killed, one that lost each server it could be given to, one beyond the
// budget of retries, and whatever was open when the proxy itself went. Everything else that is no
// right answer is a finding.
class PatientClients {
 public:
  PatientClients(const std::vector<Question>& questions, Arrivals& arrivals, const FaultLog& faults,
                 Tally& tally, std::uint16_t proxy_port, std::uint64_t seed);
  ~PatientClients();

  // Lets clients come for so long. From one thread.
  void come_for(Nanos duration);
  // Until each has its answer.
  void finish();

  // From the first asking to the right answer, of all so far.
  std::vector<Nanos> times() const;

 private:
  struct Visit;
  using VisitPtr = std::shared_ptr<Visit>;

  void ask(const VisitPtr& visit);
  void ended(const VisitPtr& visit, const net::ClientResponse& response);
  // Why this answer may be missing; empty: it may not.
  std::string excuse(const Visit& visit, const net::ClientResponse& response);
  bool beyond_retries();
  void ask_again(const VisitPtr& visit);
  void leave();

  const std::vector<Question>& questions_;
  Arrivals& arrivals_;
  const FaultLog& faults_;
  Tally& tally_;
  const std::uint16_t port_;
  Rng rng_;
  mutable std::mutex mutex_;
  std::condition_variable fewer_;
  int in_flight_ = 0;         // under mutex_
  std::vector<Nanos> times_;  // under mutex_
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace saccade::soak

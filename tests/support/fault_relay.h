// A bad network between two processes: a TCP relay that delays, stalls, cuts and spoils what passes
// as its script says. Deterministic by the bytes that pass, and by a seed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace saccade::test {

struct RelayScript {
  int delay_ms = 0;                 // of each piece that passes
  std::int64_t bytes_a_second = 0;  // each way; 0: no limit
  // Of what comes back on each connection; negative: never.
  std::int64_t cut_after = -1;
  std::int64_t stall_after = -1;  // nothing passes from there on, and nothing is closed
  std::int64_t flip_after = -1;   // one bit, which the seed chooses, in each piece from there on
  bool refuse = false;            // new connections are closed at once
  std::uint64_t seed = 1;
};

class FaultRelay {
 public:
  // Listens on a free port of 127.0.0.1 and passes everything to `port` there.
  explicit FaultRelay(std::uint16_t port);
  ~FaultRelay();
  FaultRelay(const FaultRelay&) = delete;
  FaultRelay& operator=(const FaultRelay&) = delete;

  std::uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // For what passes from now on.
  void set(const RelayScript& script);
  void cut_all();  // every connection, now
  void set_target(std::uint16_t port) { target_ = port; }
  std::int64_t passed_back() const;  // bytes, on the newest connection

 private:
  struct Connection {
    int client = -1;
    int server = -1;
    std::atomic<std::int64_t> back{0};
    std::atomic<int> alive{2};  // directions
    std::thread there;
    std::thread here;
  };
  void accept_all();
  void pass(Connection& connection, bool back);
  RelayScript script() const;

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<std::uint16_t> target_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  RelayScript script_;                                    // guarded by mutex_
  std::vector<std::unique_ptr<Connection>> connections_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace saccade::test

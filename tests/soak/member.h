// The processes of a cluster, each at one address through all its lives, and what has happened to
// them.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/support/redis_process.h"
#include "tests/support/server_process.h"

namespace saccade::soak {

enum class Fault : std::uint8_t {
  kKilled,     // kill -9, and started again
  kFrozen,     // SIGSTOP, and SIGCONT
  kRestarted,  // SIGTERM, and started again
};
std::string_view name_of(Fault fault);

enum class Part : std::uint8_t { kEncoder, kPd, kProxy, kStore };

// A process: a server of ours, or the store.
class Member {
 public:
  // A server. `flags` name its port.
  Member(std::string name, Part part, std::string server, std::vector<std::string> flags);
  // Redis.
  explicit Member(std::string name);

  const std::string& name() const { return name_; }
  Part part() const { return part_; }
  // Its present life; only while nothing is happening to it. Null for the other kind.
  test::ServerProcess* server() { return server_.get(); }
  test::RedisProcess* redis() { return redis_.get(); }
  int lives() const { return lives_; }

  void start();
  void signal(int number) const;
  // Ends it and waits; the status as the shell shows it.
  int end(int number);

 private:
  const std::string name_;
  const Part part_;
  const std::string binary_;
  const std::vector<std::string> flags_;
  std::unique_ptr<test::ServerProcess> server_;
  std::unique_ptr<test::RedisProcess> redis_;
  int lives_ = 0;
};

// Any thread.
class FaultLog {
 public:
  struct Entry {
    std::size_t member = 0;
    Part part = Part::kEncoder;
    Fault fault = Fault::kKilled;
    Nanos from = 0;
    Nanos until = 0;  // it answered again; 0: it does not yet
  };
  std::size_t begins(std::size_t member, Part part, Fault fault, Nanos now);
  void ends(std::size_t entry, Nanos now);
  // How often a process of this part was struck so between two instants, or was not back yet.
  int count(Part part, std::optional<Fault> fault, Nanos from, Nanos to) const;
  std::vector<Entry> entries() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

// A TCP port of loopback that is free now, below those that connections get by themselves.
std::uint16_t quiet_port();

}  // namespace saccade::soak

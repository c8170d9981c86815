// A server started for a run and stopped after it: a cold start for every repetition.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace saccade::bench {

// `sh -c command` in a process group of its own; output goes to `log_path`. The destructor stops
// it.
class ServerProcess {
 public:
  static Result<std::unique_ptr<ServerProcess>> start(const std::string& command,
                                                      const std::string& log_path);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t pid() const { return pid_; }
  // kUnavailable with the end of its log when it has ended by itself.
  Result<void> check() const;
  // SIGTERM to the whole group, and SIGKILL to what is left after `patience_s`.
  void stop(double patience_s = 30);

 private:
  ServerProcess(pid_t pid, std::string command, std::string log_path);
  pid_t pid_;
  std::string command_;
  std::string log_path_;
  mutable bool ended_ = false;
};

}  // namespace saccade::bench

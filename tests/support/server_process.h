// The real binary as a child process, for end-to-end tests: started on a free port, watched, ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saccade::test {

using Environment = std::vector<std::pair<std::string, std::string>>;  // added to the test's own

class ServerProcess {
 public:
  // argv after the program's name, e.g. {"serve", "--model", dir}; "--port 0" is added where no
  // port is named. Waits for "Application startup complete." and CHECKs that it came.
  explicit ServerProcess(const std::string& binary, std::vector<std::string> arguments,
                         const Environment& environment = {});
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }  // 0: it listens on a Unix socket
  void signal(int number) const;
  // Sends SIGTERM and waits; the exit status as the shell shows it, 124 for one that did not end
  // and had to be killed.
  int stop();
  int wait();
  int wait_at_most(int seconds);  // as wait(); 124 when it had to be killed
  std::optional<int> ended();     // its status if it has ended by itself; absent while it runs
  bool running() const;           // leaves ended() and wait() their answer
  std::int64_t resident_bytes() const;
  std::int64_t peak_resident_bytes() const;
  std::int64_t descriptors() const;  // open
  std::int64_t threads() const;
  pid_t pid() const { return pid_; }
  std::string log() const;  // what it has written to stderr so far

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  std::string log_path_;
};

// A run that is to end by itself: the exit status as the shell shows it, and what it wrote. 124
// when it had to be killed after five minutes.
struct Ended {
  int status = 0;
  std::string output;
};
Ended run_to_end(const std::string& binary, std::vector<std::string> arguments,
                 const Environment& environment = {});

// A server that starts, and is then ended with SIGTERM, or that ends by itself.
struct Tried {
  bool started = false;
  Ended ended;
};
Tried start_or_end(const std::string& binary, std::vector<std::string> arguments,
                   const Environment& environment = {});

// One HTTP exchange over a fresh socket, read to its end. `cut_after`: bytes of the answer after
// which the socket is closed instead; negative: never.
struct RawAnswer {
  int status = 0;
  std::string head;  // status line and headers
  std::string body;  // chunked encoding removed; what came before the cut
};
// `headers`: more of them, each with its "\r\n".
RawAnswer exchange(std::uint16_t port, const std::string& method, const std::string& path,
                   const std::string& body, std::int64_t cut_after = -1,
                   const std::string& headers = "");

}  // namespace saccade::test

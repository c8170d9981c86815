// The real binary as a child process, for end-to-end tests: started on a free port, watched, ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace saccade::test {

class ServerProcess {
 public:
  // argv after the program's name, e.g. {"serve", "--model", dir}; "--port 0" is added. Waits for
  // "Application startup complete." and CHECKs that it came.
  explicit ServerProcess(const std::string& binary, std::vector<std::string> arguments);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }
  void signal(int number) const;
  // Sends SIGTERM and waits; the exit status as the shell shows it.
  int stop();
  int wait();
  std::int64_t resident_bytes() const;
  std::string log() const;  // what it has written to stderr so far

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  std::string log_path_;
};

// One HTTP exchange over a fresh socket, read to its end. `cut_after`: bytes of the answer after
// which the socket is closed instead; negative: never.
struct RawAnswer {
  int status = 0;
  std::string body;  // chunked encoding removed; what came before the cut
};
RawAnswer exchange(std::uint16_t port, const std::string& method, const std::string& path,
                   const std::string& body, std::int64_t cut_after = -1);

}  // namespace saccade::test

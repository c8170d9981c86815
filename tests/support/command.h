// The real binary run to its end, and as a mock server, for end-to-end tests.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace saccade::test {

struct CommandOutcome {
  int exit_code = -1;  // as the shell shows it: 128 + the signal when one ended it
  std::string out;     // standard output
  std::string err;
};

// A program that is running. The destructor kills it.
class Command {
 public:
  // argv after the program's name.
  Command(const std::string& binary, const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  void signal(int number) const;
  CommandOutcome wait();  // kills it after two minutes
  std::string out() const;
  std::string err() const;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  std::string out_path_;
  std::string err_path_;
};

CommandOutcome run_command(const std::string& binary, const std::vector<std::string>& arguments,
                           const std::map<std::string, std::string>& environment = {});

// Arguments of `saccade bench serve` with 8 random words in and `output_tokens` out.
std::vector<std::string> bench_serve_words(std::uint16_t port, int output_tokens,
                                           const std::vector<std::string>& more);

// `saccade bench mock` on a free port, listening when the constructor returns.
class MockProcess {
 public:
  explicit MockProcess(const std::string& binary, std::vector<std::string> arguments = {});
  std::uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void signal(int number) const { command_.signal(number); }
  // Until that many requests have come; two minutes at most.
  void await_requests(int count) const;
  // Stops it; what it counted, in its own words.
  std::string stop();

 private:
  Command command_;
  std::uint16_t port_ = 0;
};

}  // namespace saccade::test

#include "tests/support/command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/check.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

constexpr int kPatienceSeconds = 600;

std::string temporary_file(int& descriptor) {
  char pattern[] = "/tmp/saccade-test-XXXXXX";
  descriptor = mkostemp(pattern, O_CLOEXEC);
  CHECK(descriptor >= 0, "no temporary file");
  return pattern;
}

std::vector<std::string> with_mock(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"bench", "mock", "--port", "0"});
  return arguments;
}

}  // namespace

Command::Command(const std::string& binary, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment) {
  int out = -1;
  int err = -1;
  out_path_ = temporary_file(out);
  err_path_ = temporary_file(err);
  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  CHECK(pid_ >= 0, "fork");
  if (pid_ == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  close(out);
  close(err);
}

Command::~Command() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  unlink(out_path_.c_str());
  unlink(err_path_.c_str());
}

void Command::signal(int number) const { kill(pid_, number); }

CommandOutcome Command::wait() {
  int status = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceSeconds);
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out(), err()};
}

std::string Command::out() const { return read_file(out_path_); }
std::string Command::err() const { return read_file(err_path_); }

CommandOutcome run_command(const std::string& binary, const std::vector<std::string>& arguments,
                           const std::map<std::string, std::string>& environment) {
  return Command(binary, arguments, environment).wait();
}

std::vector<std::string> bench_serve_words(std::uint16_t port, int output_tokens,
                                           const std::vector<std::string>& more) {
  std::vector<std::string> words = {"bench",
                                    "serve",
                                    "--port",
                                    std::to_string(port),
                                    "--random-input-len",
                                    "8",
                                    "--random-output-len",
                                    std::to_string(output_tokens)};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

MockProcess::MockProcess(const std::string& binary, std::vector<std::string> arguments)
    : command_(binary, with_mock(std::move(arguments))) {
  for (int i = 0; i < kPatienceSeconds * 100; ++i) {
    const std::string said = command_.out();
    if (said.ends_with('\n')) {
      port_ =
          static_cast<std::uint16_t>(std::strtoul(said.c_str() + said.rfind(':') + 1, nullptr, 10));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(false, "the mock did not start: {}", command_.err());
}

void MockProcess::await_requests(int count) const {
  const std::string name = "vllm:request_success_total{";
  for (int i = 0; i < kPatienceSeconds * 50; ++i) {
    // The mock keeps its connections: what the first read gives is the page, or it is asked again.
    const std::string page = exchange(port_, "GET", "/metrics", "", 1).body;
    const std::size_t at = page.find("} ", page.find(name) + 1);
    if (page.find(name) != page.npos && std::strtod(page.c_str() + at + 2, nullptr) >= count)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(false, "fewer than {} requests came", count);
}

std::string MockProcess::stop() {
  command_.signal(SIGTERM);
  return command_.wait().out;
}

}  // namespace saccade::test

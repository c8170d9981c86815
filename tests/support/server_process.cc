#include "tests/support/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"

namespace saccade::test {
namespace {

constexpr int kStartSeconds = 300;
constexpr int kStopSeconds = 120;  // four times what a server gives the answers that run

std::string unchunked(std::string_view text) {
  std::string body;
  while (!text.empty()) {
    const std::size_t line = text.find("\r\n");
    if (line == std::string_view::npos) break;
    const std::size_t size = std::strtoull(std::string(text.substr(0, line)).c_str(), nullptr, 16);
    if (size == 0) break;
    body += text.substr(line + 2, size);
    const std::size_t next = line + 2 + size + 2;
    text.remove_prefix(next < text.size() ? next : text.size());
  }
  return body;
}

// Starts the program with both outputs going to a new file, whose path is put into `log_path`.
pid_t start(const std::string& binary, std::vector<std::string> arguments,
            const Environment& environment, std::string& log_path) {
  char pattern[] = "/tmp/saccade-test-XXXXXX";
  const int log = mkstemp(pattern);
  CHECK(log >= 0, "no temporary file");
  log_path = pattern;
  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  CHECK(pid >= 0, "fork");
  if (pid == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(log, STDERR_FILENO);
    dup2(log, STDOUT_FILENO);
    // Connections of this process would outlive it there.
    close_range(STDERR_FILENO + 1, ~0U, 0);
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  close(log);
  return pid;
}

int shell_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::int64_t entries_of(pid_t pid, const char* folder) {
  std::error_code none;
  std::int64_t count = 0;
  for (std::filesystem::directory_iterator
           entry("/proc/" + std::to_string(pid) + "/" + folder, none),
       end;
       entry != end; entry.increment(none))
    ++count;
  return count;
}

}  // namespace

ServerProcess::ServerProcess(const std::string& binary, std::vector<std::string> arguments,
                             const Environment& environment) {
  if (std::ranges::find(arguments, "--port") == arguments.end())
    arguments.insert(arguments.end(), {"--port", "0"});
  pid_ = start(binary, std::move(arguments), environment, log_path_);
  for (int i = 0; i < kStartSeconds * 20; ++i) {
    const std::string text = this->log();
    if (text.find("Application startup complete.") != std::string::npos) {
      if (text.find("listening on /") != std::string::npos) return;  // a Unix socket
      // It may name other addresses before its own.
      const std::size_t at = text.find("127.0.0.1:", text.find("listening on http"));
      CHECK(at != std::string::npos, "no address in: {}", text);
      port_ = static_cast<std::uint16_t>(std::strtoul(text.c_str() + at + 10, nullptr, 10));
      return;
    }
    int status = 0;
    CHECK(waitpid(pid_, &status, WNOHANG) == 0, "the server ended: {}", text);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(false, "the server did not start in {} s: {}", kStartSeconds, this->log());
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  unlink(log_path_.c_str());
}

void ServerProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

int ServerProcess::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return shell_status(status);
}

int ServerProcess::wait_at_most(int seconds) {
  int status = 0;
  if (pid_ <= 0) return 127;  // has ended before
  for (int i = 0; i < seconds * 20; ++i) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return shell_status(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  signal(SIGKILL);
  wait();
  return 124;
}

std::optional<int> ServerProcess::ended() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  return shell_status(status);
}

int ServerProcess::stop() {
  signal(SIGTERM);
  return wait_at_most(kStopSeconds);
}

std::int64_t ServerProcess::resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t ServerProcess::peak_resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  }
  return -1;
}

std::int64_t ServerProcess::descriptors() const { return entries_of(pid_, "fd"); }

std::int64_t ServerProcess::threads() const { return entries_of(pid_, "task"); }

bool ServerProcess::running() const {
  siginfo_t ended{};
  return pid_ > 0 &&
         waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0;
}

std::string ServerProcess::log() const { return text_of(log_path_); }

Ended run_to_end(const std::string& binary, std::vector<std::string> arguments,
                 const Environment& environment) {
  std::string log_path;
  const pid_t pid = start(binary, std::move(arguments), environment, log_path);
  int status = 0;
  bool killed = false;
  for (int i = 0; waitpid(pid, &status, WNOHANG) == 0; ++i) {
    if (i == kStartSeconds * 20) {
      kill(pid, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Ended ended{killed ? 124 : shell_status(status), text_of(log_path)};
  unlink(log_path.c_str());
  return ended;
}

Tried start_or_end(const std::string& binary, std::vector<std::string> arguments,
                   const Environment& environment) {
  arguments.insert(arguments.end(), {"--port", "0"});
  std::string log_path;
  const pid_t pid = start(binary, std::move(arguments), environment, log_path);
  Tried tried;
  int status = 0;
  for (int i = 0; waitpid(pid, &status, WNOHANG) == 0; ++i) {
    if (!tried.started &&
        text_of(log_path).find("Application startup complete.") != std::string::npos) {
      tried.started = true;
      kill(pid, SIGTERM);
    }
    if (i == kStartSeconds * 50) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  tried.ended = {shell_status(status), text_of(log_path)};
  unlink(log_path.c_str());
  return tried;
}

RawAnswer exchange(std::uint16_t port, const std::string& method, const std::string& path,
                   const std::string& body, std::int64_t cut_after, const std::string& headers) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  RawAnswer answer;
  std::string raw;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request =
        method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
        "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    std::size_t sent = 0;
    while (sent < request.size()) {
      const ssize_t n = send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    char buffer[4096];
    while (cut_after < 0 || static_cast<std::int64_t>(raw.size()) < cut_after) {
      const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      raw.append(buffer, static_cast<std::size_t>(n));
    }
  }
  close(fd);
  if (raw.size() > 12) answer.status = std::atoi(raw.c_str() + 9);
  const std::size_t end = raw.find("\r\n\r\n");
  if (end != std::string::npos) {
    answer.head = raw.substr(0, end);
    const bool chunked = raw.substr(0, end).find("chunked") != std::string::npos;
    answer.body = chunked ? unchunked(std::string_view(raw).substr(end + 4)) : raw.substr(end + 4);
  }
  return answer;
}

}  // namespace saccade::test

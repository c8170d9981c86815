#include "bench/load/server/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/threads/end_signals.h"
#include "bench/datasets/text_file.h"

namespace saccade::bench {
namespace {

std::string end_of(const std::string& path) {
  const std::string text = read_text_file(path).value_or("");
  return text.size() > 600 ? "..." + text.substr(text.size() - 600) : text;
}

}  // namespace

ServerProcess::ServerProcess(pid_t pid, std::string command, std::string log_path)
    : pid_(pid), command_(std::move(command)), log_path_(std::move(log_path)) {}

ServerProcess::~ServerProcess() { stop(); }

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(const std::string& command,
                                                            const std::string& log_path) {
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0) return fail(ErrorCode::kInvalid, "{}: cannot be written", log_path);
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  close(log);
  if (pid < 0) return fail(ErrorCode::kInternal, "the server command cannot be started: fork");
  setpgid(pid, pid);  // in both: whoever is first
  end_along(pid);
  return std::unique_ptr<ServerProcess>(new ServerProcess(pid, command, log_path));
}

Result<void> ServerProcess::check() const {
  int status = 0;
  if (!ended_ && waitpid(pid_, &status, WNOHANG) != pid_) return {};
  ended_ = true;
  return fail(ErrorCode::kUnavailable, "the server command '{}' has ended: {}", command_,
              end_of(log_path_));
}

void ServerProcess::stop(double patience_s) {
  if (pid_ < 0) return;  // stopped before
  end_along(0);          // its number may be another's soon
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  kill(-pid_, SIGTERM);
  while (!ended_ && std::chrono::steady_clock::now() < until) {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_)
      ended_ = true;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(-pid_, SIGKILL);  // the shell may be gone and its children not
  if (!ended_) waitpid(pid_, nullptr, 0);
  ended_ = true;
  pid_ = -1;
}

}  // namespace saccade::bench

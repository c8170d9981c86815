// A real redis-server (or valkey-server) as a child process, on a socket of its own: started by the
// test, never the machine's. SACCADE_REDIS_SERVER names another program. Where there is none, tests
// skip.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cluster/redis/redis_connection.h"

namespace saccade::test {

class RedisProcess {
 public:
  static std::string binary() {
    if (const char* named = std::getenv("SACCADE_REDIS_SERVER"); named != nullptr) return named;
    for (const char* name : {"redis-server", "valkey-server"}) {
      for (const char* folder : {"/usr/bin/", "/usr/local/bin/"}) {
        if (access((std::string(folder) + name).c_str(), X_OK) == 0)
          return std::string(folder) + name;
      }
    }
    return {};
  }

  explicit RedisProcess(std::vector<std::string> more = {}) : more_(std::move(more)) {
    char pattern[] = "/tmp/saccade-redis-XXXXXX";
    folder_ = mkdtemp(pattern);
    start();
  }
  ~RedisProcess() {
    end(SIGKILL);
    std::filesystem::remove_all(folder_);
  }
  RedisProcess(const RedisProcess&) = delete;
  RedisProcess& operator=(const RedisProcess&) = delete;

  std::string url() const { return "unix://" + path(); }
  void signal(int number) const { kill(pid_, number); }
  void end(int number) {
    if (pid_ <= 0) return;
    kill(pid_, SIGCONT);
    kill(pid_, number);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Again, empty, at the same place.
  void start() {
    std::vector<std::string> arguments = {
        binary(),       "--port", "0",           "--unixsocket", path(),  "--save", "",
        "--appendonly", "no",     "--daemonize", "no",           "--dir", folder_};
    arguments.insert(arguments.end(), more_.begin(), more_.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
      close_range(STDERR_FILENO + 1, ~0U, 0);
      execv(argv[0], argv.data());
      _exit(127);
    }
    for (int i = 0; i < 2400; ++i) {
      if (reaches()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    throw std::runtime_error("the redis-server of the test does not answer");
  }

  // One command by a connection of the test's own.
  cluster::StoreReply run(std::vector<std::string> words) {
    cluster::StoreBatch batch;
    batch.commands.push_back({std::move(words), {}});
    batch.max_bytes = std::size_t{8} << 20;
    cluster::StoreAddress address;
    address.path = path();
    address.password = password;
    const SteadyClock clock;
    cluster::RedisConnection connection(address, clock, -1);
    const auto replies = connection.run(batch, clock.now() + 30 * kSecond);
    return replies ? replies->front() : cluster::StoreReply{};
  }
  std::vector<std::string> keys(const std::string& pattern) {
    std::vector<std::string> found;
    for (const cluster::StoreReply& each : run({"KEYS", pattern}).list) found.push_back(each.text);
    return found;
  }

  std::string password;

 private:
  std::string path() const { return folder_ + "/redis.sock"; }
  bool reaches() { return run({"PING"}).kind != cluster::StoreReply::Kind::kNothing; }

  std::vector<std::string> more_;
  std::string folder_;
  pid_t pid_ = -1;
};

}  // namespace saccade::test

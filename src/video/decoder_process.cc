#include "video/decoder_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "video/wire.h"

namespace saccade::video {
namespace {

constexpr int kLookMillis = 50;  // between two looks at whether the client is still there
// Above every number that the child is given: a dup2 onto its own number would close it at exec.
constexpr int kFirstOwn = 16;

Error system_error(std::string_view what) {
  return {ErrorCode::kUnavailable,
          fmt::format("no video decoder: {}: {}", what, std::strerror(errno)),
          {}};
}

// The same file under a high number, closed at exec.
Result<Descriptor> raised(Descriptor low) {
  Descriptor high(::fcntl(low.get(), F_DUPFD_CLOEXEC, kFirstOwn));
  if (high.get() < 0) return fail(system_error("descriptors"));
  return high;
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(system_error("pipe"));
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  // Fewer changes between the two processes, if there may be as many.
  constexpr int kBytes = 1 << 20;
  ::fcntl(pipe.write.get(), F_SETPIPE_SZ, kBytes);
  TRY(pipe.read, raised(std::move(pipe.read)));
  TRY(pipe.write, raised(std::move(pipe.write)));
  return pipe;
}

Result<Descriptor> sealed_file(std::span<const std::byte> bytes) {
  Descriptor low(::memfd_create("video", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (low.get() < 0) return fail(system_error("memfd"));
  while (!bytes.empty()) {
    const ssize_t done = ::write(low.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail(system_error("memfd"));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  ::fcntl(low.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return raised(std::move(low));
}

// What the loader and the sanitizers of a test read; no key, no proxy, no path of the server's.
std::vector<std::string> small_environment() {
  std::vector<std::string> each;
  for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) each.push_back(fmt::format("{}={}", name, value));
  }
  return each;
}

// posix_spawn's attributes and actions.
class Spawning {
 public:
  Spawning() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Spawning() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;

  // Each is left with descriptors 0 to 3, and with 2 nobody hears.
  void give(int orders, int answers, int file) {
    posix_spawn_file_actions_adddup2(&actions_, orders, wire::kOrders);
    posix_spawn_file_actions_adddup2(&actions_, answers, wire::kAnswers);
    posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, file, wire::kFile);
    posix_spawn_file_actions_addclosefrom_np(&actions_, wire::kFile + 1);
  }
  int run(const std::string& program, pid_t* pid) {
    std::string name = program;
    std::array<char*, 2> arguments{name.data(), nullptr};
    std::vector<std::string> variables = small_environment();
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    return posix_spawn(pid, program.c_str(), &actions_, &attributes_, arguments.data(),
                       environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

DecoderProcess::DecoderProcess(pid_t pid, Descriptor to, Descriptor from, Patience patience)
    : pid_(pid), to_(std::move(to)), from_(std::move(from)), patience_(std::move(patience)) {}

DecoderProcess::DecoderProcess(DecoderProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::move(other.to_)),
      from_(std::move(other.from_)),
      patience_(std::move(other.patience_)) {}

DecoderProcess::~DecoderProcess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<DecoderProcess> DecoderProcess::start(const std::string& program,
                                             std::span<const std::byte> file, Patience patience) {
  TRY(const Descriptor bytes, sealed_file(file));
  TRY(Pipe orders, make_pipe());
  TRY(Pipe answers, make_pipe());
  Spawning spawning;
  spawning.give(orders.read.get(), answers.write.get(), bytes.get());
  pid_t pid = -1;
  errno = spawning.run(program, &pid);
  if (errno != 0) return fail(system_error(program));
  ::fcntl(orders.write.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(answers.read.get(), F_SETFL, O_NONBLOCK);
  return DecoderProcess(pid, std::move(orders.write), std::move(answers.read), std::move(patience));
}

Result<void> DecoderProcess::wait_for(int fd, short events) {
  for (;;) {
    if (patience_.cancelled && patience_.cancelled())
      return fail(ErrorCode::kCancelled, "the client went away");
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        patience_.until - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return fail(ErrorCode::kTimeout, "decoding takes longer than it may (--video-timeout)");
    pollfd one{fd, events, 0};
    const int ready =
        ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(left.count(), kLookMillis)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(system_error("poll"));
  }
}

Result<void> DecoderProcess::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    TRY_DO(wait_for(to_.get(), POLLOUT));
    const ssize_t done = ::write(to_.get(), bytes.data(), bytes.size());
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (done < 0) return fail(how_it_ended());
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

Result<void> DecoderProcess::read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    TRY_DO(wait_for(from_.get(), POLLIN));
    const ssize_t done = ::read(from_.get(), bytes.data(), bytes.size());
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (done <= 0) return fail(how_it_ended());
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

// Its pipes are closed: it has ended or is about to.
Error DecoderProcess::how_it_ended() {
  int status = 0;
  ::kill(pid_, SIGKILL);  // no effect on one that has ended
  pid_t waited = -1;
  do {
    waited = ::waitpid(pid_, &status, 0);
  } while (waited < 0 && errno == EINTR);
  pid_ = -1;
  const auto broken = [](std::string message) {
    return Error{ErrorCode::kUndecodable, std::move(message), {}};
  };
  if (waited < 0 || WIFEXITED(status))
    return broken(
        fmt::format("the decoder ended with status {}", waited < 0 ? -1 : WEXITSTATUS(status)));
  switch (WTERMSIG(status)) {
    case SIGXCPU:
      return {ErrorCode::kTimeout,
              "decoding takes more time of a processor than it may (--video-timeout)",
              {}};
    case SIGSYS:
      return broken("the decoder was ended: it tried what decoders may not do");
    default:
      return broken(fmt::format("the decoder was ended by signal {}", WTERMSIG(status)));
  }
}

}  // namespace saccade::video

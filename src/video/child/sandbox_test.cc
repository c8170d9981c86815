// Decoders that misbehave, by the function that locks them in: each in a process of its own.
#include "video/child/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace saccade::video {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// How a process that locks itself in and then does `deed` ends: its waitpid() status.
int ends_with(const std::function<void()>& deed, SandboxLimits limits = {64 * kMiB, 5}) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!enter_sandbox(limits)) ::_exit(99);
    deed();
    ::_exit(7);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

void expect_killed(const std::function<void()>& deed, int signal, const char* what) {
  const int status = ends_with(deed);
  ASSERT_TRUE(WIFSIGNALED(status)) << what << ": status " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), signal) << what;
}

TEST(Sandbox, LeavesWhatADecoderNeeds) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int status = ends_with([&] {
    std::vector<char> some(8 * kMiB, 'x');  // larger than a heap gives out without mmap
    if (::write(ends[1], some.data(), 3) != 3) ::_exit(1);
    void* wide =
        ::mmap(nullptr, 16 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wide == MAP_FAILED) ::_exit(2);
    static_cast<volatile char*>(wide)[kMiB] = 1;
    ::munmap(wide, 16 * kMiB);
  });
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  char got[3];
  EXPECT_EQ(::read(ends[0], got, 3), 3);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Sandbox, FilesEndIt) {
  expect_killed([] { ::open("/etc/passwd", O_RDONLY); }, SIGSYS, "open");
  expect_killed([] { ::openat(AT_FDCWD, "/tmp/left-behind", O_CREAT | O_WRONLY, 0600); }, SIGSYS,
                "openat");
  expect_killed([] { ::unlink("/tmp/left-behind"); }, SIGSYS, "unlink");
  expect_killed([] { ::memfd_create("more", 0); }, SIGSYS, "memfd_create");
}

TEST(Sandbox, TheNetworkEndsIt) {
  expect_killed([] { ::socket(AF_INET, SOCK_STREAM, 0); }, SIGSYS, "socket");
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  expect_killed([&] { ::send(pair[0], "x", 1, 0); }, SIGSYS, "send");
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST(Sandbox, ProcessesAndSignalsEndIt) {
  const pid_t test = ::getpid();
  expect_killed([] { ::fork(); }, SIGSYS, "fork");
  expect_killed(
      [] {
        char* none[] = {nullptr};
        ::execve("/bin/true", none, none);
      },
      SIGSYS, "execve");
  expect_killed([test] { ::kill(test, SIGTERM); }, SIGSYS, "kill");
}

TEST(Sandbox, MemoryIsNeverExecutable) {
  expect_killed(
      [] {
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
               0);
      },
      SIGSYS, "mmap");
  expect_killed(
      [] {
        void* page =
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ::mprotect(page, 4096, PROT_READ | PROT_EXEC);
      },
      SIGSYS, "mprotect");
}

TEST(Sandbox, MemoryHasALimit) {
  const int status = ends_with([] {
    for (int i = 0; i < 64; ++i) {
      void* more =
          ::mmap(nullptr, 4 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (more == MAP_FAILED) ::_exit(i < 17 ? 42 : 43);
    }
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);  // before 68 of the 256 MiB
}

TEST(Sandbox, TimeOfTheProcessorHasALimit) {
  const int status = ends_with(
      [] {
        volatile unsigned spins = 0;
        for (;;) spins = spins + 1;
      },
      {64 * kMiB, 1});
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGXCPU);
}

}  // namespace
}  // namespace saccade::video

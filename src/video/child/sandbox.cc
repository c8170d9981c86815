#include "video/child/sandbox.h"

#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>

namespace saccade::video {
namespace {

tl::unexpected<Error> failed(std::string_view what, int error) {
  return fail(ErrorCode::kInternal, "sandbox: {}: {}", what, std::strerror(error));
}

// `grace`: of the hard limit above the soft one, whose signal says what happened.
Result<void> limit(int resource, std::string_view name, rlim_t most, rlim_t grace = 0) {
  const rlimit both{most, most + grace};
  if (::setrlimit(resource, &both) != 0) return failed(name, errno);
  return {};
}

// Of the address space. A sanitizer has terabytes of it mapped before anything is decoded.
Result<std::size_t> mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  if (!(file >> pages)) return failed("/proc/self/statm", errno);
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};

Result<void> filter_calls() {
  const std::unique_ptr<void, Release> filter(seccomp_init(SCMP_ACT_KILL_PROCESS));
  if (filter == nullptr) return failed("seccomp", ENOMEM);
  constexpr std::array kAllowed = {
      SCMP_SYS(read),
      SCMP_SYS(write),
      SCMP_SYS(brk),
      SCMP_SYS(munmap),
      SCMP_SYS(mremap),
      SCMP_SYS(madvise),
      SCMP_SYS(futex),
      SCMP_SYS(clock_gettime),
      SCMP_SYS(gettimeofday),
      SCMP_SYS(getpid),
      SCMP_SYS(gettid),
      SCMP_SYS(sched_yield),
      SCMP_SYS(rt_sigreturn),
      SCMP_SYS(rt_sigprocmask),
      SCMP_SYS(exit),
      SCMP_SYS(sigaltstack),
      SCMP_SYS(sched_getaffinity),
      SCMP_SYS(exit_group),
      SCMP_SYS(restart_syscall),
  };
  for (const int call : kAllowed) {
    const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
    if (error != 0) return failed("seccomp", -error);
  }
  // Memory may become readable or writable, never executable.
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1,
                                       SCMP_A2(SCMP_CMP_MASKED_EQ, 4 /* PROT_EXEC */, 0));
    if (error != 0) return failed("seccomp", -error);
  }
  const int error = seccomp_load(filter.get());
  if (error != 0) return failed("seccomp", -error);
  return {};
}

}  // namespace

Result<void> enter_sandbox(const SandboxLimits& limits) {
  // UBSan looks up a type that it meets for the first time through a pipe, which is over then: what
  // writes errors is met here.
  static_cast<void>(fail(ErrorCode::kInvalid, "{}: {}", "nothing", 0));
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs", errno);
  ::prctl(PR_SET_DUMPABLE, 0);
  TRY(const std::size_t mapped, mapped_bytes());
  TRY_DO(limit(RLIMIT_AS, "RLIMIT_AS", mapped + limits.memory));
  TRY_DO(limit(RLIMIT_CPU, "RLIMIT_CPU", limits.seconds, 1));
  TRY_DO(limit(RLIMIT_FSIZE, "RLIMIT_FSIZE", 0));
  TRY_DO(limit(RLIMIT_CORE, "RLIMIT_CORE", 0));
  TRY_DO(limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", 0));
  TRY_DO(limit(RLIMIT_NPROC, "RLIMIT_NPROC", 0));
  return filter_calls();
}

}  // namespace saccade::video

#include "tests/support/page_visits.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace saccade {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 32;  // of addresses, not of memory
constexpr std::size_t kOpenPages = 8;  // enough to copy, and to look something up

struct Arena {
  std::byte* begin = nullptr;
  std::size_t used = 0;
  bool counting = false;
  std::array<std::byte*, kOpenPages> open{};
  std::size_t oldest = 0;
  std::size_t visits = 0;
  std::size_t most = 0;
};
Arena arena;  // NOLINT: signal handlers and operator new have nothing else

bool holds(const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  return arena.begin != nullptr && byte >= arena.begin && byte < arena.begin + kArenaBytes;
}

void protect(std::byte* from, std::size_t bytes, int how) {
  if (bytes > 0 && mprotect(from, bytes, how) != 0) std::abort();
}

void on_fault(int, siginfo_t* info, void*) {
  auto* const page = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(info->si_addr) &
                                                  ~(page_bytes() - 1));
  if (!arena.counting || !holds(page)) {  // somebody's bug
    std::signal(SIGSEGV, SIG_DFL);
    return;
  }
  if (++arena.visits > arena.most) {
    arena.counting = false;
    return protect(arena.begin, arena.used, PROT_READ | PROT_WRITE);
  }
  std::byte*& place = arena.open[arena.oldest];
  arena.oldest = (arena.oldest + 1) % kOpenPages;
  if (place != nullptr) protect(place, page_bytes(), PROT_NONE);
  place = page;
  protect(page, page_bytes(), PROT_READ | PROT_WRITE);
}

// Whole pages, with one behind them that nothing takes.
std::byte* take(std::size_t bytes) {
  const std::size_t page = page_bytes();
  const std::size_t whole = (bytes + 2 * page - 1) / page * page;
  if (whole > kArenaBytes - arena.used) std::abort();
  std::byte* const taken = arena.begin + arena.used;
  arena.used += whole;
  protect(taken, whole - page, arena.counting ? PROT_NONE : PROT_READ | PROT_WRITE);
  return taken;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (arena.counting && bytes >= page_bytes() && alignment <= page_bytes()) return take(bytes);
  constexpr std::size_t kPlain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  void* const made =
      alignment <= kPlain
          ? std::malloc(bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

void release(void* memory) {
  if (!holds(memory)) std::free(memory);
}

}  // namespace

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t page_visits(std::string_view text, const std::function<void(std::string_view)>& scan,
                        std::size_t most) {
  void* const reserved =
      mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) std::abort();
  arena = {};
  arena.begin = static_cast<std::byte*>(reserved);
  auto* const copy = reinterpret_cast<char*>(take(text.size()));
  std::memcpy(copy, text.data(), text.size());
  protect(arena.begin, arena.used, PROT_NONE);

  struct sigaction counted{};
  struct sigaction before{};
  counted.sa_sigaction = on_fault;
  counted.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &counted, &before);
  arena.most = most;
  arena.counting = true;
  scan({copy, text.size()});
  arena.counting = false;
  sigaction(SIGSEGV, &before, nullptr);
  munmap(arena.begin, kArenaBytes);
  arena.begin = nullptr;
  return arena.visits;
}

}  // namespace saccade

void* operator new(std::size_t bytes) {
  return saccade::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return saccade::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { saccade::release(memory); }
void operator delete(void* memory, std::size_t) noexcept { saccade::release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { saccade::release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  saccade::release(memory);
}

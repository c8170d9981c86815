#include "ops/cuda/emulator/emulator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "ops/cuda/emulator/fiber.h"
#include "tensor/dtype.h"

#if SACCADE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif
#if SACCADE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace saccade::emulator {

Dim3 thread_index;
Dim3 block_index;
Dim3 block_extent;
Dim3 grid_extent;

namespace {

constexpr std::byte kPoison{0xff};  // as bf16, f16 or f32: NaN

void before(const void* meeting) {
#if SACCADE_THREAD_SANITIZER
  __tsan_release(const_cast<void*>(meeting));
#else
  static_cast<void>(meeting);
#endif
}

void after(const void* meeting) {
#if SACCADE_THREAD_SANITIZER
  __tsan_acquire(const_cast<void*>(meeting));
#else
  static_cast<void>(meeting);
#endif
}

bool addressable(const void* data, std::size_t bytes) {
#if SACCADE_ADDRESS_SANITIZER
  return __asan_region_is_poisoned(const_cast<void*>(data), bytes) == nullptr;
#else
  return data != nullptr || bytes == 0;
#endif
}

std::string place(Where where) {
  const std::string file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line());
}

enum class State : std::uint8_t { kReady, kAtWarp, kAtBlock, kDone };

struct AsyncCopy {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
  std::size_t whole;  // beyond `bytes`: zero
};

struct Thread {
  Fiber fiber;
  Dim3 index;
  State state = State::kDone;
  const char* operation = "";
  Where where;
  unsigned exchanges = 0;  // so far: two sets of slots take turns
  std::vector<AsyncCopy> open;
  std::deque<std::vector<AsyncCopy>> groups;
};

struct Slot {
  alignas(8) std::array<std::byte, 32> bytes;
};

struct Warp {
  // An exchange is over when all lanes have read it, which they have once all take part in the
  // next: so two sets are enough.
  std::array<std::array<Slot, kWarp>, 2> slots;
  // How many of its threads are in which state; the others have returned.
  unsigned ready = 0;
  unsigned at_warp = 0;
  unsigned at_block = 0;
};

struct StaticArray {
  const void* tag;
  std::unique_ptr<std::byte[]> bytes;
};

struct Machine {
  std::mutex mutex;
  Rng rng{1};
  std::uint64_t switches = 0;
  std::uint64_t launches = 0;
  std::vector<std::unique_ptr<Thread>> threads;  // of the block, and spare ones
  std::vector<std::unique_ptr<Warp>> warps;
  unsigned count = 0;  // threads of the block
  unsigned done = 0;   // of them
  unsigned current = 0;
  bool running = false;
  const char* kernel = "";
  std::unique_ptr<std::byte[]> dynamic;
  std::vector<StaticArray> arrays;
};

Machine machine;

Thread& self() {
  CHECK(machine.running, "an operation of the device outside of a kernel");
  return *machine.threads[machine.current];
}

unsigned warp_of(unsigned thread) { return thread / kWarp; }

// "0-2, 5" of an ascending set.
std::string ranges(const std::set<unsigned>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const unsigned first = *at;
    unsigned last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

// Every thread by where it stands, and of which warps they are.
std::string standing(const Machine& m) {
  struct Group {
    unsigned count = 0;
    std::set<unsigned> warps;
  };
  std::map<std::string, Group> groups;
  for (unsigned i = 0; i < m.count; ++i) {
    const Thread& thread = *m.threads[i];
    std::string what = "are running";
    if (thread.state == State::kDone)
      what = "have returned";
    else if (thread.state != State::kReady)
      what = fmt::format("wait at {} ({})", thread.operation, place(thread.where));
    Group& group = groups[what];
    ++group.count;
    group.warps.insert(warp_of(i));
  }
  std::string text =
      fmt::format("{} block ({}, {}, {})", m.kernel, block_index.x, block_index.y, block_index.z);
  for (const auto& [what, group] : groups)
    text += fmt::format("; {} threads {}, of warps {}", group.count, what, ranges(group.warps));
  return text;
}

void wait(State state, const char* operation, Where where) {
  Thread& thread = self();
  thread.state = state;
  thread.operation = operation;
  thread.where = where;
  Warp& warp = *machine.warps[warp_of(machine.current)];
  --warp.ready;
  ++(state == State::kAtWarp ? warp.at_warp : warp.at_block);
  const void* meeting = state == State::kAtWarp ? static_cast<const void*>(&warp) : &machine;
  before(meeting);
  thread.fiber.pause();
  after(meeting);
}

bool same_place(const Thread& a, const Thread& b) {
  return a.operation == b.operation && a.where.line() == b.where.line() &&
         (a.where.file_name() == b.where.file_name() ||
          std::strcmp(a.where.file_name(), b.where.file_name()) == 0);
}

// Lets threads [begin, end), which all wait at one kind of barrier, go on.
void release(Machine& m, unsigned begin, unsigned end) {
  for (unsigned i = begin; i < end; ++i)
    CHECK(same_place(*m.threads[begin], *m.threads[i]), "divergent: {}", standing(m));
  for (unsigned i = begin; i < end; ++i) m.threads[i]->state = State::kReady;
  for (unsigned i = warp_of(begin); i < warp_of(end); ++i) {
    m.warps[i]->ready = kWarp;
    m.warps[i]->at_warp = 0;
    m.warps[i]->at_block = 0;
  }
}

// Each ready lane up to where it waits, beginning anywhere, forwards or backwards.
void run_lanes(Machine& m, unsigned warp) {
  const auto turn = static_cast<unsigned>(m.rng());
  const unsigned step = (turn & 64) != 0 ? 1 : kWarp - 1;
  for (unsigned i = 0; i < kWarp; ++i) {
    m.current = warp * kWarp + (turn + i * step) % kWarp;
    Thread& thread = *m.threads[m.current];
    if (thread.state != State::kReady) continue;
    thread_index = thread.index;
    ++m.switches;
    thread.fiber.resume();
    if (!thread.fiber.finished()) continue;
    thread.state = State::kDone;
    --m.warps[warp]->ready;
    ++m.done;
  }
}

// One step of a warp, in which each of its ready lanes goes as far as it gets.
void step(Machine& m, unsigned warp) {
  run_lanes(m, warp);
  if (m.warps[warp]->at_warp == kWarp) release(m, warp * kWarp, (warp + 1) * kWarp);
}

bool all_at_block(const Machine& m, unsigned warps) {
  for (unsigned warp = 0; warp < warps; ++warp)
    if (m.warps[warp]->at_block < kWarp) return false;
  return true;
}

void run_block(Machine& m, std::size_t shared_bytes, const std::function<void()>& body) {
  m.arrays.clear();
  m.dynamic = std::make_unique_for_overwrite<std::byte[]>(shared_bytes);
  std::fill_n(m.dynamic.get(), shared_bytes, kPoison);
  for (unsigned i = 0; i < m.count; ++i) {
    Thread& thread = *m.threads[i];
    thread.state = State::kReady;
    thread.index = {i % block_extent.x, i / block_extent.x % block_extent.y,
                    i / (block_extent.x * block_extent.y)};
    thread.open.clear();
    thread.groups.clear();
    thread.fiber.start(&body);
  }
  const unsigned warps = m.count / kWarp;
  for (unsigned warp = 0; warp < warps; ++warp) m.warps[warp]->ready = kWarp;
  m.done = 0;
  while (m.done < m.count) {
    std::array<unsigned, kMaxThreads / kWarp> ready;
    unsigned count = 0;
    for (unsigned warp = 0; warp < warps; ++warp)
      if (m.warps[warp]->ready > 0) ready[count++] = warp;
    CHECK(count > 0, "deadlock: {}", standing(m));
    const unsigned warp = ready[m.rng.below(count)];
    // Mostly a few steps; now and then as far as it gets.
    const std::uint64_t steps = m.rng.below(8) == 0 ? 100000 : 1 + m.rng.below(6);
    for (std::uint64_t i = 0; i < steps && m.warps[warp]->ready > 0; ++i) step(m, warp);
    if (all_at_block(m, warps)) release(m, 0, m.count);
  }
}

}  // namespace

void seed(std::uint64_t value) {
  const std::lock_guard lock(machine.mutex);
  machine.rng = Rng(value);
}

std::uint64_t switches() { return machine.switches; }
std::uint64_t launches() { return machine.launches; }

void launch(const char* name, Dim3 blocks, Dim3 threads, std::size_t shared_bytes,
            const std::function<void()>& kernel) {
  Machine& m = machine;
  const std::lock_guard lock(m.mutex);
  const std::uint64_t count = std::uint64_t{threads.x} * threads.y * threads.z;
  CHECK(count > 0 && count <= kMaxThreads && count % kWarp == 0, "{}: {} threads a block", name,
        count);
  CHECK(blocks.x > 0 && blocks.y > 0 && blocks.z > 0 && blocks.x <= 0x7fffffffU &&
            blocks.y <= 65535 && blocks.z <= 65535,
        "{}: a grid of {} x {} x {}", name, blocks.x, blocks.y, blocks.z);
  CHECK(shared_bytes <= kMaxSharedBytes, "{}: {} bytes of shared memory", name, shared_bytes);
  m.kernel = name;
  ++m.launches;
  m.count = static_cast<unsigned>(count);
  while (m.threads.size() < count) m.threads.push_back(std::make_unique<Thread>());
  while (m.warps.size() < count / kWarp) m.warps.push_back(std::make_unique<Warp>());
  grid_extent = blocks;
  block_extent = threads;
  m.running = true;
  const std::function<void()> body = [&] {
    after(&kernel);
    kernel();
    before(&kernel);
  };
  before(&kernel);
  // Blocks begin anywhere and go either way: none may rely on an earlier one.
  const std::uint64_t total = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  const std::uint64_t first = m.rng.below(total);
  const bool backwards = m.rng.below(2) == 0;
  for (std::uint64_t i = 0; i < total; ++i) {
    const std::uint64_t block = (first + (backwards ? total - i : i)) % total;
    block_index = {static_cast<unsigned>(block % blocks.x),
                   static_cast<unsigned>(block / blocks.x % blocks.y),
                   static_cast<unsigned>(block / blocks.x / blocks.y)};
    run_block(m, shared_bytes, body);
    after(&kernel);
  }
  m.running = false;
  m.arrays.clear();
  m.dynamic.reset();
}

unsigned lane() {
  static_cast<void>(self());
  return machine.current % kWarp;
}

void block_barrier(Where where) { wait(State::kAtBlock, "__syncthreads", where); }

void warp_barrier(Where where) { wait(State::kAtWarp, "__syncwarp", where); }

std::byte* dynamic_shared() {
  static_cast<void>(self());
  return machine.dynamic.get();
}

std::byte* static_shared(const void* tag, std::size_t bytes) {
  static_cast<void>(self());
  auto& arrays = machine.arrays;
  for (const StaticArray& array : arrays)
    if (array.tag == tag) return array.bytes.get();
  arrays.push_back({tag, std::make_unique<std::byte[]>(bytes)});
  std::fill_n(arrays.back().bytes.get(), bytes, kPoison);
  return arrays.back().bytes.get();
}

Exchange::Exchange(const void* mine, std::size_t bytes, const char* operation, Where where) {
  Thread& thread = self();
  Machine& m = machine;
  CHECK(bytes <= sizeof(Slot), "{} bytes in an exchange", bytes);
  auto& slots = m.warps[warp_of(m.current)]->slots[thread.exchanges++ % 2];
  std::memcpy(slots[m.current % kWarp].bytes.data(), mine, bytes);
  slots_ = slots.data();
  wait(State::kAtWarp, operation, where);
}

const std::byte* Exchange::of(unsigned lane) const {
  return static_cast<const Slot*>(slots_)[lane].bytes.data();
}

namespace {

using Four = float __attribute__((vector_size(16)));
using FourWords = std::uint32_t __attribute__((vector_size(16)));

// The bf16 in the lower half of each word, and in the upper one.
Four lower_halves(FourWords words) { return std::bit_cast<Four>(words << 16); }
Four upper_halves(FourWords words) { return std::bit_cast<Four>(words & 0xffff0000U); }

// What the 32 lanes gave to one tile's product, as seen by a lane: words[r][q] holds the registers
// of A in lane q of its row, columns[c][q] those of B in lane q of its column c.
struct Fragments {
  std::uint32_t rows[4][4];
  std::uint32_t columns[2][4][2];
};

Fragments exchange_fragments(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                             Where where) {
  std::uint32_t mine[6];
  std::copy_n(a, 4, mine);
  std::copy_n(b, 2, mine + 4);
  const Exchange exchange(mine, sizeof(mine), "mma.sync", where);
  const unsigned me = lane();
  Fragments all;
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(all.rows[i], exchange.of(me / 4 * 4 + i), sizeof(all.rows[i]));
    for (unsigned c = 0; c < 2; ++c)
      std::memcpy(all.columns[c][i], exchange.of((me % 4 * 2 + c) * 4 + i) + 16,
                  sizeof(all.columns[c][i]));
  }
  return all;
}

}  // namespace

void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
               Where where) {
  const Fragments all = exchange_fragments(a, b, where);
  Four sums = {d[0], d[1], d[2], d[3]};  // rows me / 4, me / 4 + 8; columns me % 4 * 2 and the next
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned quad = 0; quad < 4; ++quad) {
      const std::uint32_t* const row = all.rows[quad] + 2 * half;
      const std::uint32_t left = all.columns[0][quad][half];
      const std::uint32_t right = all.columns[1][quad][half];
      const FourWords rows = {row[0], row[0], row[1], row[1]};
      const FourWords columns = {left, right, left, right};
      sums += lower_halves(rows) * lower_halves(columns);
      sums += upper_halves(rows) * upper_halves(columns);
    }
  }
  for (unsigned i = 0; i < 4; ++i) d[i] = sums[i];
}

void mma_16832(std::int32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
               Where where) {
  const Fragments all = exchange_fragments(a, b, where);
  const auto byte_of = [](std::uint32_t word, unsigned which) {
    return static_cast<std::int32_t>(static_cast<std::int8_t>(word >> 8 * which & 0xff));
  };
  for (unsigned i = 0; i < 4; ++i) {
    auto sum = static_cast<std::uint32_t>(d[i]);
    for (unsigned k = 0; k < 32; ++k) {
      const unsigned quad = k % 16 / 4;
      sum += static_cast<std::uint32_t>(byte_of(all.rows[quad][i / 2 + k / 16 * 2], k % 4) *
                                        byte_of(all.columns[i % 2][quad][k / 16], k % 4));
    }
    d[i] = static_cast<std::int32_t>(sum);
  }
}

void ldmatrix_x4(std::uint32_t (&d)[4], const void* row, bool transposed, Where where) {
  CHECK(reinterpret_cast<std::uintptr_t>(row) % 16 == 0 && addressable(row, 16),
        "ldmatrix ({}): no 16 aligned bytes at lane {}'s row", place(where), lane());
  const Exchange exchange(&row, sizeof(row), "ldmatrix", where);
  const unsigned me = lane();
  for (unsigned tile = 0; tile < 4; ++tile) {
    const auto element = [&](unsigned r, unsigned c) {
      const std::byte* data;
      std::memcpy(&data, exchange.of(tile * 8 + r), sizeof(data));
      std::uint16_t bits;
      std::memcpy(&bits, data + 2 * c, 2);
      return std::uint32_t{bits};
    };
    const unsigned r = me / 4;
    const unsigned c = me % 4 * 2;
    d[tile] = transposed ? element(c, r) | element(c + 1, r) << 16
                         : element(r, c) | element(r, c + 1) << 16;
  }
}

void async_copy(void* to, const void* from, std::size_t bytes, std::size_t whole, Where where) {
  Thread& thread = self();
  CHECK(bytes <= whole, "cp.async ({}) of {} bytes", place(where), bytes);
  CHECK(reinterpret_cast<std::uintptr_t>(to) % whole == 0 &&
            reinterpret_cast<std::uintptr_t>(from) % whole == 0,
        "cp.async ({}) is not aligned to {} bytes", place(where), whole);
  CHECK(addressable(to, whole), "cp.async ({}) writes out of bounds", place(where));
  CHECK(addressable(from, bytes), "cp.async ({}) reads out of bounds", place(where));
  std::fill_n(static_cast<std::byte*>(to), whole, kPoison);
  thread.open.push_back(
      {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, whole});
}

void async_commit() {
  Thread& thread = self();
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}

void async_wait(std::size_t pending) {
  Thread& thread = self();
  for (; thread.groups.size() > pending; thread.groups.pop_front()) {
    for (const AsyncCopy& copy : thread.groups.front()) {
      std::memcpy(copy.to, copy.from, copy.bytes);
      std::fill_n(copy.to + copy.bytes, copy.whole - copy.bytes, std::byte{0});
    }
  }
}

}  // namespace saccade::emulator

// The GPU's programming model on the host: a launch runs its blocks one after another, each thread
// of a block on a stack of its own, so that one kernel source is compiled by nvcc for the device
// and by the host's compiler for its tests, under the sanitizers.
//
// It is made to find faults, not to be fast:
//  - Warps are picked at random (seeded), and now and then one runs far ahead of the others; the
//    lanes of a warp run one after another, in changing order, up to their next common operation.
//  - Shared memory is born as NaN for each block, one heap block an array: AddressSanitizer sees
//    its ends.
//  - cp.async fills its destination with NaN when issued, and copies only when its group is waited
//    for.
//  - Threads that meet at different barriers, or wait for one that has returned, end the program
//    with where each of them stands.
//  - Under ThreadSanitizer each thread is a fiber of its own and only barriers order them.
//
// One launch runs at a time; any thread may launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <type_traits>

namespace saccade::emulator {

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;
// What a block of compute capability 8.0 may have.
constexpr std::size_t kMaxSharedBytes = 163 * 1024;

using Where = std::source_location;

// Runs `kernel` for every thread of the grid. blocks x threads; threads.x * y * z is a multiple of
// 32.
void launch(const char* name, Dim3 blocks, Dim3 threads, std::size_t shared_bytes,
            const std::function<void()>& kernel);

// The seed of the schedules from here on. The default is 1.
void seed(std::uint64_t value);
// Switches between threads so far: that the schedule did something.
std::uint64_t switches();
// Kernels so far.
std::uint64_t launches();

// What a kernel asks for. All of them CHECK that a kernel is running.
extern Dim3 thread_index;
extern Dim3 block_index;
extern Dim3 block_extent;
extern Dim3 grid_extent;

void block_barrier(Where where);
void warp_barrier(Where where);

// The dynamic shared memory of the block, exactly as long as the launch asked for.
std::byte* dynamic_shared();
// A named array of the block. `tag` is the declaration's own address.
std::byte* static_shared(const void* tag, std::size_t bytes);

// One word of every lane, of the same operation: what `lane` gave.
class Exchange {
 public:
  Exchange(const void* mine, std::size_t bytes, const char* operation, Where where);
  const std::byte* of(unsigned lane) const;

 private:
  const void* slots_;
};

template <typename T>
T exchanged(T value, unsigned from, const char* operation, Where where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  const Exchange exchange(&value, sizeof(T), operation, where);
  T result;
  __builtin_memcpy(&result, exchange.of(from % kWarp), sizeof(T));
  return result;
}

unsigned lane();

// d += a b for one tile of 16 x 8 x 16 bf16, fragments as mma.sync.m16n8k16 has them.
void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
               Where where);
// The same of 16 x 8 x 32 signed bytes, as mma.sync.m16n8k32 has them; sums wrap.
void mma_16832(std::int32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
               Where where);
// Four 8 x 8 tiles of 16-bit elements; lane 8 i + r gives the address of row r of tile i.
void ldmatrix_x4(std::uint32_t (&d)[4], const void* row, bool transposed, Where where);

// `whole` bytes, 16 or 4, to shared memory; what lies beyond `bytes` becomes zero.
void async_copy(void* to, const void* from, std::size_t bytes, std::size_t whole, Where where);
void async_commit();
// Until at most `pending` of this thread's latest groups may still be under way.
void async_wait(std::size_t pending);

}  // namespace saccade::emulator

// A library with NCCL's names that adds up in the host's memory, when the streams of all ranks have
// come to it; and that fails when it is told to.
#include "tests/gpu/fakes/fake_nccl.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

namespace {

using saccade::test::FakeNccl;
using Fault = FakeNccl::Fault;

constexpr int kSuccess = 0;
constexpr int kInternal = 3;
constexpr int kInvalid = 4;
constexpr int kRemote = 6;
constexpr int kInProgress = 7;
constexpr int kFloat32 = 7;
constexpr int kBfloat16 = 9;

FakeNccl& fake() {
  static FakeNccl settings;
  return settings;
}

struct UniqueId {
  char bytes[128];
};
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

struct Part {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  int type = 0;
};

float read(const Part& part, std::size_t i) {
  float value = 0;
  if (part.type == kFloat32) {
    std::memcpy(&value, static_cast<const float*>(part.from) + i, sizeof(value));
  } else {
    const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(part.from)[i]} << 16;
    std::memcpy(&value, &bits, sizeof(value));
  }
  return value;
}
void write(const Part& part, std::size_t i, float value) {
  if (part.type == kFloat32) {
    std::memcpy(static_cast<float*>(part.to) + i, &value, sizeof(value));
    return;
  }
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits += 0x7fff + (bits >> 16 & 1);
  static_cast<std::uint16_t*>(part.to)[i] = static_cast<std::uint16_t>(bits >> 16);
}

// Where the ranks of one id meet.
struct World {
  explicit World(int ranks)
      : parts(static_cast<std::size_t>(ranks)), aborted(static_cast<std::size_t>(ranks)) {}

  // In the stream's order. Over when all ranks have come, or when this rank's end is wanted.
  void add_up(int rank, const Part& part, bool hangs) {
    std::unique_lock lock(mutex);
    const auto ended = [&] { return aborted[static_cast<std::size_t>(rank)]; };
    if (ended()) return;
    if (hangs) return changed.wait(lock, ended);
    parts[static_cast<std::size_t>(rank)] = part;
    const std::uint64_t mine = round;
    if (++arrived < static_cast<int>(parts.size())) {
      changed.wait(lock, [&] { return round != mine || ended(); });
      return;
    }
    for (std::size_t i = 0; i < part.count; ++i) {
      float sum = 0;
      for (const Part& each : parts) sum += each.count > i ? read(each, i) : 0;
      for (const Part& each : parts)
        if (each.count > i) write(each, i, sum);
    }
    for (const Part& each : parts) {
      if (each.count == part.count && each.type == part.type) continue;
      const std::lock_guard settings(fake().mutex);
      ++fake().mismatches;
    }
    arrived = 0;
    ++round;
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Part> parts;
  std::vector<bool> aborted;
  int arrived = 0;
  std::uint64_t round = 0;
};

std::mutex worlds_mutex;
std::map<int, std::weak_ptr<World>> worlds;

std::shared_ptr<World> world_of(const UniqueId& id, int ranks) {
  int number = 0;
  std::memcpy(&number, id.bytes, sizeof(number));
  const std::lock_guard lock(worlds_mutex);
  auto world = worlds[number].lock();
  if (!world) worlds[number] = world = std::make_shared<World>(ranks);
  return world;
}

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  int polls = 0;
  int sums = 0;
  int state = kSuccess;
};

thread_local int group_depth = 0;
thread_local std::vector<std::function<void()>> grouped;

int count_down(Comm* comm) {
  comm->polls = fake().polls;
  return comm->polls > 0 ? kInProgress : kSuccess;
}

}  // namespace

extern "C" {

FakeNccl& saccade_fake_nccl() { return fake(); }

int ncclGetVersion(int* version) {
  *version = fake().version;
  return kSuccess;
}
const char* ncclGetErrorString(int status) {
  return status == kInternal ? "internal error"
         : status == kRemote ? "remote process exited or there was a network error"
                             : "some error";
}
const char* ncclGetLastError(void*) { return "the stand-in was told to"; }

int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> last = 0;
  const int number = ++last;
  std::memcpy(id->bytes, &number, sizeof(number));
  return fake().id_status;
}

int ncclCommInitRankConfig(void** comm, int ranks, UniqueId id, int rank, Config* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(Config)) return kInvalid;
  if (rank + 1 == ranks && fake().init_status != kSuccess) return fake().init_status;
  auto* const made = new Comm{world_of(id, ranks), rank};
  *comm = made;
  const std::lock_guard lock(fake().mutex);
  ++fake().communicators;
  fake().blocking = fake().blocking || config->blocking != 0;
  return count_down(made);
}

int ncclCommFinalize(void* comm) {
  const std::lock_guard lock(fake().mutex);
  ++fake().finalized;
  return count_down(static_cast<Comm*>(comm));
}
int ncclCommDestroy(void* comm) {
  delete static_cast<Comm*>(comm);
  const std::lock_guard lock(fake().mutex);
  --fake().communicators;
  return kSuccess;
}
#ifdef SACCADE_FAKE_LACKS_ABORT
#define ncclCommAbort saccade_abort_by_no_name
#endif
int ncclCommAbort(void* comm) {
  {
    const auto* const ending = static_cast<Comm*>(comm);
    const std::lock_guard lock(ending->world->mutex);
    ending->world->aborted[static_cast<std::size_t>(ending->rank)] = true;
    ending->world->changed.notify_all();
  }
  {
    const std::lock_guard lock(fake().mutex);
    ++fake().aborted;
  }
  return ncclCommDestroy(comm);
}
int ncclCommGetAsyncError(void* comm, int* is) {
  auto* const of = static_cast<Comm*>(comm);
  const bool busy = fake().never_ready || of->polls > 0;
  if (of->polls > 0) --of->polls;
  *is = busy ? kInProgress : of->state;
  return kSuccess;
}

int ncclGroupStart() {
  ++group_depth;
  return kSuccess;
}
int ncclGroupEnd() {
  if (--group_depth > 0) return kSuccess;
  for (const auto& submit : grouped) submit();
  grouped.clear();
  return kSuccess;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation,
                  void* comm, CUstream_st* stream) {
  auto* const of = static_cast<Comm*>(comm);
  if (operation != 0 || (type != kFloat32 && type != kBfloat16)) return kInvalid;
  Fault fault = Fault::kNone;
  {
    const std::lock_guard lock(fake().mutex);
    fake().calls.push_back({of->rank, count, type, stream, group_depth > 0});
    if (of->sums++ == fake().fault_call && of->rank == fake().fault_rank) fault = fake().fault;
  }
  if (fault == Fault::kRefused) return kInternal;
  if (fault == Fault::kFailsLater) of->state = kRemote;
  const bool hangs = fault == Fault::kHangs || fault == Fault::kFailsLater;
  auto submit = [world = of->world, rank = of->rank, part = Part{from, to, count, type}, hangs,
                 stream] {
    auto work = [world, rank, part, hangs] { world->add_up(rank, part, hangs); };
    if (fake().enqueue)
      fake().enqueue(stream, std::move(work));
    else
      work();
  };
  if (group_depth > 0) {
    grouped.push_back(std::move(submit));
    return kSuccess;
  }
  submit();
  return count_down(of);
}

}  // extern "C"

// What a test tells the library that stands in for NCCL, and what it may ask of it.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

struct CUstream_st;

namespace saccade::test {

struct FakeNccl {
  int version = 23203;
  int id_status = 0;
  int init_status = 0;  // of the last rank's
  int polls = 2;        // times that a call which does not block is still under way
  bool never_ready = false;
  // What goes wrong, at which sum of which rank (from 0): the call is refused, or found to have
  // failed when it is asked after, or the sum never comes in the stream.
  enum class Fault { kNone, kRefused, kFailsLater, kHangs };
  Fault fault = Fault::kNone;
  int fault_rank = 0;
  int fault_call = 0;
  // Null: at once, in the call.
  std::function<void(CUstream_st*, std::function<void()>)> enqueue;

  struct Call {
    int rank;
    std::size_t count;
    int type;
    CUstream_st* stream;
    bool in_group;
  };
  std::mutex mutex;  // of what follows
  std::vector<Call> calls;
  int communicators = 0;  // that there are
  int aborted = 0;
  int finalized = 0;
  int mismatches = 0;     // sums whose ranks did not agree on what they add
  bool blocking = false;  // some communicator was made so

  void reset() {
    version = 23203;
    id_status = init_status = 0;
    polls = 2;
    never_ready = false;
    fault = Fault::kNone;
    enqueue = nullptr;
    calls.clear();
    communicators = aborted = finalized = mismatches = 0;
    blocking = false;
  }
};

// By this name in the library.
using FakeNcclSettings = FakeNccl& (*)();
constexpr const char* kFakeNcclSettings = "saccade_fake_nccl";

}  // namespace saccade::test

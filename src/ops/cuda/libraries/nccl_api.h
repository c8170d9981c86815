// What is called of NCCL, declared here: it is opened at run time, and comes with a package of 305
// MB. Names and values are those of nccl.h of 2.18 and newer; nccl_header_check.cc holds them to
// that header where the build has it.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace saccade::cuda::nccl {

using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kInProgress = 7;

constexpr int kFloat32 = 7;
constexpr int kBfloat16 = 9;
constexpr int kSum = 0;

struct UniqueId {
  char bytes[128];
};

// As far as it is written here: the library takes what `version` had not yet from its own defaults.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;  // the first that has what follows
  int blocking = 0;
  int unused = 0;  // where a later version has its next member
};

using Comm = void*;

// The functions by their names in the library.
struct Functions {
  Status (*ncclGetVersion)(int* version);
  const char* (*ncclGetErrorString)(Status);
  const char* (*ncclGetLastError)(Comm);
  Status (*ncclGetUniqueId)(UniqueId*);
  Status (*ncclCommInitRankConfig)(Comm*, int ranks, UniqueId, int rank, Config*);
  Status (*ncclCommFinalize)(Comm);
  Status (*ncclCommDestroy)(Comm);
  Status (*ncclCommAbort)(Comm);
  Status (*ncclCommGetAsyncError)(Comm, Status* is);
  Status (*ncclAllReduce)(const void* from, void* to, std::size_t count, int type, int operation,
                          Comm, CUstream_st*);
  Status (*ncclGroupStart)();
  Status (*ncclGroupEnd)();
};

}  // namespace saccade::cuda::nccl

// What a test tells the library that stands in for cuBLASLt, and what it may ask of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

struct CUstream_st;

namespace saccade::test {

// Ways to sum, each an algorithm of its own.
enum FakeAlgorithm : int {
  kAscending = 1,  // along `in`
  kDescending,     // the other way round, by way of a workspace: other bits
  kByCompany,      // one way or the other by how many rows there are: not row-invariant
  kByPlace,        // one way or the other by where the row stands
  kNever,          // is offered, and does nothing
  kSplit,          // divides sums among blocks that add in place, whatever it was asked
  kTwoPieces,      // divides them in two, by way of a workspace
  kHungry,         // wants more workspace than there is
  // Wrong for all rows alike.
  kLouder,       // everything a quarter too large
  kOtherScales,  // scales of E4M3 of other outputs and other blocks
  kForgetsBias,
};

struct FakeCublasLt {
  std::size_t version = 130102;
  int create_status = 0;
  std::vector<int> algorithms = {kAscending};  // offered, best first
  bool heuristics_fail = false;
  std::int64_t max_rows = std::int64_t{1} << 40;  // of a product that algorithms are offered for
  std::int64_t least_outputs = 1;                 // likewise
  bool refuses = false;                           // every product
  std::int32_t max_epilogue = 36;                 // GELU behind a bias; 4: a bias; 1: nothing
  // Null: at once.
  std::function<void(CUstream_st*, std::function<void()>)> enqueue;

  std::vector<int> done;       // algorithms of products that were submitted
  std::vector<int> epilogues;  // and what they did to sums
  int objects = 0;             // handles and descriptors that are there
};

// By this name in the library.
using FakeCublasLtSettings = FakeCublasLt& (*)();
constexpr const char* kFakeCublasLtSettings = "saccade_fake_cublaslt";

}  // namespace saccade::test

// A peer's own benchmark programs, given by path: llama.cpp's llama-bench and llama-mtmd-cli.
#pragma once

#include <string>

#include "base/result.h"

namespace saccade {

struct PeerPaths {
  std::string llama_bench;
  std::string model;  // GGUF of the same shape
  std::string mtmd;
  std::string mmproj;
};

struct PeerSpeeds {
  double prefill = 0;   // tok/s
  double decode = 0;    // tok/s, one sequence
  std::string version;  // what the program says of itself, and the command
};

// One repetition; the peer's own warm-up is on.
Result<PeerSpeeds> run_llama_bench(const PeerPaths& peer, long prompt, long generated);
// Milliseconds that the peer reports for encoding one noise image of side x side.
Result<double> run_mtmd_encode(const PeerPaths& peer, int side);

}  // namespace saccade

// Steps that are launched again and again with other lists: their launches are kept instead of
// made, and where they are those of the last times, argument for argument, one graph of them is
// launched. What a step uploads goes to places that do not change, so that arguments do not. A
// graph is thus never replayed with arguments that are not the step's own.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ops/cuda/call_list.h"
#include "ops/cuda/runtime.h"
#include "ops/cuda/upload_ring.h"

namespace saccade::cuda {

// Of one stream.
class RepeatedStep {
 public:
  // `ring`: what lists go through on their way.
  RepeatedStep(Runtime& runtime, cudaStream_t stream, UploadRing& ring);
  ~RepeatedStep();
  RepeatedStep(const RepeatedStep&) = delete;
  RepeatedStep& operator=(const RepeatedStep&) = delete;

  bool keeps() const { return kind_ >= 0; }    // between begin() and end()
  std::int64_t kind() const { return kind_; }  // while it does

  void begin(std::int64_t kind);
  // While it keeps: where this list of the step lies, always. Null: there is no room, and the step
  // has been launched so far.
  const std::byte* place(std::span<const std::byte> list);
  CallList& calls() { return calls_; }
  // Sends the lists and launches what was kept: as a graph, where it is the third time of the same.
  void end();
  // Sends and launches what was kept so far; the rest of the step is launched as it comes.
  void interrupt();

  std::int64_t graphs() const { return graph_count_; }      // that there are
  std::int64_t replays() const { return replay_count_; }    // steps launched as a graph
  std::int64_t captures() const { return capture_count_; }  // graphs made

 private:
  struct Kept {
    CallList calls;                       // of the last step of this kind
    std::vector<std::size_t> capacities;  // of its lists, one after another
    cudaGraphExec_t graph = nullptr;      // of `calls`
    int times = 0;                        // that they were the same
    int captures = 0;                     // graphs made so far
  };
  void send();
  void drop(Kept& kept);
  bool make_room();

  Runtime& runtime_;
  cudaStream_t stream_;
  UploadRing& ring_;
  std::int64_t kind_ = -1;
  std::map<std::int64_t, Kept> kept_;
  CallList calls_;
  std::byte* memory_ = nullptr;  // of the device; lists of a step of any kind
  std::size_t bytes_ = 0;
  std::size_t wanted_ = 0;         // bytes that a step would have liked
  std::vector<std::byte> staged_;  // this step's lists, as they are to lie there
  std::size_t used_ = 0;           // of staged_
  std::size_t next_list_ = 0;
  std::int64_t graph_count_ = 0;
  std::int64_t replay_count_ = 0;
  std::int64_t capture_count_ = 0;
};

}  // namespace saccade::cuda

// What the host sends: pieces of pinned memory, each with its twin on the device, taken one after
// the other and used again once the stream has passed whoever used them.
#pragma once

#include <deque>
#include <vector>

#include "ops/cuda/runtime.h"

namespace saccade::cuda {

class UploadRing {
 public:
  // `max_bytes` under way at once; a piece that is larger goes alone.
  UploadRing(Runtime& runtime, cudaStream_t stream, std::size_t max_bytes);
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  struct Piece {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
  };
  // Both 16-byte aligned, and the caller's until release(). May wait for the stream when
  // `max_bytes` are under way.
  Piece take(std::size_t bytes);
  // Takes memory now, for `count` pieces of that size under way at once: giving out these takes no
  // more. Nothing is out yet.
  void hold(std::size_t bytes, int count);
  // Sends what was taken since the last send().
  void send();
  // What was taken so far is nobody's once the stream has passed this point.
  void release();

 private:
  static constexpr std::size_t kLeast = std::size_t{64} << 10;
  struct Chunk {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    std::size_t size = 0;
    std::size_t used = 0;
    std::size_t sent = 0;
  };
  struct Released {
    cudaEvent_t event = nullptr;
    std::vector<Chunk> chunks;
  };
  void add_chunk(std::size_t bytes);
  void reclaim();  // those that the stream has passed
  void free(const Chunk& chunk);

  Runtime& runtime_;
  cudaStream_t stream_;
  std::size_t max_bytes_;
  std::size_t held_bytes_ = 0;  // of all chunks
  std::vector<Chunk> open_;     // taken from; the last one is being filled
  std::deque<Released> released_;
  std::vector<Chunk> spare_;
  std::vector<cudaEvent_t> spare_events_;
};

}  // namespace saccade::cuda

// Where an input's code lies among those of its output: in chunks of 64 inputs, each in the order
// in which the lanes of mma.sync.m16n8k16 want them. Lane q of an output's four has the inputs 2 q,
// 2 q + 1, 2 q + 8 and 2 q + 9 of each 16, and finds those of a chunk side by side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saccade::cuda {

constexpr int kCodeChunk = 64;  // inputs
constexpr int kE4m3ChunkBytes = 64;
constexpr int kNibbleChunkBytes = 32;

// Which of the four lanes has input `in` of a chunk, in which 16 of it, and where of its four
// there: the low two of a pair of mma's, or the high two; the first or the second.
struct CodePlace {
  int quad;
  int step;
  int upper;
  int second;
};
constexpr CodePlace code_place(int in) { return {in % 8 / 2, in / 16, in % 16 / 8, in % 2}; }

// Byte of a chunk of E4M3: a step is a word, its lower pair in bytes 1 and 3, its upper in 0 and 2.
constexpr int e4m3_byte(int in) {
  const CodePlace at = code_place(in);
  return at.quad * 16 + at.step * 4 + 2 * at.second + 1 - at.upper;
}

// Nibble of a chunk of them (byte * 2 + which): a word is two steps, each of its pairs in bits p to
// p + 3 and p + 16 to p + 19.
constexpr int nibble(int in) {
  const CodePlace at = code_place(in);
  return (at.quad * 2 + at.step / 2) * 8 + at.step % 2 * 2 + at.upper + at.second * 4;
}

}  // namespace saccade::cuda

// Rounding of a matrix to integers of four or eight bits that groups of inputs share a scale of:
// what --quantization int4 does while weights are loaded, and `saccade model quantize` before. The
// same bits on every machine.
//
// A code is the nearest integer to value / scale, ties to even, from -2^(bits-1) to 2^(bits-1) - 1;
// it stands for code * scale. Scales of largest / (2^(bits-1) - 0.5) times 1.06, 1.04, 1.02 ... are
// tried, each rounded to its type first, as long as the sum of squared errors falls (kClips at
// most, and kPatience worse ones end it). That sum runs in sixteen parts, element i of a group in
// part i % 16, added up by halves, in f32. A group whose largest magnitude is under 1e-30 becomes
// zeros; one with an infinity or a NaN gets a NaN for its scale.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads/thread_pool.h"
#include "ops/formats/stored_matrix.h"

namespace saccade {

struct CodeRounding {
  int bits = 4;              // 4 or 8
  std::int64_t group = 128;  // inputs; 0: all of them
  DType scale_type = DType::kBf16;
};

// One group: codes from -2^(bits-1); returns the scale, a number of scale_type.
float round_group(std::span<const float> values, const CodeRounding& rounding,
                  std::span<std::int8_t> codes);
// The same by one of the instruction sets that this processor has, which tests hold against each
// other: 0 <= way < rounding_ways().
float round_group(std::span<const float> values, const CodeRounding& rounding,
                  std::span<std::int8_t> codes, int way);
int rounding_ways();

// The group size that a matrix of so many inputs is rounded in: 128, 64 or 32, the largest up to
// `most` that divides them; 0 where none does.
std::int64_t group_of_inputs(std::int64_t in, std::int64_t most = 128);

// The words of StoredMatrix's kPacked, symmetric, and what they are a matrix of.
class RoundedMatrix {
 public:
  // Reads tile by tile, on all threads.
  RoundedMatrix(const StoredMatrix& weights, const CodeRounding& rounding, ThreadPool& pool);

  // Over this object's memory.
  StoredMatrix matrix() const;
  // The same of a matrix that nobody rounds, without its values.
  static StoredMatrix shape(const StoredMatrix& weights, const CodeRounding& rounding);
  std::span<const std::uint32_t> words() const { return words_; }  // [out, in / codes a word]
  std::span<const std::byte> scales() const { return scales_; }    // [out, groups]
  std::int64_t groups() const { return groups_; }

 private:
  CodeRounding rounding_;
  std::int64_t out_;
  std::int64_t in_;
  std::int64_t group_;
  std::int64_t groups_;
  std::int64_t row_words_;
  std::vector<std::uint32_t> words_;
  std::vector<std::byte> scales_;
};

}  // namespace saccade

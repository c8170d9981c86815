// A weight matrix as its checkpoint has it: what a device packs. Which form of it a device keeps is
// the device's business; one without kernels for small codes reads it as numbers, a tile at a time,
// through StoredMatrixReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/formats/block_codes.h"
#include "ops/formats/dummy_values.h"
#include "tensor/tensor.h"

namespace saccade {

// Elements of a tensor as its file has them: not aligned, not owned.
struct StoredValues {
  DType dtype = DType::kF32;
  std::span<const std::byte> bytes;

  bool empty() const { return bytes.empty(); }
};

// y = W x with W [out, in], or a window of a larger one: a rank's share, or some heads. What it
// points to must outlive it; it is small and copied.
struct StoredMatrix {
  enum class Format : std::uint8_t {
    // Floats, row r at r * stride; or [in, out] when turned.
    kDense,
    // `bits` wide codes in words of 32 bits: (code - zero) * scale of the input's group.
    kAwq,   // [in, out / codes a word], outputs 0 2 4 6 1 3 5 7 of eight from the lowest nibble
    kGptq,  // [in / codes a word, out], consecutive inputs from the lowest bits
    // The same of compressed-tensors: [out, ceil(in / codes a word)], consecutive inputs from the
    // lowest bits; scales and zeros by output.
    kPacked,
    // Bytes [out, in] of float8_e4m3fn: code * scale of its block.
    kE4m3,
    kInt8,    // the same of signed integers
    kBlocks,  // [out, in] in blocks of `block` (ops/formats/block_codes.h), rows of whole blocks
    // Stored nowhere: `made`, element by element, rows as kDense has them.
    kMade,
  };

  StoredMatrix() = default;
  // Floats that lie in host memory. Implicit: a view of floats is a matrix as it is stored.
  StoredMatrix(View numbers);  // NOLINT(google-explicit-constructor)

  std::int64_t out() const { return out_end - out_begin; }
  std::int64_t in() const { return in_end - in_begin; }
  // Outputs or inputs [begin, end) of this window.
  StoredMatrix outputs(std::int64_t begin, std::int64_t end) const;
  StoredMatrix inputs(std::int64_t begin, std::int64_t end) const;
  // Whether these are floats that lie in rows, with nothing else done to them; and where the row of
  // an output begins then.
  bool has_float_rows() const {
    return format == Format::kDense && !turned && output_scale.empty();
  }
  const std::byte* float_row(std::int64_t output) const {
    const std::int64_t at = (out_begin + output) * stride + in_begin;
    return codes.bytes.data() + static_cast<std::size_t>(at) * size_of(codes.dtype);
  }
  // W^T, of floats or dummy values without an output_scale.
  StoredMatrix transposed() const;

  Format format = Format::kDense;
  std::int64_t stored_out = 0;  // of the whole matrix
  std::int64_t stored_in = 0;
  StoredValues codes;       // the dtype is kDense' own
  std::int64_t stride = 0;  // kDense, kMade: elements from row to row
  bool turned = false;      // the same: stored as [in, out]
  int bits = 4;             // kAwq, kGptq, kPacked: 2, 4 or 8
  // kAwq, kGptq: [groups, stored_out]; kPacked: [stored_out, groups]; kE4m3, kInt8: one a block,
  // [ceil(stored_out / block_out), ceil(stored_in / block_in)]. f32, bf16 or f16.
  StoredValues scales;
  // Codes in words. kAwq, kGptq: [groups, stored_out / codes a word]; kPacked: [ceil(stored_out /
  // codes a word), groups], or empty: all in the middle.
  StoredValues zeros;
  bool zeros_less_one = false;  // each stored as one less, borrowing inside its word
  std::int64_t group = 0;       // of codes in words: consecutive inputs a group, unless `group_of`
  StoredValues group_of;        // [stored_in] i32, or empty: each input's group
  std::int64_t block_out = 0;
  std::int64_t block_in = 0;
  BlockType block = BlockType::kQ80;  // kBlocks
  DummyValues made;
  std::int64_t made_first = 0;  // kMade: the element of `made` that is the whole matrix's first

  // [1, stored_out] floats that outputs are multiplied by besides (LayerScale), or empty.
  View output_scale;

  // kInt8 and codes of four bits: made for rows of activations that are rounded to bytes as
  // ops/formats/int8_rows.h says. kE4m3: to E4M3 as ops/formats/e4m3_rows.h says, by the scale that
  // is given, or 0: by their own.
  bool rounds_activations = false;
  float input_scale = 0;
  // The device keeps numbers of what it multiplies, whatever it could do with the codes.
  bool dequantize = false;

  // The window.
  std::int64_t out_begin = 0;
  std::int64_t out_end = 0;
  std::int64_t in_begin = 0;
  std::int64_t in_end = 0;
};

// The bits of a code where weights are (code - zero) * scale and nothing else is done to them; a
// large number where they are something else.
int codes_of_bits(const StoredMatrix& matrix);

// Of codes in words: the group of each input of the window.
std::vector<std::int32_t> groups_of_inputs(const StoredMatrix& matrix);

// Whether weights are codes of four bits in whole SuperBlocks (Q4_K), with nothing else done to
// them.
bool has_super_blocks(const StoredMatrix& matrix);
// That of inputs [256 * block, 256 * (block + 1)) of output `out`, of such a window.
SuperBlock super_block(const StoredMatrix& matrix, std::int64_t out, std::int64_t block);

// Whether each output's weights are bytes times one scale: kInt8 by output or by matrix, with
// nothing else done to them.
bool has_byte_rows(const StoredMatrix& matrix);
// Output `out` of one: copies its codes, of the window's inputs, and returns their scale.
float copy_byte_row(const StoredMatrix& matrix, std::int64_t out, std::span<std::int8_t> codes);

// How many consecutive inputs share a scale, of kE4m3 with nothing else done to it: all of the
// window's, or the length of a block, where it is a multiple of `step` and the window begins with
// one. 0: none of these.
std::int64_t e4m3_group(const StoredMatrix& matrix, std::int64_t step);
// That of each of `parts`, in steps of kE4m3Step: by such groups a row of activations is rounded
// for all of them. 0: they have none in common.
constexpr std::int64_t kE4m3Step = 32;
std::int64_t shared_e4m3_group(std::span<const StoredMatrix> parts);
// The largest input_scale of theirs; 0: one of them has none.
float shared_input_scale(std::span<const StoredMatrix> parts);

// A matrix as float32, or as its codes. What integers and halves make is exact, but for
// output_scale. Immutable after construction; any thread.
class StoredMatrixReader {
 public:
  // The tile that reads words of every format whole, and fits the first-level cache.
  static constexpr std::int64_t kTileOut = 128;
  static constexpr std::int64_t kTileIn = 64;

  // Scales and zeros of the window become numbers; codes are not touched.
  explicit StoredMatrixReader(const StoredMatrix& matrix);

  const StoredMatrix& matrix() const { return matrix_; }
  // Outputs [out_begin, out_end) by inputs [in_begin, in_end) of the window to rows of `tile` that
  // are `stride` floats apart.
  void read(std::int64_t out_begin, std::int64_t out_end, std::int64_t in_begin,
            std::int64_t in_end, float* tile, std::int64_t stride) const;

  // Whether weights are (code - zero) * scale of their input's group, with codes below 16. Only
  // then what follows may be asked for.
  bool has_four_bit_codes() const { return codes_of_bits(matrix_) <= 4; }
  // As read().
  void read_codes(std::int64_t out_begin, std::int64_t out_end, std::int64_t in_begin,
                  std::int64_t in_end, std::uint8_t* tile, std::int64_t stride) const;
  // Of kE4m3 and kInt8: the scale of the block that an output and an input of the window are in.
  float block_scale(std::int64_t out, std::int64_t in) const {
    const std::int64_t row = (matrix_.out_begin + out) / matrix_.block_out;
    return scales_[static_cast<std::size_t>(row * scale_cols_ +
                                            (matrix_.in_begin + in) / matrix_.block_in)];
  }
  // The group of each input of the window.
  const std::vector<std::int32_t>& group_of() const { return group_of_; }
  float scale(std::int64_t group, std::int64_t out) const {
    return scales_[static_cast<std::size_t>(group * matrix_.out() + out)];
  }
  std::uint8_t zero(std::int64_t group, std::int64_t out) const {
    return zeros_[static_cast<std::size_t>(group * matrix_.out() + out)];
  }

 private:
  struct Tile;
  void read_grid();
  void read_block_grid();
  void read_numbers(const Tile& tile) const;
  void read_integers(const Tile& tile) const;
  // store(output, input, code) for each element, in coordinates of the whole matrix.
  template <typename Store>
  void each_code(std::int64_t out_begin, std::int64_t out_end, std::int64_t in_begin,
                 std::int64_t in_end, Store&& store) const;
  void read_bytes(const Tile& tile) const;
  void read_blocks(const Tile& tile) const;
  void read_made(const Tile& tile) const;
  std::int64_t group_count() const;

  StoredMatrix matrix_;
  std::vector<float> scales_;           // integers: [groups, out()]; kE4m3, kInt8: as stored
  std::vector<std::uint8_t> zeros_;     // [groups, out()]
  std::vector<std::int32_t> group_of_;  // [in()]
  std::vector<float> output_scale_;     // [out()]
  std::int64_t scale_cols_ = 1;         // of kE4m3's and kInt8's scales
};

}  // namespace saccade

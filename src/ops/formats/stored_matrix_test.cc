// What devices pack: every stored form gives the weights that its numbers are, and a window of a
// matrix those of its place.
#include "ops/formats/stored_matrix.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "tests/ops/devices.h"

namespace saccade {
namespace {

constexpr std::int64_t kOut = 208;  // neither whole tiles nor whole panels
constexpr std::int64_t kIn = 144;

// Matrices over random bytes, none of them aligned.
class Stored {
 public:
  explicit Stored(std::uint64_t seed) : rng_(seed) {}

  StoredMatrix numbers(DType type, bool turned) {
    StoredMatrix matrix = whole(StoredMatrix::Format::kDense);
    matrix.codes = floats(type, kOut * kIn);
    matrix.stride = turned ? kOut : kIn;
    matrix.turned = turned;
    return matrix;
  }
  StoredMatrix integers(StoredMatrix::Format format, int bits, bool ordered) {
    StoredMatrix matrix = whole(format);
    constexpr std::int64_t kGroups = 18;
    matrix.bits = bits;
    matrix.group = kIn / kGroups;
    matrix.codes = random(kOut * kIn * bits / 8, DType::kI32);
    matrix.scales = floats(DType::kF16, kGroups * kOut);
    matrix.zeros = random(kGroups * kOut * bits / 8, DType::kI32);
    matrix.zeros_less_one = format == StoredMatrix::Format::kGptq;
    if (ordered) {
      std::vector<std::int32_t> groups(static_cast<std::size_t>(kIn));
      for (std::int32_t& group : groups) group = static_cast<std::int32_t>(rng_.below(kGroups));
      matrix.group_of = keep(std::as_bytes(std::span(groups)), DType::kI32);
    }
    return matrix;
  }
  StoredMatrix packed(int bits, bool zeros) {
    StoredMatrix matrix = whole(StoredMatrix::Format::kPacked);
    constexpr std::int64_t kGroups = 18;
    matrix.bits = bits;
    matrix.group = kIn / kGroups;
    matrix.codes = random(kOut * kIn * bits / 8, DType::kI32);
    matrix.scales = floats(DType::kBf16, kGroups * kOut);
    if (zeros) matrix.zeros = random(kGroups * kOut * bits / 8, DType::kI32);
    return matrix;
  }
  StoredMatrix bytes(std::int64_t block_out) {
    StoredMatrix matrix = e4m3(block_out, kIn);
    matrix.format = StoredMatrix::Format::kInt8;
    matrix.codes = random(kOut * kIn, DType::kI8);
    return matrix;
  }
  StoredMatrix e4m3(std::int64_t block_out, std::int64_t block_in) {
    StoredMatrix matrix = whole(StoredMatrix::Format::kE4m3);
    matrix.block_out = block_out;
    matrix.block_in = block_in;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(kOut * kIn));
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(rng_.below(126));  // no NaN
    matrix.codes = keep(std::as_bytes(std::span(codes)), DType::kU8);
    matrix.scales = floats(
        DType::kF32, ((kOut + block_out - 1) / block_out) * ((kIn + block_in - 1) / block_in));
    return matrix;
  }
  View output_scale() {
    scale_.resize(kOut);
    for (float& value : scale_) value = static_cast<float>(rng_.uniform());
    return View(scale_.data(), DType::kF32, 1, kOut);
  }

 private:
  static StoredMatrix whole(StoredMatrix::Format format) {
    StoredMatrix matrix;
    matrix.format = format;
    matrix.stored_out = matrix.out_end = kOut;
    matrix.stored_in = matrix.in_end = kIn;
    return matrix;
  }
  StoredValues keep(std::span<const std::byte> bytes, DType type) {
    kept_.emplace_back(1);  // off by one
    kept_.back().insert(kept_.back().end(), bytes.begin(), bytes.end());
    return {type, std::span<const std::byte>(kept_.back()).subspan(1)};
  }
  StoredValues random(std::int64_t bytes, DType type) {
    std::vector<std::byte> values(static_cast<std::size_t>(bytes));
    for (std::byte& value : values) value = static_cast<std::byte>(rng_.below(256));
    return keep(values, type);
  }
  StoredValues floats(DType type, std::int64_t count) {
    std::vector<std::byte> values;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(rng_.uniform() - 0.5);
      const std::uint16_t half = type == DType::kF16 ? to_f16(value).bits : to_bf16(value).bits;
      const auto bytes = type == DType::kF32 ? std::as_bytes(std::span(&value, 1))
                                             : std::as_bytes(std::span(&half, 1));
      values.insert(values.end(), bytes.begin(), bytes.end());
    }
    return keep(values, type);
  }

  Rng rng_;
  std::deque<std::vector<std::byte>> kept_;
  std::vector<float> scale_;
};

struct Named {
  const char* name;
  StoredMatrix matrix;
};

std::vector<Named> every_form(Stored& stored) {
  using Format = StoredMatrix::Format;
  std::vector<Named> forms = {
      {"float32", stored.numbers(DType::kF32, false)},
      {"bfloat16", stored.numbers(DType::kBf16, false)},
      {"float16", stored.numbers(DType::kF16, false)},
      {"turned", stored.numbers(DType::kBf16, true)},
      {"scaled", stored.numbers(DType::kBf16, false)},
      {"awq", stored.integers(Format::kAwq, 4, false)},
      {"gptq 2 bits", stored.integers(Format::kGptq, 2, false)},
      {"gptq 4 bits", stored.integers(Format::kGptq, 4, false)},
      {"gptq 8 bits", stored.integers(Format::kGptq, 8, false)},
      {"gptq act-order", stored.integers(Format::kGptq, 4, true)},
      {"e4m3 a matrix", stored.e4m3(kOut, kIn)},
      {"e4m3 an output", stored.e4m3(1, kIn)},
      {"e4m3 a block", stored.e4m3(48, 32)},
      {"packed", stored.packed(4, false)},
      {"packed with zeros", stored.packed(8, true)},
      {"bytes a matrix", stored.bytes(kOut)},
      {"bytes an output", stored.bytes(1)},
  };
  forms[4].matrix.output_scale = stored.output_scale();
  return forms;
}

std::vector<float> numbers_of(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.out() * matrix.in()));
  StoredMatrixReader(matrix).read(0, matrix.out(), 0, matrix.in(), values.data(), matrix.in());
  return values;
}

// The rows of a packed matrix, as `embed` gives them.
std::vector<float> rows_of(Device& device, const PackedWeight& packed) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(packed.out()));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> values(static_cast<std::size_t>(packed.out() * packed.in()));
  EmbedArgs args;
  args.packed = &packed;
  args.ids = device.lane(Lane::kStep).upload(ids);
  args.out = View(values.data(), DType::kF32, packed.out(), packed.in());
  device.lane(Lane::kStep).embed(args);
  return values;
}

using Pack = EveryCpu;

// Two windows of a matrix that meet nowhere near a tile's, a word's or a group's edge, stacked.
TEST_P(Pack, EveryFormIsItsNumbers) {
  const auto cpu = device();
  Stored stored(3);
  for (const auto& [name, matrix] : every_form(stored)) {
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(fmt::format("{} as {}", name, name_of(compute)));
      const std::array parts = {matrix.inputs(5, 131).outputs(0, 77),
                                matrix.inputs(5, 131).outputs(77, kOut)};
      std::vector<float> want = numbers_of(parts[0]);
      const std::vector<float> rest = numbers_of(parts[1]);
      want.insert(want.end(), rest.begin(), rest.end());
      if (compute == DType::kBf16) {
        for (float& value : want) value = to_float(to_bf16(value));
      }
      for (Device* const each : {&*cpu, &*reference_})
        expect_same_bits(rows_of(*each, *each->pack(parts, compute)), want);
    }
  }
}

// Random blocks whose halves are numbers; rows of two blocks of 256.
std::vector<std::byte> random_blocks(BlockType type, std::int64_t rows, std::int64_t cols,
                                     Rng& rng) {
  const BlockFormat& format = block_format(type);
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(rows * cols / format.elements * format.bytes));
  // An exponent without its highest bit is none of infinity's, in whichever byte it is.
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256) & 0xbf);
  return bytes;
}

StoredMatrix blocks_of(BlockType type, std::span<const std::byte> bytes, std::int64_t rows,
                       std::int64_t cols) {
  StoredMatrix matrix;
  matrix.format = StoredMatrix::Format::kBlocks;
  matrix.block = type;
  matrix.stored_out = matrix.out_end = rows;
  matrix.stored_in = matrix.in_end = cols;
  matrix.codes = {DType::kU8, bytes};
  matrix.scales.dtype = DType::kF16;
  return matrix;
}

// Blocks as a matrix: the numbers of each are where they belong, in every window of it, on every
// device, and so are the codes of four bits.
TEST_P(Pack, BlocksAreTheirNumbers) {
  const auto cpu = device();
  constexpr std::int64_t kRows = 70;
  constexpr std::int64_t kCols = 512;
  Rng rng(8);
  for (const BlockFormat& format : block_formats()) {
    const std::vector<std::byte> bytes = random_blocks(format.type, kRows, kCols, rng);
    std::vector<float> all(static_cast<std::size_t>(kRows * kCols));
    dequantize_blocks(format.type, bytes, all.data());
    const StoredMatrix matrix = blocks_of(format.type, bytes, kRows, kCols);
    for (const auto& [out_begin, out_end, in_begin, in_end] :
         {std::array<std::int64_t, 4>{0, kRows, 0, kCols},
          {3, 66, 32, 480},
          {0, 1, 7, 300},
          {69, 70, 511, 512}}) {
      SCOPED_TRACE(
          fmt::format("{} [{}, {}) x [{}, {})", format.name, out_begin, out_end, in_begin, in_end));
      const StoredMatrix window = matrix.outputs(out_begin, out_end).inputs(in_begin, in_end);
      std::vector<float> want;
      for (std::int64_t o = out_begin; o < out_end; ++o)
        want.insert(want.end(), all.begin() + o * kCols + in_begin,
                    all.begin() + o * kCols + in_end);
      expect_same_bits(numbers_of(window), want);
      for (Device* const each : {&*cpu, &*reference_})
        expect_same_bits(rows_of(*each, *each->pack({&window, 1}, DType::kF32)), want);
      EXPECT_EQ(codes_of_bits(window) <= 4, format.type == BlockType::kQ40);
      if (has_super_blocks(window)) {  // those that are kept are, too
        StoredMatrix kept = window;
        kept.rounds_activations = true;
        expect_same_bits(rows_of(*cpu, *(*cpu).pack({&kept, 1}, DType::kF32)), want);
      }
      EXPECT_EQ(has_super_blocks(window),
                format.type == BlockType::kQ4K && in_begin == 0 && in_end == kCols);
    }
  }
}

SACCADE_EVERY_CPU(Pack);

// A rank's share reads what the whole has there, wherever it is cut.
TEST(StoredMatrix, WindowsAreThePlaceThatTheyShow) {
  Stored stored(4);
  for (const auto& [name, matrix] : every_form(stored)) {
    SCOPED_TRACE(name);
    const std::vector<float> whole = numbers_of(matrix);
    for (const auto& [out_begin, out_end, in_begin, in_end] :
         {std::array<std::int64_t, 4>{0, 100, 0, 136},
          {100, 200, 0, 136},
          {0, 208, 72, 144},
          {3, 5, 7, 12},
          {199, 200, 135, 136},
          {50, 50, 0, 136}}) {
      const StoredMatrix window =
          matrix.outputs(1, kOut)
              .outputs(std::max<std::int64_t>(out_begin - 1, 0), out_end - 1)
              .inputs(in_begin, in_end);
      std::vector<float> want;
      for (std::int64_t o = std::max<std::int64_t>(out_begin, 1); o < out_end; ++o)
        want.insert(want.end(), whole.begin() + o * kIn + in_begin,
                    whole.begin() + o * kIn + in_end);
      expect_same_bits(numbers_of(window), want);
    }
  }
}

// The values themselves, once by hand: what a turned matrix and a scale of outputs mean.
TEST(StoredMatrix, TurnsAndScales) {
  std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  StoredMatrix matrix = View(values.data(), DType::kF32, 2, 3);
  EXPECT_EQ(numbers_of(matrix.transposed()), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  std::array<float, 2> scale = {10, 100};
  matrix.output_scale = View(scale.data(), DType::kF32, 1, 2);
  EXPECT_EQ(numbers_of(matrix.outputs(1, 2)), (std::vector<float>{400, 500, 600}));
}

// Two rows of nine inputs in groups of four: words are filled up, scales and zeros stand by output.
TEST(StoredMatrix, PackedWordsByHand) {
  const std::array<std::uint32_t, 4> codes = {0x76543210, 0x0000000f, 0xfedcba98, 0x00000003};
  const std::array<std::uint32_t, 3> zeros = {0x10, 0x21, 0x32};
  const std::array<float, 6> scales = {1, 2, 3, 10, 20, 30};
  StoredMatrix matrix;
  matrix.format = StoredMatrix::Format::kPacked;
  matrix.stored_out = matrix.out_end = 2;
  matrix.stored_in = matrix.in_end = 9;
  matrix.group = 4;
  matrix.codes = {DType::kI32, std::as_bytes(std::span(codes))};
  matrix.scales = {DType::kF32, std::as_bytes(std::span(scales))};
  EXPECT_EQ(numbers_of(matrix), (std::vector<float>{-8, -7, -6, -5, -8, -6, -4, -2, 21, 0, 10, 20,
                                                    30, 80, 100, 120, 140, -150}));
  matrix.zeros = {DType::kI32, std::as_bytes(std::span(zeros))};
  EXPECT_EQ(numbers_of(matrix.outputs(1, 2)),
            (std::vector<float>{70, 80, 90, 100, 200, 220, 240, 260, 0}));
  EXPECT_EQ(numbers_of(matrix.outputs(0, 1).inputs(4, 9)), (std::vector<float>{6, 8, 10, 12, 39}));
}

}  // namespace
}  // namespace saccade

// A library with cuBLASLt's names that multiplies on the host: honestly, or not.
#include "tests/gpu/fakes/fake_cublaslt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace {

using saccade::test::FakeCublasLt;

constexpr int kSuccess = 0;
constexpr int kInvalid = 7;
constexpr int kNotSupported = 15;
constexpr int kBf16 = 14;
constexpr int kE4m3 = 28;
constexpr std::int32_t kOuterVec = 3;
constexpr std::int32_t kVec128 = 4;
constexpr std::int32_t kBlk128x128 = 5;
constexpr std::uint64_t kBlock = 128;

FakeCublasLt& fake() {
  static FakeCublasLt settings;
  return settings;
}

constexpr std::int32_t kInPlace = 1;
constexpr std::int32_t kByWorkspace = 2;
constexpr std::int32_t kNoEpilogue = 1;
constexpr std::int32_t kBiasEpilogue = 4;
constexpr std::int32_t kGeluBiasEpilogue = 36;

struct Desc {
  std::int32_t transposed_a = 0;
  std::int32_t epilogue = kNoEpilogue;
  const void* bias = nullptr;
  const float* scales[2] = {};  // of A and B
  std::int32_t modes[2] = {};
};
struct Layout {
  int type;
  std::uint64_t rows;
  std::uint64_t cols;
  std::int64_t stride;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = 7;
};
struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

template <typename T, typename... Args>
int create(void** to, Args... args) {
  *to = new T{args...};
  ++fake().objects;
  return kSuccess;
}
template <typename T>
int destroy(void* object) {
  delete static_cast<T*>(object);
  --fake().objects;
  return kSuccess;
}

float e4m3(std::uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 128) != 0 ? -size : size;
}

float read(const Layout& layout, const void* data, std::uint64_t row, std::uint64_t col) {
  const std::uint64_t at = col * static_cast<std::uint64_t>(layout.stride) + row;
  if (layout.type == kE4m3) {
    static const std::array<float, 256> kNumbers = [] {
      std::array<float, 256> numbers{};
      for (unsigned code = 0; code < 256; ++code)
        numbers[code] = e4m3(static_cast<std::uint8_t>(code));
      return numbers;
    }();
    return kNumbers[static_cast<const std::uint8_t*>(data)[at]];
  }
  float value = 0;
  if (layout.type == kBf16) {
    const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[at]} << 16;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  std::memcpy(&value, static_cast<const float*>(data) + at, sizeof(value));
  return value;
}

// Column after column.
std::vector<float> numbers_of(const Layout& layout, const void* data) {
  std::vector<float> numbers;
  numbers.reserve(layout.rows * layout.cols);
  for (std::uint64_t col = 0; col < layout.cols; ++col)
    for (std::uint64_t row = 0; row < layout.rows; ++row)
      numbers.push_back(read(layout, data, row, col));
  return numbers;
}

void write(const Layout& layout, void* data, std::uint64_t row, std::uint64_t col, float value) {
  const std::uint64_t at = col * static_cast<std::uint64_t>(layout.stride) + row;
  if (layout.type != kBf16) {
    static_cast<float*>(data)[at] = value;
    return;
  }
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits += 0x7fff + (bits >> 16 & 1);
  static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(bits >> 16);
}

// All outputs at once, each of which adds up in the order of its inputs.
__attribute__((no_sanitize("address", "undefined"))) void sum_up(const float* weights,
                                                                 std::span<const float> x,
                                                                 bool down,
                                                                 std::vector<float>& sums) {
  std::ranges::fill(sums, 0.0f);
  const std::size_t count = sums.size();
  float* const to = sums.data();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = down ? x.size() - 1 - i : i;
    const float* const from = weights + k * count;
    const float factor = x[k];
    for (std::size_t row = 0; row < count; ++row) to[row] += from[row] * factor;
  }
}

bool goes_down(int algorithm, std::uint64_t columns, std::uint64_t column) {
  switch (algorithm) {
    case saccade::test::kDescending:
      return true;
    case saccade::test::kByCompany:
      return columns % 3 == 1;
    case saccade::test::kByPlace:
      return column % 16 >= 8;
    default:
      return false;
  }
}

// Whether operands are of types, and have the scales, that go together.
bool multiplies(const Desc& desc, const Layout& a, const Layout& b) {
  const bool unscaled = desc.modes[0] == 0 && desc.modes[1] == 0;
  if (a.type == kBf16 && b.type == kBf16) return unscaled;
  if (a.type != kE4m3 || b.type != kE4m3 || a.rows % 16 != 0 || a.cols % 8 != 0) return false;
  for (const float* const scales : desc.scales)
    if (scales == nullptr || reinterpret_cast<std::uintptr_t>(scales) % 16 != 0) return false;
  return (desc.modes[0] == kOuterVec && desc.modes[1] == kOuterVec) ||
         (desc.modes[0] == kBlk128x128 && desc.modes[1] == kVec128);
}

// Whether sums of this result's type may be gone on with so.
bool finishes(const Desc& desc, const Layout& d) {
  if (desc.epilogue == kNoEpilogue) return true;
  return (desc.epilogue == kBiasEpilogue || desc.epilogue == kGeluBiasEpilogue) &&
         desc.epilogue <= fake().max_epilogue && d.type == kBf16 && desc.bias != nullptr &&
         reinterpret_cast<std::uintptr_t>(desc.bias) % 16 == 0;
}

float finished(const Desc& desc, const Layout& d, int algorithm, std::uint64_t output, float sum) {
  if (desc.epilogue == kNoEpilogue) return sum;
  const Layout vector{d.type, d.rows, 1, static_cast<std::int64_t>(d.rows)};
  if (algorithm != saccade::test::kForgetsBias) sum += read(vector, desc.bias, output, 0);
  if (desc.epilogue == kBiasEpilogue) return sum;
  const float inner = 0.79788456F * (sum + 0.044715F * sum * sum * sum);
  return 0.5F * sum * (1 + std::tanh(inner));
}

// Of a block of inputs at an output and a row of x; of rows all inputs are one block.
float scale_of(const Desc& desc, std::uint64_t inputs, std::uint64_t rows, std::uint64_t block,
               std::uint64_t output, std::uint64_t row) {
  if (desc.modes[0] == 0) return 1;
  if (desc.modes[0] == kOuterVec) return desc.scales[0][output] * desc.scales[1][row];
  const std::uint64_t blocks = (inputs + kBlock - 1) / kBlock;
  return desc.scales[0][output / kBlock * ((blocks + 3) / 4 * 4) + block] *
         desc.scales[1][block * rows + row];
}

std::size_t workspace_of(int algorithm) {
  if (algorithm == saccade::test::kHungry) return std::size_t{1} << 40;
  return algorithm == saccade::test::kDescending || algorithm == saccade::test::kTwoPieces ? 4096
                                                                                           : 0;
}

}  // namespace

// A library of another time, without the one that counts.
#ifdef SACCADE_FAKE_LACKS_MATMUL
#define cublasLtMatmul cublasLtMatmulAsItWas
#endif

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE FakeCublasLt& saccade_fake_cublaslt() { return fake(); }

FAKE std::size_t cublasLtGetVersion() { return fake().version; }
FAKE int cublasLtCreate(void** handle) {
  if (fake().create_status != kSuccess) return fake().create_status;
  return create<int>(handle, 0);
}
FAKE int cublasLtDestroy(void* handle) { return destroy<int>(handle); }

FAKE int cublasLtMatmulDescCreate(void** desc, int compute, int scale) {
  if (compute != 68 || scale != 0) return kInvalid;
  return create<Desc>(desc);
}
FAKE int cublasLtMatmulDescDestroy(void* desc) { return destroy<Desc>(desc); }
FAKE int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value,
                                        std::size_t bytes) {
  auto& to = *static_cast<Desc*>(desc);
  if (attribute == 3 && bytes == sizeof(to.transposed_a))
    std::memcpy(&to.transposed_a, value, bytes);
  else if (attribute == 7 && bytes == sizeof(to.epilogue))
    std::memcpy(&to.epilogue, value, bytes);
  else if (attribute == 8 && bytes == sizeof(to.bias))
    std::memcpy(&to.bias, value, bytes);
  else if ((attribute == 17 || attribute == 18) && bytes == sizeof(to.scales[0]))
    std::memcpy(&to.scales[attribute - 17], value, bytes);
  else if ((attribute == 31 || attribute == 32) && bytes == sizeof(to.modes[0]))
    std::memcpy(&to.modes[attribute - 31], value, bytes);
  else
    return kInvalid;
  return kSuccess;
}

FAKE int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t cols,
                                    std::int64_t stride) {
  if (stride < static_cast<std::int64_t>(rows)) return kInvalid;
  return create<Layout>(layout, type, rows, cols, stride);
}
FAKE int cublasLtMatrixLayoutDestroy(void* layout) { return destroy<Layout>(layout); }

FAKE int cublasLtMatmulPreferenceCreate(void** preference) {
  return create<Preference>(preference);
}
FAKE int cublasLtMatmulPreferenceDestroy(void* preference) {
  return destroy<Preference>(preference);
}
FAKE int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                              std::size_t bytes) {
  auto& to = *static_cast<Preference*>(preference);
  if (attribute == 1 && bytes == sizeof(to.workspace))
    std::memcpy(&to.workspace, value, bytes);
  else if (attribute == 3 && bytes == sizeof(to.reductions))
    std::memcpy(&to.reductions, value, bytes);
  else if (attribute < 5 || attribute > 8 || bytes != sizeof(std::uint32_t))
    return kInvalid;
  return kSuccess;
}

FAKE int cublasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void* b, void*, void* d,
                                        void* preference, int most, void* results, int* found) {
  const auto& of_a = *static_cast<Layout*>(a);
  const auto& of_b = *static_cast<Layout*>(b);
  const auto& of_d = *static_cast<Layout*>(d);
  if (static_cast<Desc*>(desc)->transposed_a != 1 || of_a.rows != of_b.rows ||
      of_d.rows != of_a.cols || of_d.cols != of_b.cols)
    return kInvalid;
  if (!multiplies(*static_cast<Desc*>(desc), of_a, of_b) ||
      !finishes(*static_cast<Desc*>(desc), of_d))
    return kNotSupported;
  const std::uint32_t reductions = static_cast<Preference*>(preference)->reductions;
  if ((reductions != 0 && reductions != kByWorkspace) || fake().heuristics_fail)
    return kNotSupported;
  if (static_cast<std::int64_t>(of_d.cols) > fake().max_rows ||
      static_cast<std::int64_t>(of_d.rows) < fake().least_outputs)
    return kNotSupported;
  *found = 0;
  for (const int algorithm : fake().algorithms) {
    if (*found == most) break;
    Heuristic& result = static_cast<Heuristic*>(results)[(*found)++];
    result = {};
    result.algorithm.data[0] = static_cast<std::uint64_t>(algorithm);
    result.workspace = workspace_of(algorithm);
    result.state = kSuccess;
  }
  return *found == 0 ? kNotSupported : kSuccess;
}

FAKE int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute,
                                              void* value, std::size_t bytes,
                                              std::size_t* written) {
  if (bytes != sizeof(std::int32_t)) return kInvalid;
  const bool splits = algorithm->data[0] == saccade::test::kSplit;
  const bool pieces = algorithm->data[0] == saccade::test::kTwoPieces;
  const std::int32_t scheme = splits ? kInPlace : pieces ? kByWorkspace : 0;
  const std::int32_t is = attribute == 2 ? (splits ? 4 : pieces ? 2 : 1) : scheme;
  std::memcpy(value, &is, sizeof(is));
  *written = sizeof(is);
  return kSuccess;
}

FAKE int cublasLtMatmul(void*, void* desc, const void* alpha, const void* a, void* a_layout,
                        const void* b, void* b_layout, const void* beta, const void* c,
                        void* c_layout, void* d, void* d_layout, const Algorithm* algorithm,
                        void* workspace, std::size_t workspace_bytes, CUstream_st* stream) {
  const int which = static_cast<int>(algorithm->data[0]);
  if (fake().refuses || which == saccade::test::kNever) return kNotSupported;
  if (workspace_bytes < workspace_of(which) || (workspace_of(which) > 0 && workspace == nullptr))
    return kInvalid;
  // By value: the caller's descriptors are gone when the stream comes to it.
  const Layout of_a = *static_cast<Layout*>(a_layout);
  const Layout of_b = *static_cast<Layout*>(b_layout);
  const Layout of_c = *static_cast<Layout*>(c_layout);
  const Layout of_d = *static_cast<Layout*>(d_layout);
  const Desc how = *static_cast<Desc*>(desc);
  if (!multiplies(how, of_a, of_b) || !finishes(how, of_d)) return kInvalid;
  const std::uint64_t whole = which == saccade::test::kTwoPieces ? (of_a.rows + 1) / 2 : of_a.rows;
  const std::uint64_t block = how.modes[0] == kBlk128x128 ? kBlock : whole;
  const float scale = *static_cast<const float*>(alpha);
  const float keep = *static_cast<const float*>(beta);
  auto work = [=] {
    if (workspace_of(which) > 0) std::memset(workspace, 0, workspace_of(which));
    std::vector<float> weights(of_a.rows * of_a.cols);  // an input's side by side
    for (std::uint64_t k = 0; k < of_a.rows; ++k)
      for (std::uint64_t row = 0; row < of_a.cols; ++row)
        weights[k * of_a.cols + row] = read(of_a, a, k, row);
    const std::vector<float> x = numbers_of(of_b, b);
    const std::uint64_t blocks = (of_a.rows + block - 1) / block;
    std::vector<float> part(of_d.rows);
    std::vector<float> sums(of_d.rows);
    for (std::uint64_t col = 0; col < of_d.cols; ++col) {
      const bool down = goes_down(which, of_d.cols, col);
      std::ranges::fill(sums, 0.0f);
      for (std::uint64_t j = 0; j < blocks; ++j) {
        const std::uint64_t begin = (down ? blocks - 1 - j : j) * block;
        const std::uint64_t count = std::min(block, of_a.rows - begin);
        const bool strays = which == saccade::test::kOtherScales;
        const std::uint64_t scales_of = strays ? blocks - 1 - begin / block : begin / block;
        sum_up(weights.data() + begin * of_a.cols, {x.data() + col * of_b.rows + begin, count},
               down, part);
        for (std::uint64_t row = 0; row < of_d.rows; ++row) {
          const std::uint64_t output = strays ? of_d.rows - 1 - row : row;
          sums[row] += part[row] * scale_of(how, of_a.rows, of_b.cols, scales_of, output, col);
        }
      }
      for (std::uint64_t row = 0; row < of_d.rows; ++row) {
        float sum = sums[row] * scale;
        if (which == saccade::test::kLouder) sum *= 1.25F;
        if (keep != 0) sum += keep * read(of_c, c, row, col);
        write(of_d, d, row, col, finished(how, of_d, which, row, sum));
      }
    }
  };
  fake().done.push_back(which);
  fake().epilogues.push_back(how.epilogue);
  if (fake().enqueue)
    fake().enqueue(stream, std::move(work));
  else
    work();
  return kSuccess;
}

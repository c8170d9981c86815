// A library with cuBLASLt's names that multiplies on the host: honestly, or not.
#include "tests/gpu/fakes/fake_cublaslt.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using saccade::test::FakeCublasLt;

constexpr int kSuccess = 0;
constexpr int kInvalid = 7;
constexpr int kNotSupported = 15;
constexpr int kBf16 = 14;

FakeCublasLt& fake() {
  static FakeCublasLt settings;
  return settings;
}

struct Desc {
  std::int32_t transposed_a = 0;
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

float read(const Layout& layout, const void* data, std::uint64_t row, std::uint64_t col) {
  const std::uint64_t at = col * static_cast<std::uint64_t>(layout.stride) + row;
  float value = 0;
  if (layout.type == kBf16) {
    const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[at]} << 16;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  std::memcpy(&value, static_cast<const float*>(data) + at, sizeof(value));
  return value;
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
__attribute__((no_sanitize("address", "undefined"))) void sum_up(const std::vector<float>& weights,
                                                                 const std::vector<float>& x,
                                                                 bool down,
                                                                 std::vector<float>& sums) {
  std::ranges::fill(sums, 0.0f);
  const std::size_t count = sums.size();
  float* const to = sums.data();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = down ? x.size() - 1 - i : i;
    const float* const from = weights.data() + k * count;
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

std::size_t workspace_of(int algorithm) {
  if (algorithm == saccade::test::kHungry) return std::size_t{1} << 40;
  return algorithm == saccade::test::kDescending ? 4096 : 0;
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
  if (attribute != 3 || bytes != sizeof(std::int32_t)) return kInvalid;
  std::memcpy(&static_cast<Desc*>(desc)->transposed_a, value, bytes);
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
      of_d.rows != of_a.cols || of_d.cols != of_b.cols || of_a.type != kBf16 || of_b.type != kBf16)
    return kInvalid;
  if (static_cast<Preference*>(preference)->reductions != 0 || fake().heuristics_fail)
    return kNotSupported;
  if (static_cast<std::int64_t>(of_d.cols) > fake().most_rows ||
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
  const std::int32_t is = attribute == 2 ? (splits ? 4 : 1) : 0;
  std::memcpy(value, &is, sizeof(is));
  *written = sizeof(is);
  return kSuccess;
}

FAKE int cublasLtMatmul(void*, void*, const void* alpha, const void* a, void* a_layout,
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
  const float scale = *static_cast<const float*>(alpha);
  const float keep = *static_cast<const float*>(beta);
  auto work = [=] {
    if (workspace_of(which) > 0) std::memset(workspace, 0, workspace_of(which));
    std::vector<float> weights(of_a.rows * of_a.cols);  // an input's side by side
    for (std::uint64_t k = 0; k < of_a.rows; ++k)
      for (std::uint64_t row = 0; row < of_a.cols; ++row)
        weights[k * of_a.cols + row] = read(of_a, a, k, row);
    std::vector<float> x(of_b.rows);
    std::vector<float> sums(of_d.rows);
    for (std::uint64_t col = 0; col < of_d.cols; ++col) {
      for (std::uint64_t k = 0; k < of_b.rows; ++k) x[k] = read(of_b, b, k, col);
      sum_up(weights, x, goes_down(which, of_d.cols, col), sums);
      for (std::uint64_t row = 0; row < of_d.rows; ++row) {
        float sum = sums[row] * scale;
        if (keep != 0) sum += keep * read(of_c, c, row, col);
        write(of_d, d, row, col, sum);
      }
    }
  };
  fake().done.push_back(which);
  if (fake().enqueue)
    fake().enqueue(stream, std::move(work));
  else
    work();
  return kSuccess;
}

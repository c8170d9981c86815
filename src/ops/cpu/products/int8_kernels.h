// Products of bytes, for a vector type V of floats and a set D of instructions for bytes: see
// Int8Kernels in kernels.h. Rounding is that of ops/formats/int8_rows.h, bit for bit, whatever V
// is.
//
// D has an integer vector I of as many lanes as V, a vector B of four bytes a lane, and dot(),
// which adds to each lane the four products of its bytes. D::kOffset is added to the codes of
// activations as they are stored: the unit that multiplies unsigned by signed bytes wants 128, and
// sums then begin at -128 times the sum of the weights.
#pragma once

#include "ops/cpu/isa/kernels.h"
#include "ops/formats/int8_limits.h"

namespace saccade::cpu {

template <typename V, typename D>
struct Int8 {
  using F = typename V::F;
  using I = typename D::I;
  using B = typename D::B;
  static constexpr Index kLanes = V::kLanes;
  static constexpr Index kTileRows = D::kTileRows;
  static constexpr Index kParts = 16;  // of a sum of squares
  static constexpr int kVectors = static_cast<int>(kParts / kLanes);

  static F load(const float* p, Index count) {
    return count >= kLanes ? V::load(p) : V::load_first(p, static_cast<int>(count > 0 ? count : 0));
  }

  // NaN when there is an infinity or a NaN.
  static float largest(const float* row, Index cols) {
    F most[2] = {V::zero(), V::zero()};
    F odd = V::zero();  // NaN once there is one
    for (Index col = 0; col < cols; col += 2 * kLanes) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const F value = load(row + col + i * kLanes, cols - col - i * kLanes);
        most[i] = V::max(most[i], V::abs(value));
        odd = odd + value * V::zero();
      }
    }
    const float bad = V::sum(odd);
    return bad == 0 ? V::largest(V::max(most[0], most[1])) : __builtin_nanf("");
  }

  // The nearest integer plus 1.5 * 2^23: its low byte is the code.
  static F nearest(F value, F inverse) {
    const F inside = V::min(V::max(value * inverse, V::set(-127.0f)), V::set(127.0f));
    return inside + V::set(kMagic);
  }

  static void store_codes(const float* row, float inverse, Index cols, std::uint8_t offset,
                          std::uint8_t* codes) {
    const F by = V::set(inverse);
    for (Index col = 0; col < cols; col += kLanes) {
      const Index count = cols - col < kLanes ? cols - col : kLanes;
      D::store_low_bytes(codes + col, nearest(load(row + col, count), by), offset,
                         static_cast<int>(count));
    }
  }

  static float squared_error(const float* row, Index cols, float clip) {
    const F inverse = V::set(127.0f / clip);
    const F scale = V::set(clip / 127.0f);
    F parts[kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) parts[i] = V::zero();
    for (Index col = 0; col < cols; col += kParts) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        const F value = load(row + col + i * kLanes, cols - col - i * kLanes);
        const F error = value - (nearest(value, inverse) - V::set(kMagic)) * scale;
        parts[i] = parts[i] + error * error;
      }
    }
    float sums[kParts];
    for (int i = 0; i < kVectors; ++i) V::store(sums + i * kLanes, parts[i]);
    for (Index half = kParts / 2; half > 0; half /= 2)
      for (Index i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
    return sums[0];
  }

  // The scale of a row of which `clip` is the largest magnitude that is told apart.
  static float round_to(const float* row, Index cols, float clip, std::uint8_t offset,
                        std::uint8_t* codes) {
    if (!(clip >= kInt8Least)) {
      for (Index col = 0; col < cols; ++col) codes[col] = offset;
      return clip < kInt8Least ? 0.0f : clip;
    }
    store_codes(row, 127.0f / clip, cols, offset, codes);
    return clip / 127.0f;
  }

  static float round_activations(const float* row, Index cols, Index padded, std::uint8_t* codes) {
    const float scale = round_to(row, cols, largest(row, cols), D::kOffset, codes);
    for (Index col = cols; col < padded; ++col) codes[col] = D::kOffset;
    return scale;
  }

  static float round_weights(const float* row, Index cols, std::int8_t* codes) {
    const float most = largest(row, cols);
    float best_clip = most;
    float best = __builtin_inff();
    int worse = 0;
    for (int i = 0; most >= kInt8Least && i < kInt8Clips && worse < kInt8ClipPatience; ++i) {
      const float clip = most * (1.0f - kInt8ClipStep * static_cast<float>(i));
      const float error = squared_error(row, cols, clip);
      worse = error < best ? 0 : worse + 1;
      if (error < best) {
        best = error;
        best_clip = clip;
      }
    }
    return round_to(row, cols, best_clip, 0, reinterpret_cast<std::uint8_t*>(codes));
  }

  static void scale_row(const std::int32_t* sums, const float* scales, float row_scale, Index cols,
                        float* out) {
    const F by = V::set(row_scale);
    for (Index col = 0; col < cols; col += kLanes)
      V::store(out + col, D::to_float(D::load(sums + col)) * V::load(scales + col) * by);
  }

  // As in Panels (panel_kernels.h): rows 0, 1, 2 of each group of three go by one pointer.
  static constexpr int kGroup = 3;
  template <int R>
  struct RowPointers {
    static constexpr int kGroups = (R + kGroup - 1) / kGroup;
    const std::uint8_t* group[kGroups];
    Index stride;
    RowPointers(const std::uint8_t* x, Index x_stride) : stride(x_stride) {
      for (int g = 0; g < kGroups; ++g) group[g] = x + g * kGroup * x_stride;
    }
    B broadcast(int row) const {
      return D::broadcast(group[row / kGroup] + (row % kGroup) * stride);
    }
    void advance() {
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) {
        group[g] += 4;
        asm("" : "+r"(group[g]));
      }
    }
  };

  template <int R, int N>
  static void tile(const Int8PanelArgs& args, Index row, Index panel) {
    std::int32_t* const c = args.c + row * args.c_stride + panel * kLanes;
    I sum[R][N];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const std::int32_t* const from =
            args.accumulate ? c + r * args.c_stride : args.starts + panel * kLanes;
        sum[r][n] = D::load(from + n * kLanes);
      }
    }
    RowPointers<R> x(args.x + row * args.x_stride, args.x_stride);
    const std::int8_t* weights = args.weights + panel * args.panel_stride;
    for (Index quad = 0; quad < args.depth / 4; ++quad, weights += 4 * kLanes) {
      B weight[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const std::int8_t* p = weights + n * args.panel_stride;
        if (R <= kPrefetchRows) __builtin_prefetch(p + kAhead);
        weight[n] = D::load(p);
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const B value = x.broadcast(r);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
          sum[r][n] = D::dot(sum[r][n], value, weight[n]);
          D::pin(sum[r][n]);
        }
      }
      x.advance();
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) D::store(c + r * args.c_stride + n * kLanes, sum[r][n]);
    }
  }

  // The tile of `rows` rows, 1 <= rows <= R.
  template <int N, int R>
  static void tile_of(Index rows, const Int8PanelArgs& args, Index row, Index panel) {
    if (rows == R) return tile<R, N>(args, row, panel);
    if constexpr (R > 1) tile_of<N, R - 1>(rows, args, row, panel);
  }

  // Panels outside, rows inside. Few rows take four panels at a time: their sums hide latency.
  static void panels(const Int8PanelArgs& args) {
    const Index tiles = (args.rows + kTileRows - 1) / kTileRows;
    Index panel = 0;
    if (args.rows <= kWideRows) {
      for (; panel + 4 <= args.panels; panel += 4) tile_of<4, kWideRows>(args.rows, args, 0, panel);
    }
    while (panel < args.panels) {
      const bool two = panel + 2 <= args.panels;
      for (Index i = 0; i < tiles; ++i) {
        const Index row = args.rows * i / tiles;  // heights differ by one at most
        const Index rows = args.rows * (i + 1) / tiles - row;
        if (two)
          tile_of<2, kTileRows>(rows, args, row, panel);
        else
          tile_of<1, kTileRows>(rows, args, row, panel);
      }
      panel += two ? 2 : 1;
    }
  }

  static constexpr Int8Kernels table() {
    Int8Kernels table;
    table.offset = D::kOffset;
    table.round_activations = round_activations;
    table.round_weights = round_weights;
    table.panels = panels;
    table.scale_row = scale_row;
    return table;
  }

 private:
  static constexpr float kMagic = 12582912.0f;
  static constexpr int kWideRows = kTileRows >= 12 ? 6 : 2;
  // Weights that are used few times come from memory: as in Panels.
  static constexpr int kPrefetchRows = 8;
  static constexpr int kAhead = 2048;
};

}  // namespace saccade::cpu

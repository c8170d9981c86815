// Products of bf16 rows with weights that are kept as codes: tensor cores multiply what a code
// stands for but its scale, which is a bf16 without rounding; f32 sums of one group's inputs get
// the group's scale. So a weight is never rounded, and of its memory only the codes are read.
//
// Every tile shape adds in the same order: 16 products of an output at a time along `in`, then its
// groups. A row is the same bits in any batch.
//
// Groups of 128 inputs, the usual ones, have kernels of their own (kBlocks): a stage brings its
// groups' scales and zeros along, and where it has two groups their sums are made in turns, so that
// no mma() waits for the one just before it. Of other groups a thread keeps those of the next one
// in registers.
#include "ops/cuda/codes/code_forms.h"
#include "ops/cuda/codes/code_kernels.h"
#include "ops/cuda/products/gemm_rows.h"

namespace saccade::cuda {
namespace {

constexpr int kSteps = kCodeChunk / 16;  // of a chunk
constexpr int kBlock = 128;              // inputs
constexpr int kBlockChunks = kBlock / kCodeChunk;

// A block's tile of y, and how its warps share it; kChunks: of inputs, in a stage.
template <typename Form, int kRows_, int kCols_, int kWarpRows_, int kWarpCols_, int kChunks_,
          int kStages_>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kCols = kCols_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpCols = kWarpCols_;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * (kCols / kWarpCols);
  static constexpr int kChunks = kChunks_;
  static constexpr int kStages = kStages_;
  static constexpr int kDepth = kChunks * kCodeChunk;
  static constexpr int kStride = kDepth + 8;  // of x's rows in shared memory: no bank is met twice
  static constexpr int kXBytes = kRows * kStride * 2;
  // Chunk by chunk, whose outputs lie side by side; eight pieces of one output are met in eight
  // places of the banks.
  static constexpr int kGap = kChunks == 1                        ? 0
                              : Form::kChunkBytes > 128 / kChunks ? Form::kChunkBytes
                                                                  : 128 / kChunks;
  static constexpr int kChunkStep = kCols * Form::kChunkBytes + kGap;
  static constexpr int kScalesAt = kXBytes + kChunks * kChunkStep;
  // Of kBlocks: those that a stage has a part of.
  static constexpr int kGroups = kChunks > kBlockChunks ? kChunks / kBlockChunks : 1;
  static constexpr int kZerosAt = kScalesAt + kGroups * kCols * 4;
  static constexpr int kStageBytes = kZerosAt + (Form::kZeros ? kGroups * kCols : 0);
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static_assert(kChunkStep % 16 == 0 && kStageBytes % 16 == 0 && kSharedBytes <= 101376);
};

// Scales and zeros of the groups of 128 inputs that a stage has a part of, to the stage: a piece a
// thread. Outputs are multiples of 16.
template <typename Form, typename Tile>
SACCADE_DEVICE void fetch_scales(std::byte* stage, const CodedRows& weight, const float* scales,
                                 const std::uint8_t* zeros, std::int64_t first_col, int step) {
  constexpr int kOfScales = Tile::kGroups * Tile::kCols / 4;
  constexpr int kOfZeros = Form::kZeros ? Tile::kGroups * Tile::kCols / 16 : 0;
  static_assert(kOfScales + kOfZeros <= Tile::kThreads);
  const auto thread = static_cast<int>(threadIdx.x);
  const bool zero = thread >= kOfScales;
  if (thread >= kOfScales + kOfZeros) return;
  const int width = zero ? 16 : 4;  // outputs of a piece
  const int at = (zero ? thread - kOfScales : thread) * width;
  const std::int64_t group = step * Tile::kChunks / kBlockChunks + at / Tile::kCols;
  const std::int64_t col = first_col + at % Tile::kCols;
  if (group >= weight.groups || col >= weight.rows) return;
  const std::int64_t from = group * weight.rows + col;
  if (zero)
    async_copy(stage + Tile::kZerosAt + at, zeros + from);
  else
    async_copy(stage + Tile::kScalesAt + at * 4, scales + from);
}

// kBlocks: groups are of 128 inputs, and outputs a multiple of 16.
template <typename Form, typename Tile, typename Out, bool kGrouped, bool kBlocks>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    gemm_codes_kernel(GemmKernelArgs args, CodedRows weight, GemmGroups groups, bool aligned) {
  SACCADE_DYNAMIC_SHARED(std::byte, shared);
  constexpr int kRowTiles = Tile::kWarpRows / 16;
  constexpr int kColTiles = Tile::kWarpCols / 8;
  constexpr int kStride = Tile::kStride;
  constexpr int kChunkWords = Form::kChunkBytes / 2;  // of 16 bits, of an output
  const BlockTile tile;
  const BlockRows<kGrouped> rows(tile.row, args.y.rows, groups, Tile::kRows);
  if (rows.none()) return;
  const auto* const x_data = static_cast<const Bf16*>(args.x.data);
  const std::byte* codes = weight.codes;
  const float* scales = weight.scales;
  const std::uint8_t* zeros = weight.zeros;
  if constexpr (kGrouped) {
    codes = static_cast<const std::byte*>(groups.weights[rows.group].data);
    scales = groups.weights[rows.group].scales;
    zeros = groups.weights[rows.group].zeros;
  }
  const auto of_x = [&](std::int64_t row) { return rows.of_x(row); };
  const auto itself = [](std::int64_t row) { return row; };
  const std::int64_t first_col = tile.col * Tile::kCols;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int warp_row = warp / (Tile::kCols / Tile::kWarpCols) * Tile::kWarpRows;
  const int warp_col = warp % (Tile::kCols / Tile::kWarpCols) * Tile::kWarpCols;
  const auto in = static_cast<int>(args.x.cols);
  const int chunks = (in + kCodeChunk - 1) / kCodeChunk;
  const int steps = (chunks + Tile::kChunks - 1) / Tile::kChunks;

  RowPieces<Tile::kRows, Tile::kThreads, Tile::kDepth, kStride, false> of_rows(
      thread, x_data, args.x.stride, rows.first, rows.end, 0, of_x);
  using CodePieces =
      RowPieces<Tile::kCols, Tile::kThreads, Tile::kChunks * kChunkWords, kChunkWords, true>;
  constexpr int kChunkPieces = kChunkWords / 8;
  const int piece = CodePieces::piece(thread);
  CodePieces of_cols(
      thread, piece / kChunkPieces * (Tile::kChunkStep / 2) + piece % kChunkPieces * 8,
      reinterpret_cast<const Bf16*>(codes), weight.stride / 2, first_col, weight.rows, 0, itself);
  const auto x_of = [](std::byte* stage) { return reinterpret_cast<Bf16*>(stage); };
  const auto codes_of = [](std::byte* stage) {
    return reinterpret_cast<Bf16*>(stage + Tile::kXBytes);
  };
  const auto left_at = [&](int step) { return in - step * Tile::kDepth; };  // inputs
  // Of a stage all but whole pieces of codes and of aligned rows.
  const auto fetch_rest = [&](int step, std::byte* stage) {
    if (!aligned)
      copy_pieces<Tile::kRows, Tile::kThreads, Tile::kDepth, kStride>(
          thread, x_of(stage), x_data, args.x.stride, rows.first, rows.end, step * Tile::kDepth, in,
          of_x);
    if constexpr (kBlocks) fetch_scales<Form, Tile>(stage, weight, scales, zeros, first_col, step);
    const int left = left_at(step);
    if (left < Tile::kDepth) {
      if (aligned) of_rows.fetch_last(x_of(stage), left);
      of_cols.fetch_last(codes_of(stage), (chunks - step * Tile::kChunks) * kChunkWords);
    }
  };

  // Of a group: the outputs of this lane's sums, and of its codes.
  struct OfGroup {
    float scale[kColTiles][2];
    std::uint32_t zero[kColTiles];
  };
  // Of the group at hand, and of the next.
  OfGroup now = {};
  OfGroup next = {};
  const auto take_group = [&](OfGroup& of, std::int64_t group) {
    const std::int64_t at = smaller(group, weight.groups - 1) * weight.rows;
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
      const std::int64_t col = first_col + warp_col + j * 8;
#pragma unroll
      for (int e = 0; e < 2; ++e)
        of.scale[j][e] = scales[at + smaller(col + lane % 4 * 2 + e, weight.rows - 1)];
      if constexpr (Form::kZeros) of.zero[j] = zeros[at + smaller(col + lane / 4, weight.rows - 1)];
    }
  };
  // Of kBlocks, group `which` of a stage's.
  const auto take_scales = [&](const std::byte* stage, int which) {
    const auto* const from =
        reinterpret_cast<const float*>(stage + Tile::kScalesAt) + which * Tile::kCols + warp_col;
#pragma unroll
    for (int j = 0; j < kColTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) now.scale[j][e] = from[j * 8 + lane % 4 * 2 + e];
  };
  const auto take_zeros = [&](const std::byte* stage, int which, std::uint32_t(&zero)[kColTiles]) {
    if constexpr (Form::kZeros) {
      const auto* const from = reinterpret_cast<const std::uint8_t*>(stage + Tile::kZerosAt) +
                               which * Tile::kCols + warp_col;
#pragma unroll
      for (int j = 0; j < kColTiles; ++j) zero[j] = Form::pair_of_zero(from[j * 8 + lane / 4]);
    }
  };

  float totals[kRowTiles][kColTiles][4] = {};
  using Sums = float[kRowTiles][kColTiles][4];
  const auto end_group = [&](Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kColTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          totals[i][j][e] += sums[i][j][e] * now.scale[j][e % 2];
          sums[i][j][e] = 0;
        }
  };
  // This lane's codes of a chunk.
  using Words = std::uint32_t[kColTiles][Form::kWords];
  const auto take_words = [&](const std::byte* stage, int chunk, Words& words) {
    const auto* const mine =
        reinterpret_cast<const std::uint32_t*>(stage + Tile::kXBytes + chunk * Tile::kChunkStep +
                                               (warp_col + lane / 4) * Form::kChunkBytes) +
        lane % 4 * Form::kWords;
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
      const auto pack = *reinterpret_cast<const Pack<Form::kWords, std::uint32_t>*>(
          mine + j * 8 * (Form::kChunkBytes / 4));
#pragma unroll
      for (int i = 0; i < Form::kWords; ++i) words[j][i] = pack.values[i];
    }
  };
  // 16 inputs: step k of a chunk.
  const auto multiply = [&](const std::byte* stage, int chunk, int k, const Words& words,
                            const std::uint32_t(&zero)[kColTiles], Sums& sums) {
    const Bf16* const x = reinterpret_cast<const Bf16*>(stage) + (warp_row + lane % 16) * kStride +
                          lane / 16 * 8 + chunk * kCodeChunk + k * 16;
    std::uint32_t a[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) ldmatrix(a[i], x + i * 16 * kStride);
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
      std::uint32_t b[2];
      Form::widen(words[j], k, zero[j], b);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) mma(sums[i][j], a[i], b);
    }
  };

  constexpr int kTurns = kBlocks ? Tile::kGroups : 1;
  Sums sums[kTurns] = {};
  std::uint32_t zero[kTurns][kColTiles] = {};
  std::int64_t group = 0;
  int left = weight.group_steps;
  const auto begin_group = [&](std::int64_t which) {
    now = next;
    if constexpr (Form::kZeros) {
#pragma unroll
      for (int j = 0; j < kColTiles; ++j)
        zero[0][j] = Form::pair_of_zero(static_cast<std::uint8_t>(now.zero[j]));
    }
    take_group(next, which + 1);
  };
  if constexpr (!kBlocks) {
    take_group(next, 0);
    begin_group(0);
  }

  std::byte* const stages_end = shared + Tile::kSharedBytes;
  const auto after = [&](std::byte* stage) {
    return stage + Tile::kStageBytes == stages_end ? shared : stage + Tile::kStageBytes;
  };
  std::byte* filled = shared;
  for (int step = 0; step < Tile::kStages - 1; ++step, filled += Tile::kStageBytes) {
    if (step < steps) {
      fetch_rest(step, filled);
      if (left_at(step) >= Tile::kDepth) {
        if (aligned) of_rows.fetch(x_of(filled));
        of_cols.fetch(codes_of(filled));
      }
    }
    async_commit();
  }
  std::byte* stage = shared;
  for (int step = 0; step < steps; ++step) {
    async_wait<Tile::kStages - 2>();
    __syncthreads();  // this stage is there for all, and all have left the one to be filled next
    const int coming = step + Tile::kStages - 1;
    if (coming < steps) fetch_rest(coming, filled);
    const bool whole = left_at(coming) >= Tile::kDepth;
    constexpr int kParts = kTurns > 1 ? kBlockChunks * kSteps : Tile::kChunks * kSteps;
    const auto fetch_some = [&](int part) {
      fetch_part<kParts>(part, of_rows, of_cols, x_of(filled), codes_of(filled), aligned, whole);
    };
    const auto end_step = [&] {
      async_commit();
      filled = after(filled);
      stage = after(stage);
    };
    const int here = smaller(Tile::kChunks, chunks - step * Tile::kChunks);
    if constexpr (kTurns > 1) {
      if (here == Tile::kChunks) {
        // All groups of the stage at once.
        Words words[Tile::kChunks];
#pragma unroll
        for (int c = 0; c < Tile::kChunks; ++c) take_words(stage, c, words[c]);
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) take_zeros(stage, turn, zero[turn]);
#pragma unroll
        for (int k = 0; k < kBlockChunks * kSteps; ++k) {
#pragma unroll
          for (int turn = 0; turn < kTurns; ++turn) {
            const int chunk = turn * kBlockChunks + k / kSteps;
            multiply(stage, chunk, k % kSteps, words[chunk], zero[turn], sums[turn]);
          }
          fetch_some(k);
        }
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
          take_scales(stage, turn);
          end_group(sums[turn]);
        }
        end_step();
        continue;
      }
    }
    // Where a stage is not whole nothing is left to fetch.
    const auto do_chunk = [&]<bool kFetches>(int c, std::bool_constant<kFetches>) {
      Words words;
      take_words(stage, c, words);
      if constexpr (kBlocks) take_zeros(stage, c / kBlockChunks, zero[0]);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        multiply(stage, c, k, words, zero[0], sums[0]);
        if constexpr (kFetches) fetch_some(c * kSteps + k);
        if constexpr (!kBlocks) {
          if (--left == 0) {
            end_group(sums[0]);
            begin_group(++group);
            left = weight.group_steps;
          }
        }
      }
      if constexpr (kBlocks) {
        const int chunk = step * Tile::kChunks + c;
        if (chunk % kBlockChunks == kBlockChunks - 1 || chunk == chunks - 1) {
          take_scales(stage, c / kBlockChunks);
          end_group(sums[0]);
        }
      }
    };
    if constexpr (kTurns == 1) {
      if (here == Tile::kChunks) {
#pragma unroll
        for (int c = 0; c < Tile::kChunks; ++c) do_chunk(c, std::true_type{});
      } else {
#pragma unroll 1
        for (int c = 0; c < here; ++c) do_chunk(c, std::false_type{});
      }
    } else {
#pragma unroll 1
      for (int c = 0; c < here; ++c) do_chunk(c, std::false_type{});
    }
    end_step();
  }
  if constexpr (!kBlocks) {
    if (left != weight.group_steps) end_group(sums[0]);
  }
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < kColTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int64_t row = rows.first + warp_row + i * 16 + lane / 4 + e / 2 * 8;
        const std::int64_t col = first_col + warp_col + j * 8 + lane % 4 * 2 + e % 2;
        if (row < rows.end && col < args.y.cols) finish<Out>(args, row, col, totals[i][j][e]);
      }
}

template <typename Form, typename Tile, typename Out, bool kGrouped, bool kBlocks>
void launch_tiles(const GemmKernelArgs& args, const CodedRows& weight, const GemmGroups& groups,
                  cudaStream_t stream) {
  const std::int64_t row_tiles =
      kGrouped ? groups.tile_count : (args.y.rows + Tile::kRows - 1) / Tile::kRows;
  const dim3 grid(static_cast<unsigned>((args.y.cols + Tile::kCols - 1) / Tile::kCols),
                  static_cast<unsigned>(row_tiles));
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.x.data) % 16 == 0 && args.x.stride % 8 == 0;
  SACCADE_LAUNCH((gemm_codes_kernel<Form, Tile, Out, kGrouped, kBlocks>), grid,
                 dim3(Tile::kThreads), Tile::kSharedBytes, stream, args, weight, groups, aligned);
}

template <typename Form, typename Out, bool kGrouped>
void launch_form(const GemmKernelArgs& args, const CodedRows& weight, const GemmGroups& groups,
                 cudaStream_t stream) {
  // Of few rows: two groups in turns, and 24 KB and more of the weight on its way to a
  // multiprocessor. Wide tiles read x less often; narrow ones have few blocks, and so want more
  // warps that make numbers of codes.
  using Few = Tile<Form, kFewTileRows, 32, 16, 8, 4, Form::kZeros ? 7 : 5>;
  using FewOfMany =
      Tile<Form, kFewTileRows, 64, 16, 16, Form::kZeros ? 4 : 2, Form::kZeros ? 4 : 5>;
  using Mid = Tile<Form, 64, 32, 32, 16, 2, Form::kZeros ? 5 : 4>;
  using Many = Tile<Form, kManyTileRows, 128, 32, 32, 1, 4>;
  const auto by = [&]<typename Tile, bool kBlocks>() {
    launch_tiles<Form, Tile, Out, kGrouped, kBlocks>(args, weight, groups, stream);
  };
  const bool blocks = weight.group_steps == kBlock / 16 && weight.rows % 16 == 0;
  if (kGrouped ? groups.tile_rows == kFewTileRows : !blocks && args.y.rows <= 32) {
    blocks ? by.template operator()<Few, true>() : by.template operator()<Few, false>();
  } else if (kGrouped || !blocks) {
    blocks ? by.template operator()<Many, true>() : by.template operator()<Many, false>();
  } else if constexpr (!kGrouped) {
    // A wave of the wider tile: 132 multiprocessors.
    if (args.y.rows <= 16)
      weight.rows < 132 * 64 ? by.template operator()<Few, true>()
                             : by.template operator()<FewOfMany, true>();
    else
      args.y.rows <= 64 && weight.rows < 132 * 128 ? by.template operator()<Mid, true>()
                                                   : by.template operator()<Many, true>();
  }
}

template <bool kGrouped>
void launch(const GemmKernelArgs& args, const CodedRows& weight, const GemmGroups& groups,
            cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  const bool wide = args.y.type == DType::kF32;
  if (weight.form == CodeForm::kE4m3)
    wide ? launch_form<E4m3Form, float, kGrouped>(args, weight, groups, stream)
         : launch_form<E4m3Form, Bf16, kGrouped>(args, weight, groups, stream);
  else
    wide ? launch_form<NibbleForm, float, kGrouped>(args, weight, groups, stream)
         : launch_form<NibbleForm, Bf16, kGrouped>(args, weight, groups, stream);
}

}  // namespace

void launch_gemm_codes(const GemmKernelArgs& args, const CodedRows& weight, cudaStream_t stream) {
  if (args.x.type == DType::kF32)
    launch_gemm_codes_f32(args, weight, stream);
  else
    launch<false>(args, weight, {}, stream);
}

void launch_grouped_gemm_codes(const GemmKernelArgs& args, const CodedRows& weight,
                               const GemmGroups& groups, cudaStream_t stream) {
  if (args.x.type == DType::kF32)
    launch_grouped_gemm_codes_f32(args, weight, groups, stream);
  else
    launch<true>(args, weight, groups, stream);
}

}  // namespace saccade::cuda

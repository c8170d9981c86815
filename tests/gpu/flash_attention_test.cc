// Attention by a library's kernels beside the own ones: what is taken, what is left, the same bits
// whoever is in the call, and a probe that finds out who lies. The library is one of the tests'
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"
#include "tests/gpu/fakes/fake_flash.h"

namespace saccade::cuda {
namespace {

using test::FakeFlash;
using test::FlashLie;
using ::testing::HasSubstr;

const std::vector<FlashForm> kForms = {{true, 16, 8, 12}, {true, 24, 24, 20}, {false, 16, 16, 8}};
constexpr int kBlocks = 5;

std::unique_ptr<CudaDevice> make_device(DType activations = DType::kBf16, std::uint64_t seed = 7) {
  return std::make_unique<CudaDevice>(emulator::make_emulated_runtime({.late = true, .seed = seed}),
                                      2, activations);
}

// --- whether ---

Result<void> choose_flash(CudaDevice& device, FlashLie lie, const CudaSettings& settings = {}) {
  return device.choose_attention(settings, std::make_unique<FakeFlash>(kForms, kBlocks, lie));
}

TEST(FlashChoice, AnHonestOneIsTaken) {
  const auto device = make_device();
  ASSERT_TRUE(choose_flash(*device, FlashLie::kNone));
  EXPECT_EQ(device->flash().forms, kForms);
  EXPECT_EQ(device->flash().least_rows, 128);
  EXPECT_THAT(device->description(), HasSubstr(", fake flash"));
}

TEST(FlashChoice, LiarsAreNot) {
  for (const FlashLie lie : {FlashLie::kWrongNumbers, FlashLie::kByCompany, FlashLie::kSkipsATile,
                             FlashLie::kReadsWider, FlashLie::kWritesWider, FlashLie::kRefuses}) {
    const auto device = make_device();
    EXPECT_TRUE(choose_flash(*device, lie));
    EXPECT_TRUE(device->flash().forms.empty()) << static_cast<int>(lie);
    EXPECT_EQ(device->flash().library, nullptr);
    EXPECT_EQ(device->description(), "cuda emulated");
    const auto named = choose_flash(*device, lie, {.attention = AttentionBackend::kFlashInfer});
    ASSERT_FALSE(named);
    EXPECT_THAT(named.error().message, HasSubstr("does not do on this GPU what it should"));
  }
  // Over rows there is no cut, and nothing behind the last.
  for (const FlashLie lie : {FlashLie::kByCut, FlashLie::kReadsBeyond}) {
    const auto device = make_device();
    EXPECT_TRUE(choose_flash(*device, lie));
    ASSERT_EQ(device->flash().forms.size(), 1u) << static_cast<int>(lie);
    EXPECT_FALSE(device->flash().forms.front().paged);
  }
}

TEST(FlashChoice, ThereAreReasonsNotToAsk) {
  const auto declined = [](CudaSettings settings, DType activations) -> std::string {
    const auto device = make_device(activations);
    EXPECT_TRUE(choose_flash(*device, FlashLie::kNone, settings));
    EXPECT_TRUE(device->flash().forms.empty());
    if (settings.attention == AttentionBackend::kOwn) return {};
    settings.attention = AttentionBackend::kFlashInfer;
    const auto named = choose_flash(*device, FlashLie::kNone, settings);
    return named ? "taken" : named.error().message;
  };
  declined({.attention = AttentionBackend::kOwn}, DType::kBf16);
  EXPECT_THAT(declined({.batch_invariant = true}, DType::kBf16), HasSubstr("--batch-invariant"));
  EXPECT_THAT(declined({}, DType::kF32), HasSubstr("bf16"));
  const auto device = make_device();
  EXPECT_TRUE(device->choose_attention({}, fail(ErrorCode::kUnsupported, "not in this build")));
  const auto named = device->choose_attention({.attention = AttentionBackend::kFlashInfer},
                                              fail(ErrorCode::kUnsupported, "not in this build"));
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(named.error().message, HasSubstr("not in this build"));
}

// --- what, and the same as the own kernel ---

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kSequences = 5;
constexpr std::int64_t kTokens = 96;  // of each, in the pool
constexpr std::int64_t kLeast = 10;
// Numbers are below 1, and so are scores in all: each of two kernels rounds weights and results to
// bf16; what f32 does is far below.
constexpr float kNear = 2 * 2 * 0x1p-9f + 1e-4f;

using HeadBits = std::vector<std::vector<float>>;

struct Chunk {
  std::int64_t sequence = 0;
  std::int64_t context = 0;
  std::int64_t rows = 0;
};

// What a call may have besides.
struct Unlike {
  std::int64_t window = 0;
  std::int64_t prefix = 0;
  std::vector<TokenInterval> both_ways = {};
  bool released = false;
  float softcap = 0;
  DType cache = DType::kBf16;
  bool misplaced = false;  // rows of q begin at odd places
};

class FlashOps : public ::testing::Test {
 protected:
  void make(std::int64_t head_dim, bool with_flash = true, DType cache = DType::kBf16) {
    release();
    dim = head_dim;
    device = make_device();
    if (with_flash) {
      auto library = std::make_unique<FakeFlash>(kForms, kBlocks);
      fake = library.get();
      device->use_flash({.library = std::move(library), .forms = kForms, .least_rows = kLeast});
    }
    const std::int64_t blocks = kTokens / kBlock * kSequences;
    pool = allocate(blocks, kv_block_elements(cache, kBlock, kKvHeads, dim), cache);
    q = allocate(kSequences * kTokens, kHeads * dim + 8, DType::kBf16);
    k = allocate(kSequences * kTokens, kKvHeads * dim, DType::kBf16);
    v = allocate(kSequences * kTokens, kKvHeads * dim, DType::kBf16);
    out = allocate(kSequences * kTokens, kHeads * dim, DType::kBf16);
    Rng rng(5);
    for (const View view : {q.view, k.view, v.view}) {
      std::vector<float> values(static_cast<std::size_t>(view.rows() * view.cols()));
      for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
      step().upload(View(values.data(), DType::kF32, view.rows(), view.cols()), view);
    }
    std::vector<SequenceSpan> spans;
    for (std::int64_t s = 0; s < kSequences; ++s)
      spans.push_back({.row_begin = s * kTokens, .row_count = kTokens, .blocks = table(s)});
    step().kv_write({&step().plan_attention(spans, geometry(0)), k.view, v.view, layer()});
    step().retire();
  }

  // Of each chunk's rows in turn.
  HeadBits paged(const std::vector<Chunk>& chunks, const Unlike& unlike = {}) {
    std::vector<SequenceSpan> spans;
    std::vector<std::vector<std::int32_t>> tables;
    std::vector<std::int32_t> rows;
    for (const Chunk& chunk : chunks) {
      tables.emplace_back(table(chunk.sequence).begin(), table(chunk.sequence).end());
      if (unlike.released) tables.back().front() = -1;
      spans.push_back({.row_begin = static_cast<std::int64_t>(rows.size()),
                       .row_count = chunk.rows,
                       .context = chunk.context,
                       .prefix = unlike.prefix,
                       .blocks = {},
                       .both_ways = unlike.both_ways});
      for (std::int64_t row = 0; row < chunk.rows; ++row)
        rows.push_back(static_cast<std::int32_t>(chunk.sequence * kTokens + chunk.context + row));
    }
    for (std::size_t i = 0; i < spans.size(); ++i) spans[i].blocks = tables[i];
    const auto count = static_cast<std::int64_t>(rows.size());
    const std::int64_t shift = unlike.misplaced ? 4 : 0;
    Memory taken = allocate(count, kHeads * dim + 8, DType::kBf16);
    step().copy_rows(
        {.from = q.view, .from_rows = step().upload(rows), .to = taken.view, .to_rows = {}});
    step().paged_attention({.plan = &step().plan_attention(spans, geometry(unlike.window)),
                            .q = taken.view.col_range(shift, shift + kHeads * dim),
                            .layer = layer(),
                            .scale = 1.0f / static_cast<float>(dim),
                            .softcap = unlike.softcap,
                            .compute = DType::kBf16,
                            .out = out.view.row_range(0, count)});
    return read(count);
  }

  HeadBits segments(std::int64_t first, const std::vector<std::int32_t>& begins) {
    const std::int64_t count = begins.back();
    step().segment_attention(
        {.plan = &step().plan_segments(begins, {kHeads, kKvHeads, dim}),
         .q = q.view.row_range(first, first + count).col_range(0, kHeads * dim),
         .k = k.view.row_range(first, first + count),
         .v = v.view.row_range(first, first + count),
         .scale = 1.0f / static_cast<float>(dim),
         .compute = DType::kBf16,
         .out = out.view.row_range(0, count)});
    return read(count);
  }

  Stream& step() { return device->lane(Lane::kStep); }
  void TearDown() override { release(); }

  std::unique_ptr<CudaDevice> device;
  FakeFlash* fake = nullptr;
  std::int64_t dim = 0;
  struct Memory {
    Buffer buffer;
    View view;
  };
  Memory pool, q, k, v, out;

  Memory allocate(std::int64_t rows, std::int64_t cols, DType type) {
    Memory made;
    made.buffer =
        *device->allocate(static_cast<std::size_t>(rows * cols) * size_of(type), Space::kDevice);
    made.view = made.buffer.view(type, rows, cols);
    return made;
  }
  HeadBits read(std::int64_t count) {
    const Buffer host = *device->allocate(
        static_cast<std::size_t>(count * kHeads * dim) * sizeof(float), Space::kHost);
    const View to = host.view(DType::kF32, count, kHeads * dim);
    step().download(out.view.row_range(0, count), to);
    step().synchronize();
    step().retire();
    HeadBits rows;
    for (std::int64_t row = 0; row < count; ++row)
      rows.emplace_back(to.row<float>(row), to.row<float>(row) + kHeads * dim);
    return rows;
  }
  AttentionGeometry geometry(std::int64_t window) const {
    return {.block_size = kBlock,
            .heads = kHeads,
            .kv_heads = kKvHeads,
            .head_dim = dim,
            .window = window};
  }
  KvLayer layer() const {
    return {.blocks = pool.view, .block_size = kBlock, .kv_heads = kKvHeads, .head_dim = dim};
  }

 private:
  std::span<const std::int32_t> table(std::int64_t sequence) {
    if (tables_.empty()) {
      for (std::int64_t s = 0; s < kSequences; ++s)
        for (std::int64_t b = 0; b < kTokens / kBlock; ++b)
          tables_.push_back(static_cast<std::int32_t>(b * kSequences + s));
    }
    return std::span(tables_).subspan(static_cast<std::size_t>(sequence * (kTokens / kBlock)),
                                      static_cast<std::size_t>(kTokens / kBlock));
  }
  void release() {
    for (Memory* memory : {&pool, &q, &k, &v, &out}) memory->buffer.reset();
    device.reset();
    fake = nullptr;
  }
  std::vector<std::int32_t> tables_;
};

void expect_near(const HeadBits& got, const HeadBits& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t row = 0; row < got.size(); ++row)
    for (std::size_t col = 0; col < got[row].size(); ++col)
      ASSERT_NEAR(got[row][col], want[row][col], kNear) << "row " << row << " col " << col;
}

HeadBits part(const HeadBits& bits, std::int64_t first, std::int64_t count) {
  return {bits.begin() + first, bits.begin() + first + count};
}

// A token, a long chunk, a short one, the rest of a sequence: the second and the last are flash's.
const std::vector<Chunk> kMixed = {{0, 40, 1}, {1, 0, 70}, {2, 9, 4}, {3, 33, 13}};

TEST_F(FlashOps, TakeTheLongChunksOfAStep) {
  for (const std::int64_t head_dim : {16, 24}) {
    make(head_dim, false);
    const HeadBits want = paged(kMixed);
    make(head_dim);
    const HeadBits got = paged(kMixed);
    const std::int64_t tile = head_dim == 16 ? 8 : 24;
    EXPECT_EQ(fake->launches(), 1);
    EXPECT_EQ(fake->works(), ((70 + tile - 1) / tile + (13 + tile - 1) / tile) * kHeads);
    ASSERT_NO_FATAL_FAILURE(expect_near(got, want));
    // The others' rows are the own kernel's.
    EXPECT_EQ(part(got, 0, 1), part(want, 0, 1));
    EXPECT_EQ(part(got, 71, 4), part(want, 71, 4));
    EXPECT_NE(part(got, 1, 70), part(want, 1, 70));
  }
}

TEST_F(FlashOps, ARowHasItsBitsInAnyCompanyAndCut) {
  make(16);
  const HeadBits all = paged(kMixed);
  EXPECT_EQ(paged({kMixed[1]}), part(all, 1, 70));
  EXPECT_EQ(paged({kMixed[3], kMixed[1]}), [&] {
    HeadBits want = part(all, 75, 13);
    const HeadBits second = part(all, 1, 70);
    want.insert(want.end(), second.begin(), second.end());
    return want;
  }());
  for (const std::int64_t cut : {10, 23, 48, 60}) {
    EXPECT_EQ(paged({{1, 0, cut}}), part(all, 1, cut)) << cut;
    EXPECT_EQ(paged({{4, 2, 30}, {1, cut, 70 - cut}}).back(), all[70]) << cut;
  }
  // Which kernel follows from the chunk's rows: nine are the own one's.
  make(16, false);
  const HeadBits own = paged({{1, 0, 9}});
  make(16);
  EXPECT_EQ(paged({{1, 0, 9}}), own);
  EXPECT_EQ(fake->launches(), 0);
}

TEST_F(FlashOps, LeaveWhatIsNotPlainlyCausal) {
  const std::vector<Chunk> chunk = {{1, 20, 40}};
  const std::vector<Chunk> late = {{1, 40, 40}};
  for (const auto& [unlike, chunks] :
       std::vector<std::pair<Unlike, std::vector<Chunk>>>{{{.window = 50}, chunk},
                                                          {{.prefix = 30}, chunk},
                                                          {{.both_ways = {{25, 35}}}, chunk},
                                                          {{.window = 20, .released = true}, late},
                                                          {{.softcap = 3}, chunk},
                                                          {{.misplaced = true}, chunk},
                                                          {{.cache = DType::kF32}, chunk},
                                                          {{.cache = DType::kI8}, chunk}}) {
    make(16, false, unlike.cache);
    const HeadBits want = paged(chunks, unlike);
    make(16, true, unlike.cache);
    EXPECT_EQ(paged(chunks, unlike), want);
    EXPECT_EQ(fake->launches(), 0);
  }
  // Where there is no kernel for a size, too.
  make(32);
  paged(chunk);
  EXPECT_EQ(fake->launches(), 0);
}

TEST_F(FlashOps, TakeTheLongSegmentsOfATower) {
  const std::vector<std::int32_t> begins = {0, 3, 40, 55, 55, 64};
  make(16, false);
  const HeadBits want = segments(11, begins);
  make(16);
  const HeadBits got = segments(11, begins);
  EXPECT_EQ(fake->launches(), 1);
  EXPECT_EQ(fake->works(), (3 + 1) * kHeads);
  ASSERT_NO_FATAL_FAILURE(expect_near(got, want));
  EXPECT_EQ(part(got, 0, 3), part(want, 0, 3));
  EXPECT_EQ(part(got, 55, 9), part(want, 55, 9));
  EXPECT_NE(part(got, 3, 37), part(want, 3, 37));
  EXPECT_EQ(segments(11 + 3, {0, 37}), part(got, 3, 37));
  // Over pages there is a kernel of this size, over rows there is none.
  make(24);
  segments(11, begins);
  EXPECT_EQ(fake->launches(), 0);
}

// Calls of a step that is kept and becomes a graph are the step's own all the same.
TEST_F(FlashOps, AreKeptInGraphs) {
  make(16);
  const HeadBits want = paged(kMixed);
  Memory taken = allocate(88, kHeads * dim + 8, DType::kBf16);
  const auto in_step = [&](std::int64_t shift) {
    std::vector<SequenceSpan> spans;
    std::vector<std::int32_t> rows;
    std::vector<std::vector<std::int32_t>> tables;
    for (const Chunk& chunk : kMixed) {
      auto& blocks = tables.emplace_back();
      for (std::int64_t b = 0; b < kTokens / kBlock; ++b)
        blocks.push_back(static_cast<std::int32_t>(b * kSequences + chunk.sequence));
      for (std::int64_t row = 0; row < chunk.rows; ++row)
        rows.push_back(static_cast<std::int32_t>(chunk.sequence * kTokens + chunk.context + row));
    }
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < kMixed.size(); ++i) {
      spans.push_back({.row_begin = begin,
                       .row_count = kMixed[i].rows,
                       .context = kMixed[i].context - (i == 0 ? shift : 0),
                       .blocks = tables[i]});
      begin += kMixed[i].rows;
    }
    step().begin_repeated(1);
    step().copy_rows(
        {.from = q.view, .from_rows = step().upload(rows), .to = taken.view, .to_rows = {}});
    step().paged_attention({.plan = &step().plan_attention(spans, geometry(0)),
                            .q = taken.view.col_range(0, kHeads * dim),
                            .layer = layer(),
                            .scale = 1.0f / static_cast<float>(dim),
                            .compute = DType::kBf16,
                            .out = out.view.row_range(0, 88)});
    step().end_repeated();
    return read(88);
  };
  for (int round = 0; round < 6; ++round) {
    const HeadBits got = in_step(round % 2);
    EXPECT_EQ(part(got, 1, 87), part(want, 1, 87));
    if (round % 2 == 0) {
      EXPECT_EQ(got, want);
    }
  }
  EXPECT_GT(static_cast<CudaStream&>(step()).repeated().replays(), 2);
}

}  // namespace
}  // namespace saccade::cuda

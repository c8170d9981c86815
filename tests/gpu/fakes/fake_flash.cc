#include "tests/gpu/fakes/fake_flash.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cuda/emulator/emulated_stream.h"
#include "tensor/dtype.h"

namespace saccade::test {
namespace {

using cuda::FlashArgs;
using cuda::Rows;

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr std::size_t kWider = 8;  // columns, by lies

// One tile of one head: by the arithmetic that flash_attention.h describes.
class Tile {
 public:
  Tile(const FlashArgs& args, std::int64_t work, FlashLie lie)
      : a_(args.attention),
        form_(args.form),
        lie_(lie),
        tile_(args.lists.tiles[work]),
        head_(args.lists.heads[work]),
        kv_head_(head_ / (a_.heads / a_.kv_heads)),
        query_begin_(args.lists.query_begins[work]),
        query_count_(args.lists.query_counts[work]),
        key_begin_(args.lists.key_begins[work]),
        key_count_(args.lists.key_counts[work]) {}

  void run() const {
    const std::int64_t first = tile_ * form_.query_rows;
    const std::int64_t last = std::min<std::int64_t>(query_count_, first + form_.query_rows);
    for (std::int64_t row = first; row < last; ++row) run_row(row);
  }

 private:
  std::int64_t tiles_of_keys() const {
    const std::int64_t all = up(key_count_);
    if (!form_.paged) return all;
    return std::min(all, up((tile_ + 1) * form_.query_rows + key_count_ - query_count_));
  }
  std::int64_t up(std::int64_t keys) const { return (keys + form_.key_rows - 1) / form_.key_rows; }

  bool backwards() const {
    const bool company = a_.q.rows != query_count_;
    const bool odd = (key_count_ - query_count_) % 2 != 0;
    return (lie_ == FlashLie::kByCompany && company) || (lie_ == FlashLie::kByCut && odd);
  }

  // Null where a zero is read.
  const Bf16* token(bool values, std::int64_t key) const {
    if (a_.pages.base == nullptr) {
      const Rows& rows = values ? a_.v : a_.k;
      if (key_begin_ + key >= rows.rows) return nullptr;
      return static_cast<const Bf16*>(rows.data) + (key_begin_ + key) * rows.stride +
             kv_head_ * a_.head_dim;
    }
    const bool beyond = key >= key_count_;
    if (beyond && (lie_ != FlashLie::kReadsBeyond ||
                   key / a_.pages.block_size != (key_count_ - 1) / a_.pages.block_size))
      return nullptr;
    const std::int64_t block = a_.blocks[key_begin_ + key / a_.pages.block_size];
    const std::int64_t row =
        ((values ? a_.kv_heads : 0) + kv_head_) * a_.pages.block_size + key % a_.pages.block_size;
    return reinterpret_cast<const Bf16*>(a_.pages.base + block * a_.pages.block_stride) +
           row * a_.head_dim;
  }

  void run_row(std::int64_t row) const {
    const auto dim = static_cast<std::size_t>(a_.head_dim);
    const bool last = head_ + 1 == a_.heads;
    const std::size_t scored = dim + (last && lie_ == FlashLie::kReadsWider ? kWider : 0);
    const Bf16* const query = static_cast<const Bf16*>(a_.q.data) +
                              (query_begin_ + row) * a_.q.stride + head_ * a_.head_dim;
    const std::int64_t seen = form_.paged ? row + 1 + key_count_ - query_count_ : key_count_;
    float max = kNothing;
    float sum = 0;
    std::vector<float> out(dim);
    const std::int64_t tiles = tiles_of_keys();
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::int64_t first = (backwards() ? i : tiles - 1 - i) * form_.key_rows;
      std::vector<float> scores;
      for (std::int64_t key = first; key < first + form_.key_rows; ++key) {
        const Bf16* const at = token(false, key);
        float score = 0;
        for (std::size_t d = 0; at != nullptr && d < scored; ++d)
          score += to_float(query[d]) * to_float(at[d]);
        scores.push_back(key < std::min(seen, key_count_) ? score * a_.scale : kNothing);
      }
      const float most = std::max(max, *std::ranges::max_element(scores));
      const float shrink = max == kNothing ? 0.0f : std::exp(max - most);
      max = most;
      sum *= shrink;
      for (float& part : out) part *= shrink;
      for (std::int64_t j = 0; j < form_.key_rows; ++j) {
        const float score = scores[static_cast<std::size_t>(j)];
        const float weight = score == kNothing ? 0.0f : std::exp(score - max);
        sum += weight;
        const float rounded = to_float(to_bf16(weight));
        const Bf16* const value = token(true, first + j);
        // Of those that are not seen too: zero times what is there.
        for (std::size_t d = 0; value != nullptr && d < dim; ++d)
          out[d] += rounded * to_float(value[d]);
      }
    }
    Bf16* const to = static_cast<Bf16*>(a_.out.data) + (query_begin_ + row) * a_.out.stride +
                     head_ * a_.head_dim;
    for (std::size_t d = 0; d < dim; ++d) to[d] = to_bf16(sum > 0 ? out[d] / sum : 0.0f);
    if (last && lie_ == FlashLie::kWritesWider) std::fill_n(to + dim, kWider, Bf16{});
    if (lie_ == FlashLie::kWrongNumbers) to[dim / 2] = to_bf16(to_float(to[dim / 2]) + 0.1f);
  }

  const cuda::AttentionKernelArgs& a_;
  const cuda::FlashForm& form_;
  FlashLie lie_;
  std::int64_t tile_;
  std::int64_t head_;
  std::int64_t kv_head_;
  std::int64_t query_begin_;
  std::int64_t query_count_;
  std::int64_t key_begin_;
  std::int64_t key_count_;
};

}  // namespace

bool FakeFlash::launch(const FlashArgs& args, cudaStream_t stream) {
  if (lie_ == FlashLie::kRefuses) return false;
  ++launches_;
  works_ += args.lists.works;
  emulator::enqueue(stream, [args, blocks = blocks_, lie = lie_] {
    const std::int64_t skipped = lie == FlashLie::kSkipsATile ? args.lists.works - 1 : -1;
    for (int block = 0; block < blocks; ++block)
      for (std::int32_t work = args.lists.work_begins[block];
           work < args.lists.work_begins[block + 1]; ++work)
        if (work != skipped) Tile(args, work, lie).run();
  });
  return true;
}

}  // namespace saccade::test

#include "ops/cuda/libraries/flash_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"

namespace saccade::cuda {
namespace {

constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kHeads = 2;  // of one key head
constexpr float kSharpness = 8;     // of scores: a few keys weigh most, so that a lost one shows
// Columns of NaN behind the last head of each row: tiles may be wider than heads are, and what lies
// there is neither to be read nor to be written over.
constexpr std::int64_t kBehind = 64;

// Rows of numbers in [-1, 1), which bf16 holds, or of NaN, with `behind` columns of NaN after them.
class Numbers {
 public:
  Numbers(CudaDevice& device, std::int64_t rows, std::int64_t cols, std::int64_t behind = kBehind)
      : buffer_(device.allocate(
            static_cast<std::size_t>(rows * (cols + behind)) * size_of(DType::kBf16),
            Space::kDevice)),
        rows_(rows),
        cols_(cols),
        all_(cols + behind) {}
  bool there() const { return buffer_.has_value(); }
  View view() const { return with_behind().col_range(0, cols_); }
  View with_behind() const { return buffer_->view(DType::kBf16, rows_, all_); }

  void fill(Stream& stream, const std::function<float()>& value) const {
    std::vector<float> host(static_cast<std::size_t>(rows_ * all_),
                            std::numeric_limits<float>::quiet_NaN());
    for (auto row = host.begin(); row != host.end(); row += all_)
      std::generate(row, row + cols_, value);
    stream.upload(View(host.data(), DType::kF32, rows_, all_), with_behind());
  }
  void poison(Stream& stream) const {
    fill(stream, [] { return std::numeric_limits<float>::quiet_NaN(); });
  }

 private:
  Result<Buffer> buffer_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t all_;
};

struct Member {
  std::int64_t context = 0;
  std::int64_t rows = 0;
};

// Three sequences, or segments: the second is the one that is looked at.
class Probe {
 public:
  Probe(CudaDevice& device, const FlashForm& form)
      : device_(device),
        stream_(device.lane(Lane::kCopy)),
        form_(form),
        members_{{{0, device.flash().least_rows + 3},
                  {form.paged ? 57 : 0,
                   std::max<std::int64_t>(device.flash().least_rows, form.query_rows) + 8},
                  {form.paged ? 20 : 0, 5}}},
        q_(device, begin_of(3), kHeads * form.head_dim),
        out_(device, begin_of(3), kHeads * form.head_dim),
        k_(device, form.paged ? tokens() : begin_of(3), form.head_dim),
        v_(device, form.paged ? tokens() : begin_of(3), form.head_dim),
        pool_(device, form.paged ? 3 * blocks() : 1, 2 * kBlock * form.head_dim, 0) {}

  // Why it will not do, or nothing.
  std::optional<std::string> fault() {
    if (!q_.there() || !out_.there() || !k_.there() || !v_.there() || !pool_.there())
      return "no memory to try it";
    make();
    const std::vector<float> want = run({}, 1, 2, 0);
    device_.flash().refused = false;
    const std::vector<FlashForm> by = {form_};
    const std::vector<float> alone = run(by, 1, 2, 0);
    const std::vector<float> in_company = run(by, 0, 3, 0);
    if (device_.flash().refused) return "it is not launched";
    if (want.empty() || alone.size() != want.size()) return "no memory to try it";
    if (wrote_behind_) return "it writes behind the last head";
    for (std::size_t i = 0; i < want.size(); ++i) {
      // NaN is not near.
      if (!(std::abs(alone[i] - want[i]) <= bound()))
        return fmt::format("{} where the own kernel has {}", alone[i], want[i]);
    }
    if (!same(alone, in_company)) return "a row's bits depend on the sequences beside it";
    if (!form_.paged) return std::nullopt;
    constexpr std::int64_t kCut = 7;
    const std::vector<float> cut = run(by, 1, 2, kCut);
    const auto skipped = static_cast<std::ptrdiff_t>(kCut * kHeads * form_.head_dim);
    if (!same({alone.begin() + skipped, alone.end()}, cut))
      return "a row's bits depend on where its chunk begins";
    return std::nullopt;
  }

 private:
  std::int64_t begin_of(std::size_t member) const {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < member; ++i) begin += members_[i].rows;
    return begin;
  }
  std::int64_t tokens() const {
    std::int64_t most = 0;
    for (const Member& member : members_) most = std::max(most, member.context + member.rows);
    return most;
  }
  std::int64_t blocks() const { return (tokens() + kBlock - 1) / kBlock; }
  // Of a sequence: the others' lie between.
  std::vector<std::int32_t> table(std::size_t member) const {
    std::vector<std::int32_t> table;
    for (std::int64_t i = 0; i < blocks(); ++i)
      table.push_back(static_cast<std::int32_t>(3 * i + static_cast<std::int64_t>(member)));
    return table;
  }
  KvLayer layer() const {
    return {
        .blocks = pool_.view(), .block_size = kBlock, .kv_heads = 1, .head_dim = form_.head_dim};
  }
  AttentionGeometry geometry() const {
    return {.block_size = kBlock, .heads = kHeads, .kv_heads = 1, .head_dim = form_.head_dim};
  }

  void make() {
    Rng rng(11);
    const auto number = [&] { return static_cast<float>(2 * rng.uniform() - 1); };
    q_.fill(stream_, number);
    pool_.poison(stream_);
    if (!form_.paged) {
      k_.fill(stream_, number);
      v_.fill(stream_, number);
      return;
    }
    device_.flash().forms.clear();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      k_.fill(stream_, number);
      v_.fill(stream_, number);
      const std::int64_t count = members_[i].context + members_[i].rows;
      const std::vector<std::int32_t> blocks = table(i);
      const SequenceSpan span = {.row_count = count, .blocks = blocks};
      stream_.kv_write({&stream_.plan_attention({&span, 1}, geometry()),
                        k_.view().row_range(0, count), v_.view().row_range(0, count), layer()});
    }
    stream_.retire();
  }

  // What the second one's rows get from their `skipped`th on, in a call of members [first, last).
  std::vector<float> run(const std::vector<FlashForm>& by, std::size_t first, std::size_t last,
                         std::int64_t skipped) {
    device_.flash().forms = by;
    out_.poison(stream_);
    const std::int64_t begin = begin_of(first) + skipped;
    const float scale = kSharpness / std::sqrt(static_cast<float>(form_.head_dim));
    const View q = q_.view().row_range(begin, begin_of(last));
    const View out = out_.view().row_range(begin, begin_of(last));
    if (form_.paged) {
      std::vector<std::vector<std::int32_t>> tables;
      for (std::size_t i = first; i < last; ++i) tables.push_back(table(i));
      std::vector<SequenceSpan> spans;
      for (std::size_t i = first; i < last; ++i)
        spans.push_back({.row_begin = i == first ? 0 : begin_of(i) - begin,
                         .row_count = members_[i].rows - (i == first ? skipped : 0),
                         .context = members_[i].context + (i == first ? skipped : 0),
                         .blocks = tables[i - first]});
      stream_.paged_attention({.plan = &stream_.plan_attention(spans, geometry()),
                               .q = q,
                               .layer = layer(),
                               .scale = scale,
                               .compute = DType::kBf16,
                               .out = out});
    } else {
      std::vector<std::int32_t> begins;
      for (std::size_t i = first; i <= last; ++i)
        begins.push_back(static_cast<std::int32_t>(begin_of(i) - begin));
      const View k = k_.view().row_range(begin, begin_of(last));
      const View v = v_.view().row_range(begin, begin_of(last));
      stream_.segment_attention(
          {.plan = &stream_.plan_segments(begins, {kHeads, 1, form_.head_dim}),
           .q = q,
           .k = k,
           .v = v,
           .scale = scale,
           .compute = DType::kBf16,
           .out = out});
    }
    std::vector<float> results;
    const std::vector<float> all =
        download(out_.with_behind().row_range(begin_of(1) + skipped, begin_of(2)));
    for (auto row = all.begin(); row != all.end();) {
      const auto end = row + kHeads * form_.head_dim;
      results.insert(results.end(), row, end);
      row = end + kBehind;
      wrote_behind_ |= !std::all_of(end, row, [](float value) { return std::isnan(value); });
    }
    return results;
  }

  std::vector<float> download(View rows) {
    const auto count = static_cast<std::size_t>(rows.rows() * rows.cols());
    const Result<Buffer> host = device_.allocate(count * sizeof(float), Space::kHost);
    if (!host) return {};
    const View to = host->view(DType::kF32, rows.rows(), rows.cols());
    stream_.download(rows, to);
    stream_.synchronize();
    stream_.retire();
    return {to.row<float>(0), to.row<float>(0) + count};
  }

  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  // Values are below 1, so a result moves by no more than its weights do in all, relatively. Each
  // of two kernels rounds weights and result to bf16, and has a score's error twice in a weight:
  // in it and in the sum. A score is a sum of head_dim products below 1 in f32, whose additions the
  // tensor cores may cut instead of rounding; as many again are allowed for the sums over keys.
  float bound() const {
    const auto dim = static_cast<float>(form_.head_dim);
    const float score =
        (dim + static_cast<float>(tokens())) * 0x1p-23f * kSharpness * std::sqrt(dim);
    return 2 * (2 * 0x1p-9f + 2 * score);
  }

  CudaDevice& device_;
  Stream& stream_;
  FlashForm form_;
  std::array<Member, 3> members_;
  bool wrote_behind_ = false;
  Numbers q_;
  Numbers out_;
  Numbers k_;
  Numbers v_;
  Numbers pool_;
};

}  // namespace

std::vector<FlashForm> probe_flash(CudaDevice& device, std::vector<std::string>& notes) {
  std::vector<FlashForm> good;
  device.flash().probing = true;
  for (const FlashForm& form : device.flash().library->forms()) {
    const auto fault = Probe(device, form).fault();
    if (!fault)
      good.push_back(form);
    else
      notes.push_back(fmt::format("attention {} by heads of {} in tiles of {} by {}: {}",
                                  form.paged ? "over pages" : "of segments", form.head_dim,
                                  form.query_rows, form.key_rows, *fault));
  }
  device.flash().probing = false;
  device.flash().forms.clear();
  return good;
}

}  // namespace saccade::cuda

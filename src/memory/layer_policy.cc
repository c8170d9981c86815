#include "memory/layer_policy.h"

#include <algorithm>

#include "base/check.h"
#include "memory/page_math.h"

namespace saccade {
namespace {

bool present(std::span<const BlockId> cached, std::int64_t block) {
  return block < static_cast<std::int64_t>(cached.size()) &&
         cached[static_cast<std::size_t>(block)] != kNoBlock;
}

class FullAttention : public LayerPolicy {
 public:
  explicit FullAttention(std::int64_t block_tokens) : block_tokens_(block_tokens) {}

  BlockRange needed(std::int64_t, std::int64_t end, std::span<const PrefixImage>) const override {
    return {0, divide_up(end, block_tokens_)};
  }
  std::int64_t first_live(std::int64_t) const override { return 0; }
  std::int64_t peak_blocks(std::int64_t tokens, std::int64_t,
                           std::span<const PrefixImage>) const override {
    return divide_up(tokens, block_tokens_);
  }
  std::int64_t longest_hit(std::int64_t limit, std::span<const BlockId> cached) const override {
    const std::int64_t wanted = divide_up(limit, block_tokens_);
    for (std::int64_t block = 0; block < wanted; ++block) {
      if (!present(cached, block)) return block * block_tokens_;
    }
    return limit;
  }
  BlockRange kept(std::int64_t tokens) const override {
    return {0, divide_up(tokens, block_tokens_)};
  }
  bool cacheable() const override { return true; }

 protected:
  const std::int64_t block_tokens_;
};

class SlidingWindow final : public LayerPolicy {
 public:
  SlidingWindow(std::int64_t block_tokens, std::int64_t window)
      : block_tokens_(block_tokens), window_(window) {}

  BlockRange needed(std::int64_t begin, std::int64_t end,
                    std::span<const PrefixImage>) const override {
    return {window_begin(window_, begin) / block_tokens_, divide_up(end, block_tokens_)};
  }
  std::int64_t first_live(std::int64_t computed) const override {
    return window_begin(window_, computed) / block_tokens_;
  }
  std::int64_t peak_blocks(std::int64_t tokens, std::int64_t chunk,
                           std::span<const PrefixImage>) const override {
    // The window before a chunk and the chunk itself, beginning at the last token of a block.
    const std::int64_t rows = window_ - 1 + chunk;
    return std::min(divide_up(tokens, block_tokens_),
                    (rows + block_tokens_ - 2) / block_tokens_ + 1);
  }
  std::int64_t longest_hit(std::int64_t limit, std::span<const BlockId> cached) const override {
    std::int64_t length = limit;
    for (std::int64_t block = divide_up(length, block_tokens_) - 1; length > 0; --block) {
      if (block < window_begin(window_, length) / block_tokens_) return length;
      if (!present(cached, block)) length = block * block_tokens_;
    }
    return 0;
  }
  BlockRange kept(std::int64_t tokens) const override {
    return {window_begin(window_, tokens) / block_tokens_, divide_up(tokens, block_tokens_)};
  }
  bool cacheable() const override { return true; }

 private:
  const std::int64_t block_tokens_;
  const std::int64_t window_;
};

// Written once; found again whole or not at all.
class CrossAttention final : public FullAttention {
 public:
  using FullAttention::FullAttention;
  std::int64_t longest_hit(std::int64_t limit, std::span<const BlockId> cached) const override {
    return FullAttention::longest_hit(limit, cached) == limit ? limit : 0;
  }
};

// Block b holds the state while tokens [b * interval, (b + 1) * interval) are read in, and is the
// checkpoint after them from then on; the next block starts as its copy. Without an interval one
// block holds the state for good.
class RecurrentState final : public LayerPolicy {
 public:
  explicit RecurrentState(std::int64_t interval) : interval_(interval) {}

  BlockRange needed(std::int64_t begin, std::int64_t end,
                    std::span<const PrefixImage>) const override {
    if (interval_ == 0) return {0, 1};
    return {first_live(begin), divide_up(end, interval_)};
  }
  std::int64_t first_live(std::int64_t computed) const override {
    if (interval_ == 0) return 0;
    // At a checkpoint the block that was just completed is still to be copied from.
    const bool at_checkpoint = computed > 0 && computed % interval_ == 0;
    return computed / interval_ - (at_checkpoint ? 1 : 0);
  }
  std::int64_t peak_blocks(std::int64_t tokens, std::int64_t,
                           std::span<const PrefixImage>) const override {
    if (interval_ == 0) return 1;
    return std::min<std::int64_t>(2, divide_up(tokens, interval_));
  }
  std::int64_t longest_hit(std::int64_t limit, std::span<const BlockId> cached) const override {
    if (interval_ == 0) return 0;
    for (std::int64_t block = limit / interval_ - 1; block >= 0; --block) {
      if (present(cached, block)) return (block + 1) * interval_;
    }
    return 0;
  }
  BlockRange kept(std::int64_t tokens) const override {
    if (interval_ == 0 || tokens == 0) return {};
    return {tokens / interval_ - 1, tokens / interval_};
  }
  std::int64_t chunk_end(std::int64_t begin, std::int64_t end) const override {
    return interval_ == 0 ? end : std::min(end, (begin / interval_ + 1) * interval_);
  }
  bool cacheable() const override { return interval_ > 0; }
  bool continues_from_copy() const override { return true; }

 private:
  const std::int64_t interval_;
};

// Rows of an image from the first chunk that touches it until computing has passed them.
class VisionEmbedding final : public LayerPolicy {
 public:
  explicit VisionEmbedding(std::int64_t block_tokens) : block_tokens_(block_tokens) {}

  BlockRange needed(std::int64_t begin, std::int64_t end,
                    std::span<const PrefixImage> images) const override {
    std::int64_t last = 0;
    for (const PrefixImage& image : images) {
      if (image.begin < end && image.begin + image.tokens > begin) {
        last = divide_up(image.begin + image.tokens, block_tokens_);
      }
    }
    return {begin / block_tokens_, last};
  }
  bool skips(std::int64_t block, std::span<const PrefixImage> images) const override {
    return std::none_of(images.begin(), images.end(), [&](const PrefixImage& image) {
      return image.begin < (block + 1) * block_tokens_ &&
             image.begin + image.tokens > block * block_tokens_;
    });
  }
  std::int64_t first_live(std::int64_t computed) const override { return computed / block_tokens_; }
  std::int64_t peak_blocks(std::int64_t, std::int64_t chunk,
                           std::span<const PrefixImage> images) const override {
    std::int64_t all = 0;
    std::int64_t largest = 0;
    for (const PrefixImage& image : images) {
      const std::int64_t blocks =
          divide_up(image.begin + image.tokens, block_tokens_) - image.begin / block_tokens_;
      all += blocks;
      largest = std::max(largest, blocks);
    }
    return std::min(all, largest + divide_up(chunk, block_tokens_) + 1);
  }
  // Rows are made again from the image, so their absence never limits a hit.
  std::int64_t longest_hit(std::int64_t limit, std::span<const BlockId>) const override {
    return limit;
  }
  BlockRange kept(std::int64_t) const override { return {}; }
  bool cacheable() const override { return false; }

 private:
  const std::int64_t block_tokens_;
};

}  // namespace

bool LayerPolicy::skips(std::int64_t, std::span<const PrefixImage>) const { return false; }

std::int64_t LayerPolicy::chunk_end(std::int64_t, std::int64_t end) const { return end; }

std::unique_ptr<LayerPolicy> make_layer_policy(const GroupPlan& group) {
  switch (group.kind) {
    case CacheKind::kFull:
      return std::make_unique<FullAttention>(group.block_tokens);
    case CacheKind::kSlidingWindow:
      return std::make_unique<SlidingWindow>(group.block_tokens, group.window);
    case CacheKind::kCrossAttention:
      return std::make_unique<CrossAttention>(group.block_tokens);
    case CacheKind::kState:
      return std::make_unique<RecurrentState>(group.block_tokens);
    case CacheKind::kVisionEmbedding:
      return std::make_unique<VisionEmbedding>(group.block_tokens);
  }
  CHECK(false, "kind {}", static_cast<int>(group.kind));
  return nullptr;
}

std::int64_t window_begin(std::int64_t window, std::int64_t position) {
  return std::max<std::int64_t>(0, position - window + 1);
}

}  // namespace saccade

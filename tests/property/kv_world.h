// A cache whose bytes are fingerprints: every row written carries a hash of everything that it
// depends on, so a page given out twice, let go too early, found under the wrong name or not copied
// is seen the next time it is read. Beside it a count of readable rows that shares no code with the
// allocator's accounting.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "memory/accounting.h"
#include "memory/kv_allocator.h"

namespace saccade {

// What a client asks for: tokens and images, and the salt under which they are cached.
struct KvScript {
  std::vector<std::int32_t> tokens;
  std::vector<PrefixImage> images;
  std::vector<PrefixImage> encoder_images;
  bool written_with_tokens = false;  // encoder image i with the last token of image i
  std::string salt;
  std::int64_t bidirectional_prefix = 0;
  std::int64_t prompt_tokens = 0;
  // Rows of the encoder that are written once tokens [0, computed) are.
  std::int64_t encoder_written(std::int64_t computed) const {
    if (!written_with_tokens) return computed > 0 ? encoder_tokens() : 0;
    std::int64_t rows = 0;
    for (std::size_t i = 0; i < images.size(); ++i)
      if (images[i].begin + images[i].tokens <= computed)
        rows = encoder_images[i].begin + encoder_images[i].tokens;
    return rows;
  }
  std::int64_t encoder_tokens() const {
    return encoder_images.empty() ? 0 : encoder_images.back().begin + encoder_images.back().tokens;
  }
  PrefixContent content() const {
    return {tokens, images, encoder_images, salt, bidirectional_prefix};
  }
};

class KvWorld {
 public:
  struct Sequence {
    KvScript script;
    std::vector<std::uint64_t> prints;  // [tokens] of all that token depends on
    std::unique_ptr<KvSequence> kv = std::make_unique<KvSequence>();
    std::int64_t hit = 0;
  };

  KvWorld(std::vector<LayerSpec> layers, const KvSettings& settings) : layers_(std::move(layers)) {
    auto made = KvAllocator::create(layers_, settings);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    if (made) allocator_ = *std::move(made);
  }

  KvAllocator& allocator() { return *allocator_; }
  std::vector<std::unique_ptr<Sequence>>& running() { return running_; }

  // Admits the script, or says why not.
  Admission start(KvScript script, std::int64_t chunk) {
    auto sequence = std::make_unique<Sequence>();
    sequence->script = std::move(script);
    const KvScript& of = sequence->script;
    sequence->prints = fingerprints(of);
    const KvShape shape{of.prompt_tokens, of.encoder_tokens(), of.images, of.bidirectional_prefix};
    const PrefixHit hit = allocator_->match(of.content(), shape, of.prompt_tokens - 1);
    EXPECT_LT(hit.tokens, of.prompt_tokens);
    const Admission verdict = allocator_->admit(*sequence->kv, of.content(), shape, hit, chunk);
    if (verdict != Admission::kNow) return verdict;
    sequence->hit = sequence->kv->computed();
    EXPECT_LE(sequence->hit, hit.tokens);
    verify(*sequence);
    running_.push_back(std::move(sequence));
    return verdict;
  }

  // Computes up to `count` more tokens. False when there is no room.
  bool advance(Sequence& sequence, std::int64_t count, std::int64_t reserve = 0) {
    const std::int64_t begin = sequence.kv->computed();
    std::int64_t end = std::min(begin + count, static_cast<std::int64_t>(sequence.prints.size()));
    if (sequence.script.bidirectional_prefix > begin) {
      end = std::max(end, sequence.script.bidirectional_prefix);
    }
    end = allocator_->chunk_end(begin, end);
    if (end == begin) return true;
    allocator_->free_skipped(*sequence.kv);
    if (!allocator_->extend(*sequence.kv, end, reserve)) return false;
    std::vector<KvCopy> copies;
    allocator_->take_copies(*sequence.kv, copies);
    for (const KvCopy& copy : copies) run_copy(copy);
    read(sequence, begin);
    write(sequence, begin, end);
    allocator_->commit(*sequence.kv, sequence.script.content(), end);
    verify(sequence);
    return true;
  }

  // Computes a token more and behind it as many of `drafts` guesses as there is room for, of which
  // at most `come` turn out to be what follows. False when there is no room for the token.
  bool guess(Sequence& sequence, std::int64_t drafts, std::int64_t come) {
    KvSequence& kv = *sequence.kv;
    const std::int64_t begin = kv.computed();
    allocator_->free_skipped(kv);
    if (!allocator_->extend(kv, begin + 1)) return false;
    while (drafts > 0 && !allocator_->extend(kv, begin + 1 + drafts)) --drafts;
    std::vector<KvCopy> copies;
    allocator_->take_copies(kv, copies);
    for (const KvCopy& copy : copies) run_copy(copy);
    const auto length = static_cast<std::int64_t>(sequence.prints.size());
    const std::int64_t end = std::min(begin + 1 + std::min(come, drafts), length);
    write(sequence, begin, end);
    write_wrong(sequence, end, begin + 1 + drafts);
    allocator_->commit(kv, sequence.script.content(), begin + 1);
    verify(sequence);
    if (end > begin + 1) allocator_->commit(kv, sequence.script.content(), end);
    allocator_->give_back(kv);
    verify(sequence);
    for (int layer = 0; layer < layers(); ++layer) {
      const GroupPlan& group = group_of(layer);
      if (group.kind != CacheKind::kFull && group.kind != CacheKind::kSlidingWindow) continue;
      const std::int64_t before =
          group.stream == TokenStream::kBoth ? sequence.script.encoder_tokens() : 0;
      const LayerPlace& at = place(layer);
      const auto table = kv.table(allocator_->plan().first_table(at.group) + at.table);
      EXPECT_LE(static_cast<std::int64_t>(table.size()),
                (before + end + group.block_tokens - 1) / group.block_tokens)
          << "layer " << layer;
    }
    return true;
  }

  void finish(std::size_t index) {
    allocator_->release(*running_[index]->kv);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // Counters, the byte identity, and useful bytes against a count over rows.
  void check() {
    allocator_->check();
    const MemoryUse use = measure(*allocator_);
    EXPECT_EQ(use.total(), allocator_->settings().pool_bytes);
    for (const std::int64_t term : {use.useful, use.tail, use.slack, use.pad, use.overhold,
                                    use.reserve, use.cached, use.free}) {
      EXPECT_GE(term, 0);
    }
    EXPECT_EQ(use.useful, count_useful());
  }

  void expect_all_free() {
    check();
    EXPECT_TRUE(running_.empty());
    const MemoryUse use = measure(*allocator_);
    EXPECT_EQ(use.useful + use.tail + use.overhold, 0);
    allocator_->reset_prefix_cache();
    allocator_->check();
    EXPECT_EQ(allocator_->store().pool().free_large(), allocator_->store().pool().large_pages());
    EXPECT_EQ(allocator_->prefixes().nodes(), 0);
  }

 private:
  using Row = std::tuple<int, PageId, std::int64_t>;  // layer, page, row in the page

  static std::vector<std::uint64_t> fingerprints(const KvScript& script) {
    std::vector<std::uint64_t> inputs;
    for (std::size_t t = 0; t < script.tokens.size(); ++t) {
      std::uint64_t input = hash_combine(1, static_cast<std::uint64_t>(script.tokens[t]));
      for (const PrefixImage& image : script.images) {
        const std::int64_t row = static_cast<std::int64_t>(t) - image.begin;
        if (row < 0 || row >= image.tokens) continue;
        for (const std::uint8_t byte : image.identity) input = hash_combine(input, byte);
        input = hash_combine(input, static_cast<std::uint64_t>(row + image.first_row));
      }
      inputs.push_back(input);
    }
    std::uint64_t state = hash64(script.salt);
    for (const PrefixImage& image : script.encoder_images) {
      for (const std::uint8_t byte : image.identity) state = hash_combine(state, byte);
    }
    // Bidirectional: every token of the prefix depends on all of it.
    for (std::int64_t t = 0; t < script.bidirectional_prefix; ++t) {
      state = hash_combine(state, inputs[static_cast<std::size_t>(t)] + 1);
    }
    std::vector<std::uint64_t> prints;
    for (const std::uint64_t input : inputs) prints.push_back(state = hash_combine(state, input));
    return prints;
  }

  const GroupPlan& group_of(int layer) const {
    return allocator_->plan().groups[static_cast<std::size_t>(place(layer).group)];
  }
  const LayerPlace& place(int layer) const {
    return allocator_->plan().places[static_cast<std::size_t>(layer)];
  }
  PageId page_of(const Sequence& sequence, int layer, std::int64_t block) const {
    const LayerPlace& at = place(layer);
    const auto table = sequence.kv->table(allocator_->plan().first_table(at.group) + at.table);
    return block < static_cast<std::int64_t>(table.size()) ? table[static_cast<std::size_t>(block)]
                                                           : kNoPage;
  }
  std::int64_t layers() const { return static_cast<std::int64_t>(layers_.size()); }

  static std::uint64_t encoder_print(const KvScript& script, std::int64_t row) {
    std::uint64_t print = 7;
    for (const PrefixImage& image : script.encoder_images) {
      if (row < image.begin || row >= image.begin + image.tokens) continue;
      for (const std::uint8_t byte : image.identity) print = hash_combine(print, byte);
      print = hash_combine(print, static_cast<std::uint64_t>(row - image.begin + image.first_row));
    }
    return print;
  }

  static std::uint64_t state_print(const Sequence& sequence, std::int64_t tokens) {
    return tokens == 0 ? 0 : sequence.prints[static_cast<std::size_t>(tokens - 1)];
  }

  std::int64_t state_block(int layer, std::int64_t tokens) const {
    const std::int64_t interval = group_of(layer).block_tokens;
    return interval == 0 || tokens == 0 ? 0 : (tokens - 1) / interval;
  }

  // A hit inside a block: the block is copied with the first chunk.
  static bool awaits_copy(const Sequence& sequence, std::int64_t block) {
    return sequence.kv->computed() == sequence.hit &&
           block == static_cast<std::int64_t>(sequence.kv->table(0).size());
  }

  // Rows that token `computed` would read: (layer, page, row) and what should be there.
  std::vector<std::pair<Row, std::uint64_t>> readable(const Sequence& sequence) const {
    std::vector<std::pair<Row, std::uint64_t>> rows;
    const std::int64_t computed = sequence.kv->computed();
    const std::int64_t encoder = sequence.script.encoder_written(computed);
    for (int layer = 0; layer < layers(); ++layer) {
      const LayerSpec& spec = layers_[static_cast<std::size_t>(layer)];
      const std::int64_t size = group_of(layer).block_tokens;
      const bool both = group_of(layer).stream == TokenStream::kBoth;
      if (spec.kind == CacheKind::kState) {
        if (computed == 0) continue;
        rows.push_back({{layer, page_of(sequence, layer, state_block(layer, computed)), 0},
                        state_print(sequence, computed)});
      } else if (spec.kind == CacheKind::kCrossAttention) {
        for (std::int64_t row = 0; row < encoder; ++row) {
          rows.push_back({{layer, page_of(sequence, layer, row / size), row % size},
                          encoder_print(sequence.script, row)});
        }
      } else if (spec.kind != CacheKind::kVisionEmbedding) {
        const std::int64_t shift = both ? sequence.script.encoder_tokens() : 0;
        std::int64_t token = 0;
        if (spec.kind == CacheKind::kSlidingWindow)
          token = std::max<std::int64_t>(0, computed - spec.window + 1);
        for (; token < computed; ++token) {
          const std::int64_t at = token + shift;
          if (awaits_copy(sequence, at / size)) continue;
          rows.push_back({{layer, page_of(sequence, layer, at / size), at % size},
                          sequence.prints[static_cast<std::size_t>(token)]});
        }
      }
    }
    return rows;
  }

  void verify(const Sequence& sequence) {
    for (const auto& [row, print] : readable(sequence)) {
      ASSERT_NE(std::get<1>(row), kNoPage) << "layer " << std::get<0>(row);
      ASSERT_EQ(memory_[row], print)
          << "layer " << std::get<0>(row) << " page " << std::get<1>(row) << " row "
          << std::get<2>(row) << " computed " << sequence.kv->computed() << " hit " << sequence.hit;
    }
  }

  // The state that a chunk starts from stands in the block that the chunk writes.
  void read(const Sequence& sequence, std::int64_t begin) {
    for (int layer = 0; layer < layers(); ++layer) {
      if (layers_[static_cast<std::size_t>(layer)].kind != CacheKind::kState || begin == 0)
        continue;
      const Row row{layer, page_of(sequence, layer, state_block(layer, begin + 1)), 0};
      ASSERT_EQ(memory_[row], state_print(sequence, begin)) << "layer " << layer;
    }
  }

  void write(const Sequence& sequence, std::int64_t begin, std::int64_t end) {
    for (int layer = 0; layer < layers(); ++layer) {
      const LayerSpec& spec = layers_[static_cast<std::size_t>(layer)];
      const std::int64_t size = group_of(layer).block_tokens;
      const std::int64_t encoder = sequence.script.encoder_tokens();
      if (spec.kind == CacheKind::kVisionEmbedding) continue;
      if (spec.kind == CacheKind::kState) {
        put({layer, page_of(sequence, layer, state_block(layer, end)), 0},
            state_print(sequence, end));
        continue;
      }
      if (spec.kind == CacheKind::kCrossAttention) {
        for (std::int64_t row = sequence.script.encoder_written(begin);
             row < sequence.script.encoder_written(end); ++row) {
          put({layer, page_of(sequence, layer, row / size), row % size},
              encoder_print(sequence.script, row));
        }
        continue;
      }
      const std::int64_t shift = group_of(layer).stream == TokenStream::kBoth ? encoder : 0;
      for (std::int64_t token = begin; token < end; ++token) {
        put({layer, page_of(sequence, layer, (token + shift) / size), (token + shift) % size},
            sequence.prints[static_cast<std::size_t>(token)]);
      }
    }
  }

  // What guesses that do not come leave behind.
  void write_wrong(const Sequence& sequence, std::int64_t begin, std::int64_t end) {
    for (int layer = 0; layer < layers(); ++layer) {
      const GroupPlan& group = group_of(layer);
      if (group.kind != CacheKind::kFull && group.kind != CacheKind::kSlidingWindow) continue;
      const std::int64_t shift =
          group.stream == TokenStream::kBoth ? sequence.script.encoder_tokens() : 0;
      for (std::int64_t at = begin + shift; at < end + shift; ++at)
        put({layer, page_of(sequence, layer, at / group.block_tokens), at % group.block_tokens},
            666);
    }
  }

  void put(const Row& row, std::uint64_t print) {
    ASSERT_NE(std::get<1>(row), kNoPage) << "layer " << std::get<0>(row);
    memory_[row] = print;
  }

  void run_copy(const KvCopy& copy) {
    for (int layer = 0; layer < layers(); ++layer) {
      if (place(layer).group != copy.group || place(layer).table != copy.table) continue;
      for (std::int64_t row = 0; row < std::max<std::int64_t>(1, group_of(layer).block_tokens);
           ++row) {
        memory_[{layer, copy.to, row}] = memory_[{layer, copy.from, row}];
      }
    }
  }

  std::int64_t count_useful() const {
    std::set<Row> rows;
    std::int64_t bytes = 0;
    for (const auto& sequence : running_) {
      auto counted = readable(*sequence);
      add_unwritten(*sequence, counted);
      for (const auto& [row, print] : counted) {
        if (!rows.insert(row).second) continue;
        const LayerSpec& spec = layers_[static_cast<std::size_t>(std::get<0>(row))];
        bytes += spec.kind == CacheKind::kState ? spec.state_bytes : spec.token_bytes();
      }
      bytes += count_embeddings(*sequence);
    }
    return bytes;
  }

  // Rows of cross-attended images that have pages and are still to be written: they count from the
  // first chunk on.
  void add_unwritten(const Sequence& sequence,
                     std::vector<std::pair<Row, std::uint64_t>>& rows) const {
    if (sequence.kv->computed() == 0) return;
    for (int layer = 0; layer < layers(); ++layer) {
      const LayerSpec& spec = layers_[static_cast<std::size_t>(layer)];
      const std::int64_t size = group_of(layer).block_tokens;
      if (spec.kind != CacheKind::kCrossAttention) continue;
      for (std::int64_t row = 0; row < sequence.script.encoder_tokens(); ++row)
        rows.push_back({{layer, page_of(sequence, layer, row / size), row % size}, 0});
    }
  }

  // Rows of images that have pages and are still to be computed.
  std::int64_t count_embeddings(const Sequence& sequence) const {
    std::int64_t bytes = 0;
    for (int layer = 0; layer < layers(); ++layer) {
      const LayerSpec& spec = layers_[static_cast<std::size_t>(layer)];
      if (spec.kind != CacheKind::kVisionEmbedding) continue;
      for (const PrefixImage& image : sequence.script.images) {
        for (std::int64_t t = std::max(image.begin, sequence.kv->computed());
             t < image.begin + image.tokens; ++t) {
          if (page_of(sequence, layer, t / group_of(layer).block_tokens) != kNoPage) {
            bytes += spec.token_bytes();
          }
        }
      }
    }
    return bytes;
  }

  std::vector<LayerSpec> layers_;
  std::unique_ptr<KvAllocator> allocator_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::map<Row, std::uint64_t> memory_;
};

}  // namespace saccade

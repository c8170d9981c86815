// The compile step of the cache: from what each layer keeps to page sizes and places in one flat
// pool. Pure arithmetic, run once a model.
//
// Layers of one kind (and window) form a group and share block tables. Two forms:
//  - equal layer pages: one page size for everything, gcd of the group sizes layers wide. A block
//  of
//    a group is then `tables` pages, one for each sub-group of its layers. No padding, ratio 1.
//  - different layer pages: a large page of the least common multiple of the group pages, cut into
//    `ratio` small pages of whichever group holds it. `tables` is 1.
// The baselines of the Jenga paper differ in this plan alone: maxpage pads every group to the
// largest, static caps each group's share of the pool, paged puts all layers into one group as if
// each were full attention.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "memory/kv_policy.h"
#include "memory/layer_spec.h"

namespace saccade {

struct PagePlanSettings {
  KvPolicy policy = KvPolicy::kJenga;
  std::int64_t block_tokens = 16;
  // Tokens between kept states of kState layers, a multiple of block_tokens; 0: no checkpoints.
  std::int64_t state_interval = 0;
  std::int64_t max_sequences = 64;  // admitted at once
  // paged sets state pages aside for max_sequences and embedding rows for this many image tokens,
  // as engines without Jenga do.
  std::int64_t embedding_tokens = 0;
  // Most small pages in a large one. Beyond it small pages are padded to a multiple of the smallest
  // (state pages rarely divide attention pages): a large page that no request fills is all slack.
  std::int64_t max_ratio = 256;
};

// Which tokens a group's blocks count.
enum class TokenStream : std::uint8_t {
  kText,     // the decoder's tokens
  kEncoder,  // cross-attended encoder tokens
  kBoth,     // encoder tokens first, then text: paged, where every layer holds everything
};

struct GroupPlan {
  CacheKind kind = CacheKind::kFull;  // decides the LayerPolicy
  std::int64_t window = 0;            // tokens
  TokenStream stream = TokenStream::kText;
  std::vector<int> layers;         // of the model, ascending
  std::int64_t block_tokens = 16;  // tokens a block; one state's interval for kState (0: unlimited)
  int tables = 1;                  // pages a block
  std::int64_t page_bytes = 0;     // padding included; large_bytes == ratio * page_bytes
  std::int64_t used_bytes = 0;     // of a page, padding excluded
  std::int64_t ratio = 1;          // pages in a large page
  double share = 0;                // static: most of the large pages that it may hold; 0: no cap
  std::int64_t reserved = 0;       // pages set aside at start, which no other group may take
};

// Where a layer's pages are: page `p` of its group begins at offset + p * stride in the pool.
struct LayerPlace {
  int group = 0;
  int table = 0;            // 0 <= table < GroupPlan::tables
  std::int64_t offset = 0;  // bytes, inside the page
  std::int64_t stride = 0;  // bytes, the group's page
};

struct PagePlan {
  KvPolicy policy = KvPolicy::kJenga;
  std::int64_t block_tokens = 16;
  std::int64_t large_bytes = 0;
  std::vector<LayerSpec> layers;
  std::vector<GroupPlan> groups;
  std::vector<LayerPlace> places;  // [layers]
  int tables = 0;                  // of all groups together

  int first_table(int group) const;  // tables of a group are consecutive
  std::string describe() const;      // one line a group, for logs
};

// kInvalid names the layer and the number that cannot be.
Result<PagePlan> make_page_plan(std::span<const LayerSpec> layers,
                                const PagePlanSettings& settings);

}  // namespace saccade

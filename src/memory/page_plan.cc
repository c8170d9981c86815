#include "memory/page_plan.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "memory/page_math.h"

namespace saccade {
namespace {

bool is_attention(CacheKind kind) {
  return kind == CacheKind::kFull || kind == CacheKind::kSlidingWindow ||
         kind == CacheKind::kCrossAttention;
}

Result<void> validate(std::span<const LayerSpec> layers, const PagePlanSettings& settings) {
  if (layers.empty()) return fail(ErrorCode::kInvalid, "a cache of no layers");
  if (settings.block_tokens < 1 || settings.block_tokens > 4096) {
    return fail(ErrorCode::kInvalid, "block size {} tokens, allowed 1 to 4096",
                settings.block_tokens);
  }
  if (settings.state_interval < 0 || settings.state_interval % settings.block_tokens != 0) {
    return fail(ErrorCode::kInvalid, "state interval {} is no multiple of the block size {}",
                settings.state_interval, settings.block_tokens);
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const LayerSpec& spec = layers[layer];
    if (spec.page_bytes(settings.block_tokens) <= 0) {
      return fail(ErrorCode::kInvalid, "layer {} keeps nothing", layer);
    }
    if (spec.kind == CacheKind::kSlidingWindow && spec.window < 1) {
      return fail(ErrorCode::kInvalid, "layer {} has a window of {} tokens", layer, spec.window);
    }
  }
  return {};
}

// Layers that share a policy and block tables. Pages are left at 0.
std::vector<GroupPlan> group_layers(std::span<const LayerSpec> layers,
                                    const PagePlanSettings& settings) {
  std::vector<GroupPlan> groups;
  const bool paged = settings.policy == KvPolicy::kPaged;
  const bool has_cross = std::any_of(layers.begin(), layers.end(), [](const LayerSpec& spec) {
    return spec.kind == CacheKind::kCrossAttention;
  });
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const LayerSpec& spec = layers[layer];
    GroupPlan group;
    group.kind = paged && is_attention(spec.kind) ? CacheKind::kFull : spec.kind;
    group.window = group.kind == CacheKind::kSlidingWindow ? spec.window : 0;
    group.block_tokens =
        group.kind == CacheKind::kState ? settings.state_interval : settings.block_tokens;
    if (spec.kind == CacheKind::kCrossAttention) group.stream = TokenStream::kEncoder;
    if (paged && is_attention(spec.kind) && has_cross) group.stream = TokenStream::kBoth;
    auto same = std::find_if(groups.begin(), groups.end(), [&](const GroupPlan& other) {
      return other.kind == group.kind && other.window == group.window;
    });
    if (same == groups.end()) same = groups.insert(groups.end(), group);
    same->layers.push_back(static_cast<int>(layer));
  }
  return groups;
}

// Equal layer pages: every page is `width` layers wide.
void cut_equal(PagePlan& plan, std::int64_t layer_page) {
  std::size_t width = 0;
  for (const GroupPlan& group : plan.groups) width = std::gcd(width, group.layers.size());
  for (GroupPlan& group : plan.groups) {
    group.tables = static_cast<int>(group.layers.size() / width);
    group.page_bytes = group.used_bytes = static_cast<std::int64_t>(width) * layer_page;
  }
  plan.large_bytes = plan.groups.front().page_bytes;
}

void cut_padded(PagePlan& plan) {
  for (const GroupPlan& group : plan.groups) {
    plan.large_bytes = std::max(plan.large_bytes, group.used_bytes);
  }
  for (GroupPlan& group : plan.groups) group.page_bytes = plan.large_bytes;
}

void cut_multiple(PagePlan& plan, std::int64_t max_ratio) {
  std::int64_t smallest = plan.groups.front().used_bytes;
  std::int64_t multiple = 1;
  for (GroupPlan& group : plan.groups) {
    group.page_bytes = group.used_bytes;
    smallest = std::min(smallest, group.used_bytes);
    const std::int64_t factor = group.used_bytes / std::gcd(multiple, group.used_bytes);
    // An overflowing multiple is far over max_ratio; it only has to stay large.
    if (multiple > smallest * max_ratio / std::max<std::int64_t>(factor, 1)) {
      multiple = smallest * (max_ratio + 1);
      continue;
    }
    multiple *= factor;
  }
  if (multiple / smallest > max_ratio) {
    // Pages become multiples of the smallest whose counts divide the largest's count.
    std::int64_t most = 1;
    for (const GroupPlan& group : plan.groups) {
      most = std::max(most, divide_up(group.used_bytes, smallest));
    }
    multiple = most * smallest;
    for (GroupPlan& group : plan.groups) {
      std::int64_t count = divide_up(group.used_bytes, smallest);
      while (most % count != 0) ++count;
      group.page_bytes = count * smallest;
    }
  }
  plan.large_bytes = multiple;
  for (GroupPlan& group : plan.groups) group.ratio = multiple / group.page_bytes;
}

void place_layers(PagePlan& plan) {
  plan.places.resize(plan.layers.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const GroupPlan& group = plan.groups[g];
    const std::size_t width = group.layers.size() / static_cast<std::size_t>(group.tables);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < group.layers.size(); ++i) {
      const auto layer = static_cast<std::size_t>(group.layers[i]);
      if (i % width == 0) offset = 0;
      plan.places[layer] = {static_cast<int>(g), static_cast<int>(i / width), offset,
                            group.page_bytes};
      offset += plan.layers[layer].page_bytes(plan.block_tokens);
    }
    plan.tables += group.tables;
  }
}

// Fixed shares in proportion to a block's bytes; kinds that stop growing count half.
void cap_shares(PagePlan& plan) {
  double total = 0;
  for (GroupPlan& group : plan.groups) {
    const bool bounded = group.kind == CacheKind::kSlidingWindow || group.kind == CacheKind::kState;
    group.share = static_cast<double>(group.page_bytes * group.tables) * (bounded ? 0.5 : 1.0);
    total += group.share;
  }
  for (GroupPlan& group : plan.groups) group.share /= total;
}

void reserve_pages(PagePlan& plan, const PagePlanSettings& settings) {
  for (GroupPlan& group : plan.groups) {
    if (group.kind == CacheKind::kState) group.reserved = settings.max_sequences;
    if (group.kind == CacheKind::kVisionEmbedding) {
      group.reserved = divide_up(settings.embedding_tokens, settings.block_tokens);
    }
    group.reserved *= group.tables;
  }
}

}  // namespace

int PagePlan::first_table(int group) const {
  int first = 0;
  for (int g = 0; g < group; ++g) first += groups[static_cast<std::size_t>(g)].tables;
  return first;
}

std::string PagePlan::describe() const {
  static constexpr std::string_view kKinds[] = {"full attention", "sliding window",
                                                "cross attention", "state", "vision embedding"};
  std::string text = fmt::format("{}: large pages of {} bytes", name_of(policy), large_bytes);
  for (const GroupPlan& group : groups) {
    text += fmt::format("\n  {}", kKinds[static_cast<std::size_t>(group.kind)]);
    if (group.window > 0) text += fmt::format(" {}", group.window);
    text += fmt::format(": {} layers, {} pages of {} bytes a block", group.layers.size(),
                        group.tables, group.page_bytes);
    if (group.ratio > 1) text += fmt::format(", {} in a large page", group.ratio);
    if (group.page_bytes != group.used_bytes) {
      text += fmt::format(", {} bytes of padding", group.page_bytes - group.used_bytes);
    }
    if (group.share > 0) text += fmt::format(", at most {:.1f} % of the pool", group.share * 100);
    if (group.reserved > 0) text += fmt::format(", {} pages set aside", group.reserved);
  }
  return text;
}

Result<PagePlan> make_page_plan(std::span<const LayerSpec> layers,
                                const PagePlanSettings& settings) {
  TRY_DO(validate(layers, settings));
  PagePlan plan;
  plan.policy = settings.policy;
  plan.block_tokens = settings.block_tokens;
  plan.layers.assign(layers.begin(), layers.end());
  plan.groups = group_layers(layers, settings);

  const std::int64_t first_page = layers.front().page_bytes(settings.block_tokens);
  bool equal = true;
  for (GroupPlan& group : plan.groups) {
    for (const int layer : group.layers) {
      const std::int64_t page =
          layers[static_cast<std::size_t>(layer)].page_bytes(settings.block_tokens);
      group.used_bytes += page;
      equal = equal && page == first_page;
    }
  }
  if (settings.policy == KvPolicy::kMaxPage) {
    cut_padded(plan);
  } else if (equal) {
    cut_equal(plan, first_page);
  } else {
    cut_multiple(plan, settings.max_ratio);
  }
  place_layers(plan);
  if (settings.policy == KvPolicy::kStatic && plan.groups.size() > 1) cap_shares(plan);
  if (settings.policy == KvPolicy::kPaged) reserve_pages(plan, settings);
  for (const GroupPlan& group : plan.groups) {
    CHECK(group.page_bytes * group.ratio == plan.large_bytes, "{} * {} != {}", group.page_bytes,
          group.ratio, plan.large_bytes);
    CHECK(group.ratio == 1 || group.tables == 1, "ratio {} with {} tables", group.ratio,
          group.tables);
  }
  return plan;
}

}  // namespace saccade

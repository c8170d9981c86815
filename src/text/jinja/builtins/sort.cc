#include "text/jinja/builtins/sort.h"

#include <algorithm>
#include <numeric>

namespace saccade::jinja {
namespace {

using Order = std::vector<std::size_t>;

struct Runs {
  std::size_t begin, middle, end;
};

// Merges order[begin, middle) and order[middle, end) through `scratch`.
Result<void> merge(RenderState& state, const std::vector<Value>& keys, bool reverse,
                   const Runs& runs, Order& order, Order& scratch) {
  const auto [begin, middle, end] = runs;
  std::size_t left = begin, right = middle;
  for (std::size_t out = begin; out < end; ++out) {
    bool take_right = left == middle;
    if (left < middle && right < end) {
      // Equal keys keep their order, in reverse too.
      TRY(const int sign, compare(state, keys[order[right]], keys[order[left]], "<"));
      take_right = reverse ? sign > 0 : sign < 0;
    }
    scratch[out] = take_right ? order[right++] : order[left++];
  }
  std::copy(scratch.begin() + static_cast<std::ptrdiff_t>(begin),
            scratch.begin() + static_cast<std::ptrdiff_t>(end),
            order.begin() + static_cast<std::ptrdiff_t>(begin));
  return {};
}

}  // namespace

Result<void> stable_sort(RenderState& state, std::vector<Value>& items, std::vector<Value> keys,
                         bool reverse) {
  const std::size_t count = items.size();
  Order order(count), scratch(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t width = 1; width < count; width *= 2) {
    for (std::size_t begin = 0; begin + width < count; begin += 2 * width) {
      const Runs runs{begin, begin + width, std::min(begin + 2 * width, count)};
      TRY_DO(merge(state, keys, reverse, runs, order, scratch));
    }
  }
  std::vector<Value> sorted;
  sorted.reserve(count);
  for (const std::size_t at : order) sorted.push_back(std::move(items[at]));
  items = std::move(sorted);
  return {};
}

}  // namespace saccade::jinja

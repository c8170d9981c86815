// What one rendering owns and may spend: its objects, and budgets of steps and memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

// Far above what templates of real conversations need, low enough that a hostile one ends within
// seconds.
struct RenderLimits {
  std::int64_t max_steps = 30'000'000;                    // nodes, elements, 64-byte pieces
  std::int64_t max_live_bytes = std::int64_t{512} << 20;  // strings and objects together
  std::size_t max_output_bytes = std::size_t{64} << 20;   // rendered text, captures included
  std::size_t max_string_bytes = std::size_t{64} << 20;   // any one string
  int max_nesting = 400;                                  // of statements, expressions, calls
  int max_value_depth = 200;                              // of lists within lists
};

constexpr std::int64_t kMaxRange = 100'000;  // the reference sandbox's MAX_RANGE

// One thread, one rendering. Objects live until it goes, whatever refers to what.
class RenderState {
 public:
  RenderState(const RenderLimits& limits, std::int64_t now_unix_seconds)
      : limits_(limits), now_(now_unix_seconds) {}

  const RenderLimits& limits() const { return limits_; }
  std::int64_t now_unix_seconds() const { return now_; }

  // One piece of work. kInvalid once the steps or the memory are used up.
  Result<void> charge(std::int64_t steps = 1) {
    steps_ += steps;
    if (steps_ > limits_.max_steps || live_bytes_ > limits_.max_live_bytes || too_deep_)
        [[unlikely]]
      return spent();
    return {};
  }
  Result<void> charge_bytes(std::size_t bytes) {
    return charge(static_cast<std::int64_t>(bytes / 64) + 1);
  }
  // A search for `what` in `text`: the library's is quadratic at worst.
  Result<void> charge_search(std::string_view text, std::string_view what) {
    return charge_bytes(text.size() + text.size() / 16 * what.size());
  }
  // To be asked before a string of `bytes` is built whose size is not that of its parts.
  Result<void> allow_string(std::size_t bytes);
  // Nothing but memory is made from `count` more elements.
  Result<void> allow_elements(std::size_t count);

  Value string(std::string bytes, bool markup = false) {
    steps_ += static_cast<std::int64_t>(bytes.size() / 64);
    return Value::text(std::make_shared<const Text>(std::move(bytes), markup, &live_bytes_));
  }
  Value list(std::vector<Value> items) { return sequence(Kind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::kTuple, std::move(items)); }

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* object = owned.get();
    live_bytes_ += static_cast<std::int64_t>(sizeof(T)) + 32;
    objects_.push_back(std::move(owned));
    return object;
  }
  // The error that is coming is the template's own word (raise_exception), to be shown as it is.
  void set_raised() { raised_ = true; }
  bool raised() const { return raised_; }
  std::int64_t steps() const { return steps_; }
  void count_bytes(std::size_t bytes) { live_bytes_ += static_cast<std::int64_t>(bytes); }

  // `outer` now holds `inner`. Values nested too deep end the rendering at the next charge.
  void nest(Object& outer, const Value& inner) {
    const int inside = inner.is_object() ? inner.as_object()->depth : 0;
    if (inside >= outer.depth) outer.depth = inside + 1;
    too_deep_ |= outer.depth > limits_.max_value_depth;
  }

 private:
  Value sequence(Kind kind, std::vector<Value> items);
  tl::unexpected<Error> spent() const;

  const RenderLimits limits_;
  const std::int64_t now_;
  std::int64_t steps_ = 0;
  std::int64_t live_bytes_ = 0;  // declared before objects_: their strings count down in it
  bool too_deep_ = false;
  bool raised_ = false;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace saccade::jinja

#include "text/jinja/loop.h"

#include <algorithm>

#include "text/jinja/builtins/methods.h"

namespace saccade::jinja {
namespace {

Result<Value> call_cycle(RenderState&, const Value& self, Arguments& arguments) {
  return self.as<LoopContext>().cycle(arguments);
}

Result<Value> call_changed(RenderState& state, const Value& self, Arguments& arguments) {
  return self.as<LoopContext>().changed(state, arguments);
}

constexpr Method kCycle{"cycle", call_cycle};
constexpr Method kChanged{"changed", call_changed};

Value no_such_item(std::string_view which) {
  return Value::undefined({Absence::Reason::kHint, fmt::format("there is no {} item", which), {}});
}

}  // namespace

Result<std::optional<Value>> LoopContext::next(RenderState& state) {
  std::optional<Value> item;
  if (after_) {
    item = std::move(after_);
    after_.reset();
  } else {
    TRY(item, cursor_.next(state));
  }
  if (!item) return std::nullopt;
  ++index_;
  before_ = std::move(current_);
  current_ = item;
  return item;
}

Result<bool> LoopContext::peek(RenderState& state) {
  if (!after_) {
    TRY(after_, cursor_.next(state));
  }
  return after_.has_value();
}

Result<std::int64_t> LoopContext::count(RenderState& state) {
  if (count_) return *count_;
  count_ = length(items_);
  if (count_) return *count_;
  // A generator: all that is left of it is read now.
  std::vector<Value> rest;
  while (true) {
    TRY(std::optional<Value> item, cursor_.next(state));
    if (!item) break;
    rest.push_back(*std::move(item));
  }
  count_ = static_cast<std::int64_t>(rest.size()) + index_ + 1 + (after_ ? 1 : 0);
  TRY(cursor_, Cursor::over(state.list(std::move(rest))));
  return *count_;
}

Result<std::optional<Value>> LoopContext::attribute(RenderState& state, std::string_view name) {
  const auto number = [](std::int64_t value) { return Value::integer(value); };
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "first") return Value::boolean(index_ == 0);
  if (name == "depth") return number(recursion_ + 1);
  if (name == "depth0") return number(recursion_);
  if (name == "length" || name == "revindex" || name == "revindex0") {
    TRY(const std::int64_t all, count(state));
    return number(name == "length" ? all : all - index_ - (name == "revindex0" ? 1 : 0));
  }
  if (name == "last" || name == "nextitem") {
    TRY(const bool more, peek(state));
    if (name == "last") return Value::boolean(!more);
    return more ? *after_ : no_such_item("next");
  }
  if (name == "previtem") return before_ ? *before_ : no_such_item("previous");
  const Method* method = name == "cycle" ? &kCycle : name == "changed" ? &kChanged : nullptr;
  if (method == nullptr) return std::nullopt;
  return Value::object(state.make<BoundMethod>(Value::object(this), method));
}

Result<Value> LoopContext::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) return fail(ErrorCode::kInvalid, "no items for cycling given");
  const auto count = static_cast<std::int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<std::size_t>(std::max<std::int64_t>(index_, 0) % count)];
}

Result<Value> LoopContext::changed(RenderState& state, const Arguments& arguments) {
  const Value now = state.tuple(arguments.positional);
  if (last_changed_) {
    TRY(const bool same, equals(state, *last_changed_, now));
    if (same) return Value::boolean(false);
  }
  last_changed_ = now;
  return Value::boolean(true);
}

Result<Value> LoopContext::call(RenderState& state, Arguments& arguments) {
  if (around_ == nullptr) {
    return fail(ErrorCode::kInvalid,
                "The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return fail(ErrorCode::kInvalid, "loop() takes one argument");
  }
  TRY(std::string text,
      interpreter_.recurse(node_, *around_, arguments.positional[0], recursion_ + 1));
  return state.string(std::move(text));
}

std::string LoopContext::repr() const { return fmt::format("<LoopContext {}>", index_ + 1); }

Result<std::optional<Value>> LoopFilter::next(RenderState& state) {
  while (true) {
    TRY(std::optional<Value> item, cursor_.next(state));
    if (!item) return std::nullopt;
    interpreter_.enter(node_.filter_scope, at_);
    TRY_DO(interpreter_.assign(*node_.filter_target, *item, at_));
    TRY(const Value keep, interpreter_.evaluate(*node_.filter, at_));
    if (!truth(keep)) continue;
    // As the reference, which unpacks a tuple target and packs it again.
    TRY(Value packed, interpreter_.evaluate(*node_.filter_target, at_));
    return packed;
  }
}

}  // namespace saccade::jinja

// `loop`: what a for statement tells its body, and what a recursive body calls.
#pragma once

#include "text/jinja/interpreter.h"

namespace saccade::jinja {

class LoopContext final : public Callable {
 public:
  // `around`: where a recursive loop's body runs inside; null when the loop is not recursive.
  LoopContext(Interpreter& interpreter, const For& node, Value items, Cursor cursor,
              Activation* around, int recursion)
      : Callable(Kind::kLoop),
        interpreter_(interpreter),
        node_(node),
        items_(std::move(items)),
        cursor_(std::move(cursor)),
        around_(around),
        recursion_(recursion) {}

  // Moves on; empty at the end.
  Result<std::optional<Value>> next(RenderState& state);

  Result<Value> call(RenderState& state, Arguments& arguments) override;
  std::string repr() const override;
  Result<std::optional<Value>> attribute(RenderState& state, std::string_view name) override;

  Result<Value> cycle(const Arguments& arguments) const;
  Result<Value> changed(RenderState& state, const Arguments& arguments);

 private:
  Result<bool> peek(RenderState& state);  // is there a next item?
  Result<std::int64_t> count(RenderState& state);

  Interpreter& interpreter_;
  const For& node_;
  const Value items_;
  Cursor cursor_;
  Activation* around_;
  const int recursion_;  // its depth, from 0
  std::int64_t index_ = -1;
  std::optional<std::int64_t> count_;
  std::optional<Value> current_, before_, after_;
  std::optional<Value> last_changed_;
};

// The items of `for x in items if filter`, each tested when the loop gets to it.
class LoopFilter final : public Iterator {
 public:
  LoopFilter(Interpreter& interpreter, const For& node, Activation& at, Cursor cursor)
      : Iterator("generator"),
        interpreter_(interpreter),
        node_(node),
        at_(at),
        cursor_(std::move(cursor)) {}
  Result<std::optional<Value>> next(RenderState& state) override;

 private:
  Interpreter& interpreter_;
  const For& node_;
  Activation& at_;
  Cursor cursor_;
};

}  // namespace saccade::jinja

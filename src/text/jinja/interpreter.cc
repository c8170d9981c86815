#include "text/jinja/interpreter.h"

#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/print.h"

namespace saccade::jinja {

// Counts one level of nesting for as long as it lives.
class Interpreter::Level {
 public:
  explicit Level(int& depth) : depth_(depth) { ++depth_; }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& depth_;
};

Result<std::string> Interpreter::run(const Program& program) {
  Activation* root = activate(nullptr, program.slots);
  enter(program.scope, *root);
  std::string out;
  TRY_DO(body(program.body, *root, out));
  return out;
}

// --- Variables

std::optional<Value>& Interpreter::slot(const Place& place, Activation& at) {
  Activation* activation = &at;
  for (int hop = 0; hop < place.hops; ++hop) activation = activation->outer;
  return activation->slots[static_cast<std::size_t>(place.slot)];
}

Activation* Interpreter::activate(Activation* around, int slots) {
  if (idle_.empty()) {
    Activation* made = state_.make<Activation>(around, slots);
    state_.count_bytes(static_cast<std::size_t>(slots) * sizeof(std::optional<Value>));
    return made;
  }
  Activation* reused = idle_.back();
  idle_.pop_back();
  reused->outer = around;
  reused->slots.assign(static_cast<std::size_t>(slots), std::nullopt);
  return reused;
}

void Interpreter::retire(Activation* activation) {
  if (!activation->captured) idle_.push_back(activation);
}

void Interpreter::capture(Activation* activation) {
  for (; activation && !activation->captured; activation = activation->outer) {
    activation->captured = true;
  }
}

void Interpreter::enter(const ScopeEntry& scope, Activation& at) {
  for (const auto& load : scope.loads) {
    auto& variable = at.slots[static_cast<std::size_t>(load.slot)];
    switch (load.action) {
      case ScopeEntry::Load::Action::kParameter:
        break;
      case ScopeEntry::Load::Action::kUndefined:
        variable.reset();
        break;
      case ScopeEntry::Load::Action::kAlias:
        variable = slot(load.outer, at);
        break;
      case ScopeEntry::Load::Action::kResolve: {
        const auto it = variables_.find(load.name);
        if (it == variables_.end()) {
          variable.reset();
        } else {
          variable = it->second;
        }
      }
    }
  }
}

void Interpreter::leave(const ScopeEntry& scope, Activation& at) {
  for (const auto& load : scope.loads) at.slots[static_cast<std::size_t>(load.slot)].reset();
}

Result<void> Interpreter::unpack(const TupleDisplay& target, const Value& value, Activation& at) {
  TRY(Cursor cursor, Cursor::over(value));
  const std::size_t wanted = target.items.size();
  for (std::size_t i = 0; i < wanted; ++i) {
    TRY(const std::optional<Value> item, cursor.next(state_));
    if (!item) {
      return fail(ErrorCode::kInvalid, "not enough values to unpack (expected {}, got {})", wanted,
                  i);
    }
    TRY_DO(assign(*target.items[i], *item, at));
  }
  TRY(const std::optional<Value> extra, cursor.next(state_));
  if (extra) return fail(ErrorCode::kInvalid, "too many values to unpack (expected {})", wanted);
  return {};
}

Result<void> Interpreter::assign(const Expression& target, const Value& value, Activation& at) {
  if (const auto* name = std::get_if<Name>(&target.node)) {
    slot(name->place, at) = value;
    return {};
  }
  if (const auto* tuple = std::get_if<TupleDisplay>(&target.node)) return unpack(*tuple, value, at);
  const auto& attribute = std::get<NamespaceTarget>(target.node);
  const auto& holder = slot(attribute.place, at);
  if (!holder || !holder->is(Kind::kNamespace)) {
    return fail(ErrorCode::kInvalid, "cannot assign attribute on non-namespace object");
  }
  return holder->as<Namespace>().attributes.set(state_, state_.string(attribute.attribute), value);
}

// --- Statements

Result<void> Interpreter::check_output(const std::string& out) {
  if (out.size() <= state_.limits().max_output_bytes) return {};
  return fail(ErrorCode::kInvalid, "the template's output is over the limit of {} bytes",
              state_.limits().max_output_bytes);
}

Result<Interpreter::Flow> Interpreter::body(const Body& statements, Activation& at,
                                            std::string& out) {
  for (const Statement& next : statements) {
    TRY(const Flow flow, statement(next, at, out));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::statement(const Statement& statement, Activation& at,
                                                 std::string& out) {
  const Level level(depth_);
  TRY_DO(state_.charge());
  if (depth_ > state_.limits().max_nesting) {
    return fail(ErrorCode::kInvalid, "line {}: the template nests deeper than the limit of {}",
                statement.line, state_.limits().max_nesting);
  }
  auto flow = std::visit([&](const auto& node) { return execute(node, at, out); }, statement.node);
  if (!flow && !located_) {
    located_ = true;
    // What a template raises is shown as it says it.
    if (!state_.raised()) {
      return fail_within(fmt::format("line {}", statement.line), std::move(flow).error());
    }
  }
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute(const Data& node, Activation&, std::string& out) {
  TRY_DO(state_.charge_bytes(node.text.size()));
  out += node.text;
  TRY_DO(check_output(out));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Print& node, Activation& at,
                                               std::string& out) {
  TRY(const Value value, evaluate(*node.value, at));
  if (value.is_string()) {
    TRY_DO(append_str(state_, out, value));
  } else {
    TRY(const std::string text, to_str(state_, value));
    out += text;
  }
  TRY_DO(check_output(out));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const If& node, Activation& at, std::string& out) {
  for (const auto& [test, branch] : node.branches) {
    TRY(const Value chosen, evaluate(*test, at));
    if (truth(chosen)) return body(branch, at, out);
  }
  return body(node.otherwise, at, out);
}

Result<Interpreter::Flow> Interpreter::loop(const For& node, Activation& at, const Value& items,
                                            Activation* around, int depth, std::string& out) {
  Value source = items;
  TRY(Cursor cursor, Cursor::over(items));
  if (node.filter) {
    // The filter's names live where the loop stands, which a recursive body runs inside of.
    Activation& outside = around ? *around : at;
    capture(&outside);
    source = Value::object(state_.make<LoopFilter>(*this, node, outside, std::move(cursor)));
    TRY(cursor, Cursor::over(source));
  }
  auto* context = state_.make<LoopContext>(*this, node, source, std::move(cursor), around, depth);
  bool finished_one = false;  // the reference's rule for else: no run of the body reached its end
  while (true) {
    TRY(const std::optional<Value> item, context->next(state_));
    if (!item) break;
    at.slots[static_cast<std::size_t>(node.loop_slot)] = Value::object(context);
    TRY_DO(assign(*node.target, *item, at));
    enter(node.scope, at);
    TRY(const Flow flow, body(node.body, at, out));
    if (flow == Flow::kBreak) break;
    finished_one |= flow == Flow::kNext;
  }
  leave(node.scope, at);
  if (finished_one || node.otherwise.empty()) return Flow::kNext;
  enter(node.otherwise_scope, at);
  TRY(const Flow flow, body(node.otherwise, at, out));
  leave(node.otherwise_scope, at);
  return flow;
}

Result<std::string> Interpreter::recurse(const For& node, Activation& around, const Value& items,
                                         int depth) {
  const Level level(depth_);
  Activation* inside = activate(&around, node.slots);
  capture(inside);  // `loop` refers to it
  std::string text;
  TRY_DO(loop(node, *inside, items, &around, depth, text));
  return text;
}

Result<Interpreter::Flow> Interpreter::execute(const For& node, Activation& at, std::string& out) {
  TRY(const Value items, evaluate(*node.iterable, at));
  if (!node.recursive) return loop(node, at, items, nullptr, 0, out);
  TRY(const std::string text, recurse(node, at, items, 0));
  out += text;
  TRY_DO(check_output(out));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Set& node, Activation& at, std::string&) {
  TRY(const Value value, evaluate(*node.value, at));
  TRY_DO(assign(*node.target, value, at));
  return Flow::kNext;
}

// What a block captured, through the filters that stand on the block's tag.
Result<Value> Interpreter::filtered(const ExpressionPtr& filter, std::string captured,
                                    Activation& at) {
  const Value text = state_.string(std::move(captured));
  if (!filter) return text;
  const Value* outer = std::exchange(captured_, &text);
  auto result = evaluate(*filter, at);
  captured_ = outer;
  return result;
}

Result<Interpreter::Flow> Interpreter::execute(const SetBlock& node, Activation& at, std::string&) {
  std::string text;
  enter(node.scope, at);
  TRY(const Flow flow, body(node.body, at, text));
  if (flow != Flow::kNext) return flow;
  TRY(const Value value, filtered(node.filter, std::move(text), at));
  TRY_DO(assign(*node.target, value, at));
  leave(node.scope, at);
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Macro& node, Activation& at, std::string&) {
  capture(&at);
  slot(node.place, at) = Value::object(state_.make<MacroValue>(*this, node.definition, at));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const CallBlock& node, Activation& at,
                                               std::string& out) {
  capture(&at);
  auto* caller = state_.make<MacroValue>(*this, node.definition, at);
  Value shown;
  if (node.call) {
    const Value as_value = Value::object(caller);
    TRY(shown, call(std::get<Call>(node.call->node), at, &as_value));
  } else {
    Arguments none;
    TRY(shown, caller->call(state_, none));
  }
  TRY_DO(append_str(state_, out, shown));
  TRY_DO(check_output(out));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const FilterBlock& node, Activation& at,
                                               std::string& out) {
  std::string text;
  enter(node.scope, at);
  TRY(const Flow flow, body(node.body, at, text));
  if (flow != Flow::kNext) return flow;
  TRY(const Value value, filtered(node.filter, std::move(text), at));
  TRY_DO(append_str(state_, out, value));
  TRY_DO(check_output(out));
  leave(node.scope, at);
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const With& node, Activation& at, std::string& out) {
  enter(node.scope, at);
  for (const auto& [target, expression] : node.variables) {
    TRY(const Value value, evaluate(*expression, at));
    TRY_DO(assign(*target, value, at));
  }
  TRY(const Flow flow, body(node.body, at, out));
  leave(node.scope, at);
  return flow;
}

}  // namespace saccade::jinja

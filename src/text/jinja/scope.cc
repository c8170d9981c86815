#include "text/jinja/scope.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/tests.h"

namespace saccade::jinja {
namespace {

using Action = ScopeEntry::Load::Action;

// What owns slots at run time: the template, a macro, a recursive loop.
struct Function {
  int depth = 0;
  int slots = 0;
};

// The variables of one scope. First everything in the scope is analysed, then its names are bound:
// a name has one place in the whole scope, wherever in it the assignment stands.
class Scope {
 public:
  Scope(Scope* parent, Function& function) : parent_(parent), function_(function) {}

  // The scope reads `name`. Unless it or a scope around knows the name, the render's variables do.
  void load(const std::string& name) {
    if (!find(name)) define(name, {Action::kResolve, -1, name, {}});
  }
  // The scope assigns `name`: from here on a variable of its own, that starts as the one outside.
  void store(const std::string& name) {
    if (stored_.insert(name).second) journal_.push_back(name);
    if (own_.contains(name)) return;
    const auto outer = outside(name);
    define(name, outer ? ScopeEntry::Load{Action::kAlias, -1, {}, *outer}
                       : ScopeEntry::Load{Action::kUndefined, -1, {}, {}});
  }
  int parameter(const std::string& name) {
    if (stored_.insert(name).second) journal_.push_back(name);
    return define(name, {Action::kParameter, -1, {}, {}});
  }

  // Between these two calls assignments may or may not happen: such variables start with the value
  // outside, if there is one.
  std::size_t begin_branches() const { return journal_.size(); }
  void end_branches(std::size_t mark) {
    for (std::size_t i = mark; i < journal_.size(); ++i) {
      const std::string& name = journal_[i];
      const auto outer = outside(name);
      define(name, outer ? ScopeEntry::Load{Action::kAlias, -1, {}, *outer}
                         : ScopeEntry::Load{Action::kResolve, -1, name, {}});
    }
  }

  Place place(const std::string& name) {
    load(name);  // names that analysis did not see, in the filter of a set block
    return *find(name);
  }
  ScopeEntry entry() const {
    ScopeEntry entry;
    for (const auto& [name, load] : own_) entry.loads.push_back(load);
    return entry;
  }

 private:
  std::optional<Place> find(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->parent_) {
      const auto it = scope->own_.find(name);
      if (it == scope->own_.end()) continue;
      return Place{function_.depth - scope->function_.depth, it->second.slot};
    }
    return std::nullopt;
  }
  std::optional<Place> outside(const std::string& name) const {
    if (!parent_) return std::nullopt;
    auto found = parent_->find(name);
    if (found) found->hops += function_.depth - parent_->function_.depth;
    return found;
  }
  int define(const std::string& name, ScopeEntry::Load load) {
    const auto [it, fresh] = own_.try_emplace(name);
    load.slot = fresh ? function_.slots++ : it->second.slot;
    it->second = std::move(load);
    return it->second.slot;
  }

  Scope* parent_;
  Function& function_;
  std::unordered_map<std::string, ScopeEntry::Load> own_;
  std::unordered_set<std::string> stored_;
  std::vector<std::string> journal_;  // stored_ in order
};

// visit(name) for every variable that an expression reads.
template <typename Visit>
void for_each_name(Expression& expression, const Visit& visit) {
  if (const auto* name = std::get_if<Name>(&expression.node)) visit(name->name);
  visit_children(expression, [&](Expression& child) { for_each_name(child, visit); });
}

// visit(name, is_namespace) for every variable that an assignment to `target` changes.
template <typename Visit>
void for_each_target(const Expression& target, const Visit& visit) {
  if (const auto* name = std::get_if<Name>(&target.node)) {
    visit(name->name, false);
  } else if (const auto* attribute = std::get_if<NamespaceTarget>(&target.node)) {
    visit(attribute->name, true);
  } else {
    for (const auto& item : std::get<TupleDisplay>(target.node).items) {
      for_each_target(*item, visit);
    }
  }
}

// First pass over one scope: which names it reads and assigns. Stops at inner scopes.
class Analysis {
 public:
  explicit Analysis(Scope& scope) : scope_(scope) {}

  void read(const ExpressionPtr& expression) {
    if (!expression) return;
    for_each_name(*expression, [&](const std::string& name) { scope_.load(name); });
  }
  void assign(const Expression& target) {
    for_each_target(target, [&](const std::string& name, bool is_namespace) {
      is_namespace ? scope_.load(name) : scope_.store(name);
    });
  }
  void parameters(const Expression& target) {
    for_each_target(target, [&](const std::string& name, bool) { scope_.parameter(name); });
  }
  void body(Body& statements) {
    for (Statement& statement : statements) std::visit(*this, statement.node);
  }

  void operator()(Data&) {}
  void operator()(Break&) {}
  void operator()(Continue&) {}
  void operator()(Print& node) { read(node.value); }
  void operator()(For& node) { read(node.iterable); }
  void operator()(Set& node) {
    read(node.value);
    assign(*node.target);
  }
  void operator()(SetBlock& node) { assign(*node.target); }
  void operator()(Macro& node) { scope_.store(node.definition.name); }
  void operator()(CallBlock& node) { read(node.call); }
  void operator()(FilterBlock& node) { read(node.filter); }
  void operator()(With& node) {
    for (auto& [target, value] : node.variables) read(value);
  }
  void operator()(If& node) {
    read(node.branches[0].first);
    const std::size_t mark = scope_.begin_branches();
    for (std::size_t i = 0; i < node.branches.size(); ++i) {
      if (i > 0) read(node.branches[i].first);
      body(node.branches[i].second);
    }
    body(node.otherwise);
    scope_.end_branches(mark);
  }

 private:
  Scope& scope_;
};

// Does anything in `statements`, at any depth, read one of the names that only macros have?
class Mentions {
 public:
  bool caller = false, kwargs = false, varargs = false;

  void read(const ExpressionPtr& expression) {
    if (!expression) return;
    for_each_name(*expression, [&](const std::string& name) {
      caller |= name == "caller";
      kwargs |= name == "kwargs";
      varargs |= name == "varargs";
    });
  }
  void body(Body& statements) {
    for (Statement& statement : statements) std::visit(*this, statement.node);
  }
  void operator()(Data&) {}
  void operator()(Break&) {}
  void operator()(Continue&) {}
  void operator()(Print& node) { read(node.value); }
  void operator()(If& node) {
    for (auto& [test, branch] : node.branches) {
      read(test);
      body(branch);
    }
    body(node.otherwise);
  }
  void operator()(For& node) {
    read(node.iterable);
    read(node.filter);
    body(node.body);
    body(node.otherwise);
  }
  void operator()(Set& node) { read(node.value); }
  void operator()(SetBlock& node) {
    read(node.filter);
    body(node.body);
  }
  void definition(MacroDefinition& definition) {
    for (auto& parameter : definition.parameters) read(parameter.fallback);
    body(definition.body);
  }
  void operator()(Macro& node) { definition(node.definition); }
  void operator()(CallBlock& node) {
    read(node.call);
    definition(node.definition);
  }
  void operator()(FilterBlock& node) {
    read(node.filter);
    body(node.body);
  }
  void operator()(With& node) {
    for (auto& [target, value] : node.variables) read(value);
    body(node.body);
  }
};

// Second pass: places for names, functions for filters and tests, scopes for what has one.
class Binder {
 public:
  Result<void> program(Program& program) {
    Function function;
    Scope scope(nullptr, function);
    Analysis(scope).body(program.body);
    TRY_DO(body(program.body, scope, function, false));
    program.scope = scope.entry();
    program.slots = function.slots;
    return {};
  }

 private:
  // Where a statement stands. `soft`: inside an `if`, where an unknown filter is not yet an error.
  struct Context {
    Scope& scope;
    Function& function;
    bool soft;
  };

  Result<void> body(Body& statements, Scope& scope, Function& function, bool soft) {
    Context context{scope, function, soft};
    for (Statement& statement : statements) {
      TRY_DO(std::visit([&](auto& node) { return bind(node, statement.line, context); },
                        statement.node));
    }
    return {};
  }

  Result<void> expression(const ExpressionPtr& node, Context& context) {
    return node ? expression(*node, context) : Result<void>();
  }
  Result<void> expression(Expression& node, Context& context);
  Result<void> target(Expression& target, Context& context);

  Result<void> bind(Data&, int, Context&) { return {}; }
  Result<void> bind(Break&, int, Context&) { return {}; }
  Result<void> bind(Continue&, int, Context&) { return {}; }
  Result<void> bind(Print& node, int, Context& context) { return expression(node.value, context); }
  Result<void> bind(If& node, int line, Context& context);
  Result<void> bind(For& node, int line, Context& context);
  Result<void> bind(Set& node, int line, Context& context);
  Result<void> bind(SetBlock& node, int line, Context& context);
  Result<void> bind(Macro& node, int line, Context& context);
  Result<void> bind(CallBlock& node, int line, Context& context);
  Result<void> bind(FilterBlock& node, int line, Context& context);
  Result<void> bind(With& node, int line, Context& context);
  Result<void> definition(MacroDefinition& node, int line, Context& context);

  int loops_ = 0;  // around this place, across macros
};

Result<void> Binder::expression(Expression& node, Context& context) {
  Context inner = context;
  if (auto* name = std::get_if<Name>(&node.node)) {
    name->place = context.scope.place(name->name);
  } else if (std::holds_alternative<Conditional>(node.node)) {
    inner.soft = true;
  } else if (auto* filter = std::get_if<FilterCall>(&node.node)) {
    filter->filter = find_filter(filter->name);
    if (!filter->filter && !context.soft) {
      return fail(ErrorCode::kInvalid, "line {}: No filter named '{}'.", node.line, filter->name);
    }
  } else if (auto* test = std::get_if<TestCall>(&node.node)) {
    test->test = find_test(test->name);
    if (!test->test && !context.soft) {
      return fail(ErrorCode::kInvalid, "line {}: No test named '{}'.", node.line, test->name);
    }
  }
  Result<void> outcome;
  visit_children(node, [&](Expression& child) {
    if (outcome) outcome = expression(child, inner);
  });
  return outcome;
}

Result<void> Binder::target(Expression& node, Context& context) {
  if (auto* name = std::get_if<Name>(&node.node)) {
    if (name->name == "loop" && loops_ > 0) {
      return fail(ErrorCode::kInvalid,
                  "line {}: Can't assign to special loop variable in for-loop target", node.line);
    }
    name->place = context.scope.place(name->name);
    return {};
  }
  if (auto* attribute = std::get_if<NamespaceTarget>(&node.node)) {
    attribute->place = context.scope.place(attribute->name);
    return {};
  }
  for (auto& item : std::get<TupleDisplay>(node.node).items) TRY_DO(target(*item, context));
  return {};
}

Result<void> Binder::bind(If& node, int, Context& context) {
  Context soft{context.scope, context.function, true};
  for (auto& [test, branch] : node.branches) {
    TRY_DO(expression(test, soft));
    TRY_DO(body(branch, context.scope, context.function, true));
  }
  return body(node.otherwise, context.scope, context.function, true);
}

Result<void> Binder::bind(For& node, int, Context& context) {
  TRY_DO(expression(node.iterable, context));
  ++loops_;
  if (node.filter) {
    Scope scope(&context.scope, context.function);
    Analysis analysis(scope);
    analysis.parameters(*node.filter_target);
    analysis.read(node.filter);
    Context inner{scope, context.function, false};
    TRY_DO(target(*node.filter_target, inner));
    TRY_DO(expression(node.filter, inner));
    node.filter_scope = scope.entry();
  }
  Function own{context.function.depth + 1, 0};
  Function& function = node.recursive ? own : context.function;
  {
    Scope scope(&context.scope, function);
    node.loop_slot = scope.parameter("loop");
    Analysis analysis(scope);
    analysis.parameters(*node.target);
    analysis.body(node.body);
    Context inner{scope, function, false};
    TRY_DO(target(*node.target, inner));
    TRY_DO(body(node.body, scope, function, false));
    node.scope = scope.entry();
  }
  Scope scope(&context.scope, function);
  Analysis(scope).body(node.otherwise);
  TRY_DO(body(node.otherwise, scope, function, false));
  node.otherwise_scope = scope.entry();
  node.slots = own.slots;
  --loops_;
  return {};
}

Result<void> Binder::bind(Set& node, int, Context& context) {
  TRY_DO(expression(node.value, context));
  return target(*node.target, context);
}

Result<void> Binder::bind(SetBlock& node, int, Context& context) {
  Scope scope(&context.scope, context.function);
  Analysis(scope).body(node.body);
  TRY_DO(body(node.body, scope, context.function, false));
  Context inner{scope, context.function, false};
  TRY_DO(expression(node.filter, inner));
  node.scope = scope.entry();
  return target(*node.target, context);
}

Result<void> Binder::definition(MacroDefinition& node, int line, Context& context) {
  Function function{context.function.depth + 1, 0};
  Scope scope(&context.scope, function);
  Mentions mentions;
  mentions.body(node.body);
  for (auto& parameter : node.parameters) {
    parameter.slot = scope.parameter(parameter.name);
    if (parameter.name == "kwargs") mentions.kwargs = false;
    if (parameter.name == "varargs") mentions.varargs = false;
    if (parameter.name != "caller") continue;
    if (mentions.caller && !parameter.fallback) {
      return fail(ErrorCode::kInvalid,
                  "line {}: When defining macros or call blocks the special \"caller\" argument "
                  "must be omitted or be given a default.",
                  line);
    }
    mentions.caller = false;
  }
  if (mentions.caller) node.caller_slot = scope.parameter("caller");
  if (mentions.kwargs) node.kwargs_slot = scope.parameter("kwargs");
  if (mentions.varargs) node.varargs_slot = scope.parameter("varargs");

  Analysis analysis(scope);
  for (auto& parameter : node.parameters) analysis.read(parameter.fallback);
  analysis.body(node.body);
  Context inner{scope, function, false};
  for (auto& parameter : node.parameters) TRY_DO(expression(parameter.fallback, inner));
  TRY_DO(body(node.body, scope, function, false));
  node.scope = scope.entry();
  node.slots = function.slots;
  return {};
}

Result<void> Binder::bind(Macro& node, int line, Context& context) {
  node.place = context.scope.place(node.definition.name);
  return definition(node.definition, line, context);
}

Result<void> Binder::bind(CallBlock& node, int line, Context& context) {
  TRY_DO(expression(node.call, context));
  return definition(node.definition, line, context);
}

Result<void> Binder::bind(FilterBlock& node, int, Context& context) {
  Scope scope(&context.scope, context.function);
  Analysis analysis(scope);
  analysis.body(node.body);
  analysis.read(node.filter);
  TRY_DO(body(node.body, scope, context.function, false));
  Context inner{scope, context.function, false};
  TRY_DO(expression(node.filter, inner));
  node.scope = scope.entry();
  return {};
}

Result<void> Binder::bind(With& node, int, Context& context) {
  Scope scope(&context.scope, context.function);
  Analysis analysis(scope);
  for (auto& [name, value] : node.variables) analysis.parameters(*name);
  analysis.body(node.body);
  Context inner{scope, context.function, false};
  for (auto& [name, value] : node.variables) {
    TRY_DO(expression(value, context));
    TRY_DO(target(*name, inner));
  }
  TRY_DO(body(node.body, scope, context.function, false));
  node.scope = scope.entry();
  return {};
}

}  // namespace

Result<void> resolve(Program& program) { return Binder().program(program); }

}  // namespace saccade::jinja

// The expression half of the parser, from `a if b else c` down to literals.
#pragma once

#include <optional>

#include "base/result.h"
#include "text/jinja/syntax/ast.h"
#include "text/jinja/syntax/token_stream.h"

namespace saccade::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Result<ExpressionPtr> expression(bool with_conditional = true);
  // One expression, or several with commas as a tuple.
  Result<ExpressionPtr> tuple(bool with_conditional = true, bool in_parentheses = false);
  // What for, set and with assign to: names, tuples of names, and (for set) ns.attribute.
  Result<ExpressionPtr> target(bool with_namespace);
  Result<std::string> target_name();
  // name, name(args), name | name: applied to `operand`, which may be null. With `inline_start` the
  // first `|` is left out. Null when there is no filter.
  Result<ExpressionPtr> filters(ExpressionPtr operand, bool inline_start);

 private:
  // Counts one level of recursion for as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : depth_(parser.depth_) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  Result<ExpressionPtr> conditional();
  Result<ExpressionPtr> logical_or();
  Result<ExpressionPtr> logical_and();
  Result<ExpressionPtr> logical_not();
  Result<ExpressionPtr> comparison();
  Result<ExpressionPtr> sum();
  Result<ExpressionPtr> concatenation();
  Result<ExpressionPtr> product();
  Result<ExpressionPtr> power();
  Result<ExpressionPtr> unary(bool with_filter = true);
  Result<ExpressionPtr> primary(bool with_namespace = false);
  Result<ExpressionPtr> name(bool with_namespace);
  Result<ExpressionPtr> list();
  Result<ExpressionPtr> dict();
  Result<ExpressionPtr> postfix(ExpressionPtr node);
  Result<ExpressionPtr> filters_and_tests(ExpressionPtr node);
  Result<ExpressionPtr> subscript(ExpressionPtr object);
  Result<ExpressionPtr> bracketed(ExpressionPtr object, int line);
  Result<ExpressionPtr> slice_bound();
  Result<ExpressionPtr> call(ExpressionPtr callee);
  Result<CallArguments> call_arguments();
  Result<void> call_argument(CallArguments& arguments, int line);
  Result<ExpressionPtr> test(ExpressionPtr operand);
  Result<std::string> dotted_name();
  Result<void> check_target(const Expression& expression) const;
  bool tuple_ends() const;
  std::optional<Comparison> skip_comparison();
  Result<ExpressionPtr> make(int line, Expression::Node node) const;
  Result<void> enter() const;

  TokenStream& tokens_;
  int depth_ = 0;  // of brackets and prefixes being parsed
};

}  // namespace saccade::jinja

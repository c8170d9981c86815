#include "text/jinja/syntax/expression_parser.h"

#include <algorithm>

#include "text/jinja/syntax/parser.h"

namespace saccade::jinja {

Result<void> ExpressionParser::enter() const {
  if (depth_ <= kMaxExpressionDepth) return {};
  return tokens_.wrong(tokens_.line(), "expressions nest deeper than the limit of {}",
                       kMaxExpressionDepth);
}

Result<ExpressionPtr> ExpressionParser::make(int line, Expression::Node node) const {
  auto made = std::make_unique<Expression>();
  made->line = line;
  made->node = std::move(node);
  int below = 0;
  visit_children(*made, [&](const Expression& child) { below = std::max(below, child.depth); });
  made->depth = below + 1;
  if (made->depth > kMaxExpressionDepth) {
    return tokens_.wrong(line, "expressions nest deeper than the limit of {}", kMaxExpressionDepth);
  }
  return made;
}

Result<ExpressionPtr> ExpressionParser::expression(bool with_conditional) {
  const Level level(*this);
  TRY_DO(enter());
  return with_conditional ? conditional() : logical_or();
}

Result<ExpressionPtr> ExpressionParser::conditional() {
  const int line = tokens_.line();
  TRY(ExpressionPtr node, logical_or());
  while (tokens_.skip_name("if")) {
    TRY(ExpressionPtr test, logical_or());
    ExpressionPtr no;
    if (tokens_.skip_name("else")) {
      const Level level(*this);
      TRY_DO(enter());
      TRY(no, conditional());
    }
    TRY(node, make(line, Conditional{std::move(test), std::move(node), std::move(no)}));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::logical_or() {
  const int line = tokens_.line();
  TRY(ExpressionPtr node, logical_and());
  while (tokens_.skip_name("or")) {
    TRY(ExpressionPtr right, logical_and());
    TRY(node, make(line, Logical{false, std::move(node), std::move(right)}));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::logical_and() {
  const int line = tokens_.line();
  TRY(ExpressionPtr node, logical_not());
  while (tokens_.skip_name("and")) {
    TRY(ExpressionPtr right, logical_not());
    TRY(node, make(line, Logical{true, std::move(node), std::move(right)}));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::logical_not() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  const Level level(*this);
  TRY_DO(enter());
  TRY(ExpressionPtr operand, logical_not());
  return make(line, Unary{Unary::Operator::kNot, std::move(operand)});
}

std::optional<Comparison> ExpressionParser::skip_comparison() {
  static constexpr std::pair<std::string_view, Comparison> kComparisonSigns[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual}};
  for (const auto& [sign, meaning] : kComparisonSigns) {
    if (tokens_.skip_operator(sign)) return meaning;
  }
  if (tokens_.skip_name("in")) return Comparison::kIn;
  if (tokens_.is_name("not") && TokenStream::matches(tokens_.look(), TokenKind::kName, "in")) {
    tokens_.next();
    tokens_.next();
    return Comparison::kNotIn;
  }
  return std::nullopt;
}

Result<ExpressionPtr> ExpressionParser::comparison() {
  const int line = tokens_.line();
  TRY(ExpressionPtr first, sum());
  ComparisonChain chain;
  while (const auto meaning = skip_comparison()) {
    TRY(ExpressionPtr operand, sum());
    chain.rest.emplace_back(*meaning, std::move(operand));
  }
  if (chain.rest.empty()) return first;
  chain.first = std::move(first);
  return make(line, std::move(chain));
}

Result<ExpressionPtr> ExpressionParser::sum() {
  const int line = tokens_.line();
  TRY(ExpressionPtr node, concatenation());
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    const auto op = tokens_.next().text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    TRY(ExpressionPtr right, concatenation());
    TRY(node, make(line, Binary{op, std::move(node), std::move(right)}));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::concatenation() {
  const int line = tokens_.line();
  TRY(ExpressionPtr first, product());
  if (!tokens_.is_operator("~")) return first;
  Concatenation node;
  node.parts.push_back(std::move(first));
  while (tokens_.skip_operator("~")) {
    TRY(ExpressionPtr part, product());
    node.parts.push_back(std::move(part));
  }
  return make(line, std::move(node));
}

Result<ExpressionPtr> ExpressionParser::product() {
  static constexpr std::pair<std::string_view, BinaryOperator> kOperatorSigns[] = {
      {"*", BinaryOperator::kMultiply},
      {"/", BinaryOperator::kDivide},
      {"//", BinaryOperator::kFloorDivide},
      {"%", BinaryOperator::kModulo}};
  const int line = tokens_.line();
  TRY(ExpressionPtr node, power());
  while (true) {
    const auto* sign =
        std::find_if(std::begin(kOperatorSigns), std::end(kOperatorSigns),
                     [&](const auto& entry) { return tokens_.is_operator(entry.first); });
    if (sign == std::end(kOperatorSigns)) return node;
    tokens_.next();
    TRY(ExpressionPtr right, power());
    TRY(node, make(line, Binary{sign->second, std::move(node), std::move(right)}));
  }
}

Result<ExpressionPtr> ExpressionParser::power() {
  const int line = tokens_.line();
  TRY(ExpressionPtr node, unary());
  while (tokens_.skip_operator("**")) {
    TRY(ExpressionPtr right, unary());
    TRY(node, make(line, Binary{BinaryOperator::kPower, std::move(node), std::move(right)}));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::unary(bool with_filter) {
  const int line = tokens_.line();
  ExpressionPtr node;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const Level level(*this);
    TRY_DO(enter());
    const auto op =
        tokens_.next().text == "-" ? Unary::Operator::kNegate : Unary::Operator::kPositive;
    TRY(ExpressionPtr operand, unary(false));
    TRY(node, make(line, Unary{op, std::move(operand)}));
  } else {
    TRY(node, primary());
  }
  TRY(node, postfix(std::move(node)));
  if (!with_filter) return node;
  return filters_and_tests(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::name(bool with_namespace) {
  const Token token = tokens_.next();
  if (token.text == "true" || token.text == "True")
    return make(token.line, Literal{Value::boolean(true)});
  if (token.text == "false" || token.text == "False") {
    return make(token.line, Literal{Value::boolean(false)});
  }
  if (token.text == "none" || token.text == "None") return make(token.line, Literal{});
  if (with_namespace && tokens_.skip_operator(".")) {
    TRY(const Token attribute, tokens_.expect(TokenKind::kName, "name"));
    return make(token.line, NamespaceTarget{token.text, attribute.text, {}});
  }
  return make(token.line, Name{token.text, {}});
}

Result<ExpressionPtr> ExpressionParser::primary(bool with_namespace) {
  const Token& token = tokens_.current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kName:
      return name(with_namespace);
    case TokenKind::kString: {
      std::string text;
      while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;
      return make(
          line,
          Literal{Value::text(std::make_shared<const Text>(std::move(text), false, nullptr))});
    }
    case TokenKind::kInteger:
      return make(line, Literal{Value::integer(tokens_.next().integer)});
    case TokenKind::kFloat:
      return make(line, Literal{Value::real(tokens_.next().real)});
    default:
      break;
  }
  if (tokens_.skip_operator("(")) {
    TRY(ExpressionPtr node, tuple(true, true));
    TRY_DO(tokens_.expect_operator(")"));
    return node;
  }
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  return tokens_.wrong(line, "unexpected '{}'", describe(token));
}

bool ExpressionParser::tuple_ends() const {
  return tokens_.is(TokenKind::kVariableEnd) || tokens_.is(TokenKind::kBlockEnd) ||
         tokens_.is_operator(")");
}

Result<ExpressionPtr> ExpressionParser::tuple(bool with_conditional, bool in_parentheses) {
  const int line = tokens_.line();
  TupleDisplay items;
  bool is_tuple = false;
  while (true) {
    if (!items.items.empty()) TRY_DO(tokens_.expect_operator(","));
    if (tuple_ends()) break;
    TRY(ExpressionPtr item, expression(with_conditional));
    items.items.push_back(std::move(item));
    if (!tokens_.is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.items.empty()) return std::move(items.items[0]);
  if (!is_tuple && !in_parentheses) {
    return tokens_.wrong(line, "Expected an expression, got '{}'", describe(tokens_.current()));
  }
  return make(line, std::move(items));
}

Result<void> ExpressionParser::check_target(const Expression& expression) const {
  const auto refuse = [&](std::string_view what) {
    return tokens_.wrong(expression.line, "can't assign to '{}'", what);
  };
  if (const auto* tuple = std::get_if<TupleDisplay>(&expression.node)) {
    for (const auto& item : tuple->items) TRY_DO(check_target(*item));
    return {};
  }
  if (std::holds_alternative<Name>(expression.node)) return {};
  if (std::holds_alternative<NamespaceTarget>(expression.node)) return {};
  return refuse(std::holds_alternative<Literal>(expression.node) ? "const" : "expression");
}

Result<ExpressionPtr> ExpressionParser::target(bool with_namespace) {
  const int line = tokens_.line();
  TupleDisplay items;
  bool is_tuple = false;
  while (true) {
    if (!items.items.empty()) TRY_DO(tokens_.expect_operator(","));
    if (tuple_ends()) break;
    TRY(ExpressionPtr item, primary(with_namespace));
    items.items.push_back(std::move(item));
    if (!tokens_.is_operator(",")) break;
    is_tuple = true;
  }
  if (items.items.empty()) {
    return tokens_.wrong(line, "Expected an expression, got '{}'", describe(tokens_.current()));
  }
  ExpressionPtr made;
  if (is_tuple) {
    TRY(made, make(line, std::move(items)));
  } else {
    made = std::move(items.items[0]);
  }
  TRY_DO(check_target(*made));
  return made;
}

Result<std::string> ExpressionParser::target_name() {
  TRY(const Token token, tokens_.expect(TokenKind::kName, "name"));
  static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                    "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), token.text) != std::end(kConstants)) {
    return tokens_.wrong(token.line, "can't assign to '{}'", token.text);
  }
  return token.text;
}

Result<ExpressionPtr> ExpressionParser::list() {
  const int line = tokens_.line();
  TRY_DO(tokens_.expect_operator("["));
  ListDisplay node;
  while (!tokens_.is_operator("]")) {
    if (!node.items.empty()) TRY_DO(tokens_.expect_operator(","));
    if (tokens_.is_operator("]")) break;
    TRY(ExpressionPtr item, expression());
    node.items.push_back(std::move(item));
  }
  TRY_DO(tokens_.expect_operator("]"));
  return make(line, std::move(node));
}

Result<ExpressionPtr> ExpressionParser::dict() {
  const int line = tokens_.line();
  TRY_DO(tokens_.expect_operator("{"));
  DictDisplay node;
  while (!tokens_.is_operator("}")) {
    if (!node.items.empty()) TRY_DO(tokens_.expect_operator(","));
    if (tokens_.is_operator("}")) break;
    TRY(ExpressionPtr key, expression());
    TRY_DO(tokens_.expect_operator(":"));
    TRY(ExpressionPtr value, expression());
    node.items.emplace_back(std::move(key), std::move(value));
  }
  TRY_DO(tokens_.expect_operator("}"));
  return make(line, std::move(node));
}

}  // namespace saccade::jinja

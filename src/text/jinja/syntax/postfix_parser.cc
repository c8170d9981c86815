// What follows a primary expression: attributes, subscripts, calls, filters and tests
// (jinja_expression_parser.h).
#include "text/jinja/syntax/expression_parser.h"

namespace saccade::jinja {

Result<ExpressionPtr> ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.is_operator(".") || tokens_.is_operator("[")) {
      TRY(node, subscript(std::move(node)));
    } else if (tokens_.is_operator("(")) {
      TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (tokens_.is_operator("|")) {
      TRY(node, filters(std::move(node), false));
    } else if (tokens_.is_name("is")) {
      TRY(node, test(std::move(node)));
    } else if (tokens_.is_operator("(")) {
      TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::subscript(ExpressionPtr object) {
  const int line = tokens_.line();
  if (!tokens_.skip_operator(".")) {
    TRY_DO(tokens_.expect_operator("["));
    return bracketed(std::move(object), line);
  }
  const Token attribute = tokens_.next();
  if (attribute.kind == TokenKind::kName) {
    return make(line, Attribute{std::move(object), attribute.text});
  }
  if (attribute.kind != TokenKind::kInteger) {
    return tokens_.wrong(attribute.line, "expected name or number");
  }
  TRY(ExpressionPtr key, make(attribute.line, Literal{Value::integer(attribute.integer)}));
  return make(line, Subscript{std::move(object), std::move(key)});
}

// A bound of a slice; null when it is left out.
Result<ExpressionPtr> ExpressionParser::slice_bound() {
  if (tokens_.is_operator(":") || tokens_.is_operator("]") || tokens_.is_operator(",")) {
    return ExpressionPtr();
  }
  return expression();
}

// object[key], object[a, b], object[start:stop:step]; the opening bracket is behind.
Result<ExpressionPtr> ExpressionParser::bracketed(ExpressionPtr object, int line) {
  TupleDisplay keys;
  while (!tokens_.is_operator("]")) {
    if (!keys.items.empty()) TRY_DO(tokens_.expect_operator(","));
    TRY(ExpressionPtr key, slice_bound());
    if (tokens_.skip_operator(":")) {
      TRY(ExpressionPtr stop, slice_bound());
      ExpressionPtr step;
      if (tokens_.skip_operator(":")) {
        TRY(step, slice_bound());
      }
      if (!keys.items.empty() || !tokens_.is_operator("]")) {
        return tokens_.wrong(line, "slices in a tuple are not done");
      }
      tokens_.next();
      return make(line, Slice{std::move(object), std::move(key), std::move(stop), std::move(step)});
    }
    if (!key) return tokens_.wrong(line, "unexpected '{}'", describe(tokens_.current()));
    keys.items.push_back(std::move(key));
  }
  TRY_DO(tokens_.expect_operator("]"));
  ExpressionPtr key;
  if (keys.items.size() == 1) {
    key = std::move(keys.items[0]);
  } else {
    TRY(key, make(line, std::move(keys)));
  }
  return make(line, Subscript{std::move(object), std::move(key)});
}

Result<ExpressionPtr> ExpressionParser::call(ExpressionPtr callee) {
  const int line = tokens_.line();
  TRY(CallArguments arguments, call_arguments());
  return make(line, Call{std::move(callee), std::move(arguments)});
}

Result<CallArguments> ExpressionParser::call_arguments() {
  const int line = tokens_.line();
  TRY_DO(tokens_.expect_operator("("));
  CallArguments arguments;
  for (bool first = true; !tokens_.is_operator(")"); first = false) {
    if (!first) TRY_DO(tokens_.expect_operator(","));
    if (tokens_.is_operator(")")) break;
    TRY_DO(call_argument(arguments, line));
  }
  TRY_DO(tokens_.expect_operator(")"));
  return arguments;
}

Result<void> ExpressionParser::call_argument(CallArguments& arguments, int line) {
  const auto refuse = [&] {
    return tokens_.wrong(line, "invalid syntax for function call expression");
  };
  if (tokens_.skip_operator("*")) {
    if (arguments.spread || arguments.spread_named) return refuse();
    TRY(arguments.spread, expression());
  } else if (tokens_.skip_operator("**")) {
    if (arguments.spread_named) return refuse();
    TRY(arguments.spread_named, expression());
  } else if (tokens_.is(TokenKind::kName) &&
             TokenStream::matches(tokens_.look(), TokenKind::kOperator, "=")) {
    if (arguments.spread_named) return refuse();
    const std::string key = tokens_.next().text;
    tokens_.next();
    TRY(ExpressionPtr value, expression());
    for (const auto& [name, other] : arguments.named) {
      if (name == key) return tokens_.wrong(line, "keyword argument repeated: {}", key);
    }
    arguments.named.emplace_back(key, std::move(value));
  } else {
    if (arguments.spread || arguments.spread_named || !arguments.named.empty()) return refuse();
    TRY(ExpressionPtr value, expression());
    arguments.positional.push_back(std::move(value));
  }
  return {};
}

Result<std::string> ExpressionParser::dotted_name() {
  TRY(const Token first, tokens_.expect(TokenKind::kName, "name"));
  std::string name = first.text;
  while (tokens_.skip_operator(".")) {
    TRY(const Token part, tokens_.expect(TokenKind::kName, "name"));
    name += "." + part.text;
  }
  return name;
}

Result<ExpressionPtr> ExpressionParser::filters(ExpressionPtr operand, bool inline_start) {
  ExpressionPtr node = std::move(operand);
  while (inline_start || tokens_.is_operator("|")) {
    if (!inline_start) tokens_.next();
    inline_start = false;
    FilterCall filter;
    const int line = tokens_.line();
    TRY(filter.name, dotted_name());
    if (tokens_.is_operator("(")) {
      TRY(filter.arguments, call_arguments());
    }
    filter.operand = std::move(node);
    TRY(node, make(line, std::move(filter)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::test(ExpressionPtr operand) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  TestCall test;
  TRY(test.name, dotted_name());
  const auto starts_argument = [&] {
    if (tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and")) return false;
    return tokens_.is(TokenKind::kName) || tokens_.is(TokenKind::kString) ||
           tokens_.is(TokenKind::kInteger) || tokens_.is(TokenKind::kFloat) ||
           tokens_.is_operator("[") || tokens_.is_operator("{");
  };
  if (tokens_.is_operator("(")) {
    TRY(test.arguments, call_arguments());
  } else if (starts_argument()) {
    if (tokens_.is_name("is")) {
      return tokens_.wrong(tokens_.line(), "You cannot chain multiple tests with is");
    }
    const Level level(*this);
    TRY_DO(enter());
    TRY(ExpressionPtr argument, primary());
    TRY(argument, postfix(std::move(argument)));
    test.arguments.positional.push_back(std::move(argument));
  }
  test.operand = std::move(operand);
  TRY(ExpressionPtr node, make(line, std::move(test)));
  if (!negated) return node;
  return make(line, Unary{Unary::Operator::kNot, std::move(node)});
}

}  // namespace saccade::jinja

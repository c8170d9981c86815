#include "text/jinja/syntax/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/scope.h"
#include "text/jinja/syntax/expression_parser.h"
#include "text/jinja/syntax/token_stream.h"

namespace saccade::jinja {
namespace {

// The statement half of the parser.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}
  Result<Body> run() { return body({}); }

 private:
  using EndTags = std::initializer_list<std::string_view>;

  // Up to one of the end tags, whose name is left as the current token; up to the end without any.
  Result<Body> body(EndTags ends);
  // A statement's body: from the end of its tag up to one of the end tags.
  Result<Body> block(EndTags ends);
  // The same with one end tag, which is passed.
  Result<Body> whole_block(std::string_view end);
  Result<void> statement(Body& out);

  Result<void> if_statement(Body& out, int line);
  Result<void> for_statement(Body& out, int line);
  Result<void> set_statement(Body& out, int line);
  Result<void> with_statement(Body& out, int line);
  Result<void> macro_statement(Body& out, int line);
  Result<void> call_statement(Body& out, int line);
  Result<void> generation_statement(Body& out, int line);
  Result<void> filter_statement(Body& out, int line);
  Result<void> print_statement(Body& out, int line);
  Result<void> loop_control(Body& out, int line);
  Result<void> parameters(MacroDefinition& definition);
  Result<Body> function_body(std::string_view end);
  Result<ExpressionPtr> copy_target(const Expression& target) const;
  tl::unexpected<Error> unknown_tag(const Token& tag) const;

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::vector<std::string> open_tags_;
  int depth_ = 0;
  int loops_ = 0;  // around this place, within its macro: break and continue need one
};

template <typename Node>
void add(Body& out, int line, Node node) {
  out.push_back(Statement{line, std::move(node)});
}

Result<Body> Parser::body(EndTags ends) {
  Body out;
  while (true) {
    const Token& token = tokens_.current();
    switch (token.kind) {
      case TokenKind::kEnd:
        if (ends.size() == 0) return out;
        return tokens_.wrong(token.line,
                             "Unexpected end of template. The innermost block that needs to be "
                             "closed is '{}'.",
                             open_tags_.back());
      case TokenKind::kData:
        add(out, token.line, Data{token.text});
        tokens_.next();
        break;
      case TokenKind::kVariableBegin: {
        const int line = tokens_.next().line;
        TRY(ExpressionPtr value, expressions_.tuple());
        TRY_DO(tokens_.expect(TokenKind::kVariableEnd, "end of print statement"));
        add(out, line, Print{std::move(value)});
        break;
      }
      default:
        tokens_.next();  // the begin of a tag
        if (std::any_of(ends.begin(), ends.end(),
                        [&](std::string_view end) { return tokens_.is_name(end); })) {
          return out;
        }
        TRY_DO(statement(out));
        TRY_DO(tokens_.expect(TokenKind::kBlockEnd, "end of statement block"));
    }
  }
}

Result<Body> Parser::block(EndTags ends) {
  tokens_.skip_operator(":");
  TRY_DO(tokens_.expect(TokenKind::kBlockEnd, "end of statement block"));
  return body(ends);
}

Result<Body> Parser::whole_block(std::string_view end) {
  TRY(Body inner, block({end}));
  tokens_.next();
  return inner;
}

tl::unexpected<Error> Parser::unknown_tag(const Token& tag) const {
  static constexpr std::string_view kElsewhere[] = {"include", "import", "from",
                                                    "extends", "block",  "autoescape"};
  if (std::find(std::begin(kElsewhere), std::end(kElsewhere), tag.text) != std::end(kElsewhere)) {
    return fail(ErrorCode::kUnsupported, "line {}: the tag '{}' is not supported in chat templates",
                tag.line, tag.text);
  }
  if (open_tags_.empty()) return tokens_.wrong(tag.line, "Encountered unknown tag '{}'.", tag.text);
  return tokens_.wrong(
      tag.line,
      "Encountered unknown tag '{}'. The innermost block that needs to be closed is '{}'.",
      tag.text, open_tags_.back());
}

Result<void> Parser::statement(Body& out) {
  if (!tokens_.is(TokenKind::kName)) return tokens_.wrong(tokens_.line(), "tag name expected");
  using Parse = Result<void> (Parser::*)(Body&, int);
  static constexpr std::pair<std::string_view, Parse> kStatements[] = {
      {"if", &Parser::if_statement},         {"for", &Parser::for_statement},
      {"set", &Parser::set_statement},       {"with", &Parser::with_statement},
      {"macro", &Parser::macro_statement},   {"call", &Parser::call_statement},
      {"filter", &Parser::filter_statement}, {"generation", &Parser::generation_statement},
      {"print", &Parser::print_statement},   {"break", &Parser::loop_control},
      {"continue", &Parser::loop_control}};
  const auto* known = std::find_if(std::begin(kStatements), std::end(kStatements),
                                   [&](const auto& entry) { return tokens_.is_name(entry.first); });
  if (known == std::end(kStatements)) return unknown_tag(tokens_.current());
  if (depth_ >= kMaxStatementDepth) {
    return tokens_.wrong(tokens_.line(), "statements nest deeper than the limit of {}",
                         kMaxStatementDepth);
  }
  ++depth_;
  open_tags_.emplace_back(known->first);
  const int line = known->second == &Parser::loop_control ? tokens_.line() : tokens_.next().line;
  TRY_DO((this->*known->second)(out, line));
  open_tags_.pop_back();
  --depth_;
  return {};
}

Result<void> Parser::if_statement(Body& out, int line) {
  If node;
  while (true) {
    TRY(ExpressionPtr test, expressions_.tuple(false));
    TRY(Body branch, block({"elif", "else", "endif"}));
    node.branches.emplace_back(std::move(test), std::move(branch));
    const Token end = tokens_.next();
    if (end.text == "elif") continue;
    if (end.text == "else") {
      TRY(node.otherwise, whole_block("endif"));
    }
    break;
  }
  add(out, line, std::move(node));
  return {};
}

// A second copy of a loop's target, which the filter of the loop assigns to in a scope of its own.
Result<ExpressionPtr> Parser::copy_target(const Expression& target) const {
  auto copy = std::make_unique<Expression>();
  copy->line = target.line;
  copy->depth = target.depth;
  if (const auto* name = std::get_if<Name>(&target.node)) {
    copy->node = Name{name->name, {}};
  } else {
    TupleDisplay items;
    for (const auto& item : std::get<TupleDisplay>(target.node).items) {
      TRY(ExpressionPtr inner, copy_target(*item));
      items.items.push_back(std::move(inner));
    }
    copy->node = std::move(items);
  }
  return copy;
}

Result<void> Parser::for_statement(Body& out, int line) {
  For node;
  TRY(node.target, expressions_.target(false));
  TRY_DO(tokens_.expect_name("in"));
  TRY(node.iterable, expressions_.tuple(false));
  if (tokens_.skip_name("if")) {
    TRY(node.filter, expressions_.expression());
    TRY(node.filter_target, copy_target(*node.target));
  }
  node.recursive = tokens_.skip_name("recursive");
  ++loops_;
  TRY(node.body, block({"endfor", "else"}));
  --loops_;
  if (tokens_.next().text == "else") {
    TRY(node.otherwise, whole_block("endfor"));
  }
  add(out, line, std::move(node));
  return {};
}

Result<void> Parser::set_statement(Body& out, int line) {
  TRY(ExpressionPtr target, expressions_.target(true));
  if (tokens_.skip_operator("=")) {
    TRY(ExpressionPtr value, expressions_.tuple());
    add(out, line, Set{std::move(target), std::move(value)});
    return {};
  }
  SetBlock node;
  node.target = std::move(target);
  TRY(node.filter, expressions_.filters(nullptr, false));
  TRY(node.body, whole_block("endset"));
  add(out, line, std::move(node));
  return {};
}

Result<void> Parser::with_statement(Body& out, int line) {
  With node;
  while (!tokens_.is(TokenKind::kBlockEnd)) {
    if (!node.variables.empty()) TRY_DO(tokens_.expect_operator(","));
    TRY(ExpressionPtr target, expressions_.target(false));
    TRY_DO(tokens_.expect_operator("="));
    TRY(ExpressionPtr value, expressions_.expression());
    node.variables.emplace_back(std::move(target), std::move(value));
  }
  TRY(node.body, whole_block("endwith"));
  add(out, line, std::move(node));
  return {};
}

Result<void> Parser::parameters(MacroDefinition& definition) {
  TRY_DO(tokens_.expect_operator("("));
  while (!tokens_.is_operator(")")) {
    if (!definition.parameters.empty()) TRY_DO(tokens_.expect_operator(","));
    Parameter parameter;
    const int line = tokens_.line();
    TRY(parameter.name, expressions_.target_name());
    if (tokens_.skip_operator("=")) {
      TRY(parameter.fallback, expressions_.expression());
    } else if (!definition.parameters.empty() && definition.parameters.back().fallback) {
      return tokens_.wrong(line, "non-default argument follows default argument");
    }
    for (const auto& other : definition.parameters) {
      if (other.name == parameter.name) {
        return tokens_.wrong(line, "duplicate argument '{}' in function definition",
                             parameter.name);
      }
    }
    definition.parameters.push_back(std::move(parameter));
  }
  return tokens_.expect_operator(")");
}

// The body of something called: no loop around it can be left from inside.
Result<Body> Parser::function_body(std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0);
  TRY(Body inner, whole_block(end));
  loops_ = outer_loops;
  return inner;
}

Result<void> Parser::macro_statement(Body& out, int line) {
  Macro node;
  TRY(node.definition.name, expressions_.target_name());
  TRY_DO(parameters(node.definition));
  TRY(node.definition.body, function_body("endmacro"));
  add(out, line, std::move(node));
  return {};
}

Result<void> Parser::call_statement(Body& out, int line) {
  CallBlock node;
  node.definition.name = "caller";
  if (tokens_.is_operator("(")) TRY_DO(parameters(node.definition));
  TRY(node.call, expressions_.expression());
  if (!std::holds_alternative<Call>(node.call->node)) return tokens_.wrong(line, "expected call");
  TRY(node.definition.body, function_body("endcall"));
  add(out, line, std::move(node));
  return {};
}

Result<void> Parser::generation_statement(Body& out, int line) {
  CallBlock node;
  node.definition.name = "caller";
  TRY(node.definition.body, function_body("endgeneration"));
  add(out, line, std::move(node));
  return {};
}

Result<void> Parser::filter_statement(Body& out, int line) {
  FilterBlock node;
  TRY(node.filter, expressions_.filters(nullptr, true));
  TRY(node.body, whole_block("endfilter"));
  add(out, line, std::move(node));
  return {};
}

Result<void> Parser::print_statement(Body& out, int line) {
  for (bool first = true; !tokens_.is(TokenKind::kBlockEnd); first = false) {
    if (!first) TRY_DO(tokens_.expect_operator(","));
    TRY(ExpressionPtr value, expressions_.expression());
    add(out, line, Print{std::move(value)});
  }
  return {};
}

Result<void> Parser::loop_control(Body& out, int line) {
  const Token tag = tokens_.next();
  if (loops_ == 0) return tokens_.wrong(line, "'{}' outside loop", tag.text);
  if (tag.text == "break") {
    add(out, line, Break{});
  } else {
    add(out, line, Continue{});
  }
  return {};
}

}  // namespace

Result<Program> parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return fail(ErrorCode::kInvalid, "the template is {} bytes, limit {}", source.size(),
                kMaxSourceBytes);
  }
  TRY(std::vector<Token> tokens, tokenize(source));
  Program program;
  TRY(program.body, Parser(std::move(tokens)).run());
  TRY_DO(resolve(program));
  return program;
}

}  // namespace saccade::jinja

// Template source to syntax tree, and the tree to a program that is ready to run.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/syntax/ast.h"

namespace saccade::jinja {

constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;
constexpr int kMaxExpressionDepth = 150;  // of one expression, brackets included
constexpr int kMaxStatementDepth = 60;    // of statements within statements

// kInvalid names the line and what is wrong there: syntax, and tags, filters and tests that do not
// exist. kUnsupported: tags that need other templates (include, import, extends, block).
Result<Program> parse(std::string_view source);

}  // namespace saccade::jinja

// The filters of the template language by name.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

struct Filter {
  std::string_view name;
  // `arguments` are those in the parentheses.
  Result<Value> (*apply)(RenderState& state, const Value& input, Arguments& arguments);
};

// Null: there is no such filter.
const Filter* find_filter(std::string_view name);

// The parts of the table, one a file.
std::span<const Filter> text_filters();
std::span<const Filter> number_filters();
std::span<const Filter> sequence_filters();
std::span<const Filter> iterator_filters();

}  // namespace saccade::jinja

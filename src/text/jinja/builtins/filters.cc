#include "text/jinja/builtins/filters.h"

#include <unordered_map>

namespace saccade::jinja {

const Filter* find_filter(std::string_view name) {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const Filter*> table;
    for (const auto part :
         {text_filters(), number_filters(), sequence_filters(), iterator_filters()}) {
      for (const Filter& filter : part) table.emplace(filter.name, &filter);
    }
    return table;
  }();
  const auto it = kByName.find(name);
  return it == kByName.end() ? nullptr : it->second;
}

}  // namespace saccade::jinja

// Whole objects and arrays for a JsonWriter: what is begun is ended.
//   put_object(w, [&] { w.member("id", 1); array_member(w, "names", names); });
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace saccade::json {

template <typename Members>
void put_object(JsonWriter& w, Members&& members) {
  w.begin_object();
  members();
  w.end_object();
}

template <typename Items, typename Put>
void put_array(JsonWriter& w, const Items& items, Put&& put) {
  w.begin_array();
  for (const auto& item : items) put(item);
  w.end_array();
}
template <typename Items>
void put_array(JsonWriter& w, const Items& items) {
  put_array(w, items, [&w](const auto& item) { w.value(item); });
}

// The same as members of the object that is being written.
template <typename Members>
void object_member(JsonWriter& w, std::string_view name, Members&& members) {
  w.key(name);
  put_object(w, std::forward<Members>(members));
}
template <typename Items, typename... Put>
void array_member(JsonWriter& w, std::string_view name, const Items& items, Put&&... put) {
  w.key(name);
  put_array(w, items, std::forward<Put>(put)...);
}
template <typename Value>
void member_or_null(JsonWriter& w, std::string_view name, const std::optional<Value>& value) {
  w.key(name);
  value ? w.value(*value) : w.null();
}

}  // namespace saccade::json

// What becomes of the members of the objects within a request, as field_table.h says it of the
// request's own: one table by place, which Fields::settle follows.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/requests/fields/field_table.h"

namespace saccade::api {

struct MemberRow {
  std::string_view name;
  Fate fate;
  std::string_view note = {};
  std::string_view harmless = {};  // of what is refused, the value that asks for nothing
};

// What becomes of members that have no row.
enum class Others {
  kLogged,    // taken; the log names them once
  kTemplate,  // the object is shown whole
  kRefused,   // kInvalid with their names
};

// "messages[].content[].image_url": the value of that member of each part of each message, where it
// is an object.
struct Place {
  std::string_view path;
  std::uint16_t kinds;  // RequestKinds
  std::span<const MemberRow> rows;
  Others others = Others::kLogged;
};

std::span<const Place> member_table();
// Null: no table has the place.
const Place* place_of(RequestKind kind, std::string_view path);
// Null: the place has no such row.
const MemberRow* row_of(const Place& place, std::string_view name);

}  // namespace saccade::api

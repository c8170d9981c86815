#include "api/requests/response_input.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <utility>
#include <vector>

#include "api/requests/conversation.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {
namespace {

constexpr std::int64_t kMaxItems = 100;

// A text becomes the part that stands for it, as clients' types have messages.
void spell_out(json::object& item) {
  if (!item.contains("type")) item["type"] = "message";
  if (type_of(item) != "message") return;
  if (!item.contains("status")) item["status"] = "completed";
  const json::value* role = json::find(item, "role");
  const bool said = role != nullptr && role->is_string() && role->get_string() == "assistant";
  json::value& content = item["content"];
  if (!content.is_string()) return;
  json::object part{{"type", said ? "output_text" : "input_text"}, {"text", content}};
  if (said) part["annotations"] = json::array();
  content = json::array{std::move(part)};
}

std::string_view id_of(const json::object& item) {
  const json::value* id = json::find(item, "id");
  return id != nullptr && id->is_string() ? std::string_view(id->get_string()) : std::string_view();
}

Result<std::vector<json::object>> items_of(std::span<const ItemText> conversation,
                                           std::string_view response) {
  std::vector<json::object> items;
  for (const ItemText& turn : conversation) {
    TRY(json::value list, json::parse(*turn));
    for (json::value& v : list.get_array()) {
      if (!v.is_object()) continue;
      json::object& item = items.emplace_back(std::move(v.get_object()));
      spell_out(item);
      if (id_of(item).empty())
        item["id"] =
            fmt::format("item_{}_{}", response.substr(response.find('_') + 1), items.size() - 1);
    }
  }
  return items;
}

}  // namespace

Result<ItemPage> parse_item_page(std::string_view query) {
  ItemPage page;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    const std::string_view name = one.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : one.substr(equals + 1);
    if (name == "limit") {
      const auto [end, code] =
          std::from_chars(value.data(), value.data() + value.size(), page.limit);
      if (code != std::errc() || end != value.data() + value.size() || page.limit < 1 ||
          page.limit > kMaxItems)
        return invalid("limit", "'limit' is '{}', 1 to {} are possible", value.substr(0, 40),
                       kMaxItems);
    } else if (name == "order") {
      if (value != "asc" && value != "desc")
        return invalid("order", "'order' is '{}', asc and desc are known", value.substr(0, 40));
      page.newest_first = value == "desc";
    } else if (name == "after") {
      page.after = value;
    }
  }
  return page;
}

Result<std::string> input_items(std::span<const ItemText> conversation, std::string_view response,
                                const ItemPage& page) {
  TRY(std::vector<json::object> items, items_of(conversation, response));
  if (page.newest_first) std::ranges::reverse(items);
  auto begin = items.begin();
  if (!page.after.empty()) {
    begin = std::ranges::find(items, std::string_view(page.after), id_of);
    if (begin == items.end())
      return invalid("after", "'after' is '{}', which is no item of this response",
                     page.after.substr(0, 128));
    ++begin;
  }
  const auto end = begin + std::min<std::ptrdiff_t>(page.limit, items.end() - begin);
  std::string out;
  json::JsonWriter w(out);
  const auto write_id = [&](std::string_view name, auto at) {
    w.key(name);
    if (begin == end) {
      w.null();
    } else {
      w.value(id_of(*at));
    }
  };
  w.begin_object();
  w.member("object", "list");
  w.key("data");
  w.begin_array();
  for (auto item = begin; item != end; ++item) w.value(json::value(*item));
  w.end_array();
  write_id("first_id", begin);
  write_id("last_id", begin == end ? end : end - 1);
  w.member("has_more", end != items.end());
  w.end_object();
  return out;
}

}  // namespace saccade::api

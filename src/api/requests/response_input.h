// GET /v1/responses/{id}/input_items: what a response answered, page by page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "api/requests/response_request.h"
#include "base/result.h"

namespace saccade::api {

struct ItemPage {
  std::int64_t limit = 20;  // 1 to 100
  bool newest_first = true;
  std::string after;  // an item's id; empty: from the beginning
};

// limit, order (asc, desc) and after of a URL's query; others are passed over.
Result<ItemPage> parse_item_page(std::string_view query);

// The items of a conversation, oldest turn first. Items without an id of their own have one by
// their place in it: the same whenever they are asked for. kInvalid: `after` is none of them.
Result<std::string> input_items(std::span<const ItemText> conversation, std::string_view response,
                                const ItemPage& page);

}  // namespace saccade::api

#include "api/requests/response_input.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

namespace saccade::api {
namespace {

const std::vector<ItemText>& conversation() {
  static const std::vector<ItemText> turns = {
      std::make_shared<const std::string>(
          R"([{"type": "message", "role": "user", "content": "a"}])"),
      std::make_shared<const std::string>(
          R"([{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": "b"}]}])"),
      std::make_shared<const std::string>(
          R"([{"type": "function_call_output", "call_id": "c", "output": "1"},
              {"role": "assistant", "content": "d"}])")};
  return turns;
}

json::value listed(std::string_view query) {
  const auto page = parse_item_page(query);
  EXPECT_TRUE(page) << query;
  const auto text = input_items(conversation(), "resp_7", *page);
  EXPECT_TRUE(text) << query;
  return json::parse(text ? *text : "null").value();
}

std::vector<std::string> ids(const json::value& list) {
  std::vector<std::string> all;
  for (const auto& item : list.at("data").as_array()) all.emplace_back(item.at("id").as_string());
  return all;
}

TEST(ResponseInput, ItemsAreSpelledOut) {
  const json::value list = listed("order=asc");
  EXPECT_EQ(ids(list), (std::vector<std::string>{"item_7_0", "msg_1", "item_7_2", "item_7_3"}));
  const auto& data = list.at("data");
  EXPECT_EQ(data.at(0).at("content").at(0), (json::object{{"type", "input_text"}, {"text", "a"}}));
  EXPECT_EQ(data.at(3).at("type").as_string(), "message");
  EXPECT_EQ(data.at(3).at("content").at(0).at("type").as_string(), "output_text");
  EXPECT_FALSE(list.at("has_more").as_bool());
  EXPECT_EQ(list.at("last_id").as_string(), "item_7_3");
}

TEST(ResponseInput, PagesFollowOneAnother) {
  const json::value first = listed("limit=3&other=1");
  EXPECT_EQ(ids(first), (std::vector<std::string>{"item_7_3", "item_7_2", "msg_1"}));
  EXPECT_TRUE(first.at("has_more").as_bool());
  const json::value rest = listed("limit=3&after=msg_1");
  EXPECT_EQ(ids(rest), (std::vector<std::string>{"item_7_0"}));
  EXPECT_FALSE(rest.at("has_more").as_bool());
  const json::value none = listed("after=item_7_0");
  EXPECT_TRUE(none.at("data").as_array().empty());
  EXPECT_TRUE(none.at("first_id").is_null());
  EXPECT_TRUE(none.at("last_id").is_null());
}

TEST(ResponseInput, RefusalsNameTheMember) {
  for (const char* query : {"limit=0", "limit=101", "limit=x", "limit", "order=up"})
    EXPECT_FALSE(parse_item_page(query)) << query;
  const auto text = input_items(conversation(), "resp_7", *parse_item_page("after=nobody"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().param, "after");
}

}  // namespace
}  // namespace saccade::api

#include "batch/batch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace saccade::batch {
namespace {

using testing::HasSubstr;

TEST(BatchLine, IsARequest) {
  const auto line = read_line(
      R"({"custom_id":"ä","method":"POST","url":"/v1/x?a=b","body":{"n":1.5,"big":18446744073709551615,"list":[null]}})",
      1);
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(line->custom_id, "ä");
  EXPECT_EQ(line->request.method, "POST");
  EXPECT_EQ(line->request.path, "/v1/x");
  EXPECT_EQ(line->request.query, "a=b");
  EXPECT_EQ(line->request.body, R"({"n":1.5,"big":18446744073709551615,"list":[null]})");
}

TEST(BatchLine, BodiesMayBeAsDeepAsOverHttp) {
  const auto nested = [](int depth) {
    std::string body = "1";
    for (int i = 0; i < depth - 1; ++i) body = "[" + body + "]";
    return R"({"custom_id":"a","method":"POST","url":"/x","body":{"a":)" + body + "}}";
  };
  EXPECT_TRUE(read_line(nested(64), 1));
  EXPECT_FALSE(read_line(nested(66), 1));
}

TEST(BatchLine, SaysWhatIsWrongAndWhere) {
  const auto code = [](const std::string& text, std::string_view words) {
    const auto line = read_line(text, 7);
    if (line) return std::string("none");
    EXPECT_THAT(line.error().message, HasSubstr("line 7: "));
    EXPECT_THAT(line.error().message, HasSubstr(std::string(words)));
    return std::string(line.error().code);
  };
  EXPECT_EQ(code("{", ""), "invalid_json_line");
  EXPECT_EQ(code("[]", "object"), "invalid_json_line");
  EXPECT_EQ(code(R"({"method":"POST"})", "custom_id"), "missing_required_parameter");
  EXPECT_EQ(code(R"({"custom_id":7})", "custom_id"), "missing_required_parameter");
  EXPECT_EQ(code(R"({"custom_id":"a","method":"GET"})", "POST"), "invalid_method");
  EXPECT_EQ(code(R"({"custom_id":"a","method":"POST","url":"http://h/v1"})", "path"),
            "invalid_url");
  EXPECT_EQ(code(R"({"custom_id":"a","method":"POST","url":"/v1"})", "body"),
            "missing_required_parameter");
  EXPECT_EQ(
      code(R"({"custom_id":"a","method":"POST","url":"/v1","body":{"stream":true}})", "stream"),
      "invalid_request");
  EXPECT_EQ(code(R"({"custom_id":")" + std::string(513, 'a') + R"("})", "513"),
            "invalid_custom_id");
}

TEST(AnswerLine, IsFoundAgain) {
  const std::string line = answer_line(3, "a\"b", {200, "application/json", R"({"x":1})", {}});
  EXPECT_EQ(line, R"({"id":"batch_req_000003","custom_id":"a\"b","response":{"status_code":200,)"
                  R"("request_id":"batch_req_000003","body":{"x":1}},"error":null})"
                  "\n");
  const auto key = read_answer_key(line);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->custom_id, "a\"b");
  EXPECT_FALSE(key->is_error);
  const auto refused = read_answer_key(answer_line(4, "c", {404, "text/plain", "no\n", {}}));
  ASSERT_TRUE(refused);
  EXPECT_TRUE(refused->is_error);
}

TEST(AnswerLine, OfWhatWasNotAskedIsKnownByItsNumber) {
  const std::string line = error_line(12, {"invalid_json_line", "line 12: oh"});
  EXPECT_EQ(line, R"({"id":"batch_req_000012","custom_id":null,"response":null,)"
                  R"("error":{"code":"invalid_json_line","message":"line 12: oh"}})"
                  "\n");
  const auto key = read_answer_key(line);
  ASSERT_TRUE(key);
  EXPECT_FALSE(key->custom_id);
  EXPECT_EQ(key->id, answer_id(12));
  EXPECT_TRUE(key->is_error);
}

TEST(AnswerLine, WhateverElseIsNone) {
  for (const char* text : {"", "{}", "[]", "{\"id\":\"a\"}", "7", "{\"custom_id\":\"a\"}"})
    EXPECT_FALSE(read_answer_key(text)) << text;
  const std::string line = answer_line(3, "a", {200, "application/json", "{}", {}});
  for (std::size_t size = 0; size < line.size(); ++size)
    EXPECT_TRUE(may_begin_answer(line.substr(0, size))) << size;
  EXPECT_FALSE(may_begin_answer("{\"custom_id\""));
  EXPECT_FALSE(may_begin_answer("batch"));
}

}  // namespace
}  // namespace saccade::batch

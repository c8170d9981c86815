// Every row of the table of limits: as many pass, one more is refused with both numbers.
#include "api/pages/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/requests/chat_request.h"
#include "api/requests/completion_request.h"
#include "api/requests/embeddings.h"
#include "api/requests/response_request.h"
#include "api/requests/tokenize_request.h"

namespace saccade::api {
namespace {

// item(0), item(1), ... with commas between.
std::string list(std::size_t count, const std::function<std::string(std::size_t)>& item) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    text += item(i);
  }
  return text;
}

std::string same(std::size_t count, const std::string& item) {
  return list(count, [&](std::size_t) { return item; });
}

std::string named(std::size_t count, const std::string& prefix) {
  return list(count, [&](std::size_t i) { return "\"" + prefix + std::to_string(i) + "\":1"; });
}

std::string message(const std::string& content) {
  return R"({"messages": [{"role": "user", "content": )" + content + "}]}";
}

std::string with(const std::string& members) {
  return R"({"messages": [{"role": "user", "content": "x"}], "prompt": "x", )" + members + "}";
}

std::string text_of_bytes(std::size_t bytes) { return "\"" + std::string(bytes, 'x') + "\""; }

Result<void> limited_chat(const std::string& body) {
  TRY_DO(parse_chat_request(body).map([](auto&&) {}));
  return {};
}
Result<void> limited_completion(const std::string& body) {
  TRY_DO(parse_completion_request(body).map([](auto&&) {}));
  return {};
}
Result<void> embedding(const std::string& body) {
  TRY_DO(parse_embedding_request(body).map([](auto&&) {}));
  return {};
}

Result<void> limited_response(const std::string& body) {
  TRY_DO(parse_response_request(body).map([](auto&&) {}));
  return {};
}

// A request with so many of the thing, read.
using Ask = std::function<Result<void>(std::size_t count)>;

// NOLINTNEXTLINE(readability-function-size): a table
const std::map<std::string, Ask>& asks() {
  static const std::map<std::string, Ask> table = {
      {"request", [](std::size_t n) { return limited_chat(with(named(n - 2, "a"))); }},
      {"messages",
       [](std::size_t n) {
         return limited_chat(R"({"messages": [)" + same(n, R"({"role": "user", "content": ""})") +
                             "]}");
       }},
      {"messages[]",
       [](std::size_t n) {
         return limited_chat(R"({"messages": [{"role": "user", "content": "x",)" +
                             named(n - 2, "a") + "}]}");
       }},
      {"messages[].content",
       [](std::size_t n) { return limited_chat(message("[" + same(n, R"("x")") + "]")); }},
      {"messages[].tool_calls",
       [](std::size_t n) {
         return limited_chat(R"({"messages": [{"role": "assistant", "tool_calls": [)" +
                             same(n, R"({"function": {"name": "f"}})") + "]}]}");
       }},
      {"image_url",
       [](std::size_t n) {
         return limited_chat(
             message("[" + same(n, R"({"type": "image_url", "image_url": "x"})") + "]"));
       }},
      {"video_url",
       [](std::size_t n) {
         return limited_chat(
             message(R"([{"type": "video", "video": [)" + same(n, R"("x")") + "]}]"));
       }},
      {"prompt",
       [](std::size_t n) {
         return limited_completion(R"({"prompt": [)" + same(n, R"("x")") + "]}");
       }},
      {"input",
       [](std::size_t n) { return embedding(R"({"input": [)" + same(n, R"("x")") + "]}"); }},
      {"token ids",
       [](std::size_t n) {
         const std::size_t half = n / 2;
         return limited_completion(R"({"prompt": [[)" + same(half, "1") + "],[" +
                                   same(n - half, "1") + "]]}");
       }},
      {"n", [](std::size_t n) { return limited_chat(with("\"n\":" + std::to_string(n))); }},
      {"prompt x n", [](std::size_t n) { return check_choices(n, 1, 1 << 20); }},
      {"echo x n", [](std::size_t n) { return within(limits::kEcho, n); }},
      {"prompt_logprobs x n", [](std::size_t n) { return check_prompt_logprobs(1, n, 0); }},
      {"prompt_token_ids x n", [](std::size_t n) { return within(limits::kPromptIds, n); }},
      {"messages[].content[].uuid",
       [](std::size_t n) {
         return limited_chat(
             message(R"([{"type": "image_url", "uuid": )" + text_of_bytes(n) + "}]"));
       }},
      {"stop",
       [](std::size_t n) { return limited_chat(with("\"stop\": [" + same(n, R"("x")") + "]")); }},
      {"stop[]", [](std::size_t n) { return limited_chat(with("\"stop\":" + text_of_bytes(n))); }},
      {"stop_token_ids",
       [](std::size_t n) {
         return limited_chat(with("\"stop_token_ids\": [" + same(n, "1") + "]"));
       }},
      {"logit_bias",
       [](std::size_t n) { return limited_chat(with("\"logit_bias\": {" + named(n, "") + "}")); }},
      {"bad_words",
       [](std::size_t n) {
         return limited_chat(with("\"bad_words\": [" + same(n, R"("x")") + "]"));
       }},
      {"bad_words[]",
       [](std::size_t n) {
         return limited_chat(with("\"bad_words\": [" + text_of_bytes(n) + "]"));
       }},
      {"logprob_token_ids",
       [](std::size_t n) {
         return limited_chat(
             with("\"logprobs\": true, \"logprob_token_ids\": [" + same(n, "1") + "]"));
       }},
      {"allowed_token_ids",
       [](std::size_t n) {
         return limited_chat(with("\"allowed_token_ids\": [" + same(n, "1") + "]"));
       }},
      {"tools",
       [](std::size_t n) {
         return limited_chat(with(
             "\"tools\": [" + same(n, R"({"type": "function", "function": {"name": "f"}})") + "]"));
       }},
      {"tools as JSON",
       [](std::size_t n) {
         const std::string begin = R"([{"type":"function","function":{"name":"f","description":")";
         const std::string end = "\"}}]";
         return limited_chat(
             with("\"tools\": " + begin + std::string(n - begin.size() - end.size(), 'x') + end));
       }},
      {"tools[].function.name",
       [](std::size_t n) {
         return limited_chat(with(R"("tools": [{"type": "function", "function": {"name": )" +
                                  text_of_bytes(n) + "}}]"));
       }},
      {"documents",
       [](std::size_t n) { return limited_chat(with("\"documents\": [" + same(n, "{}") + "]")); }},
      {"chat_template_kwargs",
       [](std::size_t n) {
         return limited_chat(with("\"chat_template_kwargs\": {" + named(n, "a") + "}"));
       }},
      {"mm_processor_kwargs",
       [](std::size_t n) {
         return limited_chat(with("\"mm_processor_kwargs\": {" + named(n, "a") + "}"));
       }},
      {"chat_template",
       [](std::size_t n) { return limited_chat(with("\"chat_template\":" + text_of_bytes(n))); }},
      {"request_id",
       [](std::size_t n) { return limited_chat(with("\"request_id\":" + text_of_bytes(n))); }},
      {"metadata",
       [](std::size_t n) {
         return limited_response(
             R"({"input": "x", "metadata": {)" +
             list(n, [](std::size_t i) { return "\"a" + std::to_string(i) + "\":\"\""; }) + "}}");
       }},
      {"metadata[]",
       [](std::size_t n) {
         return limited_response(R"({"input": "x", "metadata": {"a": )" + text_of_bytes(n - 1) +
                                 "}}");
       }},
      {"reasoning_effort",
       [](std::size_t n) {
         return limited_chat(with("\"reasoning_effort\":" + text_of_bytes(n)));
       }},
      {"messages[].role",
       [](std::size_t n) {
         return limited_chat(R"({"messages": [{"content": "x", "role": )" + text_of_bytes(n) +
                             "}]}");
       }},
      {"cache_salt",
       [](std::size_t n) { return limited_chat(with("\"cache_salt\":" + text_of_bytes(n))); }},
  };
  return table;
}

TEST(Limits, AsManyPassAndOneMoreIsRefusedWithBothNumbers) {
  for (const Limit& limit : limits::kAll) {
    const auto found = asks().find(std::string(limit.field));
    ASSERT_NE(found, asks().end()) << limit.field << " has no test";
    const auto passes = found->second(limit.most);
    EXPECT_TRUE(passes) << limit.field << ": " << passes.error().message;
    const auto refused = found->second(limit.most + 1);
    ASSERT_FALSE(refused) << limit.field;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid) << limit.field;
    EXPECT_NE(refused.error().message.find(std::to_string(limit.most)), std::string::npos)
        << limit.field << ": " << refused.error().message;
    EXPECT_LT(refused.error().message.size(), 300u) << limit.field;
  }
  EXPECT_EQ(asks().size(), std::size(limits::kAll));
}

// SECURITY.md has a row for each, and none besides.
TEST(Limits, AreWhatSecurityMdSays) {
  std::ifstream file(std::string(SACCADE_SOURCE_DIR) + "/SECURITY.md");
  std::vector<std::string> rows;
  bool table = false;
  for (std::string line; std::getline(file, line);) {
    if (table && !line.starts_with('|')) break;
    if (table) rows.push_back(line);
    if (line == "|---|---|---|" && !rows.empty()) rows.clear();
    table = table || line == "| field | most | of |";
  }
  ASSERT_FALSE(rows.empty());
  rows.erase(rows.begin(), std::find_if(rows.begin(), rows.end(), [](const std::string& row) {
               return row.starts_with("| `");
             }));
  std::vector<std::string> expected;
  for (const Limit& limit : limits::kAll)
    expected.push_back(fmt::format("| `{}` | {} | {} |", limit.field, limit.most, limit.unit));
  EXPECT_EQ(rows, expected);
}

TEST(Limits, ChoicesOfARequestAreCountedBeforeAnythingIsMade) {
  EXPECT_TRUE(check_choices(8, 128, 1024));
  const auto over = check_choices(1024, 128, 1024);
  ASSERT_FALSE(over);
  EXPECT_NE(over.error().message.find("131072"), std::string::npos) << over.error().message;
  EXPECT_NE(over.error().message.find("1024"), std::string::npos) << over.error().message;
  const auto over_queue = check_choices(3, 2, 5);
  ASSERT_FALSE(over_queue);
  EXPECT_NE(over_queue.error().message.find("--max-waiting"), std::string::npos);
}

}  // namespace
}  // namespace saccade::api

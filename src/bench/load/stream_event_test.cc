#include "bench/load/stream_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace saccade::bench {
namespace {

struct Seen {
  EventKinds kinds = 0;
  FinishReason reason = FinishReason::kNone;
  UsageCounts usage;
  std::int32_t ids = 0;
  std::string content;
  std::string reasoning;
  std::string error;
  bool operator==(const Seen&) const = default;
};

Seen seen(const StreamEvent& event) {
  Seen s{event.kinds, event.finish_reason, event.usage, event.token_ids, "", "", ""};
  event.content.append_to(s.content);
  event.reasoning.append_to(s.reasoning);
  event.error.append_to(s.error);
  return s;
}

// What the scanner says, which the parser must say too.
Seen scan(const std::string& data) {
  StreamEvent event;
  EXPECT_EQ(scan_stream_event(data, event), ScanOutcome::kRead) << data;
  const auto parsed = parse_stream_event(data);
  EXPECT_TRUE(parsed) << data;
  if (parsed) {
    EXPECT_EQ(seen(event), seen(*parsed)) << data;
  }
  return seen(event);
}

bool unsure(const std::string& data) {
  StreamEvent event;
  return scan_stream_event(data, event) == ScanOutcome::kUnsure;
}

TEST(StreamEvent, ContentOfAChatChunk) {
  const Seen s = scan(
      R"({"id":"x","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,)"
      R"("delta":{"content":"a\"\u00e9\n"},"logprobs":null,"finish_reason":null,"token_ids":null}]})");
  EXPECT_EQ(s.kinds, kChoicesEvent | kContentEvent);
  EXPECT_EQ(s.content, "a\"\xc3\xa9\n");
}

TEST(StreamEvent, RoleAlone) {
  EXPECT_EQ(scan(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})").kinds,
            kChoicesEvent | kRoleEvent);
}

TEST(StreamEvent, FinishWithUsage) {
  const Seen s = scan(
      R"({"choices":[{"delta":{},"finish_reason":"length","stop_reason":null}],"usage":{)"
      R"("prompt_tokens":12,"total_tokens":15,"completion_tokens":3,"prompt_tokens_details":)"
      R"({"cached_tokens":8,"image_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}})");
  EXPECT_EQ(s.kinds, kChoicesEvent | kFinishEvent | kUsageEvent);
  EXPECT_EQ(s.reason, FinishReason::kLength);
  EXPECT_EQ(s.usage, (UsageCounts{12, 3, 8, 4, 1}));
}

TEST(StreamEvent, UsageAlone) {
  EXPECT_EQ(scan(R"({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":null}})").kinds,
            kUsageEvent);
}

TEST(StreamEvent, Completions) {
  const Seen s =
      scan(R"({"object":"text_completion","choices":[{"text":" tok","logprobs":null}]})");
  EXPECT_EQ(s.kinds, kChoicesEvent | kContentEvent);
  EXPECT_EQ(s.content, " tok");
}

TEST(StreamEvent, ReasoningToolsAndTokenIds) {
  EXPECT_EQ(scan(R"({"choices":[{"delta":{"reasoning_content":"hm","content":null}}]})").kinds,
            kChoicesEvent | kReasoningEvent);
  EXPECT_EQ(scan(R"({"choices":[{"delta":{"reasoning":"hm"}}]})").reasoning, "hm");
  EXPECT_EQ(scan(R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{}}]}}]})").kinds,
            kChoicesEvent | kToolEvent);
  EXPECT_EQ(scan(R"({"choices":[{"delta":{"tool_calls":[]}}]})").kinds, kChoicesEvent);
  const Seen s = scan(R"({"choices":[{"delta":{"content":"x"},"token_ids":[1, 22,333]}]})");
  EXPECT_EQ(s.kinds, kChoicesEvent | kContentEvent | kTokenIdsEvent);
  EXPECT_EQ(s.ids, 3);
}

TEST(StreamEvent, SeveralChoices) {
  const Seen s =
      scan(R"({"choices":[{"delta":{}},{"delta":{"content":"b"},"finish_reason":"stop"},)"
           R"({"delta":{"content":"c"},"finish_reason":"length"}]})");
  EXPECT_EQ(s.content, "b");
  EXPECT_EQ(s.reason, FinishReason::kStop);
}

TEST(StreamEvent, Errors) {
  EXPECT_EQ(scan(R"({"error":{"message":"no","code":500}})").error, "no");
  EXPECT_EQ(scan(R"({"error":"plain"})").error, "plain");
  EXPECT_EQ(scan(R"({"object":"error","message":"old","code":400})").error, "old");
  EXPECT_EQ(scan(R"({"error":null,"choices":[]})").kinds, 0);
  EXPECT_EQ(read_stream_event(R"({"error":7})")->kinds, kErrorEvent);
}

TEST(StreamEvent, Done) { EXPECT_EQ(read_stream_event("[DONE]")->kinds, kDoneEvent); }

TEST(StreamEvent, AnAnswerThatIsNotStreamed) {
  const Seen s = scan(
      R"({"choices":[{"index":0,"message":{"role":"assistant","content":"all","tool_calls":[]},)"
      R"("finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}})");
  EXPECT_EQ(s.kinds, kChoicesEvent | kRoleEvent | kContentEvent | kFinishEvent | kUsageEvent);
}

TEST(StreamEvent, StageTimes) {
  const auto seconds = read_stream_event(
      R"({"choices":[],"metrics":[{"arrival_time":1.5,"first_token_time":2.25,"x":null}]})");
  ASSERT_EQ(seconds->stages.size(), 2u);
  EXPECT_EQ(seconds->stages[1].name, "first_token_time");
  EXPECT_EQ(seconds->stages[1].seconds, 2.25);
  const auto nanos =
      read_stream_event(R"({"choices":[],"metrics":{"media_done":1500,"first_token":2000000000}})");
  ASSERT_EQ(nanos->stages.size(), 2u);
  EXPECT_EQ(nanos->stages[0].name, "media_done");
  EXPECT_EQ(nanos->stages[0].seconds, 1.5e-6);
  EXPECT_EQ(nanos->stages[1].name, "first_token_time");
  EXPECT_EQ(nanos->stages[1].seconds, 2.0);
}

TEST(StreamEvent, LeavesSurprisesToTheParser) {
  for (const char* data :
       {R"({"choices":[{"delta":{"content":["parts"]}}]})", R"({"choices":7})",
        R"({"\u0063hoices":[]})", R"({"choices":[],"choices":[]})",
        R"({"usage":{"prompt_tokens":1.0}})", R"({"usage":{"prompt_tokens":-1}})",
        R"({"usage":{"prompt_tokens":99999999999}})", R"({"choices":[null]})", "[]", "5", "",
        R"({"a":01})", R"({"a":tru})", R"({"a":1} x)", R"({"a":1)", R"({"a" 1})", R"({"a":"b)",
        R"({"metrics":{}})", R"({"choices":[{"delta":{},"message":{}}]})"}) {
    EXPECT_TRUE(unsure(data)) << data;
  }
  EXPECT_EQ(read_stream_event(R"({"\u0063hoices":[{"text":"x"}]})")->content.decoded, "x");
  EXPECT_FALSE(read_stream_event("<html>"));
  EXPECT_FALSE(read_stream_event("[1]"));
  EXPECT_FALSE(read_stream_event(R"({"choices":[)"));
}

TEST(StreamEvent, DeepNestingDoesNotRecurseWithoutEnd) {
  const std::string deep = R"({"x":)" + std::string(100'000, '[');
  EXPECT_TRUE(unsure(deep));
  EXPECT_FALSE(read_stream_event(deep));
}

TEST(StreamEvent, Unescape) {
  const auto unescape = [](const std::string& text) {
    std::string out;
    append_unescaped(out, text);
    return out;
  };
  EXPECT_EQ(unescape(R"(a\\b\/c\"d\n\t\r\b\f)"), "a\\b/c\"d\n\t\r\b\f");
  EXPECT_EQ(unescape(R"(\u20ac\ud83d\ude00!)"), "\xe2\x82\xac\xf0\x9f\x98\x80!");
  EXPECT_EQ(unescape(R"(\ud83d)"), "\xef\xbf\xbd");
  EXPECT_EQ(unescape(R"(\ude00x)"), "\xef\xbf\xbdx");
  EXPECT_EQ(unescape(R"(\u12)"),
            "\xef\xbf\xbd"
            "12");
  EXPECT_EQ(unescape("tail\\"), "tail");
}

// Events out of shuffled members: whatever the scanner reads, the parser reads the same.
TEST(StreamEvent, ScannerAndParserAgreeOnRandomEvents) {
  Rng rng(21);
  const auto pick = [&](const std::vector<std::string>& from) {
    return from[rng.below(from.size())];
  };
  const std::vector<std::string> texts = {"null", R"("")", R"("a")", R"("\u00e9\"\\")", "[]", "7"};
  const std::vector<std::string> counts = {
      "0", "7", "12345", "null", "1.5", "-3", "4e2", "012", "999999999", "40000000000000000000"};
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string data = "{";
    const auto member = [&](std::string& out, const std::string& name, const std::string& value) {
      if (out.back() != '{') out += rng.below(2) == 0 ? "," : " ,\n";
      out += "\"" + name + "\":" + value;
    };
    for (std::uint64_t n = rng.below(5); n > 0; --n) {
      std::string delta = "{";
      for (std::uint64_t m = rng.below(4); m > 0; --m) {
        member(delta, pick({"content", "role", "reasoning", "reasoning_content", "x"}),
               pick(texts));
      }
      std::string choice = "{";
      for (std::uint64_t m = rng.below(4); m > 0; --m) {
        const std::string name = pick({"delta", "message", "text", "finish_reason", "token_ids"});
        member(choice, name,
               name == "delta" || name == "message" ? delta + "}"
               : name == "token_ids"                ? "[" + pick(counts) + "]"
                                                    : pick(texts));
      }
      std::string usage = "{";
      for (std::uint64_t m = rng.below(4); m > 0; --m) {
        const std::string name = pick({"prompt_tokens", "completion_tokens",
                                       "prompt_tokens_details", "completion_tokens_details"});
        member(usage, name,
               name.ends_with("details") ? "{\"" + pick({"cached_tokens", "reasoning_tokens"}) +
                                               "\":" + pick(counts) + "}"
                                         : pick(counts));
      }
      const std::string name = pick({"choices", "usage", "error", "object", "message", "id"});
      member(data, name,
             name == "choices"  ? "[" + choice + "}]"
             : name == "usage"  ? usage + "}"
             : name == "object" ? pick({R"("error")", R"("x")"})
                                : pick(texts));
    }
    data += "}";
    StreamEvent event;
    const auto parsed = parse_stream_event(data);
    if (scan_stream_event(data, event) == ScanOutcome::kUnsure) continue;
    ++read;
    ASSERT_TRUE(parsed) << data;
    ASSERT_EQ(seen(event), seen(*parsed)) << data;
  }
  EXPECT_GT(read, 5'000);
}

}  // namespace
}  // namespace saccade::bench

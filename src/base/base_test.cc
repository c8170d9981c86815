#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <thread>

#include "base/hash.h"
#include "base/json.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/text/printable.h"
#include "base/threads/worker_pool.h"

namespace saccade {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return fail(ErrorCode::kInvalid, "{} is odd", x);
  return x / 2;
}

Result<int> quarter(int x) {
  TRY(const int once, half(x));
  TRY(const int twice, half(once));
  return twice;
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(Printable, NothingCanBeginALineOrSpeakToATerminal) {
  EXPECT_EQ(printable("plain \xc3\xa4 \xe2\x82\xac \xff"), "plain \xc3\xa4 \xe2\x82\xac \xff");
  EXPECT_EQ(printable("a\n2026 info all is well\r"), "a\\n2026 info all is well\\x0d");
  EXPECT_EQ(printable("\x1b[31m\t\x7f"), "\\x1b[31m\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m\xc2\xa0"),
            "\\x9b1m\xc2\xa0");
  EXPECT_EQ(printable("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa6"), "\\u2028\\u2029\xe2\x80\xa6");
}

TEST(Hash, Sha256OfKnownTexts) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, Hash64DependsOnLengthAndSeed) {
  EXPECT_NE(hash64(std::string_view("\0", 1)), hash64(std::string_view("\0\0", 2)));
  EXPECT_NE(hash64("a", 1), hash64("a", 2));
  EXPECT_EQ(hash64("the same"), hash64("the same"));
}

TEST(Rng, UniformStaysInRangeAndHasTheRightMean) {
  Rng rng(7);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = rng.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
  for (int i = 0; i < 1000; ++i) ASSERT_LT(rng.below(7), 7u);
}

TEST(Json, ErrorsSayWhere) {
  EXPECT_NE(json::parse("{\"a\": }").error().message.find("byte"), std::string::npos);
  EXPECT_FALSE(json::parse("{} x"));
  EXPECT_FALSE(json::parse("[1, 2"));
  EXPECT_FALSE(json::parse(""));
  EXPECT_FALSE(json::parse(std::string(1000, '[')));
  EXPECT_TRUE(json::parse(" [1, 2.5, \"x\", null] \n"));
}

// As Windows' editors and shells write files.
TEST(Json, AMarkBeforeTheTextIsPassedOverAndOtherEncodingsAreNamed) {
  EXPECT_EQ(json::parse("\xEF\xBB\xBF{\"a\": 1}").value().as_object().at("a"), 1);
  EXPECT_FALSE(json::parse("\xEF\xBB\xBF"));
  EXPECT_FALSE(json::parse("{}\xEF\xBB\xBF"));
  EXPECT_FALSE(json::parse("\xEF\xBB\xBF\xEF\xBB\xBF{}"));
  const auto reason = [](std::string_view text) {
    const auto parsed = json::parse(text);
    return parsed ? "parsed" : parsed.error().message;
  };
  // The place is that in the text as it came.
  EXPECT_THAT(reason("\xEF\xBB\xBF{\"a\": ?}"), ::testing::HasSubstr("at byte 9"));
  for (const std::string_view text :
       {std::string_view("\xFF\xFE{\0}\0", 6), std::string_view("\xFE\xFF\0{\0}", 6),
        std::string_view("{\0}\0", 4), std::string_view("\0{\0}", 4), std::string_view("1\0", 2),
        std::string_view("\"\0\xE9\x4E\"\0", 6)})
    EXPECT_THAT(reason(text), ::testing::HasSubstr("UTF-16"));
  for (const std::string_view text :
       {std::string_view("\xFF\xFE\0\0{\0\0\0}\0\0\0", 12),
        std::string_view("\0\0\xFE\xFF\0\0\0{\0\0\0}", 12), std::string_view("1\0\0\0", 4),
        std::string_view("\0\0\0{\0\0\0}", 8)})
    EXPECT_THAT(reason(text), ::testing::HasSubstr("UTF-32"));
}

// Memory is bounded by more than the text's size: a tree of empty arrays is many times larger.
TEST(Json, TreesFarLargerThanTheirTextAreRefused) {
  std::string arrays = "[";
  while (arrays.size() < (std::size_t{48} << 20)) arrays += "[],[],[],[],[],[],[],[],";
  const auto refused = json::parse(arrays + "0]");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("so many values"), std::string::npos)
      << refused.error().message;
  std::string ids = "[";
  for (int i = 0; i < 4'194'304; ++i) ids += "1,";  // as many token ids as a request may have
  EXPECT_TRUE(json::parse(ids + "1]"));
  const auto text = json::parse("\"" + std::string(std::size_t{64} << 20, 'x') + "\"");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->as_string().size(), std::size_t{64} << 20);
}

TEST(Json, MembersAreTyped) {
  const auto tree = json::parse(R"({"n": 3, "x": 2.0, "s": "t", "z": null})").value();
  const auto& object = tree.get_object();
  EXPECT_EQ(json::get_int(object, "n").value(), 3);
  EXPECT_EQ(json::get_int(object, "x").value(), 2);
  EXPECT_EQ(json::get_int_or(object, "z", 9).value(), 9);
  EXPECT_EQ(json::get_int(object, "s").error().message, "'s' is a string, an integer is required");
  EXPECT_EQ(json::get_int(object, "q").error().param, "q");
}

TEST(Json, NumbersLookAsInPython) {
  const auto text = [](double x) {
    std::string out;
    json::append_number(out, x);
    return out;
  };
  EXPECT_EQ(text(2.0), "2.0");
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1e-5), "1e-05");
  EXPECT_EQ(text(1e16), "1e+16");
  EXPECT_EQ(text(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(text(-0.0), "-0.0");
}

TEST(Json, WriterQuotesAndSeparates) {
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  w.member("a\"b", std::string_view("\x01\xC3\xA9\xFF"));
  w.key("list");
  w.begin_array();
  w.value(1);
  w.value(true);
  w.null();
  w.end_array();
  w.member("x", 1.5);
  w.end_object();
  EXPECT_EQ(out, "{\"a\\\"b\":\"\\u0001\xC3\xA9\xEF\xBF\xBD\",\"list\":[1,true,null],\"x\":1.5}");
}

TEST(Json, BytesThatAreNoTextAreReplacedAsPythonDoes) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    json::append_quoted(out, text);
    return out.substr(1, out.size() - 2);
  };
  constexpr const char* kOne = "\xEF\xBF\xBD";
  const auto replaced = [&](int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += kOne;
    return out;
  };
  EXPECT_EQ(quoted("\xE2\x82"), replaced(1));  // a character cut short
  EXPECT_EQ(quoted("\xE2\x82x"), replaced(1) + "x");
  EXPECT_EQ(quoted("\xF0\x9F\x98\xE2\x82\xAC"), replaced(1) + "\xE2\x82\xAC");
  EXPECT_EQ(quoted("\x80\xBF"), replaced(2));          // continuations of nothing
  EXPECT_EQ(quoted("\xC0\x80"), replaced(2));          // overlong
  EXPECT_EQ(quoted("\xED\xA0\x80"), replaced(3));      // a surrogate
  EXPECT_EQ(quoted("\xF4\x90\x80\x80"), replaced(4));  // past U+10FFFF
  EXPECT_EQ(quoted("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF");
}

TEST(WorkerPool, RunsEveryJobItTookAndRefusesPastTheLimit) {
  std::atomic<int> done = 0;
  int taken = 0;
  {
    WorkerPool pool(2, 8);
    for (int i = 0; i < 1000; ++i) {
      while (!pool.post([&done] { ++done; })) std::this_thread::yield();
      ++taken;
    }
    while (done < taken) std::this_thread::yield();
  }
  EXPECT_EQ(done, 1000);

  std::atomic<bool> release = false;
  WorkerPool one(1, 1);
  EXPECT_TRUE(one.post([&release] {
    while (!release) std::this_thread::yield();
  }));
  while (one.queued() > 0) std::this_thread::yield();
  EXPECT_TRUE(one.post([] {}));
  EXPECT_FALSE(one.post([] {}));
  release = true;
}

TEST(WorkerPool, QuickJobsDoNotWaitForBulkOnes) {
  std::atomic<bool> release = false;
  std::atomic<int> bulk = 0;
  WorkerPool pool(3, 100);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pool.post(
        [&] {
          ++bulk;
          while (!release) std::this_thread::yield();
        },
        WorkerPool::Lane::kBulk));
  }
  std::promise<void> quick;
  ASSERT_TRUE(pool.post([&] { quick.set_value(); }));
  quick.get_future().wait();  // for ever, if bulk jobs took every thread
  while (bulk < 2) std::this_thread::yield();
  EXPECT_EQ(pool.queued(), 8u);
  release = true;
  while (bulk < 10) std::this_thread::yield();
}

TEST(WorkerPool, BulkJobsAreNotStarvedByQuickOnes) {
  std::atomic<bool> done = false;
  std::function<void()> again;  // outlives the jobs that post it
  WorkerPool pool(2, 1000);
  again = [&] {
    if (done) return;
    EXPECT_TRUE(pool.post(again) || done);  // refused where the pool has begun to end
  };
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(pool.post(again));  // there is always a quick one
  ASSERT_TRUE(pool.post([&] { done = true; }, WorkerPool::Lane::kBulk));
  while (!done) std::this_thread::yield();
  while (pool.queued() > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace saccade

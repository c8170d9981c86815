#include "net/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace saccade::net {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Scan {
  std::vector<std::string> events;
  std::size_t comments = 0;
  bool ok = true;
  bool whole = true;
};

Scan scan(const std::vector<std::string>& pieces, std::size_t limit = 1u << 20,
          bool finish = false) {
  SseScanner scanner(limit);
  Scan result;
  const auto on_data = [&](std::string_view data) { result.events.emplace_back(data); };
  for (const std::string& piece : pieces) {
    // A copy of its own that dies at once: a view kept too long is then seen by the sanitizer.
    const std::vector<char> bytes(piece.begin(), piece.end());
    if (!scanner.feed({bytes.data(), bytes.size()}, on_data)) {
      result.ok = false;
      return result;
    }
  }
  if (finish) result.whole = scanner.finish(on_data);
  result.comments = scanner.comments();
  return result;
}

TEST(SseScanner, EventsAndLineEnds) {
  EXPECT_THAT(scan({"data: a\n\ndata: b\n\n"}).events, ElementsAre("a", "b"));
  EXPECT_THAT(scan({"data: a\r\n\r\ndata: b\r\n\r\n"}).events, ElementsAre("a", "b"));
  EXPECT_THAT(scan({"data: a\r\rdata: b\r\r"}).events, ElementsAre("a", "b"));
  EXPECT_THAT(scan({"data: a\n\r\ndata: b\r\n\n"}).events, ElementsAre("a", "b"));
  EXPECT_THAT(scan({"data: a\n"}).events, IsEmpty());
}

TEST(SseScanner, Fields) {
  EXPECT_THAT(scan({"data:a\n\n"}).events, ElementsAre("a"));
  EXPECT_THAT(scan({"data:  a \n\n"}).events, ElementsAre(" a "));
  EXPECT_THAT(scan({"data: a\ndata: b\ndata:\n\n"}).events, ElementsAre("a\nb\n"));
  EXPECT_THAT(scan({"data\n\n"}).events, ElementsAre(""));
  EXPECT_THAT(scan({"data:\n\n"}).events, ElementsAre(""));
  EXPECT_THAT(scan({"data: \n\n"}).events, ElementsAre(""));
  EXPECT_THAT(scan({"event: x\nid: 1\nretry: 2\n\n"}).events, IsEmpty());
  EXPECT_THAT(scan({"event: x\ndata: a\nid: 1\n\n"}).events, ElementsAre("a"));
  EXPECT_THAT(scan({"database: x\ndat: y\n data: z\n\n"}).events, IsEmpty());
  EXPECT_THAT(scan({"\xef\xbb\xbf"
                    "data: a\n\n"})
                  .events,
              ElementsAre("a"));
  EXPECT_THAT(scan({"data: a\n\n\xef\xbb\xbf"
                    "data: b\n\n"})
                  .events,
              ElementsAre("a"));
}

TEST(SseScanner, Comments) {
  const Scan result = scan({": ping\n\n:\n\ndata: a\n: in between\n\n"});
  EXPECT_THAT(result.events, ElementsAre("a"));
  EXPECT_EQ(result.comments, 3u);
}

TEST(SseScanner, NoCopyWhenTheEventLiesInOneChunk) {
  const std::string chunk = "data: first\n\ndata: second\n\n";
  SseScanner scanner;
  scanner.feed(chunk, [&](std::string_view data) {
    EXPECT_GE(data.data(), chunk.data());
    EXPECT_LT(data.data(), chunk.data() + chunk.size());
  });
}

TEST(SseScanner, Finish) {
  Scan result = scan({"data: a\n\ndata: [DONE]\n"}, 1u << 20, true);
  EXPECT_THAT(result.events, ElementsAre("a", "[DONE]"));
  EXPECT_TRUE(result.whole);
  result = scan({"data: a\n\ndata: {\"cut"}, 1u << 20, true);
  EXPECT_THAT(result.events, ElementsAre("a"));
  EXPECT_FALSE(result.whole);
}

TEST(SseScanner, Limit) {
  const std::string fits = "data: 12345678\n\n";
  const std::string over = "data: 123456789\n\n";
  for (std::size_t split = 0; split <= fits.size(); ++split) {
    EXPECT_TRUE(scan({fits.substr(0, split), fits.substr(split)}, 8).ok) << split;
  }
  for (std::size_t split = 0; split <= over.size(); ++split) {
    EXPECT_FALSE(scan({over.substr(0, split), over.substr(split)}, 8).ok) << split;
  }
  EXPECT_TRUE(scan({"data: 123\ndata: 4567\n\n"}, 8).ok);
  EXPECT_FALSE(scan({"data: 123\ndata: 45678\n\n"}, 8).ok);
  EXPECT_FALSE(scan(std::vector<std::string>(100, "x"), 8).ok) << "a line without an end";
  const std::string marked = "\xef\xbb\xbf" + fits;  // the mark is no part of the line
  for (std::size_t split = 0; split <= marked.size(); ++split) {
    EXPECT_TRUE(scan({marked.substr(0, split), marked.substr(split)}, 8).ok) << split;
  }
}

// Streams out of every kind of line, with every kind of line end.
std::string random_stream(Rng& rng) {
  static const std::vector<std::string> lines = {"data: {\"choices\":[]}",
                                                 "data:x",
                                                 "data:",
                                                 "data",
                                                 "",
                                                 "",
                                                 "",
                                                 ": ping",
                                                 ":",
                                                 "event: e",
                                                 "data: \xe2\x82\xac",
                                                 "id",
                                                 "data:\tz",
                                                 "data:  two"};
  static const std::vector<std::string> ends = {"\n", "\r\n", "\r"};
  std::string stream = rng.below(4) == 0 ? "\xef\xbb\xbf" : "";
  for (std::uint64_t n = rng.below(30); n > 0; --n) {
    stream += lines[rng.below(lines.size())];
    stream += ends[rng.below(ends.size())];
  }
  if (rng.below(2) == 0) stream += "data: cut";
  return stream;
}

TEST(SseScanner, AnySplitGivesTheSameEvents) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    const std::string stream = random_stream(rng);
    const Scan whole = scan({stream}, 1u << 20, true);
    for (std::size_t split = 0; split <= stream.size(); ++split) {
      const Scan two = scan({stream.substr(0, split), stream.substr(split)}, 1u << 20, true);
      ASSERT_EQ(two.events, whole.events) << split;
      ASSERT_EQ(two.comments, whole.comments) << split;
      ASSERT_EQ(two.whole, whole.whole) << split;
    }
    for (int i = 0; i < 10; ++i) {
      std::vector<std::string> pieces;
      for (std::size_t at = 0; at < stream.size();) {
        const std::size_t size = std::min<std::size_t>(rng.below(9), stream.size() - at);
        pieces.push_back(stream.substr(at, size));
        at += size;
      }
      ASSERT_EQ(scan(pieces, 1u << 20, true).events, whole.events);
    }
  }
}

// The same by the letter of the standard: normalise line ends, split, join.
TEST(SseScanner, EqualsTheDefinition) {
  Rng rng(12);
  for (int round = 0; round < 2000; ++round) {
    const std::string stream = random_stream(rng);
    std::vector<std::string> expected;
    std::string line;
    std::string data;
    bool has_data = false;
    std::string text = stream.starts_with("\xef\xbb\xbf") ? stream.substr(3) : stream;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\r' && text[i] != '\n') {
        line += text[i];
        continue;
      }
      if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
      const std::size_t colon = line.find(':');
      if (line.empty()) {
        if (has_data) expected.push_back(data.substr(0, data.size() - 1));
        data.clear();
        has_data = false;
      } else if (line.substr(0, colon) == "data") {
        std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
        if (value.starts_with(' ')) value.erase(0, 1);
        data += value + "\n";
        has_data = true;
      }
      line.clear();
    }
    ASSERT_EQ(scan({stream}).events, expected) << stream;
  }
}

// CR line ends must not make the scan quadratic: 4 MiB in one chunk ends soon, or not at all.
TEST(SseScanner, ManyShortLinesInOneChunk) {
  std::string stream;
  while (stream.size() < (4u << 20)) stream += "data\r\r";
  SseScanner scanner;
  std::size_t events = 0;
  EXPECT_TRUE(scanner.feed(stream, [&](std::string_view) { ++events; }));
  EXPECT_EQ(events, (stream.size()) / 6);
}

}  // namespace
}  // namespace saccade::net

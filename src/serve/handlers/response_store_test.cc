// What is kept stays under its cap, the least recently used goes first, and texts that several
// responses share are counted once.
#include "serve/handlers/response_store.h"

#include <gtest/gtest.h>

namespace saccade::serve {
namespace {

StoredResponse response(std::size_t bytes, std::vector<api::ItemText> history = {},
                        std::uint64_t owner = 0) {
  return {std::string(bytes, 'x'), std::move(history), owner};
}

api::ItemText text(std::size_t bytes) {
  return std::make_shared<const std::string>(std::string(bytes, 'y'));
}

TEST(ResponseStore, LeastRecentlyUsedGoesFirst) {
  ResponseStore store(5'000);
  store.put("a", response(1'000));
  store.put("b", response(1'000));
  store.put("c", response(1'000));
  EXPECT_TRUE(store.find("a", 0));
  store.put("d", response(1'000));  // 4 x 1,512
  EXPECT_TRUE(store.find("a", 0));
  EXPECT_FALSE(store.find("b", 0));
  EXPECT_TRUE(store.find("c", 0));
  EXPECT_LE(store.bytes(), 5'000u);
}

TEST(ResponseStore, SharedTextsAreCountedOnce) {
  ResponseStore store(100'000);
  const auto shared = text(40'000);
  store.put("a", response(10, {shared}));
  const std::size_t one = store.bytes();
  store.put("b", response(10, {shared, text(10)}));
  EXPECT_LT(store.bytes(), one + 2'000);
  EXPECT_TRUE(store.remove("a", 0));
  EXPECT_GT(store.bytes(), 40'000u);
  EXPECT_TRUE(store.remove("b", 0));
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStore, OneThatHasNoRoomIsNotKeptAndTakesNothingAway) {
  ResponseStore store(5'000);
  store.put("a", response(1'000));
  store.put("b", response(10, {text(6'000)}));
  EXPECT_TRUE(store.find("a", 0));
  EXPECT_FALSE(store.find("b", 0));
}

TEST(ResponseStore, OthersSeeNothing) {
  ResponseStore store(5'000);
  store.put("a", response(10, {}, 7));
  EXPECT_FALSE(store.find("a", 8));
  EXPECT_FALSE(store.remove("a", 8));
  EXPECT_TRUE(store.find("a", 7));
  EXPECT_TRUE(store.remove("a", 7));
  EXPECT_FALSE(store.remove("a", 7));
}

TEST(ResponseStore, TheSameIdTwiceIsCountedOnce) {
  ResponseStore store(5'000);
  store.put("a", response(10, {text(100)}));
  const std::size_t one = store.bytes();
  store.put("a", response(10, {text(100)}));
  EXPECT_EQ(store.bytes(), one);
  EXPECT_EQ(store.size(), 1u);
}

}  // namespace
}  // namespace saccade::serve

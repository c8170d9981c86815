#include "memory/embedding_store.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "memory/accounting.h"

namespace saccade {
namespace {

Digest key(std::uint8_t value) {
  Digest digest{};
  digest[0] = value;
  return digest;
}

TEST(EmbeddingStore, UnleasedEntriesGoOldestFirst) {
  EmbeddingStore store(40, 10);
  for (const std::uint8_t id : {1, 2, 3}) {
    ASSERT_TRUE(store.insert(key(id), 10));
    store.set_ready(key(id));
    store.release(key(id));
  }
  store.lease(key(1));  // touched: 2 is now the oldest
  store.release(key(1));
  ASSERT_TRUE(store.insert(key(4), 20));
  EXPECT_TRUE(store.ready(key(1)));
  EXPECT_FALSE(store.contains(key(2)));
  EXPECT_TRUE(store.ready(key(3)));
  EXPECT_EQ(store.evictions(), 1u);
  store.check();
}

TEST(EmbeddingStore, LeasedEntriesStay) {
  EmbeddingStore store(30, 10);
  ASSERT_TRUE(store.insert(key(1), 15));
  EXPECT_FALSE(store.insert(key(2), 11));
  EXPECT_TRUE(store.holds(30));
  EXPECT_FALSE(store.holds(31));
  EXPECT_EQ(store.available_bytes(), 10);
  store.set_ready(key(1));
  store.lease(key(1));
  store.release(key(1));
  EXPECT_FALSE(store.insert(key(2), 11));
  store.release(key(1));
  EXPECT_TRUE(store.insert(key(2), 11));
  store.check();
}

TEST(EmbeddingStore, WhatWasNeverFilledIsForgottenWithItsLastLease) {
  EmbeddingStore store(30, 10);
  ASSERT_TRUE(store.insert(key(1), 15));
  store.release(key(1));
  EXPECT_FALSE(store.contains(key(1)));
  store.check();
}

TEST(EmbeddingStore, ClearedEntriesGoWithTheirLastLease) {
  EmbeddingStore store(30, 10);
  ASSERT_TRUE(store.insert(key(1), 10));
  store.set_ready(key(1));
  ASSERT_TRUE(store.insert(key(2), 10));
  store.set_ready(key(2));
  store.release(key(2));
  store.clear();
  EXPECT_FALSE(store.contains(key(2)));
  EXPECT_TRUE(store.ready(key(1)));  // its reader is not disturbed
  store.release(key(1));
  EXPECT_EQ(store.entries(), 0);
  store.check();
}

TEST(EmbeddingStore, KeysDifferInEveryPart) {
  const Digest content = key(1);
  const Digest base = embedding_key(content, "448x448", "m");
  EXPECT_NE(base, embedding_key(key(2), "448x448", "m"));
  EXPECT_NE(base, embedding_key(content, "448x44", "8m"));  // no running together
  EXPECT_NE(base, embedding_key(content, "448x448", "n"));
  EXPECT_NE(base, embedding_key(content, "448x672", "m"));  // cut into other tiles
  EXPECT_EQ(base, embedding_key(content, "448x448", "m"));
}

TEST(EmbeddingStore, RandomWalkKeepsCountsAndTheByteIdentity) {
  Rng rng(5);
  EmbeddingStore store(205, 10);
  std::vector<std::uint8_t> leases;
  for (int step = 0; step < 20000; ++step) {
    const auto id = static_cast<std::uint8_t>(rng.below(30));
    const std::uint64_t action = rng.below(10);
    if (action < 5) {
      const bool there = store.contains(key(id));
      const auto bytes = static_cast<std::int64_t>(1 + rng.below(60));
      const bool fits = there || store.available_bytes() >= store.pages_for(bytes) * 10;
      if (there) {
        store.lease(key(id));
      } else if (store.insert(key(id), bytes)) {
        store.set_ready(key(id));
      }
      ASSERT_EQ(store.contains(key(id)), fits);
      if (fits) leases.push_back(id);
    } else if (action < 9 && !leases.empty()) {
      const std::size_t which = rng.below(leases.size());
      store.release(key(leases[which]));
      leases[which] = leases.back();
      leases.pop_back();
    } else if (action == 9 && rng.below(20) == 0) {
      store.clear();
    }
    store.check();
    ASSERT_EQ(measure(store).total(), 205);
  }
}

}  // namespace
}  // namespace saccade

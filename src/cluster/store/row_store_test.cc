#include "cluster/store/row_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/support/memory_store.h"

namespace saccade::cluster {
namespace {

using test::MemoryLink;
using test::MemoryStore;

constexpr std::size_t kRowBytes = 4096;

class RowStoreTest : public ::testing::Test {
 protected:
  struct Process {
    Process(RowStoreTest& test, RowStoreSettings settings)
        : reads(test.clock, test.timers, test.store),
          writes(test.clock, test.timers, test.store),
          rows(test.clock, test.timers, test.rng, reads, writes, std::move(settings)) {}
    MemoryLink reads;
    MemoryLink writes;
    RowStore rows;
    std::uint64_t lookups(Lookup how) const {
      return rows.stats().lookups[static_cast<std::size_t>(how)];
    }
    std::uint64_t publications(Publication how) const {
      return rows.stats().publications[static_cast<std::size_t>(how)];
    }
  };
  static RowStoreSettings settings() {
    RowStoreSettings made;
    made.of = {"tower", "cpu float32 r1", kRowBytes};
    made.maker = "maker";
    return made;
  }
  std::unique_ptr<Process> process(const RowStoreSettings& of = settings()) {
    return std::make_unique<Process>(*this, of);
  }
  void run(Nanos duration) {
    const Nanos end = clock.now() + duration;
    while (timers.next() && *timers.next() <= end) {
      clock.set(*timers.next());
      timers.run_due(clock.now());
    }
    clock.set(end);
  }
  static std::shared_ptr<std::vector<std::byte>> rows_of(std::int64_t count, int seed) {
    auto rows =
        std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(count) * kRowBytes);
    Rng random(static_cast<std::uint64_t>(seed));
    for (std::size_t at = 0; at < rows->size(); at += 4) {
      const auto number = static_cast<float>(random.uniform());
      std::memcpy(&(*rows)[at], &number, sizeof number);
    }
    return rows;
  }
  static Digest digest_of(const std::vector<std::byte>& rows) {
    return sha256({reinterpret_cast<const char*>(rows.data()), rows.size()});
  }
  static Digest name_of_image(int image) { return sha256(std::to_string(image)); }
  void publish(Process& by, int image, std::int64_t count) {
    const auto rows = rows_of(count, image);
    by.rows.publish(name_of_image(image), count, *rows, digest_of(*rows), rows);
    run(kSecond);
  }
  // The rows that come, and how long it took; CHECKs that an answer comes in time.
  struct Answer {
    std::optional<FoundRows> rows;
    Nanos took = -1;
  };
  Answer find(Process& by, int image, std::int64_t count, Nanos cost = RowStore::kPriceless) {
    Answer answer;
    const Nanos begun = clock.now();
    const auto bytes = static_cast<std::size_t>(count) * kRowBytes;
    by.rows.find({name_of_image(image), count, bytes}, cost, [&](std::optional<FoundRows> rows) {
      answer.rows = std::move(rows);
      answer.took = clock.now() - begun;
    });
    run(by.rows.limit_of(bytes));
    EXPECT_GE(answer.took, 0) << "no answer";
    return answer;
  }
  std::string key_of(int image, const RowStoreSettings& of = settings()) {
    return row_key(of.of, name_of_image(image));
  }

  VirtualClock clock;
  TimerQueue timers;
  Rng rng{7};
  MemoryStore store{clock};
};

TEST_F(RowStoreTest, RowsComeBackAsTheyWent) {
  auto maker = process();
  auto other = process();
  // Less than a chunk, just one, one and a bit, and more than a window of them.
  for (const std::int64_t count : {1, 256, 257, 1500}) {
    const int image = static_cast<int>(count);
    EXPECT_FALSE(find(*other, image, count).rows);
    publish(*maker, image, count);
    const Answer answer = find(*other, image, count);
    ASSERT_TRUE(answer.rows) << count;
    EXPECT_EQ(answer.rows->rows->bytes, *rows_of(count, image));
    EXPECT_EQ(answer.rows->maker, "maker");
  }
  EXPECT_EQ(other->lookups(Lookup::kHit), 4u);
  EXPECT_EQ(other->lookups(Lookup::kMiss), 4u);
  EXPECT_EQ(maker->publications(Publication::kStored), 4u);
  publish(*maker, 257, 257);
  EXPECT_EQ(maker->publications(Publication::kPresent), 1u);
  // What was held has been given back.
  EXPECT_EQ(other->rows.stats().reading_bytes, 0u);
  EXPECT_EQ(maker->rows.stats().writing_bytes, 0u);
  // And nothing is kept for ever.
  run(3700 * kSecond);
  EXPECT_FALSE(find(*other, 257, 257).rows);
}

TEST_F(RowStoreTest, OtherTowersAndOtherBitsAreNeverFound) {
  auto maker = process();
  publish(*maker, 1, 10);
  for (int what = 0; what < 3; ++what) {
    RowStoreSettings of = settings();
    if (what == 0) of.of.fingerprint = "another tower";
    if (what == 1) of.of.numerics = "cuda float32 r1";
    if (what == 2) of.of.row_bytes = 2 * kRowBytes;
    auto other = process(of);
    EXPECT_FALSE(find(*other, 1, 10).rows) << what;
    EXPECT_EQ(other->lookups(Lookup::kMiss), 1u);
  }
}

TEST_F(RowStoreTest, WhatIsSpoiledIsFoundAndDropped) {
  auto maker = process();
  auto other = process();
  const std::string key = key_of(1);
  const auto spoil = [&](const char* what, auto&& how) {
    SCOPED_TRACE(what);
    publish(*maker, 1, 600);
    ASSERT_TRUE(find(*other, 1, 600).rows);
    how();
    EXPECT_FALSE(find(*other, 1, 600).rows);
    run(kSecond);
    // Nothing of it is left to be found again, and it can be stored anew.
    EXPECT_FALSE(store.texts.contains(manifest_key(key)));
    publish(*maker, 1, 600);
    EXPECT_TRUE(find(*other, 1, 600).rows);
  };
  std::uint64_t corrupt = 0;
  const auto expect_corrupt = [&] { EXPECT_EQ(other->lookups(Lookup::kCorrupt), corrupt); };
  spoil("one bit", [&] { store.texts[chunk_key(key, 1)].first[17] ^= 4; });
  ++corrupt, expect_corrupt();
  spoil("a short chunk", [&] { store.texts[chunk_key(key, 0)].first.pop_back(); });
  ++corrupt, expect_corrupt();
  spoil("a long chunk", [&] { store.texts[chunk_key(key, 2)].first += "x"; });
  ++corrupt, expect_corrupt();
  spoil("chunks exchanged",
        [&] { std::swap(store.texts[chunk_key(key, 0)], store.texts[chunk_key(key, 1)]); });
  ++corrupt, expect_corrupt();
  spoil("no manifest", [&] { store.texts[manifest_key(key)].first = "{}"; });
  ++corrupt, expect_corrupt();
  spoil("a manifest of other rows", [&] {
    store.texts[manifest_key(key)].first =
        write_manifest({599, 599 * kRowBytes, {}, "maker"}, key, "");
  });
  ++corrupt, expect_corrupt();
  spoil("a chunk that was let go", [&] { store.texts.erase(chunk_key(key, 2)); });
  expect_corrupt();  // that is a miss
}

TEST_F(RowStoreTest, WithAKeyNobodyElseCanWriteRows) {
  RowStoreSettings with_key = settings();
  with_key.key = "sixteen bytes or more";
  auto stranger = process();  // consistent, wrong rows
  auto other = process(with_key);
  publish(*stranger, 1, 100);
  EXPECT_FALSE(find(*other, 1, 100).rows);
  EXPECT_EQ(other->lookups(Lookup::kCorrupt), 1u);
  auto maker = process(with_key);
  publish(*maker, 1, 100);
  EXPECT_TRUE(find(*other, 1, 100).rows);
  // A good manifest under another image's name is not of that image.
  for (const auto& [key, value] : std::map(store.texts)) {
    std::string moved = key;
    const std::size_t at = moved.find(key_of(1));
    if (at == 0) store.texts[key_of(2) + moved.substr(key_of(1).size())] = value;
  }
  EXPECT_FALSE(find(*other, 2, 100).rows);
  EXPECT_EQ(other->lookups(Lookup::kCorrupt), 2u);
}

TEST_F(RowStoreTest, NanIsNeitherPublishedNorTaken) {
  auto maker = process();
  auto rows = rows_of(300, 1);
  const std::uint32_t nan = 0x7fc00000;
  std::memcpy(&(*rows)[5000 * 4], &nan, sizeof nan);
  maker->rows.publish(name_of_image(1), 300, *rows, digest_of(*rows), rows);
  run(kSecond);
  EXPECT_EQ(maker->publications(Publication::kNotFinite), 1u);
  EXPECT_TRUE(store.texts.empty());
  // By somebody who does not look.
  RowStoreSettings blind = settings();
  blind.format = {4, 0xffffffff};
  auto careless = process(blind);
  careless->rows.publish(name_of_image(1), 300, *rows, digest_of(*rows), rows);
  run(kSecond);
  ASSERT_FALSE(store.texts.empty());
  EXPECT_FALSE(find(*maker, 1, 300).rows);
  EXPECT_EQ(maker->lookups(Lookup::kCorrupt), 1u);
}

TEST_F(RowStoreTest, WhoMadeWrongRowsIsNotBelievedAnyMore) {
  RowStoreSettings of = settings();
  of.maker = "poisoned";
  auto poisoned = process(of);
  auto good = process();
  auto other = process();
  publish(*poisoned, 1, 100);
  publish(*poisoned, 2, 100);
  publish(*good, 3, 100);
  ASSERT_TRUE(find(*other, 1, 100).rows);
  other->rows.wrong(name_of_image(1), "poisoned");
  run(kSecond);
  EXPECT_FALSE(store.texts.contains(manifest_key(key_of(1))));
  EXPECT_FALSE(find(*other, 2, 100).rows);
  EXPECT_TRUE(find(*other, 3, 100).rows);
}

TEST_F(RowStoreTest, ALostStoreCostsItsLimitThriceAndThenNothing) {
  auto maker = process();
  publish(*maker, 1, 1000);
  for (const char* how : {"silent", "slow", "refused"}) {
    SCOPED_TRACE(how);
    auto other = process();
    other->reads.silent = std::string(how) == "silent";
    other->reads.delay = std::string(how) == "slow" ? 10 * kSecond : kMillisecond;
    other->reads.reachable = std::string(how) != "refused";
    for (int i = 0; i < 3; ++i) {
      const Answer answer = find(*other, 1, 1000);
      EXPECT_FALSE(answer.rows);
      // 20 ms and 4 MB at 50 MB/s.
      EXPECT_LE(answer.took, 20 * kMillisecond + 82 * kMillisecond);
    }
    EXPECT_TRUE(other->rows.stats().open);
    EXPECT_EQ(find(*other, 1, 1000).took, 0);
    // It is tried again now and then, and taken back when it answers.
    other->reads.silent = false;
    other->reads.delay = kMillisecond;
    other->reads.reachable = true;
    run(2 * kSecond);
    EXPECT_TRUE(find(*other, 1, 1000).rows);
    EXPECT_FALSE(other->rows.stats().open);
  }
}

TEST_F(RowStoreTest, ErrorsOfAllKindsAreMisses) {
  auto maker = process();
  publish(*maker, 1, 100);
  for (const char* error : {"LOADING Redis is loading the dataset in memory", "NOAUTH", "MOVED 1",
                            "-1", "OOM command not allowed"}) {
    auto other = process();
    other->reads.error = error;
    EXPECT_FALSE(find(*other, 1, 100).rows) << error;
    EXPECT_EQ(other->lookups(Lookup::kFailed), 1u) << error;
    other->reads.error.clear();
    EXPECT_TRUE(find(*other, 1, 100).rows) << error;
  }
  maker->writes.error = "READONLY You can't write against a read only replica.";
  publish(*maker, 2, 100);
  EXPECT_EQ(maker->publications(Publication::kFailed), 1u);
  EXPECT_EQ(maker->rows.stats().errors.at("READONLY"), 1u);
  maker->writes.error.clear();
  publish(*maker, 2, 100);
  EXPECT_EQ(maker->publications(Publication::kStored), 2u);
}

TEST_F(RowStoreTest, WhatDoesNotPayIsNotLookedForMuch) {
  auto other = process();
  int looked = 0;
  for (int i = 0; i < 640; ++i) {
    const int before = other->reads.batches;
    find(*other, i, 10, 2 * kMillisecond);  // misses, all of them
    looked += other->reads.batches > before;
  }
  // Until it was known, and one in 32 from then on.
  EXPECT_GT(looked, 10);
  EXPECT_LT(looked, 100);
  // An encode that takes seconds is worth more tries; one that nobody can do, any.
  const int before = other->reads.batches;
  for (int i = 0; i < 20; ++i) find(*other, i, 10);
  EXPECT_EQ(other->reads.batches, before + 20);
}

TEST_F(RowStoreTest, BytesOnTheirWayAreBounded) {
  RowStoreSettings small = settings();
  small.reading_bytes = 100 * kRowBytes;
  small.writing_bytes = 100 * kRowBytes;
  small.max_bytes = 80 * kRowBytes;
  auto of = process(small);
  EXPECT_FALSE(find(*of, 1, 81).rows);
  EXPECT_EQ(of->lookups(Lookup::kSkipped), 1u);
  publish(*of, 1, 81);
  EXPECT_EQ(of->publications(Publication::kSkipped), 1u);
  for (int image = 2; image < 4; ++image) {
    const auto rows = rows_of(60, image);
    of->rows.publish(name_of_image(image), 60, *rows, digest_of(*rows), rows);
  }
  EXPECT_EQ(of->publications(Publication::kSkipped), 2u);
  run(kSecond);
  EXPECT_EQ(of->publications(Publication::kStored), 1u);
  // Rows that are here and not used yet count too.
  const Answer held = find(*of, 2, 60);
  ASSERT_TRUE(held.rows);
  EXPECT_FALSE(find(*of, 2, 60).rows);
  EXPECT_EQ(of->lookups(Lookup::kSkipped), 2u);
}

}  // namespace
}  // namespace saccade::cluster

#include "cluster/store/registry.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/memory_store.h"

namespace saccade::cluster {
namespace {

using test::MemoryLink;
using test::MemoryStore;

NodeRecord encoder(const std::string& id, const std::string& address) {
  NodeRecord record;
  record.id = id;
  record.role = "encoder";
  record.epoch = 0x1234'5678'9abc'def0;
  record.encodes_at = address;
  record.fingerprint = "tower";
  record.numerics = "cpu \"quoted\" r1";
  record.row_bytes = 64;
  return record;
}

class RegistryTest : public ::testing::Test {
 protected:
  struct Process {
    Process(RegistryTest& test, std::string key)
        : link(test.clock, test.timers, test.store),
          registry(test.clock, test.timers, test.rng, link, settings(std::move(key)),
                   [this](const std::vector<NodeRecord>& nodes) {
                     heard = nodes;
                     ++times;
                   }) {
      registry.begin();
    }
    static RegistrySettings settings(std::string key) {
      RegistrySettings made;
      made.key = std::move(key);
      return made;
    }
    MemoryLink link;
    Registry registry;
    std::vector<NodeRecord> heard;
    int times = 0;
  };
  std::unique_ptr<Process> process(const std::string& key = "") {
    return std::make_unique<Process>(*this, key);
  }
  void run(Nanos duration) {
    const Nanos end = clock.now() + duration;
    while (timers.next() && *timers.next() <= end) {
      clock.set(*timers.next());
      timers.run_due(clock.now());
    }
    clock.set(end);
  }

  VirtualClock clock;
  TimerQueue timers;
  Rng rng{1};
  MemoryStore store{clock};
};

TEST_F(RegistryTest, OthersAreHeardAndOneselfIsNot) {
  auto a = process();
  auto b = process();
  a->registry.announce(encoder("a", "10.0.0.1:7100"));
  b->registry.announce(encoder("b", "10.0.0.2:7100"));
  run(3 * kSecond);
  EXPECT_EQ(a->heard, std::vector{encoder("b", "10.0.0.2:7100")});
  EXPECT_EQ(b->heard, std::vector{encoder("a", "10.0.0.1:7100")});
}

TEST_F(RegistryTest, TheDeadAreGoneWhenTheirLeaseEnds) {
  auto a = process();
  auto b = process();
  b->registry.announce(encoder("b", "10.0.0.2:7100"));
  run(30 * kSecond);
  EXPECT_EQ(a->heard.size(), 1u);  // renewed for three leases
  EXPECT_GE(b->registry.stats().renewals, 8u);
  b.reset();
  run(5 * kSecond);
  EXPECT_EQ(a->heard.size(), 1u);
  run(6 * kSecond);
  EXPECT_TRUE(a->heard.empty());
  EXPECT_TRUE(store.sets["saccade:nodes"].empty());  // pruned by who has read it
}

TEST_F(RegistryTest, WhoLeavesIsGoneAtOnce) {
  auto a = process();
  auto b = process();
  b->registry.announce(encoder("b", "10.0.0.2:7100"));
  run(3 * kSecond);
  ASSERT_EQ(a->heard.size(), 1u);
  bool told = false;
  b->registry.withdraw([&] { told = true; });
  run(3 * kSecond);
  EXPECT_TRUE(told);
  EXPECT_TRUE(a->heard.empty());
  run(20 * kSecond);
  EXPECT_TRUE(a->heard.empty());  // and does not come back
}

TEST_F(RegistryTest, WhatWasKnownStaysWhileTheStoreIsGone) {
  auto a = process();
  auto b = process();
  b->registry.announce(encoder("b", "10.0.0.2:7100"));
  run(3 * kSecond);
  const int before = a->times;
  for (MemoryLink* link : {&a->link, &b->link}) link->reachable = false;
  run(60 * kSecond);
  EXPECT_EQ(a->times, before);
  EXPECT_EQ(a->heard.size(), 1u);
  EXPECT_FALSE(a->registry.stats().up);
  // Backing off: at 0.5, 1, 2, 4, 8 and then every 10 s or so.
  EXPECT_LE(a->registry.stats().failures, 16u);
  EXPECT_GE(a->registry.stats().failures, 6u);
  // It comes back empty: they say again that they are there.
  store.texts.clear();
  store.sets.clear();
  for (MemoryLink* link : {&a->link, &b->link}) link->reachable = true;
  run(20 * kSecond);
  EXPECT_TRUE(a->registry.stats().up);
  EXPECT_EQ(a->heard.size(), 1u);
}

TEST_F(RegistryTest, ErrorsOfAllKindsAreFailuresAndNothingMore) {
  auto a = process();
  auto b = process();
  b->registry.announce(encoder("b", "10.0.0.2:7100"));
  run(3 * kSecond);
  for (const char* error : {"LOADING Redis is loading", "READONLY You can't write", "OOM", "",
                            "NOAUTH Authentication required", "WRONGTYPE"}) {
    a->link.error = error;
    run(15 * kSecond);
    EXPECT_EQ(a->heard.size(), 1u) << error;
    EXPECT_EQ(a->registry.stats().up, std::string(error).empty()) << error;
  }
}

TEST_F(RegistryTest, WithAKeyStrangersAreNotHeard) {
  auto a = process("a key of the cluster");
  auto friendly = process("a key of the cluster");
  auto strange = process("another key, of others");
  auto without = process();
  friendly->registry.announce(encoder("friend", "10.0.0.2:7100"));
  strange->registry.announce(encoder("stranger", "10.0.0.3:7100"));
  without->registry.announce(encoder("nobody", "10.0.0.4:7100"));
  run(3 * kSecond);
  EXPECT_EQ(a->heard, std::vector{encoder("friend", "10.0.0.2:7100")});
  EXPECT_GT(a->registry.stats().refused_records, 0u);
  // A friend's record under another name is not that friend.
  store.texts["saccade:node:copy"] = store.texts["saccade:node:friend"];
  store.sets["saccade:nodes"].insert("copy");
  run(3 * kSecond);
  EXPECT_EQ(a->heard.size(), 1u);
}

TEST_F(RegistryTest, WhatIsNoRecordIsPassedOver) {
  auto a = process();
  auto b = process();
  b->registry.announce(encoder("b", "10.0.0.2:7100"));
  int n = 0;
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{\"version\": 2}"),
        std::string(5000, 'x'), write_record(encoder("c", "no address"), ""),
        std::string("{\"version\": 1, \"row_bytes\": -1}")}) {
    const std::string id = "bad" + std::to_string(n++);
    store.texts["saccade:node:" + id] = {text, clock.now() + 3600 * kSecond};
    store.sets["saccade:nodes"].insert(id);
  }
  store.sets["saccade:nodes"].insert("not an id");
  store.sets["saccade:nodes"].insert(std::string(100, 'a'));
  run(3 * kSecond);
  EXPECT_EQ(a->heard.size(), 1u);
  EXPECT_GE(a->registry.stats().refused_records, 8u);
}

TEST(NodeRecordTest, ComesBackAsItWent) {
  NodeRecord record = encoder("node-1", "unix:/run/a b.sock");
  record.url = "https://[::1]:8000/v";
  for (const std::string key : {"", "sixteen bytes or more"}) {
    const auto read = read_record(write_record(record, key), "node-1", key);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, record);
  }
  // One changed byte anywhere, and with a key it is nobody's.
  const std::string text = write_record(record, "sixteen bytes or more");
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const auto read = read_record(changed, "node-1", "sixteen bytes or more");
    EXPECT_TRUE(!read || *read == record) << i;  // what is not part of it may change
  }
}

}  // namespace
}  // namespace saccade::cluster

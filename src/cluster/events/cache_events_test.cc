#include "cluster/events/cache_events.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/events/message_pack.h"

namespace saccade::cluster {
namespace {

StoredBlock block(std::uint64_t name, std::optional<std::uint64_t> parent,
                  const std::vector<std::int32_t>& tokens, int group = 0) {
  StoredBlock stored;
  stored.name = name;
  stored.parent = parent;
  stored.tokens = tokens;
  stored.group = group;
  return stored;
}

TEST(CacheEvents, BlocksOfOnePromptAreOneEvent) {
  int woken = 0;
  CacheEventLog log(100, [&] { ++woken; });
  log.stored(block(1, std::nullopt, {10, 11}));
  log.stored(block(2, 1, {12, 13}));
  log.stored(block(3, 1, {14, 15}));  // a branch
  log.removed(0, 2);
  log.removed(0, 3);
  log.removed(1, 3);
  log.cleared();
  EXPECT_EQ(woken, 1);
  const auto events = log.take();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].names, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(events[0].tokens, (std::vector<std::int32_t>{10, 11, 12, 13}));
  EXPECT_FALSE(events[0].parent);
  EXPECT_EQ(events[1].parent, 1u);
  EXPECT_EQ(events[2].names, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(events[3].group, 1);
  EXPECT_EQ(events[4].kind, CacheEvent::Kind::kCleared);
  EXPECT_TRUE(log.take().empty());
  log.cleared();
  EXPECT_EQ(woken, 2);
}

// Blocks of an adapter are told apart, though one follows the other.
TEST(CacheEvents, NameTheirAdapter) {
  CacheEventLog log(100, [] {});
  const std::vector<std::int32_t> tokens = {10, 11};
  log.stored(block(1, std::nullopt, tokens));
  StoredBlock adapted = block(2, 1, tokens);
  adapted.adapter = {"digest", "style", 7};
  log.stored(adapted);
  const auto events = log.take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].lora_name, "");
  EXPECT_EQ(events[1].lora_name, "style");
  EXPECT_EQ(events[1].lora_id, 7);
  const std::string plain = packed({events[0]}, 0);
  EXPECT_NE(plain.find("\xa7lora_id\xc0"), std::string::npos);
  EXPECT_NE(plain.find("\xa9lora_name\xc0"), std::string::npos);
  const std::string named = packed({events[1]}, 0);
  EXPECT_NE(named.find("\xa7lora_id\x07"), std::string::npos);
  EXPECT_NE(named.find("\xa9lora_name\xa5style"), std::string::npos);
}

// Who does not keep up is told that nothing is there, and then what has come since.
TEST(CacheEvents, WhatIsNotSentInTimeIsForgotten) {
  CacheEventLog log(3, [] {});
  for (std::uint64_t name = 1; name <= 4; ++name) log.stored(block(name, std::nullopt, {1}));
  const auto events = log.take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, CacheEvent::Kind::kCleared);
  EXPECT_EQ(events[1].names, (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(log.dropped(), 3u);
}

TEST(CacheEvents, PackedAsTheSpecificationSays) {
  MessagePack pack;
  pack.list(7);
  pack.nil();
  pack.number(std::uint64_t{0x7f});
  pack.number(std::uint64_t{0x80});
  pack.number(std::uint64_t{0x100});
  pack.number(std::uint64_t{0x10000});
  pack.number(std::uint64_t{0x100000000});
  pack.number(1.5);
  EXPECT_EQ(pack.take(), std::string("\x97\xc0\x7f\xcc\x80\xcd\x01\x00\xce\x00\x01\x00\x00"
                                     "\xcf\x00\x00\x00\x01\x00\x00\x00\x00"
                                     "\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00",
                                     31));
  MessagePack more;
  more.map(16);
  more.text("ab");
  more.text(std::string(40, 'x'));
  EXPECT_EQ(more.take(),
            std::string("\xde\x00\x10\xa2", 4) + "ab" + "\xd9\x28" + std::string(40, 'x'));
  EXPECT_EQ(packed({{}}, 0), std::string("\x93\xcb\0\0\0\0\0\0\0\0\x91\x81\xa4type\xb0"
                                         "AllBlocksCleared\0",
                                         35));
}

TEST(CacheEvents, SettingsAreThoseOfVllm) {
  EXPECT_FALSE(parse_cache_event_settings("").value().enabled);
  EXPECT_FALSE(parse_cache_event_settings("{}").value().enabled);
  const auto settings = parse_cache_event_settings(
      R"({"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557",
          "replay_endpoint": "ipc:///tmp/x", "buffer_steps": 7, "hwm": 8, "max_queue_size": 9,
          "topic": "kv"})");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_TRUE(settings->enabled);
  EXPECT_EQ(settings->replay_endpoint, "ipc:///tmp/x");
  EXPECT_EQ(settings->buffer_steps, 7u);
  EXPECT_EQ(settings->topic, "kv");
  EXPECT_FALSE(
      parse_cache_event_settings(R"({"publisher": "null", "enable_kv_cache_events": true})")
          .value()
          .enabled);
  for (const auto& [bad, named] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "JSON object"},
           {R"({"port": 1})", "port"},
           {R"({"endpoint": "udp://x"})", "udp://x"},
           {R"({"publisher": "kafka"})", "kafka"},
           {R"({"hwm": 0})", "hwm"},
           {R"({"enable_kv_cache_events": 1})", "enable_kv_cache_events"}}) {
    const auto refused = parse_cache_event_settings(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().message.find(named), std::string::npos) << refused.error().message;
  }
}

TEST(CacheEvents, WildcardsAndLoopbackAreBound) {
  for (const char* bound : {"tcp://*:5557", "tcp://127.0.0.1:1", "tcp://[::1]:1", "ipc:///x",
                            "tcp://localhost:1", "tcp://0.0.0.0:1"})
    EXPECT_TRUE(is_bound(bound)) << bound;
  EXPECT_FALSE(is_bound("tcp://router:5557"));
  EXPECT_FALSE(is_bound("tcp://10.0.0.1:5557"));
}

}  // namespace
}  // namespace saccade::cluster

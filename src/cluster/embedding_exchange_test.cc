// The engine's wishes against a store and a registry that do as they are told: what is found is
// delivered, what is not goes its ordinary way, and encoders come and go.
#include "cluster/embedding_exchange.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "tests/support/portable_file.h"

namespace saccade::cluster {
namespace {

constexpr std::uint64_t kExchangedRowBytes = 8;

// Remembers what it is told; its encoders never answer.
class Link final : public RunningLink {
 public:
  void ask(const AttemptId& attempt, const Order&, Nanos) override { asked.push_back(attempt); }
  void receive(const AttemptId&, std::shared_ptr<RowPages>) override {}
  void cancel(const AttemptId&) override {}
  void stop() override {}
  void add(int encoder, const std::string& address) override { added[encoder] = address; }
  void remove(int encoder) override { added.erase(encoder); }
  std::vector<AttemptId> asked;
  std::map<int, std::string> added;
};

class Finder final : public RowFinder {
 public:
  void find(const RowQuery& query, Nanos, RowStore::Found done) override {
    ++searches;
    if (waits) return waiting.push_back(std::move(done));
    if (!has) return done(std::nullopt);
    auto pages = std::make_shared<RowPages>();
    pages->bytes.assign(query.bytes, std::byte{7});
    const Digest digest =
        sha256({reinterpret_cast<const char*>(pages->bytes.data()), pages->bytes.size()});
    done(FoundRows{std::move(pages), digest, "maker"});
  }
  void wrong(const Digest&, const std::string& maker) override { wrong_makers.push_back(maker); }
  bool has = false;
  bool waits = false;
  int searches = 0;
  std::vector<RowStore::Found> waiting;
  std::vector<std::string> wrong_makers;
};

class ExchangeTest : public ::testing::Test {
 protected:
  void make(bool tower, std::vector<std::string> encoders = {}, double verify_share = 0) {
    ExchangeSettings settings;
    settings.self = {kProtocol, "self", 1, "tower", "numerics", kExchangedRowBytes};
    settings.encoders = std::move(encoders);
    settings.tower = tower;
    settings.items.fallback = tower;
    settings.items.verify_share = verify_share;
    settings.finder = &finder;
    settings.max_encoders = 4;
    exchange = std::make_unique<EmbeddingExchange>(
        clock, settings, [this](EventThread& made_for, EmbeddingExchange&) {
          thread = &made_for;
          auto made = std::make_unique<Link>();
          link = made.get();
          return made;
        });
  }
  static Digest key_of(int image) { return sha256(std::to_string(image)); }
  void want(int image, std::uint64_t ticket) {
    exchange->want({key_of(image), ticket, key_of(100 + image), 4, "layout",
                    std::make_shared<const test::PortableFile>()});
  }
  // What has come so far.
  std::vector<ImageNews> news() {
    exchange->stats();
    return exchange->take();
  }
  // Waits until so much has come; then there may be no more.
  std::vector<ImageNews> news(std::size_t count) {
    std::vector<ImageNews> all;
    for (int i = 0; i < 6'000 && all.size() < count; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (ImageNews& each : news()) all.push_back(std::move(each));
    }
    for (ImageNews& each : news()) all.push_back(std::move(each));
    return all;
  }
  std::vector<std::string> encoders() {
    std::vector<std::string> names;
    for (const auto& each : exchange->stats().encoders) names.push_back(each.name);
    return names;
  }
  void connect(int encoder) {
    thread->call([&] {
      exchange->table().connected(encoder,
                                  {kProtocol, "e", 9, "tower", "numerics", kExchangedRowBytes});
    });
  }

  SteadyClock clock;
  Finder finder;
  Link* link = nullptr;
  EventThread* thread = nullptr;
  std::unique_ptr<EmbeddingExchange> exchange;
};

TEST_F(ExchangeTest, WhatIsStoredIsDeliveredAndNobodyIsAsked) {
  make(false);
  finder.has = true;
  want(1, 1);
  const auto all = news(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, ImageNews::Kind::kRows);
  EXPECT_EQ(all[0].ticket, 1u);
  EXPECT_EQ(all[0].rows.size(), 4 * kExchangedRowBytes);
  const ExchangeStats stats = exchange->stats();
  EXPECT_EQ(stats.items.items[static_cast<std::size_t>(Source::kStore)], 1u);
  EXPECT_EQ(stats.items.wanted, 1u);
  EXPECT_EQ(stats.open, 0u);
  EXPECT_TRUE(link->asked.empty());
}

TEST_F(ExchangeTest, WhatIsNotIsMadeHereOrEndsInAnError) {
  make(true);
  want(1, 1);
  auto all = news(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, ImageNews::Kind::kEncodeHere);
  exchange->made_here(key_of(1), 1, {});
  EXPECT_EQ(exchange->stats().items.wanted, 1u);
  make(false);
  want(1, 1);
  all = news(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, ImageNews::Kind::kFailed);
}

TEST_F(ExchangeTest, WhoIsNotWantedAnyMoreGetsNothing) {
  make(false);
  finder.has = true;
  finder.waits = true;
  want(1, 1);
  EXPECT_EQ(exchange->stats().open, 1u);
  exchange->unwant(key_of(1), 1);
  EXPECT_EQ(exchange->stats().open, 0u);
  // Wanted again, under another ticket: the first search's answer is not for it.
  want(1, 2);
  exchange->stats();
  ASSERT_EQ(finder.waiting.size(), 2u);
  finder.waits = false;
  const auto answer = [&](std::size_t search) {
    finder.find({key_of(1), 4, 4 * kExchangedRowBytes}, 0, finder.waiting[search]);
  };
  answer(0);
  EXPECT_TRUE(news().empty());
  answer(1);
  const auto all = news(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].ticket, 2u);
  EXPECT_EQ(exchange->stats().items.unwanted, 1u);
}

TEST_F(ExchangeTest, StoredRowsThatDifferFromOnesOwnAreToldOf) {
  make(true, {}, 1);
  finder.has = true;
  want(1, 1);
  const auto all = news(2);
  ASSERT_EQ(all.size(), 2u);
  const std::size_t at = all[0].kind == ImageNews::Kind::kCompare ? 0 : 1;
  ASSERT_EQ(all[at].kind, ImageNews::Kind::kCompare);
  exchange->compared(all[at].key, sha256("other rows"));
  const ExchangeStats stats = exchange->stats();
  EXPECT_EQ(stats.items.mismatches, 1u);
  EXPECT_EQ(finder.wrong_makers, std::vector<std::string>{"maker"});
}

TEST_F(ExchangeTest, EncodersAreFoundAndForgotten) {
  make(true, {"given:1"});
  const auto found = [&](std::vector<FoundEncoder> all) { exchange->found(std::move(all)); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(encoders(), Names{"given:1"});
  found({{"a:1", "tower"}, {"b:1", "tower"}, {"c:1", "another tower"}, {"given:1", "tower"}});
  EXPECT_EQ(encoders(), (Names{"given:1", "a:1", "b:1"}));
  EXPECT_EQ(link->added.size(), 2u);
  // One is connected, and stays although the registry has forgotten both.
  connect(1);
  found({});
  EXPECT_EQ(encoders(), (Names{"given:1", "a:1"}));
  // Another takes the free place; there are four at most.
  found({{"a:1", "tower"}, {"d:1", "tower"}, {"e:1", "tower"}, {"f:1", "tower"}});
  EXPECT_EQ(encoders(), (Names{"given:1", "a:1", "d:1", "e:1"}));
  EXPECT_EQ(link->added.at(2), "d:1");
  thread->call([&] { exchange->table().disconnected(1, "gone"); });
  found({});
  EXPECT_EQ(encoders(), Names{"given:1"});
  EXPECT_TRUE(link->added.empty());
}

}  // namespace
}  // namespace saccade::cluster

#include "engine/admission/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

#include "base/rng.h"

namespace saccade {
namespace {

std::unique_ptr<Sequence> sequence_of(ClientId client, RequestId id) {
  Request request;
  request.id = id;
  request.client = client;
  return std::make_unique<Sequence>(std::move(request), "model", 0, 16, 1024);
}

std::vector<RequestId> turns_of(FairQueue& queue) {
  std::vector<RequestId> ids;
  FairQueue::Turns turns(queue);
  while (const Sequence* next = turns.next()) ids.push_back(next->request.id);
  return ids;
}

using Ids = std::vector<RequestId>;

TEST(FairQueue, OneClientIsFirstComeFirstServed) {
  std::vector<std::unique_ptr<Sequence>> all;
  FairQueue queue(4, true);
  for (RequestId id = 1; id <= 5; ++id) {
    all.push_back(sequence_of(7, id));
    queue.add(*all.back());
  }
  EXPECT_EQ(turns_of(queue), (Ids{1, 2, 3, 4, 5}));
  queue.start(*all[0]);
  queue.charge(*all[0], 100);
  queue.send_back(*all[0]);
  EXPECT_EQ(turns_of(queue), (Ids{1, 2, 3, 4, 5}));
}

TEST(FairQueue, WhoWasServedLeastComesFirst) {
  std::vector<std::unique_ptr<Sequence>> all;
  FairQueue queue(100, true);
  for (RequestId id = 1; id <= 6; ++id) {
    all.push_back(sequence_of(id <= 4 ? 1 : 2, id));
    queue.add(*all.back());
  }
  Ids order;
  FairQueue::Turns turns(queue);
  while (Sequence* next = turns.next()) {
    order.push_back(next->request.id);
    queue.start(*next);
    queue.charge(*next, 10);
  }
  EXPECT_EQ(order, (Ids{1, 5, 2, 6, 3, 4}));
}

TEST(FairQueue, HavingBeenIdleIsNoCredit) {
  const auto old = sequence_of(1, 1);
  const auto more = sequence_of(1, 2);
  const auto fresh = sequence_of(2, 3);
  FairQueue queue(100, true);
  queue.add(*old);
  queue.start(*old);
  queue.charge(*old, 1000);
  queue.add(*more);
  queue.start(*more);
  queue.add(*fresh);
  EXPECT_EQ(queue.served(2), 1000);
}

TEST(FairQueue, NotFairIsOneClient) {
  std::vector<std::unique_ptr<Sequence>> all;
  FairQueue queue(4, false);
  for (RequestId id = 1; id <= 4; ++id) {
    all.push_back(sequence_of(id % 2, id));
    queue.add(*all.back());
  }
  EXPECT_EQ(queue.active(), 1);
  EXPECT_EQ(turns_of(queue), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(queue.share(), 4);
}

TEST(FairQueue, LooksAheadForEachClientAlike) {
  std::vector<std::unique_ptr<Sequence>> all;
  FairQueue queue(4, true);
  for (RequestId id = 1; id <= 8; ++id) {
    all.push_back(sequence_of(id <= 6 ? 1 : 2, id));
    queue.add(*all.back());
  }
  Ids ids;
  for (const Sequence* sequence : queue.first(4)) ids.push_back(sequence->request.id);
  EXPECT_EQ(ids, (Ids{1, 7, 2, 8}));
}

// A server of `places` that gives each running sequence one token a step. Nobody who always has
// work falls behind another by more than what one share of places can hold, however many the
// others send, and a client that comes starts as soon as a place is free.
TEST(FairQueue, NobodyWithWorkFallsBehind) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    const auto places = static_cast<std::int64_t>(2 + rng.below(10));
    const auto clients = 1 + rng.below(5);
    const auto longest = static_cast<std::int64_t>(1 + rng.below(30));
    FairQueue queue(places, true);
    std::deque<std::unique_ptr<Sequence>> all;
    std::map<Sequence*, std::int64_t> left;  // of those that run
    const auto more = [&](ClientId client) {
      all.push_back(sequence_of(client, all.size() + 1));
      queue.add(*all.back());
    };
    for (ClientId client = 0; client < clients; ++client)
      for (std::uint64_t i = 0; i <= rng.below(client == 0 ? 300 : 3); ++i) more(client);
    for (int step = 0; step < 600; ++step) {
      FairQueue::Turns turns(queue);
      while (static_cast<std::int64_t>(left.size()) < places) {
        Sequence* next = turns.next();
        if (next == nullptr) break;
        queue.start(*next);
        left[next] = static_cast<std::int64_t>(1 + rng.below(static_cast<std::uint64_t>(longest)));
      }
      for (auto at = left.begin(); at != left.end();) {
        queue.charge(*at->first, 1);
        if (--at->second > 0) {
          ++at;
          continue;
        }
        const ClientId client = at->first->request.client;
        EXPECT_FALSE(queue.remove(*at->first));
        at = left.erase(at);
        if (!queue.waiting_by_client().contains(client))
          more(client);  // it always has something to do
      }
    }
    std::int64_t least = queue.served(0);
    std::int64_t most = queue.served(0);
    for (ClientId client = 0; client < clients; ++client) {
      least = std::min(least, queue.served(client));
      most = std::max(most, queue.served(client));
    }
    EXPECT_LE(most - least, (places + 1) * longest) << "seed " << seed;
    EXPECT_GT(least, 0);
  }
}

TEST(FairQueue, ClientsThatAreGoneAreForgotten) {
  FairQueue queue(4, true);
  for (RequestId id = 1; id <= 50'000; ++id) {
    const auto one = sequence_of(id, id);
    queue.add(*one);
    queue.start(*one);
    queue.charge(*one, 3);
    queue.remove(*one);
  }
  EXPECT_EQ(queue.active(), 0);
  std::size_t remembered = 0;
  for (ClientId id = 1; id <= 50'000; ++id) remembered += queue.served(id) > 0 ? 1 : 0;
  EXPECT_LE(remembered, 8192u);
}

}  // namespace
}  // namespace saccade

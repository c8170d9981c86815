#include "net/server/local_request.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

namespace saccade::net {
namespace {

struct Asked {
  std::shared_ptr<std::vector<HttpResponse>> answers =
      std::make_shared<std::vector<HttpResponse>>();
  LocalRequest request{[kept = answers](HttpResponse answer) { kept->push_back(answer); }};
};

TEST(LocalRequest, IsAnsweredOnce) {
  const Asked asked;
  const Responder responder = asked.request.responder();
  responder.respond({418, "text/plain", "tea", {}});
  responder.respond({200, "text/plain", "late", {}});
  ASSERT_EQ(asked.answers->size(), 1u);
  EXPECT_EQ(asked.answers->front().status, 418);
  EXPECT_EQ(asked.answers->front().body, "tea");
  EXPECT_FALSE(responder.disconnected());
}

TEST(LocalRequest, PiecesAreCollected) {
  const Asked asked;
  const Responder responder = asked.request.responder();
  responder.start_stream();
  write_all({{responder, "a", false}, {responder, "b", false}});
  responder.write("c");
  EXPECT_TRUE(asked.answers->empty());
  write_all({{responder, "d", true}});
  ASSERT_EQ(asked.answers->size(), 1u);
  EXPECT_EQ(asked.answers->front().status, 200);
  EXPECT_EQ(asked.answers->front().body, "abcd");
}

TEST(LocalRequest, WithoutAnAnswerThereIsA500) {
  const Asked asked;
  std::optional<Responder> responder = asked.request.responder();
  const Responder copy = *responder;
  responder.reset();
  EXPECT_TRUE(asked.answers->empty());
  std::optional<Responder>(copy).reset();
  {
    const Asked cut;
    const Responder begun = cut.request.responder();
    begun.start_answer({200, {}, 6});
    begun.cut();
    EXPECT_TRUE(cut.answers->empty());
  }
  EXPECT_TRUE(asked.answers->empty());  // `copy` lives
}

TEST(LocalRequest, TheLastHandleTells) {
  const Asked asked;
  {
    const Responder responder = asked.request.responder();
  }
  ASSERT_EQ(asked.answers->size(), 1u);
  EXPECT_EQ(asked.answers->front().status, 500);
}

TEST(LocalRequest, WhoLeavesIsToldNothing) {
  Asked asked;
  const Responder responder = asked.request.responder();
  int gone = 0;
  responder.on_disconnect([&] { ++gone; });
  asked.request.cancel();
  asked.request.cancel();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(responder.disconnected());
  responder.on_disconnect([&] { gone += 10; });  // at once: it has gone
  EXPECT_EQ(gone, 11);
  responder.respond({200, "text/plain", "late", {}});
  EXPECT_TRUE(asked.answers->empty());
}

TEST(LocalRequest, WhatIsCompleteIsNotCancelled) {
  Asked asked;
  const Responder responder = asked.request.responder();
  int gone = 0;
  responder.on_disconnect([&] { ++gone; });
  responder.respond({200, "text/plain", "", {}});
  asked.request.cancel();
  EXPECT_EQ(gone, 0);
  EXPECT_EQ(asked.answers->size(), 1u);
}

}  // namespace
}  // namespace saccade::net

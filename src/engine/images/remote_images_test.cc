#include "engine/images/remote_images.h"

#include <gtest/gtest.h>

#include <utility>

namespace saccade {
namespace {

// Says what it is told to say.
class ScriptedExchange final : public ImageExchange {
 public:
  void set_wake(std::function<void()>) override {}
  void want(WantedImage image) override { wanted.push_back(std::move(image)); }
  void unwant(const Digest&, std::uint64_t) override {}
  void made_here(const Digest&, std::uint64_t, std::optional<Digest>) override {}
  void failed_here(const Digest&, std::uint64_t, const Error&) override {}
  void compared(const Digest&, std::optional<Digest>) override {}
  void measured(const EncodeCost&) override {}
  std::vector<ImageNews> take() override { return std::exchange(news, {}); }

  void say(ImageNews::Kind kind, const WantedImage& of) {
    ImageNews& one = news.emplace_back();
    one.kind = kind;
    one.key = of.key;
    one.ticket = of.ticket;
  }
  std::vector<WantedImage> wanted;
  std::vector<ImageNews> news;
};

class Source final : public ImageSource {
 public:
  Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override {
    return PreparedImage{};
  }
  std::size_t load_bytes() const override { return 0; }
  PortableImage portable() const override { return {}; }
};

struct Wishes {
  Wishes() { want("one"); }
  void want(const char* name) {
    SequenceImage image;
    image.key = sha256(name);
    RequestImage what;
    what.source = std::make_shared<Source>();
    images.want(image, what);
  }
  ScriptedExchange exchange;
  RemoteImages images{exchange};
};

TEST(RemoteImages, WhatIsToBeEncodedHereHasItsSource) {
  Wishes s;
  s.exchange.say(ImageNews::Kind::kEncodeHere, s.exchange.wanted[0]);
  const std::vector<ImageNews> news = s.images.take();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_NE(s.images.source(news[0].key), nullptr);
}

// Between two looks an encode here was decided on, and the rows of an encoder came after all (or
// its last word that there are none).
TEST(RemoteImages, AnEncodeThatTheRowsHaveOvertakenIsNotBegun) {
  for (const auto kind : {ImageNews::Kind::kRows, ImageNews::Kind::kFailed}) {
    Wishes s;
    s.want("another");
    s.exchange.say(ImageNews::Kind::kEncodeHere, s.exchange.wanted[0]);
    s.exchange.say(ImageNews::Kind::kEncodeHere, s.exchange.wanted[1]);
    s.exchange.say(kind, s.exchange.wanted[0]);
    const std::vector<ImageNews> news = s.images.take();
    ASSERT_EQ(news.size(), 2u);
    EXPECT_EQ(news[0].kind, ImageNews::Kind::kEncodeHere);
    EXPECT_EQ(news[0].key, s.exchange.wanted[1].key);
    EXPECT_EQ(news[1].kind, kind);
    EXPECT_EQ(s.images.open(), 1u);
  }
}

}  // namespace
}  // namespace saccade

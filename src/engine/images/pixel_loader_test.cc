#include "engine/images/pixel_loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <string>
#include <thread>

namespace saccade {
namespace {

Digest key_of(int i) { return sha256(std::to_string(i)); }
bool anything(const Digest&) { return true; }

// Blocks in load() until it is let go, and knows how many do at a time.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  int allowed = 0;

  void pass() {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait(lock, [&] { return allowed > 0; });
    --allowed;
    --inside;
  }
  void wait_inside(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside == count; });
  }
  void allow(int count) {
    const std::lock_guard lock(mutex);
    allowed += count;
    changed.notify_all();
  }
};

class GatedImage final : public ImageSource {
 public:
  GatedImage(Gate& gate, std::size_t bytes, bool fails = false)
      : gate_(gate), bytes_(bytes), fails_(fails) {}
  Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override {
    gate_.pass();
    if (fails_) return fail(ErrorCode::kUndecodable, "no image");
    return PreparedImage{};
  }
  std::size_t load_bytes() const override { return bytes_; }

 private:
  Gate& gate_;
  std::size_t bytes_;
  bool fails_;
};

class PixelLoaderTest : public testing::Test {
 protected:
  void push(int i, std::size_t bytes, bool fails = false) {
    loader_.push(key_of(i), std::make_shared<GatedImage>(gate_, bytes, fails));
  }
  // Takes until `count` have come.
  std::vector<PixelLoader::Loaded> take(std::size_t count) {
    std::vector<PixelLoader::Loaded> all;
    while (all.size() < count) {
      {
        std::unique_lock lock(mutex_);
        woken_.wait(lock, [&] { return wakes_ > 0; });
        --wakes_;
      }
      for (auto& one : loader_.take(anything)) all.push_back(std::move(one));
    }
    return all;
  }

  Gate gate_;
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
  PixelLoader loader_{4, 100, [this] {
                        const std::lock_guard lock(mutex_);
                        ++wakes_;
                        woken_.notify_all();
                      }};
};

TEST_F(PixelLoaderTest, AsManyAtATimeAsTheBytesAllow) {
  for (int i = 0; i < 10; ++i) push(i, 40);
  gate_.wait_inside(2);
  EXPECT_EQ(loader_.bytes(), 80u);
  EXPECT_EQ(loader_.loads(), 2u);
  gate_.allow(10);
  EXPECT_EQ(take(10).size(), 10u);
  EXPECT_EQ(loader_.bytes(), 0u);
  EXPECT_EQ(loader_.waiting(), 0);
}

TEST_F(PixelLoaderTest, OneThatIsLargerThanTheBudgetComesAlone) {
  push(0, 1'000'000);
  push(1, 1);
  gate_.wait_inside(1);
  EXPECT_EQ(loader_.loads(), 1u);
  gate_.allow(2);
  EXPECT_EQ(take(2).size(), 2u);
}

TEST_F(PixelLoaderTest, AKeyIsLoadedOnceAndAgainWhenAskedAgain) {
  push(0, 10);
  push(0, 10);
  gate_.allow(1);
  const auto first = take(1);
  EXPECT_EQ(loader_.loads(), 1u);
  push(0, 10);
  gate_.allow(1);
  EXPECT_EQ(take(1).size(), 1u);
  EXPECT_EQ(loader_.loads(), 2u);
}

TEST_F(PixelLoaderTest, WhatNobodyWantsAnyMoreIsForgotten) {
  push(0, 100);
  push(1, 100);
  gate_.wait_inside(1);
  EXPECT_TRUE(loader_.take([](const Digest& key) { return key != key_of(1); }).empty());
  EXPECT_FALSE(loader_.contains(key_of(1)));
  gate_.allow(1);
  EXPECT_EQ(take(1).at(0).key, key_of(0));
  EXPECT_EQ(loader_.waiting(), 0);
}

TEST_F(PixelLoaderTest, FailuresComeAsSuch) {
  push(0, 10, true);
  gate_.allow(1);
  const auto loaded = take(1);
  ASSERT_FALSE(loaded.at(0).image);
  EXPECT_EQ(loaded.at(0).image.error().code, ErrorCode::kUndecodable);
  EXPECT_EQ(loader_.bytes(), 0u);
}

TEST(PixelLoader, PixelsHoldTheirBytesUntilTheyGo) {
  class Image final : public ImageSource {
   public:
    Result<PreparedImage> load(const Cancelled& /*cancelled*/) const override {
      PreparedImage image;
      image.frames.push_back({10, 1, std::vector<std::uint8_t>(30)});
      return image;
    }
    std::size_t load_bytes() const override { return 90; }
  };
  std::atomic<bool> woken = false;
  PixelLoader loader(1, 100, [&] {
    woken = true;
    woken.notify_all();
  });
  loader.push(key_of(0), std::make_shared<Image>());
  woken.wait(false);
  auto loaded = loader.take(anything);
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loader.bytes(), 30u);  // the result's own
  loaded.clear();
  EXPECT_EQ(loader.bytes(), 0u);
}

// Has no end of its own.
class EndlessImage final : public ImageSource {
 public:
  explicit EndlessImage(std::atomic<int>& begun) : begun_(begun) {}
  Result<PreparedImage> load(const Cancelled& cancelled) const override {
    ++begun_;
    begun_.notify_all();
    while (!cancelled()) std::this_thread::yield();
    return fail(ErrorCode::kCancelled, "told to end");
  }
  std::size_t load_bytes() const override { return 100; }

 private:
  std::atomic<int>& begun_;
};

bool nothing(const Digest&) { return false; }

TEST_F(PixelLoaderTest, WhatHasBegunEndsWhenNobodyWantsItAnyMore) {
  std::atomic<int> begun = 0;
  loader_.push(key_of(0), std::make_shared<EndlessImage>(begun));
  push(1, 100);
  begun.wait(0);
  EXPECT_TRUE(loader_.take([](const Digest& key) { return key == key_of(1); }).empty());
  EXPECT_FALSE(loader_.contains(key_of(0)));
  gate_.allow(1);
  const auto loaded = take(2);
  EXPECT_EQ(loaded.at(0).key, key_of(0));
  EXPECT_EQ(loaded.at(0).image.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(loaded.at(1).key, key_of(1));
  EXPECT_EQ(loader_.waiting(), 0);
  EXPECT_EQ(loader_.bytes(), 0u);
}

TEST_F(PixelLoaderTest, OneThatIsWantedAgainBeginsAgain) {
  std::atomic<int> begun = 0;
  loader_.push(key_of(0), std::make_shared<EndlessImage>(begun));
  begun.wait(0);
  EXPECT_TRUE(loader_.take(nothing).empty());
  push(0, 100);  // whether the first has ended by now or not
  gate_.allow(1);
  const auto loaded = take(2);
  EXPECT_EQ(loaded.at(0).image.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(loaded.at(1).key, key_of(0));
  EXPECT_TRUE(loaded.at(1).image) << loaded.at(1).image.error().message;
  EXPECT_EQ(loader_.waiting(), 0);
  EXPECT_EQ(loader_.loads(), 2u);
}

TEST(PixelLoader, ItsEndIsTheEndOfWhatHasBegun) {
  std::atomic<int> begun = 0;
  {
    PixelLoader loader(2, 200, [] {});
    loader.push(key_of(0), std::make_shared<EndlessImage>(begun));
    loader.push(key_of(1), std::make_shared<EndlessImage>(begun));
    while (begun < 2) begun.wait(begun);
  }
  EXPECT_EQ(begun, 2);
}

}  // namespace
}  // namespace saccade

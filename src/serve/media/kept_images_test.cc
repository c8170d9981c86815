// What is kept under a name is found by whoever kept it, and by nobody else, until others need the
// room.
#include "serve/media/kept_images.h"

#include <gtest/gtest.h>

namespace saccade::serve {
namespace {

TEST(KeptImages, AreFoundByTheirOwnNamesAlone) {
  KeptImages images(1 << 20);
  images.keep({1, "", "cat"}, "a cat");
  ASSERT_TRUE(images.find({1, "", "cat"}));
  EXPECT_EQ(*images.find({1, "", "cat"}), "a cat");
  EXPECT_FALSE(images.find({1, "", "ca"}));
  EXPECT_FALSE(images.find({2, "", "cat"}));
  EXPECT_FALSE(images.find({1, "tenant", "cat"}));
  images.keep({1, "tenant a", "cat"}, "a's cat");
  EXPECT_FALSE(images.find({1, "tenant b", "cat"}));
  // Not by moving the border between two parts of a name either.
  images.keep({1, "ab", "c"}, "another");
  EXPECT_FALSE(images.find({1, "a", "bc"}));
  EXPECT_FALSE(images.find({1, "abc", ""}));
  EXPECT_FALSE(images.find({1, "", "2 abc"}));
  EXPECT_EQ(*images.find({1, "ab", "c"}), "another");
}

TEST(KeptImages, ANameStandsForWhatWasSentLast) {
  KeptImages images(1 << 20);
  images.keep({1, "", "x"}, "first");
  const auto first = images.find({1, "", "x"});
  const std::size_t bytes = images.bytes();
  images.keep({1, "", "x"}, "second and longer");
  EXPECT_EQ(*images.find({1, "", "x"}), "second and longer");
  EXPECT_EQ(*first, "first") << "whoever has it keeps it";
  EXPECT_EQ(images.bytes(), bytes + 12);
  images.keep({1, "", "x"}, "first");
  EXPECT_EQ(images.bytes(), bytes);
}

TEST(KeptImages, TheOneUsedLongestAgoLeavesFirst) {
  const std::string large(1000, 'a');
  KeptImages images(4 * 1256);
  for (const char* name : {"a", "b", "c", "d"}) images.keep({1, "", name}, large);
  EXPECT_EQ(images.bytes(), 4u * 1256);
  EXPECT_TRUE(images.find({1, "", "a"}));
  images.keep({1, "", "b"}, large);  // sent again
  images.keep({2, "", "e"}, large);
  EXPECT_FALSE(images.find({1, "", "c"}));
  for (const char* name : {"a", "b", "d"}) EXPECT_TRUE(images.find({1, "", name})) << name;
  EXPECT_EQ(images.bytes(), 4u * 1256);
  // What is larger than all together is not kept, and nothing leaves for it.
  images.keep({1, "", "a"}, std::string(5000, 'a'));
  EXPECT_FALSE(images.find({1, "", "a"}));
  EXPECT_TRUE(images.find({1, "", "d"}));
  // Small ones are counted with what they cost.
  for (int i = 0; i < 1000; ++i) images.keep({1, "", std::to_string(i)}, "");
  EXPECT_LE(images.bytes(), 4u * 1256);
  EXPECT_FALSE(images.find({1, "", "d"}));
}

}  // namespace
}  // namespace saccade::serve

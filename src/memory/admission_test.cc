#include "memory/admission.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

GroupDemand demand(std::int64_t pages, std::int64_t ratio, std::int64_t stray,
                   std::int64_t own_stray = 0) {
  return {pages, ratio, own_stray, stray, 100, 0, 100};
}

TEST(Admission, RequestsAreKeptApartWhileThereIsRoom) {
  const GroupDemand demands[] = {demand(5, 4, 3)};
  const Quota quota = decide(demands, 2, 10);
  ASSERT_EQ(quota.verdict, Admission::kNow);
  EXPECT_EQ(quota.large, std::vector<std::int64_t>{2});
}

TEST(Admission, StraysAreUsedWhenRoomIsShort) {
  const GroupDemand demands[] = {demand(5, 4, 3)};
  const Quota quota = decide(demands, 1, 10);
  ASSERT_EQ(quota.verdict, Admission::kNow);
  EXPECT_EQ(quota.large, std::vector<std::int64_t>{1});
  EXPECT_EQ(decide(demands, 0, 10).verdict, Admission::kLater);
}

TEST(Admission, OwnStraysCountBeforeNewPages) {
  const GroupDemand demands[] = {demand(5, 4, 1, 1)};
  EXPECT_EQ(decide(demands, 1, 10).large, std::vector<std::int64_t>{1});
}

TEST(Admission, MoreThanThePoolIsNever) {
  const GroupDemand demands[] = {demand(9, 4, 9), demand(2, 1, 0)};
  EXPECT_EQ(decide(demands, 5, 4).verdict, Admission::kNever);
  EXPECT_EQ(decide(demands, 5, 5).verdict, Admission::kNow);
  GroupDemand capped = demand(9, 4, 0);
  capped.largest = 2;
  EXPECT_EQ(decide(std::span(&capped, 1), 5, 10).verdict, Admission::kNever);
}

TEST(Admission, ReservedPagesAreNotTakenFromTheCommonOnes) {
  GroupDemand reserved = demand(2, 1, 0);
  reserved.reserved = 2;
  const GroupDemand demands[] = {reserved, demand(3, 1, 0)};
  EXPECT_EQ(decide(demands, 3, 10).verdict, Admission::kNow);
  EXPECT_EQ(decide(demands, 2, 10).verdict, Admission::kLater);
}

}  // namespace
}  // namespace saccade

#include "base/threads/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace saccade {
namespace {

class MadeSystem {
 public:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  Processors find() const { return find_processors(root_.path()); }

 private:
  test::TemporaryDirectory root_;
};

double quota(MadeSystem& system) { return system.find().quota; }

TEST(Processors, ListsAreReadAndWritten) {
  EXPECT_EQ(parse_processors("3"), (ProcessorSet{3}));
  EXPECT_EQ(parse_processors("0-3,8"), (ProcessorSet{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_processors("8,0-2,1-3"), (ProcessorSet{0, 1, 2, 3, 8}));
  for (const char* text : {"", "x", "1-", "-1", "3-1", "1,,2", "1;2", "0-9000", "1 2"})
    EXPECT_FALSE(parse_processors(text)) << text;
  for (const char* text : {"0", "0-3,8", "1,3,5", "6-7"})
    EXPECT_EQ(format_processors(*parse_processors(text)), text);
}

TEST(Processors, ThreadsAreWholeOnesOfTheQuota) {
  Processors processors{.usable = {0, 1, 2, 3}, .nodes = {{0, 1, 2, 3}}, .quota = 0};
  EXPECT_EQ(processors.compute_threads(), 4);
  for (const auto& [quota, threads] :
       {std::pair{0.5, 1}, {1.0, 1}, {1.9, 1}, {2.5, 2}, {4.0, 4}, {64.0, 4}}) {
    processors.quota = quota;
    EXPECT_EQ(processors.compute_threads(), threads) << quota;
  }
  EXPECT_EQ(Processors{}.compute_threads(), 1);
}

TEST(Processors, TheLeastQuotaOfAGroupAndThoseItIsIn) {
  MadeSystem system;
  EXPECT_EQ(quota(system), 0);
  system.write("proc/self/cgroup", "0::/outer/inner");
  EXPECT_EQ(quota(system), 0);
  system.write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000");
  EXPECT_EQ(quota(system), 0);
  system.write("sys/fs/cgroup/outer/cpu.max", "350000 100000");
  EXPECT_EQ(quota(system), 3.5);
  system.write("sys/fs/cgroup/outer/inner/cpu.max", "150000 100000");
  EXPECT_EQ(quota(system), 1.5);
  system.write("sys/fs/cgroup/cpu.max", "50000 50000");
  EXPECT_EQ(quota(system), 1);
}

TEST(Processors, AContainerSeesItsOwnRootAlone) {
  MadeSystem system;
  system.write("proc/self/cgroup", "0::/../../host/path");
  system.write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(quota(system), 2);
}

TEST(Processors, TheFirstVersionOfControlGroups) {
  MadeSystem system;
  system.write("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a/b\n2:cpuset:/");
  system.write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1");
  system.write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(system), 0);
  system.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000");
  system.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(system), 2.5);
  // Another controller's files say nothing.
  system.write("sys/fs/cgroup/memory/a/cpu.cfs_quota_us", "1000");
  system.write("sys/fs/cgroup/memory/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(system), 2.5);
}

TEST(Processors, NodesAreThoseThatHaveUsableOnes) {
  MadeSystem system;
  const ProcessorSet usable = find_processors().usable;
  ASSERT_FALSE(usable.empty());
  EXPECT_EQ(system.find().nodes, std::vector<ProcessorSet>{usable});
  const std::string first = std::to_string(usable.front());
  system.write("sys/devices/system/node/node10/cpulist", first);
  system.write("sys/devices/system/node/node2/cpulist", "8000-8100");
  system.write("sys/devices/system/node/possible", "0-10");
  if (usable.size() > 1)
    system.write("sys/devices/system/node/node9/cpulist", std::to_string(usable.back()) + ",8101");
  std::vector<ProcessorSet> want;
  if (usable.size() > 1) want.push_back({usable.back()});
  want.push_back({usable.front()});
  EXPECT_EQ(system.find().nodes, want);  // node 9 before node 10
}

TEST(Processors, AThreadStaysWhereItIsPut) {
  const ProcessorSet usable = find_processors().usable;
  std::thread([&] {
    {
      const StayingOn staying({usable.back()});
      EXPECT_EQ(find_processors().usable, ProcessorSet{usable.back()});
      EXPECT_EQ(::sched_getcpu(), usable.back());
      const StayingOn nothing(ProcessorSet{});
      EXPECT_EQ(find_processors().usable, ProcessorSet{usable.back()});
    }
    EXPECT_EQ(find_processors().usable, usable);
    {
      const StayingOn nowhere({8000});
      EXPECT_EQ(find_processors().usable, usable);
    }
    const Result<void> went = stay_on({8000});
    ASSERT_FALSE(went);
    EXPECT_NE(went.error().message.find("processors 8000: "), std::string::npos);
  }).join();
}

}  // namespace
}  // namespace saccade

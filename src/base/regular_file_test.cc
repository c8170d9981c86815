#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "base/json.h"
#include "tests/support/temporary_directory.h"

namespace saccade {
namespace {

constexpr std::size_t kMost = 4096;

std::string error_of(const std::string& path, std::size_t most = kMost) {
  const auto text = read_regular_file(path, most);
  return text ? "read" : text.error().message;
}

// A FIFO without a writer would never be opened, and /dev/zero never end.
TEST(RegularFile, NothingElseIsWaitedFor) {
  const test::TemporaryDirectory folder;
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(error_of(fifo), fifo + ": a FIFO, a regular file is required");
  EXPECT_EQ(error_of("/dev/zero"), "/dev/zero: a device, a regular file is required");
  EXPECT_EQ(error_of(folder.path()), folder.path() + ": a folder, a regular file is required");
  const auto parsed = json::parse_file(fifo);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
  EXPECT_NE(parsed.error().message.find("a FIFO"), std::string::npos) << parsed.error().message;
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(symlink(fifo.c_str(), link.c_str()), 0);
  EXPECT_NE(error_of(link).find("a FIFO"), std::string::npos);
}

TEST(RegularFile, IsReadWholeUpToALimit) {
  const test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/file";
  for (const std::size_t bytes : {0u, 1u, 4095u, 4096u}) {
    std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
    const auto text = read_regular_file(path, kMost);
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(*text, std::string(bytes, 'x'));
  }
  EXPECT_EQ(error_of(path, 4095), path + ": 4096 bytes, limit 4095");
  const auto absent = read_regular_file(folder.path() + "/none", kMost);
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  // What says that it has no bytes and has some.
  EXPECT_EQ(error_of("/proc/self/status", 1 << 20), "read");
  EXPECT_NE(error_of(std::string("/dev/null\0x", 11)).find("NUL"), std::string::npos);
}

}  // namespace
}  // namespace saccade

#include "bench/datasets/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(TextFile, APipeIsReadToItsEndAndNoFurtherThanItsLimit) {
  const test::TemporaryDirectory folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string sent(3'000'000, 'x');
  const auto read = [&](std::size_t most) {
    std::thread writer([&] {
      std::signal(SIGPIPE, SIG_IGN);
      std::ofstream(pipe) << sent;
    });
    auto text = read_text_file(pipe, 1, most);
    writer.join();
    return text;
  };
  const auto whole = read(sent.size());
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(*whole, sent);
  const auto longer = read(sent.size() / 2);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(longer.error().message, HasSubstr(pipe));
  EXPECT_THAT(longer.error().message, HasSubstr("1500000"));
}

TEST(TextFile, AFileThatIsTooLargeIsNotRead) {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "large";
  std::ofstream(path).close();
  fs::resize_file(path, std::uintmax_t{1} << 40);  // sparse
  const auto text = read_text_file(path);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("1099511627776 bytes, limit 4294967296"));
}

TEST(TextFile, APictureIsARegularFile) {
  const test::TemporaryDirectory folder;
  const std::string pipe = folder / "picture.png";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    const auto bytes = read_image_file(path);
    ASSERT_FALSE(bytes);
    EXPECT_THAT(bytes.error().message, HasSubstr(path));
  }
}

// Written beside and renamed over it, /dev/null would be a file from then on, for everybody.
TEST(TextFile, WhatIsNoRegularFileIsWrittenInto) {
  const test::TemporaryDirectory folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { std::getline(std::ifstream(pipe), got); });
  ASSERT_TRUE(write_text_file(pipe, "through\n"));
  EXPECT_TRUE(fs::is_fifo(pipe));
  if (!fs::is_fifo(pipe)) std::exit(1);  // nobody writes any more
  reader.join();
  EXPECT_EQ(got, "through");
}

TEST(TextFile, ALinkStaysOne) {
  const test::TemporaryDirectory folder;
  const std::string target = folder / "target";
  const std::string link = folder / "link";
  std::ofstream(target) << "old";
  fs::create_symlink(target, link);
  ASSERT_TRUE(write_text_file(link, "new"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_text_file(target).value_or(""), "new");
}

}  // namespace
}  // namespace saccade::bench

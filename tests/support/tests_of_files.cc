// main() of a program of several files' tests: PROGRAM FILE... runs the tests of these files alone,
// so that each is a test of ctest's. A file without any is a mistake; a --gtest_filter decides
// alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace {

// A filter of the tests in `file`; empty: there are none.
std::string tests_of(const std::string& file) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::filesystem::path(test.file()).filename() == file)
        filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    const std::string found = tests_of(argv[i]);
    if (found.empty()) {
      std::fprintf(stderr, "%s has no tests of %s\n", argv[0], argv[i]);
      return 2;
    }
    filter += found;
  }
  if (!filter.empty() && GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}

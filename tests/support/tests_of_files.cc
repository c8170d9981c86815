// main() of a program of several files' tests: PROGRAM FILE... runs the tests of these files alone,
// of them those that a --gtest_filter names, so that each is a test of ctest's. A file without any
// is a mistake. Without a FILE it is any program of GoogleTest's.
#include <fnmatch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::string> split(std::string_view patterns) {
  std::vector<std::string> parts;
  while (!patterns.empty()) {
    const size_t colon = std::min(patterns.find(':'), patterns.size());
    if (colon > 0) parts.emplace_back(patterns.substr(0, colon));
    patterns.remove_prefix(std::min(colon + 1, patterns.size()));
  }
  return parts;
}

// "a:b-c:d" as GoogleTest reads it: a or b, and neither c nor d; "-c" is all but c.
class Filter {
 public:
  explicit Filter(std::string_view text) {
    const size_t dash = std::min(text.find('-'), text.size());
    wanted_ = split(dash == 0 ? "*" : text.substr(0, dash));
    refused_ = split(text.substr(std::min(dash + 1, text.size())));
  }

  bool has(const std::string& name) const { return any(wanted_, name) && !any(refused_, name); }

 private:
  static bool any(const std::vector<std::string>& patterns, const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& each) {
      return fnmatch(each.c_str(), name.c_str(), 0) == 0;
    });
  }

  std::vector<std::string> wanted_;
  std::vector<std::string> refused_;
};

std::vector<std::string> tests_of(const std::string& file) {
  std::vector<std::string> tests;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::filesystem::path(test.file()).filename() == file)
        tests.push_back(std::string(suite.name()) + "." + test.name());
    }
  }
  return tests;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const Filter filter(GTEST_FLAG_GET(filter));
  std::string chosen;
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> tests = tests_of(argv[i]);
    if (tests.empty()) {
      std::fprintf(stderr, "%s has no tests of %s\n", argv[0], argv[i]);
      return 2;
    }
    for (const std::string& test : tests)
      if (filter.has(test)) chosen += test + ":";
  }
  if (argc > 1) {
    if (chosen.empty()) {
      std::fprintf(stderr, "%s: no test of these files is of the filter %s\n", argv[0],
                   GTEST_FLAG_GET(filter).c_str());
      return 2;
    }
    GTEST_FLAG_SET(filter, chosen);
  }
  return RUN_ALL_TESTS();
}

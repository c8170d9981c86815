// A directory of its own for a test, removed with everything in it at the end; and whole files.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/check.h"

namespace saccade::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char pattern[] = "/tmp/saccade-test-XXXXXX";
    CHECK(mkdtemp(pattern) != nullptr, "no temporary directory");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Empty when there is none.
inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace saccade::test

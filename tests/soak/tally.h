// What has been tried and what came of it. Any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace saccade::soak {

class Tally {
 public:
  void count(const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++counts_[what];
  }
  void find(std::string finding) {
    const std::lock_guard lock(mutex_);
    findings_.push_back(std::move(finding));
  }
  std::map<std::string, int> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  std::vector<std::string> findings() const {
    const std::lock_guard lock(mutex_);
    return findings_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;
  std::vector<std::string> findings_;
};

}  // namespace saccade::soak

// A value that its copies share: made once, read by many, changed by nobody.
#pragma once

#include <memory>
#include <utility>

namespace saccade {

// Copies cost a pointer, and so do moves: a Shared always has a value. Any thread.
template <typename T>
class Shared {
 public:
  Shared() : value_(empty()) {}
  Shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  Shared(const Shared&) = default;
  Shared& operator=(const Shared&) = default;
  ~Shared() = default;

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }

 private:
  static const std::shared_ptr<const T>& empty() {
    static const auto value = std::make_shared<const T>();
    return value;
  }
  std::shared_ptr<const T> value_;
};

}  // namespace saccade

// Waits for something that comes by itself, and stays; false after two minutes. What may be over
// before anybody looks is held meanwhile, or counted.
#pragma once

#include <chrono>
#include <thread>

namespace saccade::test {

template <typename Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 2400; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace saccade::test

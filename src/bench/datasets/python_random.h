// CPython's `random`, bit for bit, for methods that fix their samples by it.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace saccade::bench {

// MT19937 seeded as random.seed(n) does for an integer n. One thread.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);

  std::uint32_t next_word();                                  // genrand_uint32
  double random();                                            // [0, 1), 53 bits
  std::uint64_t bits(int count);                              // getrandbits, 1 to 64
  std::uint64_t below(std::uint64_t bound);                   // _randbelow; bound > 0
  std::int64_t randint(std::int64_t low, std::int64_t high);  // both inclusive, low <= high
  // random.choices(range(count), k=1)[0]; count > 0
  std::size_t choice_with_replacement(std::size_t count);

  // random.shuffle
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  void regenerate();
  std::array<std::uint32_t, 624> state_;
  std::size_t used_ = 624;
};

}  // namespace saccade::bench

// How long the expressions of one text may be looked for, all together. PCRE2 counts steps anew
// for each place where a match may begin, and its JIT counts few of them; so time bounds them: the
// processor time of the thread, which no other load lengthens.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace saccade {

// While one of a thread lives, walks over matches (regex.h) that the thread makes share it; one
// inside another counts for nothing. Without any, each walk has its own. One thread.
class RegexEffort {
 public:
  // What a text of so many bytes may take: a second, and a good twenty times of what a published
  // pattern takes.
  static Nanos for_text(std::size_t bytes);
  static Nanos now();  // processor time of the thread

  explicit RegexEffort(Nanos most, bool of_thread = true);
  ~RegexEffort();
  RegexEffort(const RegexEffort&) = delete;
  RegexEffort& operator=(const RegexEffort&) = delete;

  // That of the thread; null: there is none.
  static RegexEffort* current();

  // Whether it is over; looks at the clock.
  bool is_over() const { return now() >= end_; }
  // The same, but most calls do not look.
  bool may_be_over() { return ++calls_ % kCallsALook == 0 && is_over(); }

 private:
  static constexpr unsigned kCallsALook = 32;
  Nanos end_;
  unsigned calls_ = 0;
  bool outermost_ = false;
};

}  // namespace saccade

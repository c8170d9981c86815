// What a server lets go on to its end before it ends itself.
#pragma once

#include <cstddef>

namespace saccade::serve {

class Drainable {
 public:
  virtual ~Drainable() = default;
  // Answers, or images of others, that are not complete.
  virtual std::size_t unfinished() = 0;
  // Nothing new is taken from now on, beside what the router refuses.
  virtual void start_draining() {}
  // Some of those who wait do so elsewhere than at HTTP: its last answer is not the last.
  virtual bool waits_beyond_http() const { return false; }
  // Whoever still waits is told that the server ends. False: nobody can be told.
  virtual bool end_answers() { return false; }
};

}  // namespace saccade::serve

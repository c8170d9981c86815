#include "serve/assembly/engine_thread.h"

#include <gtest/gtest.h>

#include <ctime>
#include <new>

namespace saccade::serve {
namespace {

struct BrokenEngine {
  void run() { throw std::bad_alloc(); }
  void stop() { ++stops; }
  int stops = 0;
};

// The process is asked to end, and says afterwards that it was not asked by an operator.
TEST(EngineThread, AnEngineThatThrowsEndsTheServer) {
  log::set_level(log::Level::kError);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigset_t before;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
  BrokenEngine engine;
  {
    const EngineThread thread(engine);
    const timespec patience{60, 0};
    EXPECT_EQ(sigtimedwait(&set, nullptr, &patience), SIGTERM);
    EXPECT_FALSE(thread.verdict());
  }
  EXPECT_EQ(engine.stops, 1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

}  // namespace
}  // namespace saccade::serve

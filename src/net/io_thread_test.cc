#include "net/io_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>

namespace saccade::net {
namespace {

using namespace std::chrono_literals;

// The sweep's timer runs out while the thread is busy and is being told to end: its cancellation
// comes too late for a handler that is due already.
TEST(IoThread, EndsAlthoughItsTimerHasRunOut) {
  IoThread thread;
  std::promise<void> busy;
  thread.post([&] {
    busy.set_value();
    std::this_thread::sleep_for(500ms);  // over the period of the sweep
  });
  busy.get_future().wait();
  auto ended = std::async(std::launch::async, [&] { thread.stop(); });
  if (ended.wait_for(30s) != std::future_status::ready) {
    ADD_FAILURE() << "the thread goes on";
    std::fflush(stdout);
    std::_Exit(1);  // it cannot be ended
  }
}

}  // namespace
}  // namespace saccade::net

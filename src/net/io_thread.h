// One I/O thread of the server: an io_context, a mailbox that other threads post to, and the
// connections that live here. Internal to net/.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace saccade::net {

class ServerConnection;

// Kept alive by its connections, so that a late post finds a closed mailbox, not freed memory.
class IoThread {
 public:
  using Task = std::function<void()>;

  IoThread();
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  boost::asio::io_context& context() { return context_; }

  // Any thread. Tasks run in order, all that are waiting in one turn: one wake-up serves many
  // posts. After stop() they are destroyed unrun.
  void post(Task task);

  // Any thread but this one, once: closes every connection, runs what is left, joins.
  void stop();

  // This thread only.
  void add(std::shared_ptr<ServerConnection> connection);
  void remove(ServerConnection* connection);
  void close_idle();

 private:
  void run_mailbox();
  void start_sweep();
  std::vector<std::shared_ptr<ServerConnection>> snapshot() const;

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer sweep_timer_;
  bool sweeping_ = true;  // this thread's
  std::unordered_map<ServerConnection*, std::shared_ptr<ServerConnection>> connections_;

  std::mutex mutex_;
  std::vector<Task> mailbox_;  // guarded by mutex_
  bool closed_ = false;        // guarded by mutex_

  std::thread thread_;  // last: it uses everything above
};

}  // namespace saccade::net

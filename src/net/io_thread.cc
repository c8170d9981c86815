// The turn of an I/O thread: sockets by Asio, posts by the mailbox, timeouts by a sweep.
#include "net/io_thread.h"

#include <boost/asio/post.hpp>
#include <chrono>

#include "net/server/server_connection.h"

namespace saccade::net {
namespace {
constexpr std::chrono::milliseconds kSweepPeriod{200};
}

IoThread::IoThread() : work_(boost::asio::make_work_guard(context_)), sweep_timer_(context_) {
  start_sweep();
  thread_ = std::thread([this] { context_.run(); });
}

IoThread::~IoThread() {
  // The last connection may die on this very thread only after stop() has joined it.
  if (thread_.joinable()) stop();
}

void IoThread::post(Task task) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    first = mailbox_.empty();
    mailbox_.push_back(std::move(task));
  }
  if (first) boost::asio::post(context_, [this] { run_mailbox(); });
}

void IoThread::run_mailbox() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(mailbox_);
  }
  for (Task& task : tasks) {
    task();
    task = nullptr;  // what it owned goes in order too
  }
}

void IoThread::stop() {
  post([this] {
    for (const auto& connection : snapshot()) connection->close();
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    sweeping_ = false;
    sweep_timer_.cancel();
    work_.reset();
  });
  thread_.join();
}

void IoThread::add(std::shared_ptr<ServerConnection> connection) {
  connections_.emplace(connection.get(), std::move(connection));
}

void IoThread::remove(ServerConnection* connection) { connections_.erase(connection); }

void IoThread::close_idle() {
  for (const auto& connection : snapshot()) connection->close_if_idle();
}

void IoThread::start_sweep() {
  sweep_timer_.expires_after(kSweepPeriod);
  sweep_timer_.async_wait([this](const boost::system::error_code& error) {
    // A timer that had run out when it was cancelled comes without an error.
    if (error || !sweeping_) return;
    const auto now = std::chrono::steady_clock::now();
    for (const auto& connection : snapshot()) connection->guarded([&] { connection->sweep(now); });
    start_sweep();
  });
}

std::vector<std::shared_ptr<ServerConnection>> IoThread::snapshot() const {
  std::vector<std::shared_ptr<ServerConnection>> connections;
  connections.reserve(connections_.size());
  for (const auto& [key, connection] : connections_) connections.push_back(connection);
  return connections;
}

}  // namespace saccade::net

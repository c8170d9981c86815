// The answering end of one request: what a Responder is a handle of. Internal to net/.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "net/server/http_server.h"

namespace saccade::net {

class IoThread;
class ServerConnection;

// Any thread. Members as Responder's. Whoever asked hears of it when the last handle dies and the
// answer was not completed.
class Responder::Exchange {
 public:
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual void respond(HttpResponse response) = 0;
  virtual void start_stream(std::vector<std::pair<std::string, std::string>> headers) = 0;
  virtual void write(std::string events) = 0;
  virtual void end_stream() = 0;
  virtual void start_answer(AnswerHead head) = 0;
  virtual void cut() = 0;
  virtual void on_disconnect(std::function<void()> callback) = 0;
  virtual bool disconnected() const = 0;

  // Where writes are posted to; null: they are done at once.
  virtual IoThread* thread() const = 0;
  // On that thread: what write() and end_stream() post.
  virtual void write_here(const std::string& events, bool end) = 0;

 protected:
  Exchange() = default;
};

// Of a request that came over a connection.
class ConnectionExchange final : public Responder::Exchange {
 public:
  ConnectionExchange(std::shared_ptr<ServerConnection> connection, std::uint64_t number);
  ~ConnectionExchange() override;

  void respond(HttpResponse response) override;
  void start_stream(std::vector<std::pair<std::string, std::string>> headers) override;
  void write(std::string events) override;
  void end_stream() override;
  void start_answer(AnswerHead head) override;
  void cut() override;
  void on_disconnect(std::function<void()> callback) override;
  bool disconnected() const override;
  IoThread* thread() const override;
  void write_here(const std::string& events, bool end) override;

 private:
  template <typename Step>
  void post(Step step) const;

  std::shared_ptr<ServerConnection> connection_;
  std::uint64_t number_;
  std::atomic<bool> completed_{false};
};

}  // namespace saccade::net

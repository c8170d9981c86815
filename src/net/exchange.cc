// Responder: every call is a post to the connection's I/O thread, or an answer kept in this
// process.
#include "net/exchange.h"

#include <algorithm>
#include <utility>

#include "net/server/server_connection.h"

namespace saccade::net {

void Responder::respond(HttpResponse response) const { exchange_->respond(std::move(response)); }

void Responder::start_stream(std::vector<std::pair<std::string, std::string>> headers) const {
  exchange_->start_stream(std::move(headers));
}

void Responder::write(std::string events) const { exchange_->write(std::move(events)); }

void Responder::end_stream() const { exchange_->end_stream(); }

void Responder::start_answer(AnswerHead head) const { exchange_->start_answer(std::move(head)); }

void Responder::cut() const { exchange_->cut(); }

void Responder::on_disconnect(std::function<void()> callback) const {
  exchange_->on_disconnect(std::move(callback));
}

bool Responder::disconnected() const { return exchange_->disconnected(); }

void write_all(std::vector<StreamWrite> writes) {
  const auto thread_of = [](const StreamWrite& write) { return write.to.exchange_->thread(); };
  // Stable: one stream's writes keep their order.
  std::stable_sort(writes.begin(), writes.end(), [&](const StreamWrite& a, const StreamWrite& b) {
    return std::less<>()(thread_of(a), thread_of(b));
  });
  for (auto first = writes.begin(); first != writes.end();) {
    IoThread* const thread = thread_of(*first);
    const auto last = std::find_if(first, writes.end(),
                                   [&](const StreamWrite& w) { return thread_of(w) != thread; });
    const auto deliver = [](const std::vector<StreamWrite>& batch) {
      for (const StreamWrite& write : batch)
        write.to.exchange_->write_here(write.events, write.end);
    };
    std::vector<StreamWrite> batch(std::make_move_iterator(first), std::make_move_iterator(last));
    if (thread == nullptr) {
      deliver(batch);
    } else {
      thread->post([deliver, batch = std::move(batch)] { deliver(batch); });
    }
    first = last;
  }
}

ConnectionExchange::ConnectionExchange(std::shared_ptr<ServerConnection> connection,
                                       std::uint64_t number)
    : connection_(std::move(connection)), number_(number) {}

ConnectionExchange::~ConnectionExchange() {
  if (completed_.load(std::memory_order_relaxed) || connection_->peer_gone()) return;
  post([](ServerConnection& to, std::uint64_t number) { to.abandon(number); });
}

template <typename Step>
void ConnectionExchange::post(Step step) const {
  connection_->thread().post(
      [connection = connection_, number = number_, step = std::move(step)]() mutable {
        connection->guarded([&] { step(*connection, number); });
      });
}

void ConnectionExchange::respond(HttpResponse response) {
  completed_.store(true, std::memory_order_relaxed);
  post([answer = std::move(response)](ServerConnection& to, std::uint64_t number) mutable {
    to.respond(number, std::move(answer));
  });
}

void ConnectionExchange::start_stream(std::vector<std::pair<std::string, std::string>> headers) {
  post([list = std::move(headers)](ServerConnection& to, std::uint64_t number) {
    to.start_stream(number, list);
  });
}

void ConnectionExchange::write(std::string events) {
  post([text = std::move(events)](ServerConnection& to, std::uint64_t number) {
    to.write_events(number, text);
  });
}

void ConnectionExchange::start_answer(AnswerHead head) {
  post([begin = std::move(head)](ServerConnection& to, std::uint64_t number) {
    to.start_answer(number, begin);
  });
}

void ConnectionExchange::cut() {
  completed_.store(true, std::memory_order_relaxed);
  post([](ServerConnection& to, std::uint64_t number) { to.cut(number); });
}

void ConnectionExchange::end_stream() {
  completed_.store(true, std::memory_order_relaxed);
  post([](ServerConnection& to, std::uint64_t number) { to.end_stream(number); });
}

void ConnectionExchange::on_disconnect(std::function<void()> callback) {
  post([call = std::move(callback)](ServerConnection& to, std::uint64_t number) {
    to.set_on_disconnect(number, call);
  });
}

bool ConnectionExchange::disconnected() const { return connection_->peer_gone(); }

IoThread* ConnectionExchange::thread() const { return &connection_->thread(); }

void ConnectionExchange::write_here(const std::string& events, bool end) {
  connection_->guarded([&] { connection_->write_events(number_, events); });
  if (!end) return;
  completed_.store(true, std::memory_order_relaxed);
  connection_->guarded([&] { connection_->end_stream(number_); });
}

}  // namespace saccade::net

// Responder: every call is a post to the connection's I/O thread.
#include "net/exchange.h"

#include <algorithm>

#include "net/server_connection.h"

namespace saccade::net {

Responder::Exchange::~Exchange() {
  if (completed_.load(std::memory_order_relaxed) || connection_->peer_gone()) return;
  IoThread& thread = connection_->thread();
  thread.post([connection = connection_, number = number_] {
    connection->guarded([&] { connection->abandon(number); });
  });
}

void Responder::respond(HttpResponse response) const {
  exchange_->complete();
  exchange_->connection().thread().post([connection = exchange_->shared_connection(),
                                         number = exchange_->number(),
                                         answer = std::move(response)]() mutable {
    connection->guarded([&] { connection->respond(number, std::move(answer)); });
  });
}

void Responder::start_stream(std::vector<std::pair<std::string, std::string>> headers) const {
  exchange_->connection().thread().post([connection = exchange_->shared_connection(),
                                         number = exchange_->number(), list = std::move(headers)] {
    connection->guarded([&] { connection->start_stream(number, list); });
  });
}

void Responder::write(std::string events) const {
  exchange_->connection().thread().post([connection = exchange_->shared_connection(),
                                         number = exchange_->number(), text = std::move(events)] {
    connection->guarded([&] { connection->write_events(number, text); });
  });
}

void Responder::start_answer(AnswerHead head) const {
  exchange_->connection().thread().post(
      [connection = exchange_->shared_connection(), number = exchange_->number(),
       begin = std::move(head)] { connection->start_answer(number, begin); });
}

void Responder::cut() const {
  exchange_->complete();
  exchange_->connection().thread().post(
      [connection = exchange_->shared_connection(), number = exchange_->number()] {
        connection->cut(number);
      });
}

void Responder::end_stream() const {
  exchange_->complete();
  exchange_->connection().thread().post(
      [connection = exchange_->shared_connection(), number = exchange_->number()] {
        connection->guarded([&] { connection->end_stream(number); });
      });
}

void Responder::on_disconnect(std::function<void()> callback) const {
  exchange_->connection().thread().post([connection = exchange_->shared_connection(),
                                         number = exchange_->number(), call = std::move(callback)] {
    connection->guarded([&] { connection->set_on_disconnect(number, call); });
  });
}

bool Responder::disconnected() const { return exchange_->connection().peer_gone(); }

void write_all(std::vector<StreamWrite> writes) {
  const auto thread_of = [](const StreamWrite& write) {
    return &write.to.exchange_->connection().thread();
  };
  // Stable: one stream's writes keep their order.
  std::stable_sort(writes.begin(), writes.end(), [&](const StreamWrite& a, const StreamWrite& b) {
    return std::less<>()(thread_of(a), thread_of(b));
  });
  for (auto first = writes.begin(); first != writes.end();) {
    IoThread* const thread = thread_of(*first);
    const auto last = std::find_if(first, writes.end(),
                                   [&](const StreamWrite& w) { return thread_of(w) != thread; });
    std::vector<StreamWrite> batch(std::make_move_iterator(first), std::make_move_iterator(last));
    thread->post([batch = std::move(batch)] {
      for (const StreamWrite& write : batch) {
        const Responder::Exchange& exchange = *write.to.exchange_;
        ServerConnection& connection = exchange.connection();
        connection.guarded([&] { connection.write_events(exchange.number(), write.events); });
        if (write.end) {
          write.to.exchange_->complete();
          connection.guarded([&] { connection.end_stream(exchange.number()); });
        }
      }
    });
    first = last;
  }
}

}  // namespace saccade::net

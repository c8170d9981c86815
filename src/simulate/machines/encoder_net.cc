#include "simulate/machines/encoder_net.h"

#include <algorithm>
#include <utility>

namespace saccade::simulate {

cluster::Greeting greeting_of(int encoder) {
  cluster::Greeting self;
  self.node = fmt::format("e{}", encoder);
  self.epoch = static_cast<std::uint64_t>(encoder) + 1;
  self.fingerprint = kTower;
  self.numerics = "virtual";
  self.row_bytes = 1;
  return self;
}

void EncoderNet::add_encoder(cluster::EncoderDesk& desk) {
  desks_.push_back(&desk);
  to_encoders_.free.push_back(0);
  to_requesters_.free.push_back(0);
}

int EncoderNet::add_requester(cluster::ItemTable& table) {
  tables_.push_back(&table);
  return static_cast<int>(tables_.size()) - 1;
}

void EncoderNet::start() {
  if (desks_.empty()) return;
  for (cluster::ItemTable* table : tables_)
    for (int encoder = 0; encoder < encoders(); ++encoder)
      table->connected(encoder, greeting_of(encoder));
  report();
}

void EncoderNet::report() {
  for (std::size_t requester = 0; requester < tables_.size(); ++requester) {
    const std::string name = fmt::format("pd{}", requester);
    for (std::size_t encoder = 0; encoder < desks_.size(); ++encoder)
      tables_[requester]->reported(static_cast<int>(encoder), desks_[encoder]->report(name));
  }
  loop_.after(kReportEvery, [this] { report(); });
}

Nanos EncoderNet::transfer(std::size_t units) const {
  return static_cast<Nanos>(static_cast<double>(units) * static_cast<double>(row_bytes_) /
                            cost_.bytes_per_second * 1e9);
}

void EncoderNet::carry(Way& way, cluster::CallId id, std::size_t units,
                       std::function<void(Call&)> message) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = found->second;
  Nanos& free = way.free[static_cast<std::size_t>(call.attempt.encoder)];
  const Nanos sent = std::max(loop_.now(), units > 0 ? free : 0) + transfer(units);
  if (units > 0) free = sent;
  Nanos& arrives = call.*way.arrives;
  arrives = std::max(arrives, sent + cost_.delay);
  loop_.timers().start(arrives, [this, id, message = std::move(message)] {
    const auto there = calls_.find(id);
    if (there != calls_.end()) message(there->second);
  });
}

void EncoderNet::forget(cluster::CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  ids_.erase({found->second.requester, found->second.attempt});
  calls_.erase(found);
}

// --- from requesters ---

void EncoderNet::ask(int requester, const cluster::AttemptId& attempt, const cluster::Order& order,
                     Nanos left) {
  const cluster::CallId id = ++last_;
  Call& call = calls_[id];
  call.requester = requester;
  call.attempt = attempt;
  call.rows = order.rows;
  call.media = order.media.bytes();
  ids_[{requester, attempt}] = id;
  const cluster::Greeting self = greeting_of(attempt.encoder);
  cluster::OrderHead head;
  head.requester = fmt::format("pd{}", requester);
  head.epoch = attempt.epoch;
  head.stream = attempt.stream;
  head.fingerprint = self.fingerprint;
  head.numerics = self.numerics;
  head.key = order.name;
  head.recipe = order.recipe;
  head.layout_key = order.layout_key;
  head.rows = order.rows;
  head.file_bytes = {call.media};
  head.left = left;
  carry(to_encoders_, id, 0, [this, id, head](Call& to) { desk(to).ask(id, head); });
}

void EncoderNet::receive(int requester, const cluster::AttemptId& attempt) {
  const auto found = ids_.find({requester, attempt});
  if (found == ids_.end()) return;
  const cluster::CallId id = found->second;
  carry(to_encoders_, id, 0, [this, id](Call& at) {
    carry(to_requesters_, id, static_cast<std::size_t>(at.rows), [this, id](Call& to) {
      const Call of = to;
      forget(id);
      desk(of).done(id);
      table(of).received(of.attempt, of.end, of.end.digest, true);
    });
  });
}

void EncoderNet::cancel(int requester, const cluster::AttemptId& attempt) {
  const auto found = ids_.find({requester, attempt});
  if (found == ids_.end()) return;
  const cluster::CallId id = found->second;
  carry(to_encoders_, id, 0, [this, id](Call& of) {
    cluster::EncoderDesk& at = desk(of);
    forget(id);
    at.gone(id);
  });
}

// --- from encoders ---

void EncoderNet::accepted(cluster::CallId id, const cluster::Accepted& said) {
  carry(to_requesters_, id, 0, [this, id, said](Call& to) {
    const std::size_t media = to.media;
    table(to).accepted(to.attempt, said);
    if (said.cached) return;
    carry(to_encoders_, id, media, [this, id, media](Call& at) {
      desk(at).media(id, std::string(media, 'm'));
      if (calls_.contains(id)) desk(at).media_end(id);
    });
  });
}

void EncoderNet::refused(cluster::CallId id, cluster::Refusal refusal, Nanos retry_after,
                         const std::string& text) {
  carry(to_requesters_, id, 0, [this, id, refusal, retry_after, text](Call& to) {
    const Call of = to;
    forget(id);
    table(of).refused(of.attempt, refusal, retry_after, text);
  });
}

void EncoderNet::send(cluster::CallId id, const cluster::RowsEnd& end) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  found->second.end = end;
  carry(to_requesters_, id, 0,
        [this](Call& to) { table(to).offered(to.attempt, static_cast<std::uint64_t>(to.rows)); });
}

}  // namespace saccade::simulate

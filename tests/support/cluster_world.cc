#include "tests/support/cluster_world.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace saccade::cluster::test {
namespace {

Digest key_of(std::uint64_t image) {
  Digest key{};
  for (std::size_t i = 0; i < key.size(); i += 8) {
    const std::uint64_t word = mix64(image + i);
    std::memcpy(&key[i], &word, 8);
  }
  return key;
}

Digest digest_of(const std::vector<std::byte>& bytes) {
  return sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

std::vector<std::byte> true_rows(const Digest& key, std::int64_t rows) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * kRowBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(key[i % key.size()] ^ (i / key.size()));
  return bytes;
}

// --- an encoder ---

EncoderProcess::EncoderProcess(World& of, int at, std::uint64_t boot)
    : world(of), index(at), epoch(boot) {
  DeskSettings settings = world.desk;
  settings.self = {kProtocol, "e" + std::to_string(at), boot, "tower", "numerics", kRowBytes};
  desk = std::make_unique<EncoderDesk>(world.clock, timers, *this, *this, settings);
}

void EncoderProcess::make(Job job) {
  queue_.push_back(std::move(job));
  if (!running_) next();
}

void EncoderProcess::next() {
  if (queue_.empty()) return;
  running_ = true;
  const Job job = std::move(queue_.front());
  queue_.erase(queue_.begin());
  const EncodeCost cost{1, 0.1, 0};
  const auto takes = static_cast<Nanos>(static_cast<double>(cost.duration(job.rows)) * slowness);
  timers.start(world.now() + takes, [this, key = job.key, rows = job.rows, recipe = job.recipe] {
    running_ = false;
    const bool unwanted = std::erase(unwanted_, key) > 0;
    if (unwanted) {
      desk->failed(key, {ErrorCode::kCancelled, "let go", {}});
    } else if (recipe == "undecodable") {
      desk->failed(key, {ErrorCode::kUndecodable, "no image", {}});
    } else if (breaks) {
      desk->failed(key, {ErrorCode::kInternal, "broken", {}});
    } else {
      std::vector<std::byte> bytes = true_rows(key, rows);
      if (poisoned) bytes.front() ^= std::byte{1};
      desk->made(key, {std::move(bytes), 0, kMillisecond});
    }
    next();
  });
}

void EncoderProcess::accepted(CallId call, const Accepted& said) {
  world.to_consumer(call, [this_world = &world, call, said](ConsumerProcess& to) {
    const AttemptId id = this_world->calls.at(call).attempt;
    to.table->accepted(id, said);
    if (said.cached) return;
    this_world->to_encoder(call, [this_world, call](EncoderProcess& encoder) {
      for (const std::string_view file : this_world->calls.at(call).order.media.files)
        encoder.desk->media(call, file);
      encoder.desk->media_end(call);
    });
  });
}

void EncoderProcess::refused(CallId call, Refusal refusal, Nanos after, const std::string& text) {
  world.to_consumer(call, [this_world = &world, call, refusal, after, text](ConsumerProcess& to) {
    World::Call& of = this_world->calls.at(call);
    of.open = false;
    to.table->refused(of.attempt, refusal, after, text);
  });
}

void EncoderProcess::send(CallId call, std::shared_ptr<const MadeRows> rows, const RowsEnd& end) {
  World::Call& of = world.calls.at(call);
  of.rows = std::move(rows);
  of.end = end;
  world.to_consumer(call, [this_world = &world, call](ConsumerProcess& to) {
    const World::Call& here = this_world->calls.at(call);
    to.table->offered(here.attempt, here.rows->bytes.size());
  });
}

// --- a consumer ---

ConsumerProcess::ConsumerProcess(World& of, int at, const ItemSettings& settings, bool has_tower)
    : world(of), index(at), tower(has_tower), rng(of.rng()) {
  PoolSettings pool_settings;
  pool_settings.self = {kProtocol, "c", 0, "tower", "numerics", kRowBytes};
  pool = std::make_unique<EncoderPool>(world.clock, pool_settings);
  for (std::size_t e = 0; e < world.encoders.size(); ++e) pool->add("e" + std::to_string(e));
  table = std::make_unique<ItemTable>(world.clock, timers, rng, *pool, *this, *this, settings);
}

void ConsumerProcess::want(std::uint64_t image, std::int64_t rows, Nanos deadline,
                           bool undecodable) {
  Order order;
  order.key = order.name = order.content = key_of(image);
  if (wanted.contains(order.key)) return;
  order.recipe = undecodable ? "undecodable" : "";
  order.rows = rows;
  order.row_bytes = kRowBytes;
  const auto file = std::make_shared<const std::string>("bytes of an image");
  order.media = {{*file}, file};
  wanted[order.key] = {++last_ticket_, rows, world.now(), undecodable};
  table->want(last_ticket_, std::move(order), deadline == 0 ? 0 : world.now() + deadline);
}

void ConsumerProcess::unwant(Digest key) {
  const Ticket ticket = wanted.at(key).ticket;
  wanted.erase(key);
  table->unwant(key, ticket);
}

void ConsumerProcess::ask(const AttemptId& attempt, const Order& order, Nanos left) {
  const CallId id = ++world.last_call_;
  World::Call& call = world.calls[id];
  call.consumer = index;
  call.attempt = attempt;
  call.order = order;
  OrderHead head;
  head.requester = "c" + std::to_string(index);
  head.epoch = attempt.epoch;
  head.stream = attempt.stream;
  head.fingerprint = "tower";
  head.numerics = "numerics";
  head.key = order.name;
  head.recipe = order.recipe;
  head.rows = order.rows;
  for (const auto file : order.media.files) head.file_bytes.push_back(file.size());
  head.left = left;
  if (!world.links.contains({index, attempt.encoder})) {
    world.network.start(world.now(), [this, attempt] { table->lost(attempt, "no connection"); });
    return;
  }
  world.to_encoder(id, [id, head](EncoderProcess& to) { to.desk->ask(id, head); });
}

void ConsumerProcess::receive(const AttemptId& attempt, std::shared_ptr<RowPages> into) {
  CallId id = 0;
  World::Call* const call = world.find(attempt, index, id);
  if (call == nullptr) return;
  call->pages = std::move(into);
  world.transfer(id);
}

void ConsumerProcess::cancel(const AttemptId& attempt) {
  CallId id = 0;
  World::Call* const call = world.find(attempt, index, id);
  if (call == nullptr) return;
  call->pages.reset();
  world.to_encoder(id, [id](EncoderProcess& to) { to.desk->gone(id); });
}

void ConsumerProcess::encode_here(const Digest& key, Ticket ticket, bool) {
  const Wanted of = wanted.at(key);
  timers.start(world.now() + EncodeCost{2, 0.2, 0}.duration(of.rows), [this, key, ticket, of] {
    const auto found = wanted.find(key);
    if (found == wanted.end() || found->second.ticket != ticket) return;
    if (of.undecodable) {
      table->failed_here(key, ticket, {ErrorCode::kUndecodable, "no image", {}});
    } else {
      table->made_here(key, ticket, digest_of(true_rows(key, of.rows)));
      end(key, ticket);
      ++delivered;
    }
  });
}

void ConsumerProcess::end(const Digest& key, Ticket ticket) {
  const auto found = wanted.find(key);
  CHECK(found != wanted.end() && found->second.ticket == ticket, "an end that nobody waits for");
  longest = std::max(longest, world.now() - found->second.since);
  wanted.erase(found);
}

void ConsumerProcess::deliver(const Digest& key, Ticket ticket, Rows rows) {
  ++delivered;
  if (rows->bytes != true_rows(key, wanted.at(key).rows)) ++wrong;
  end(key, ticket);
}

void ConsumerProcess::fail(const Digest& key, Ticket ticket, const Error& error) {
  errors.push_back(error);
  end(key, ticket);
}

void ConsumerProcess::verify(const Order& order, Rows rows, const AttemptId& of) {
  const bool equal = rows->bytes == true_rows(order.key, order.rows);
  timers.start(world.now() + kMillisecond, [this, of, equal] { table->verified(of, equal); });
}

// --- the world ---

World::World(std::uint64_t seed, int number_of_encoders, int number_of_consumers,
             const ItemSettings& given, bool tower)
    : rng(seed), settings(given) {
  desk.max_rows = 1000;
  encoders.resize(static_cast<std::size_t>(number_of_encoders));
  for (int c = 0; c < number_of_consumers; ++c)
    consumers.push_back(std::make_unique<ConsumerProcess>(*this, c, settings, tower));
  for (int e = 0; e < number_of_encoders; ++e) boot(e);
}

World::~World() = default;

Nanos World::delay() {
  const auto micros = static_cast<Nanos>(slow_network ? rng.below(300'000) : 50 + rng.below(500));
  return micros * kMicrosecond;
}

Greeting World::greeting(int encoder) const {
  const auto& process = encoders[static_cast<std::size_t>(encoder)];
  return {kProtocol, "e" + std::to_string(encoder), process->epoch, "tower", "numerics", kRowBytes};
}

void World::run_until(Nanos instant) {
  while (true) {
    TimerQueue* first = nullptr;
    const auto look = [&](TimerQueue& queue) {
      if (queue.next() && (first == nullptr || *queue.next() < *first->next())) first = &queue;
    };
    look(network);
    for (auto& encoder : encoders)
      if (encoder && !encoder->stopped) look(encoder->timers);
    for (auto& consumer : consumers) look(consumer->timers);
    if (first == nullptr || *first->next() > instant) break;
    clock.set(std::max(clock.now(), *first->next()));
    first->run_due(clock.now());
  }
  clock.set(std::max(clock.now(), instant));
}

World::Call* World::find(const AttemptId& attempt, int consumer, CallId& id) {
  for (auto& [call_id, call] : calls) {
    if (call.attempt != attempt || call.consumer != consumer) continue;
    id = call_id;
    return &call;
  }
  return nullptr;
}

void World::to_encoder(CallId id, std::function<void(EncoderProcess&)> message) {
  Call& call = calls.at(id);
  call.last_there = std::max(call.last_there, now() + delay());
  network.start(call.last_there, [this, id, message = std::move(message)] {
    const Call& of = calls.at(id);
    auto& encoder = encoders[static_cast<std::size_t>(of.attempt.encoder)];
    if (!encoder || encoder->epoch != of.attempt.epoch) return;  // nobody is there to hear it
    if (!encoder->stopped) return message(*encoder);
    encoder->held.push_back([&encoder, message] { message(*encoder); });
  });
}

void World::to_consumer(CallId id, std::function<void(ConsumerProcess&)> message) {
  const auto found = calls.find(id);
  if (found == calls.end()) return;
  Call& call = found->second;
  call.last_back = std::max(call.last_back, now() + delay());
  network.start(call.last_back, [this, id, message = std::move(message)] {
    message(*consumers[static_cast<std::size_t>(calls.at(id).consumer)]);
  });
}

// The rows on their way: chunks, then their end.
void World::transfer(CallId id) {
  Call& of = calls.at(id);
  const auto spoil =
      rng.uniform() < spoil_share ? static_cast<Spoil>(1 + rng.below(3)) : Spoil::kNothing;
  if (!of.rows) return;
  to_encoder(id, [this, id, spoil](EncoderProcess& encoder) {
    to_consumer(id,
                [this, id](ConsumerProcess& to) { to.table->progressed(calls.at(id).attempt); });
    to_consumer(id, [this, id, spoil](ConsumerProcess& to) {
      Call& call = calls.at(id);
      call.open = false;
      std::vector<std::byte> bytes = call.rows->bytes;
      if (spoil == Spoil::kBit) bytes.back() ^= std::byte{4};
      const Digest computed = digest_of(bytes);
      if (call.pages) call.pages->bytes = std::move(bytes);  // else it has been cancelled
      call.pages.reset();
      to.table->received(call.attempt, call.end, computed, spoil != Spoil::kNan);
    });
    encoder.desk->done(id);
  });
}

void World::forget_calls() {
  network.run_due(now());
  for (auto& [id, call] : calls) {
    call.pages.reset();
    call.rows.reset();
  }
}

void World::boot(int encoder) {
  auto& process = encoders[static_cast<std::size_t>(encoder)];
  process = std::make_unique<EncoderProcess>(*this, encoder, ++last_epoch_);
  for (int c = 0; c < static_cast<int>(consumers.size()); ++c) connect(c, encoder);
}

void World::connect(int consumer, int encoder) {
  network.start(now() + delay(), [this, consumer, encoder] {
    const auto& process = encoders[static_cast<std::size_t>(encoder)];
    if (!process || process->stopped || links.contains({consumer, encoder})) return;
    const std::uint64_t generation = links[{consumer, encoder}] = ++last_link_;
    consumers[static_cast<std::size_t>(consumer)]->table->connected(encoder, greeting(encoder));
    heartbeat(consumer, encoder, generation);
  });
}

void World::heartbeat(int consumer, int encoder, std::uint64_t generation) {
  network.start(now() + kHeartbeat, [this, consumer, encoder, generation] {
    const auto link = links.find({consumer, encoder});
    if (link == links.end() || link->second != generation) return;
    const auto& process = encoders[static_cast<std::size_t>(encoder)];
    if (process && !process->stopped) {
      consumers[static_cast<std::size_t>(consumer)]->table->reported(
          encoder, process->desk->report("c" + std::to_string(consumer)));
    }
    heartbeat(consumer, encoder, generation);
  });
}

void World::lose(int consumer, int encoder) {
  if (links.erase({consumer, encoder}) == 0) return;
  consumers[static_cast<std::size_t>(consumer)]->table->disconnected(encoder, "cut");
  const auto& process = encoders[static_cast<std::size_t>(encoder)];
  if (!process) return;
  // The encoder hears it too, of each call that was open.
  for (auto& [id, call] : calls) {
    if (call.consumer != consumer || call.attempt.encoder != encoder || !call.open) continue;
    call.open = false;
    to_encoder(id, [id = id](EncoderProcess& to) { to.desk->gone(id); });
  }
}

void World::kill(int encoder) {
  encoders[static_cast<std::size_t>(encoder)].reset();
  for (int c = 0; c < static_cast<int>(consumers.size()); ++c) {
    network.start(
        now() + delay(),
        [this, c, encoder, was = links.contains({c, encoder}) ? links.at({c, encoder}) : 0] {
          const auto link = links.find({c, encoder});
          if (link != links.end() && link->second == was) lose(c, encoder);
          if (encoders[static_cast<std::size_t>(encoder)]) connect(c, encoder);
        });
  }
}

void World::stop(int encoder) {
  if (auto& process = encoders[static_cast<std::size_t>(encoder)]) process->stopped = true;
}

void World::resume(int encoder) {
  auto& process = encoders[static_cast<std::size_t>(encoder)];
  if (!process || !process->stopped) return;
  process->stopped = false;
  for (const auto& message : std::exchange(process->held, {})) message();
  for (int c = 0; c < static_cast<int>(consumers.size()); ++c) connect(c, encoder);
}

void World::cut(int consumer, int encoder) {
  lose(consumer, encoder);
  network.start(now() + 100 * kMillisecond,
                [this, consumer, encoder] { connect(consumer, encoder); });
}

}  // namespace saccade::cluster::test

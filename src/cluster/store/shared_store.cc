#include "cluster/store/shared_store.h"

#include <chrono>
#include <future>
#include <utility>

namespace saccade::cluster {
namespace {

constexpr std::chrono::milliseconds kWithdrawal(1'000);

}  // namespace

SharedStore::SharedStore(const Clock& clock, const SharedStoreSettings& settings,
                         const MakeLink& make_link)
    : rng_(settings.seed), thread_(std::make_unique<EventThread>(clock)) {
  const int connections = settings.rows ? 3 : 1;
  for (int i = 0; i < connections; ++i) links_.push_back(make_link(*thread_));
  thread_->call([&] {
    registry_ =
        std::make_unique<Registry>(clock, thread_->timers(), rng_, *links_[0], settings.registry,
                                   [this](const std::vector<NodeRecord>& nodes) {
                                     if (heard_) heard_(nodes);
                                   });
    if (settings.rows)
      rows_ = std::make_unique<RowStore>(clock, thread_->timers(), rng_, *links_[1], *links_[2],
                                         *settings.rows);
    registry_->begin();
  });
}

SharedStore::~SharedStore() { stop(); }

void SharedStore::stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& link : links_) link->stop();
  thread_->stop();  // it does what has been posted, and may ask links that answer no more
}

void SharedStore::listen(Registry::Heard heard) {
  thread_->call([&] { heard_ = std::move(heard); });
}

void SharedStore::announce(NodeRecord record) {
  thread_->post([this, record = std::move(record)] { registry_->announce(record); });
}

void SharedStore::withdraw() {
  const auto told = std::make_shared<std::promise<void>>();
  std::future<void> done = told->get_future();
  thread_->post([this, told] { registry_->withdraw([told] { told->set_value(); }); });
  done.wait_for(kWithdrawal);
}

void SharedStore::find(const RowQuery& query, Nanos cost, RowStore::Found done) {
  thread_->post([this, query, cost, done = std::move(done)]() mutable {
    rows_->find(query, cost, std::move(done));
  });
}

void SharedStore::wrong(const Digest& name, const std::string& maker) {
  thread_->post([this, name, maker] { rows_->wrong(name, maker); });
}

void SharedStore::publish(const Digest& name, std::int64_t count, std::span<const std::byte> rows,
                          const Digest& digest, std::shared_ptr<const void> held) {
  thread_->post([this, name, count, rows, digest, held = std::move(held)]() mutable {
    rows_->publish(name, count, rows, digest, std::move(held));
  });
}

SharedStoreStats SharedStore::stats() {
  SharedStoreStats stats;
  thread_->call([&] {
    stats.registry = registry_->stats();
    if (rows_) stats.rows = rows_->stats();
  });
  return stats;
}

}  // namespace saccade::cluster

#include "simulate/machines/pd_images.h"

#include <utility>

namespace saccade::simulate {

PdImages::PdImages(EventLoop& loop, EncoderNet& net, const PdImagesSettings& settings)
    : net_(net),
      settings_(settings),
      rng_(settings.seed),
      pool_(loop.clock(), {greeting_of(-1), true}),
      own_(loop.clock()) {
  for (int encoder = 0; encoder < settings.encoders; ++encoder)
    pool_.add(greeting_of(encoder).node);
  cluster::ItemSettings items;
  items.fallback = settings.tower;
  items.receive_bytes = settings.receive_rows;
  cluster::EncoderLink& link = *this;
  cluster::RowsConsumer& consumer = *this;
  table_ = std::make_unique<cluster::ItemTable>(loop.clock(), loop.timers(), rng_, pool_, link,
                                                consumer, items);
  requester_ = net.add_requester(*table_);
}

// --- the engine's side ---

void PdImages::want(WantedImage image) {
  table_->want(image.ticket, own_.wanted(image, kTower, 1), 0);
}

void PdImages::unwant(const Digest& key, std::uint64_t ticket) {
  table_->unwant(key, ticket);
  own_.end(key);
}

void PdImages::made_here(const Digest& key, std::uint64_t ticket, std::optional<Digest> digest) {
  table_->made_here(key, ticket, digest);
  own_.end(key);
}

void PdImages::failed_here(const Digest& key, std::uint64_t ticket, const Error& error) {
  own_.failed(key);
  table_->failed_here(key, ticket, error);
}

// --- the table's side ---

void PdImages::ask(const cluster::AttemptId& attempt, const cluster::Order& order, Nanos left) {
  net_.ask(requester_, attempt, order, left);
}

void PdImages::receive(const cluster::AttemptId& attempt, std::shared_ptr<cluster::RowPages>) {
  net_.receive(requester_, attempt);
}

void PdImages::cancel(const cluster::AttemptId& attempt) { net_.cancel(requester_, attempt); }

void PdImages::encode_here(const Digest& key, cluster::Ticket ticket, bool beside) {
  add_news(own_.begin(key, ticket, beside));
}

void PdImages::deliver(const Digest& key, cluster::Ticket ticket, cluster::Rows rows) {
  add_news(own_.rows(key, ticket, std::move(rows)));
}

void PdImages::fail(const Digest& key, cluster::Ticket ticket, const Error& error) {
  add_news(own_.failure(key, ticket, error));
}

void PdImages::add_news(ImageNews news) {
  news_.push_back(std::move(news));
  if (wake_) wake_();
}

}  // namespace saccade::simulate

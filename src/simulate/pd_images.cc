#include "simulate/pd_images.h"

#include <algorithm>
#include <utility>

#include "memory/embedding_store.h"

namespace saccade::simulate {

PdImages::PdImages(EventLoop& loop, EncoderNet& net, const PdImagesSettings& settings)
    : loop_(loop),
      net_(net),
      settings_(settings),
      rng_(settings.seed),
      pool_(loop.clock(), {greeting_of(-1), true}) {
  for (int encoder = 0; encoder < settings.encoders; ++encoder)
    pool_.add(greeting_of(encoder).node);
  cluster::ItemSettings items;
  items.fallback = settings.tower;
  items.receive_bytes = settings.receive_rows;
  cluster::EncoderLink& link = *this;
  cluster::RowsConsumer& consumer = *this;
  table_ = std::make_unique<cluster::ItemTable>(loop.clock(), loop.timers(), rng_, pool_, link,
                                                consumer, items);
  asker_ = net.add_asker(*table_);
}

// --- the engine's side ---

void PdImages::want(WantedImage image) {
  cluster::Order order;
  order.key = image.key;
  order.content = image.content;
  order.name = embedding_key(image.content, image.layout_key, kTower);
  order.layout_key = image.layout_key;
  order.rows = image.rows;
  order.row_bytes = 1;
  const PortableImage portable = image.source->portable();
  order.recipe = std::string(portable.recipe);
  order.media = {portable.files, image.source};
  rows_[image.key] = image.rows;
  table_->want(image.ticket, std::move(order), 0);
}

void PdImages::unwant(const Digest& key, std::uint64_t ticket) {
  table_->unwant(key, ticket);
  end_here(key);
}

void PdImages::made_here(const Digest& key, std::uint64_t ticket, std::optional<Digest> digest) {
  table_->made_here(key, ticket, digest);
  end_here(key);
}

void PdImages::failed_here(const Digest& key, std::uint64_t ticket, const Error& error) {
  here_.erase(key);
  table_->failed_here(key, ticket, error);
}

// --- the table's side ---

void PdImages::ask(const cluster::AttemptId& attempt, const cluster::Order& order, Nanos left) {
  net_.ask(asker_, attempt, order, left);
}

void PdImages::receive(const cluster::AttemptId& attempt, std::shared_ptr<cluster::RowPages>) {
  net_.receive(asker_, attempt);
}

void PdImages::cancel(const cluster::AttemptId& attempt) { net_.cancel(asker_, attempt); }

void PdImages::end_here(const Digest& key) {
  if (here_.erase(key) > 0) here_since_ = loop_.now();
  rows_.erase(key);
}

cluster::LocalLoad PdImages::local() const {
  cluster::LocalLoad load;
  load.possible = settings_.tower;
  load.cost = cost_;
  for (const auto& [key, rows] : here_) load.backlog += cost_.duration(rows);
  // The first of them has been running since the last one ended.
  if (!here_.empty()) load.backlog = std::max<Nanos>(0, load.backlog - (loop_.now() - here_since_));
  return load;
}

void PdImages::encode_here(const Digest& key, cluster::Ticket ticket, bool beside) {
  if (here_.empty()) here_since_ = loop_.now();
  here_[key] = rows_.at(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kEncodeHere;
  news.key = key;
  news.ticket = ticket;
  news.digest_wanted = beside;
  tell(std::move(news));
}

void PdImages::deliver(const Digest& key, cluster::Ticket ticket, cluster::Rows rows) {
  end_here(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kRows;
  news.key = key;
  news.ticket = ticket;
  news.rows = rows->bytes;
  news.held = std::move(rows);
  tell(std::move(news));
}

void PdImages::fail(const Digest& key, cluster::Ticket ticket, const Error& error) {
  end_here(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kFailed;
  news.key = key;
  news.ticket = ticket;
  news.error = error;
  tell(std::move(news));
}

void PdImages::tell(ImageNews news) {
  news_.push_back(std::move(news));
  if (wake_) wake_();
}

}  // namespace saccade::simulate

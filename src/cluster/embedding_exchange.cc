#include "cluster/embedding_exchange.h"

#include <algorithm>
#include <utility>

#include "memory/embedding_store.h"

namespace saccade::cluster {

EmbeddingExchange::EmbeddingExchange(const Clock& clock, ExchangeSettings settings,
                                     const MakeLink& make_link)
    : clock_(clock),
      settings_(std::move(settings)),
      rng_(settings_.seed),
      pool_(clock, {settings_.self, settings_.strict_numerics}) {
  for (const std::string& address : settings_.encoders) pool_.add(address);
  thread_ = std::make_unique<EventThread>(clock_);
  RowsConsumer& consumer = *this;
  thread_->call([&] {
    link_ = make_link(*thread_, *this);
    table_ = std::make_unique<ItemTable>(clock_, thread_->timers(), rng_, pool_, *link_, consumer,
                                         settings_.items);
  });
}

EmbeddingExchange::~EmbeddingExchange() { stop(); }

void EmbeddingExchange::stop() {
  if (std::exchange(stopped_, true)) return;
  link_->stop();
  thread_->call([this] { table_.reset(); });
  thread_->stop();  // what is posted from here on is dropped
}

// --- engine thread ---

void EmbeddingExchange::want(WantedImage image) {
  thread_->post([this, image = std::move(image)] {
    Order order;
    order.key = image.key;
    order.content = image.content;
    order.name = embedding_key(image.content, image.layout_key, settings_.self.fingerprint);
    order.layout_key = image.layout_key;
    order.rows = image.rows;
    order.row_bytes = settings_.self.row_bytes;
    const PortableImage portable = image.source->portable();
    order.recipe = std::string(portable.recipe);
    order.media = {portable.files, image.source};
    rows_[image.key] = image.rows;
    if (image.unread) unread_.insert(image.key);
    table_->want(image.ticket, std::move(order), 0);
  });
}

void EmbeddingExchange::unwant(const Digest& key, std::uint64_t ticket) {
  thread_->post([this, key, ticket] {
    table_->unwant(key, ticket);
    end_here(key);
  });
}

void EmbeddingExchange::made_here(const Digest& key, std::uint64_t ticket,
                                  std::optional<Digest> digest) {
  thread_->post([this, key, ticket, digest] {
    table_->made_here(key, ticket, digest);
    end_here(key);
  });
}

void EmbeddingExchange::failed_here(const Digest& key, std::uint64_t ticket, const Error& error) {
  thread_->post([this, key, ticket, error] {
    if (alone_.contains(key)) return fail(key, ticket, error);
    here_.erase(key);
    table_->failed_here(key, ticket, error);
  });
}

void EmbeddingExchange::measured(const EncodeCost& cost) {
  thread_->post([this, cost] { cost_ = cost; });
}

std::vector<ImageNews> EmbeddingExchange::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

// --- the exchange's thread ---

void EmbeddingExchange::end_here(const Digest& key) {
  if (here_.erase(key) > 0) here_since_ = clock_.now();
  rows_.erase(key);
  unread_.erase(key);
  alone_.erase(key);
}

LocalLoad EmbeddingExchange::local() const {
  LocalLoad load;
  load.possible = settings_.tower && !(settings_.encoders_first && pool_.any_may_be_asked());
  load.cost = cost_;
  for (const auto& [key, rows] : here_) load.backlog += cost_.duration(rows);
  // The first of them has been running since the last one ended.
  if (!here_.empty())
    load.backlog = std::max<Nanos>(0, load.backlog - (clock_.now() - here_since_));
  return load;
}

void EmbeddingExchange::encode_here(const Digest& key, Ticket ticket, bool beside) {
  if (here_.empty()) here_since_ = clock_.now();
  here_[key] = rows_.at(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kEncodeHere;
  news.key = key;
  news.ticket = ticket;
  news.digest_wanted = beside && !unread_.contains(key);
  tell(std::move(news));
}

// The table is done with it, and its rows are to be made here.
void EmbeddingExchange::make_alone(const Digest& key, Ticket ticket) {
  const bool at_it = here_.contains(key);
  alone_.insert(key);
  if (!at_it) encode_here(key, ticket, false);
}

void EmbeddingExchange::deliver(const Digest& key, Ticket ticket, Rows rows) {
  if (unread_.contains(key)) return make_alone(key, ticket);
  end_here(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kRows;
  news.key = key;
  news.ticket = ticket;
  news.rows = rows->bytes;
  news.held = std::move(rows);
  tell(std::move(news));
}

void EmbeddingExchange::fail(const Digest& key, Ticket ticket, const Error& error) {
  const bool unseen = unread_.contains(key) || settings_.encoders_first;
  const bool final = alone_.contains(key) || error.code == ErrorCode::kUndecodable;
  if (unseen && settings_.tower && !final) return make_alone(key, ticket);
  end_here(key);
  ImageNews news;
  news.kind = ImageNews::Kind::kFailed;
  news.key = key;
  news.ticket = ticket;
  news.error = error;
  tell(std::move(news));
}

void EmbeddingExchange::verify(const Order& order, Rows rows, const AttemptId& of) {
  Sha256 name;
  name.update("comparison");
  name.update(std::string_view(reinterpret_cast<const char*>(order.key.data()), order.key.size()));
  name.update(std::to_string(++last_comparison_));
  ImageNews news;
  news.kind = ImageNews::Kind::kCompare;
  news.key = name.finish();
  news.source = std::static_pointer_cast<const ImageSource>(order.media.owner);
  comparisons_[news.key] = {
      of, sha256({reinterpret_cast<const char*>(rows->bytes.data()), rows->bytes.size()})};
  tell(std::move(news));
}

void EmbeddingExchange::compared(const Digest& key, std::optional<Digest> digest) {
  thread_->post([this, key, digest] {
    const auto found = comparisons_.extract(key);
    if (!found.empty() && digest)
      table_->verified(found.mapped().of, *digest == found.mapped().theirs);
  });
}

void EmbeddingExchange::tell(ImageNews news) {
  {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
  }
  if (wake_) wake_();
}

// --- any thread ---

ExchangeStats EmbeddingExchange::stats() {
  ExchangeStats stats;
  thread_->call([&] {
    stats.items = table_->stats();
    stats.open = table_->items();
    stats.receiving_bytes = table_->receiving_bytes();
    for (int i = 0; i < pool_.size(); ++i)
      stats.encoders.push_back({pool_.name(i), std::string(name_of(pool_.state(i))),
                                milliseconds(pool_.backlog(i)), pool_.open(i)});
  });
  return stats;
}

}  // namespace saccade::cluster

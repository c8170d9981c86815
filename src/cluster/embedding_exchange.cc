#include "cluster/embedding_exchange.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cluster/access.h"

namespace saccade::cluster {

EmbeddingExchange::EmbeddingExchange(const Clock& clock, ExchangeSettings settings,
                                     const MakeLink& make_link)
    : clock_(clock),
      settings_(std::move(settings)),
      rng_(settings_.seed),
      pool_(clock, {settings_.self, settings_.strict_numerics}),
      own_(clock) {
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
    Order order = own_.wanted(image, settings_.self.fingerprint, settings_.self.row_bytes);
    if (image.unread) unread_.insert(image.key);
    if (settings_.finder != nullptr && !table_->wants(image.key))
      return look(image.ticket, std::move(order));
    table_->want(image.ticket, std::move(order), 0);
  });
}

void EmbeddingExchange::unwant(const Digest& key, std::uint64_t ticket) {
  thread_->post([this, key, ticket] {
    const auto search = searches_.find(key);
    if (search != searches_.end() && search->second.ticket == ticket) {
      ++stored_.wanted;
      ++stored_.unwanted;
      searches_.erase(search);
    }
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
    own_.failed(key);
    table_->failed_here(key, ticket, error);
  });
}

void EmbeddingExchange::measured(const EncodeCost& cost) {
  thread_->post([this, cost] { own_.measured(cost); });
}

std::vector<ImageNews> EmbeddingExchange::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

// --- rows that are in the store ---

void EmbeddingExchange::look(Ticket ticket, Order order) {
  const Nanos cost = cost_elsewhere(order);
  const RowQuery query{order.name, order.rows, order.bytes()};
  const Digest key = order.key;
  const std::uint64_t id = ++last_search_;
  // A key that was being looked for already: what was wanted before is wanted no more.
  if (searches_.contains(key)) {
    ++stored_.wanted;
    ++stored_.unwanted;
  }
  searches_[key] = {id, ticket, std::move(order)};
  settings_.finder->find(query, cost, [this, key, id](std::optional<FoundRows> rows) {
    // Posting copies.
    const auto held = std::make_shared<std::optional<FoundRows>>(std::move(rows));
    thread_->post([this, key, id, held] { looked(key, id, std::move(*held)); });
  });
}

void EmbeddingExchange::looked(const Digest& key, std::uint64_t id,
                               std::optional<FoundRows> found) {
  const auto at = searches_.find(key);
  if (at == searches_.end() || at->second.id != id) return;
  Search search = std::move(at->second);
  searches_.erase(at);
  if (!found) return table_->want(search.ticket, std::move(search.order), 0);
  ++stored_.wanted;
  ++stored_.items[static_cast<std::size_t>(Source::kStore)];
  const double share = settings_.items.verify_share;
  if (share > 0 && settings_.tower && rng_.uniform() < share)
    compare(search.order, {{}, found->digest, search.order.name, found->maker});
  deliver(key, search.ticket, std::move(found->rows));
}

// From now until the rows are here by another way.
Nanos EmbeddingExchange::cost_elsewhere(const Order& order) const {
  const LocalLoad here = local();
  const auto there = pool_.best(order, {});
  if (!here.possible && !there) return RowStore::kPriceless;
  const Nanos own = here.possible && here.cost.known()
                        ? here.backlog + here.cost.duration(order.rows)
                        : RowStore::kPriceless;
  // An encoder of which nothing is known yet says nothing.
  const Nanos theirs = there && there->finish > 0 ? there->finish : RowStore::kPriceless;
  return std::min(own, theirs);
}

// --- encoders that come and go ---

void EmbeddingExchange::found(std::vector<FoundEncoder> encoders) {
  thread_->post([this, encoders = std::move(encoders)] { take_found(encoders); });
}

void EmbeddingExchange::take_found(const std::vector<FoundEncoder>& encoders) {
  const auto is_here = [&](const std::string& address) {
    return std::ranges::any_of(encoders,
                               [&](const FoundEncoder& each) { return each.address == address; });
  };
  const int given = static_cast<int>(settings_.encoders.size());
  // One that is connected is there, whatever a registry says that has lost its memory.
  for (int i = given; i < pool_.size(); ++i) {
    if (pool_.retired(i) || pool_.state(i) != EncoderPool::State::kAbsent || is_here(pool_.name(i)))
      continue;
    log::info("encoder {} is not there any more", pool_.name(i));
    link_->remove(i);
    pool_.retire(i);
  }
  for (const FoundEncoder& each : encoders) {
    if (each.fingerprint != settings_.self.fingerprint || pool_.find(each.address)) continue;
    if (pool_.in_use() >= settings_.max_encoders) break;
    const int encoder = pool_.add(each.address);
    log::info("encoder {} has been found", each.address);
    link_->add(encoder, each.address);
  }
}

// --- the exchange's thread ---

void EmbeddingExchange::end_here(const Digest& key) {
  own_.end(key);
  unread_.erase(key);
  alone_.erase(key);
}

LocalLoad EmbeddingExchange::local() const {
  return own_.load(settings_.tower && !(settings_.encoders_first && pool_.any_may_be_asked()));
}

void EmbeddingExchange::encode_here(const Digest& key, Ticket ticket, bool beside) {
  add_news(own_.begin(key, ticket, beside && !unread_.contains(key)));
}

// The table is done with it, and its rows are to be made here.
void EmbeddingExchange::make_alone(const Digest& key, Ticket ticket) {
  alone_.insert(key);
  if (!own_.making(key)) encode_here(key, ticket, false);
}

void EmbeddingExchange::deliver(const Digest& key, Ticket ticket, Rows rows) {
  if (unread_.contains(key)) return make_alone(key, ticket);
  end_here(key);
  add_news(own_.rows(key, ticket, std::move(rows)));
}

void EmbeddingExchange::fail(const Digest& key, Ticket ticket, const Error& error) {
  const bool unseen = unread_.contains(key) || settings_.encoders_first;
  const bool final = alone_.contains(key) || error.code == ErrorCode::kUndecodable;
  if (unseen && settings_.tower && !final) return make_alone(key, ticket);
  end_here(key);
  add_news(own_.failure(key, ticket, error));
}

void EmbeddingExchange::verify(const Order& order, Rows rows, const AttemptId& of) {
  compare(order, {of,
                  sha256({reinterpret_cast<const char*>(rows->bytes.data()), rows->bytes.size()}),
                  order.name,
                  {}});
}

void EmbeddingExchange::compare(const Order& order, Comparison with) {
  Sha256 name;
  name.update("comparison");
  name.update(text_of(order.key));
  name.update(std::to_string(++last_comparison_));
  ImageNews news;
  news.kind = ImageNews::Kind::kCompare;
  news.key = name.finish();
  news.source = std::static_pointer_cast<const ImageSource>(order.media.owner);
  comparisons_[news.key] = std::move(with);
  add_news(std::move(news));
}

void EmbeddingExchange::compared(const Digest& key, std::optional<Digest> digest) {
  thread_->post([this, key, digest] {
    const auto found = comparisons_.extract(key);
    if (found.empty() || !digest) return;
    const Comparison& with = found.mapped();
    const bool equal = *digest == with.theirs;
    if (with.maker.empty()) return table_->verified(with.of, equal);
    ++stored_.verified;
    if (equal) return;
    ++stored_.mismatches;
    settings_.finder->wrong(with.name, with.maker);
  });
}

void EmbeddingExchange::add_news(ImageNews news) {
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
    stats.items.wanted += stored_.wanted;
    stats.items.unwanted += stored_.unwanted;
    stats.items.verified += stored_.verified;
    stats.items.mismatches += stored_.mismatches;
    const auto store = static_cast<std::size_t>(Source::kStore);
    stats.items.items[store] += stored_.items[store];
    stats.open = table_->items() + searches_.size();
    stats.receiving_bytes = table_->receiving_bytes();
    for (int i = 0; i < pool_.size(); ++i) {
      if (pool_.retired(i)) continue;
      stats.encoders.push_back({pool_.name(i), std::string(name_of(pool_.state(i))),
                                milliseconds(pool_.backlog(i)), pool_.open(i)});
    }
  });
  return stats;
}

}  // namespace saccade::cluster

#include "cluster/item_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace saccade::cluster {
namespace {

constexpr std::size_t kMaxLosers = 256;
constexpr Nanos kStarvedPoll = 5 * kMillisecond;
constexpr Nanos kLeastItemRetry = 20 * kMillisecond;
constexpr Nanos kMaxItemRetry = kSecond;
constexpr Nanos kDeadlineMargin = 50 * kMillisecond;
// An accepted image of an encoder that is alive: this long, and so many times what it said.
constexpr Nanos kLongestEncode = 20 * kSecond;
constexpr Nanos kLongestTimes = 10;
// What it says is believed up to here: one that is wrong would have an image waited for all day.
constexpr double kMaxPredictedMs = 60'000;

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

std::string_view name_of(Source source) {
  constexpr std::string_view kNames[kSources] = {"local", "remote", "cache", "hedge", "store"};
  return kNames[static_cast<std::size_t>(source)];
}

std::string_view name_of(Failure failure) {
  constexpr std::string_view kNames[kFailures] = {"lost",      "late",   "refused",    "busy",
                                                  "bad_media", "digest", "not_finite", "shape"};
  return kNames[static_cast<std::size_t>(failure)];
}

ItemTable::ItemTable(const Clock& clock, Timers& timers, Rng& rng, EncoderPool& pool,
                     EncoderLink& link, RowsConsumer& consumer, ItemSettings settings)
    : clock_(clock),
      timers_(timers),
      rng_(rng),
      pool_(pool),
      link_(link),
      consumer_(consumer),
      settings_(settings),
      budget_(settings.receive_bytes) {}

ItemTable::~ItemTable() {
  for (auto& [key, item] : items_) {
    timers_.cancel(item.late);
    timers_.cancel(item.retry);
  }
  for (auto& [id, attempt] : attempts_) timers_.cancel(attempt.timer);
  for (const TimerId timer : silence_) timers_.cancel(timer);
  timers_.cancel(starved_timer_);
}

// --- from the process that wants rows ---

void ItemTable::want(Ticket ticket, Order order, Nanos deadline) {
  ++stats_.wanted;
  const Digest key = order.key;
  if (items_.contains(key)) {  // what was wanted before is wanted no more
    ++stats_.unwanted;
    erase(key);
  }
  Item& item = items_[key];
  item.ticket = ticket;
  item.order = std::move(order);
  item.wanted_at = clock_.now();
  item.deadline = deadline;
  try_next(item);
}

void ItemTable::unwant(const Digest& key, Ticket ticket) {
  if (current(key, ticket) == nullptr) return;
  ++stats_.unwanted;
  erase(key);
}

void ItemTable::made_here(const Digest& key, Ticket ticket, std::optional<Digest> digest) {
  Item* const item = current(key, ticket);
  if (item != nullptr)
    ready(*item, item->local_hedge ? Source::kHedge : Source::kLocal, nullptr, digest);
}

void ItemTable::failed_here(const Digest& key, Ticket ticket, const Error& error) {
  Item* const item = current(key, ticket);
  if (item == nullptr || item->local != Local::kRunning) return;
  item->local = Local::kFailed;
  item->trouble = error;
  // What cannot be decoded here cannot be decoded anywhere.
  if (error.code == ErrorCode::kUndecodable) return give_up(*item, error);
  if (!runs(*item)) try_next(*item);
}

void ItemTable::verified(const AttemptId& of, bool equal) {
  ++stats_.verified;
  if (!equal) report_mismatch(of, "an encode of this process");
}

// --- from the link ---

void ItemTable::connected(int encoder, const Greeting& greeting) {
  const std::string why = pool_.connected(encoder, greeting);
  if (why.empty()) {
    log::info("encoder {}: connected", pool_.name(encoder));
  } else {
    log::warning("encoder {} is not asked: {}", pool_.name(encoder), why);
  }
  reported(encoder, {});
}

void ItemTable::disconnected(int encoder, const std::string& why) {
  std::vector<AttemptId> open;
  for (const auto& [id, attempt] : attempts_) {
    if (id.encoder == encoder) open.push_back(id);
  }
  if (pool_.state(encoder) != EncoderPool::State::kAbsent) {
    log::warning("encoder {}: connection lost with {} images open: {}", pool_.name(encoder),
                 open.size(), why);
  }
  timers_.cancel(std::exchange(silence_of(encoder), 0));
  pool_.disconnected(encoder, !open.empty());
  for (const AttemptId& id : open) {
    link_.cancel(id);
    attempt_failed(id, Failure::kLost, Outcome::kNeutral, why);
  }
}

void ItemTable::reported(int encoder, const Report& report) {
  if (pool_.state(encoder) == EncoderPool::State::kAbsent) return;
  pool_.reported(encoder, report);
  TimerId& timer = silence_of(encoder);
  timers_.cancel(timer);
  timer = timers_.start(clock_.now() + settings_.progress_time, [this, encoder] {
    silence_of(encoder) = 0;
    silent(encoder);
  });
}

TimerId& ItemTable::silence_of(int encoder) {
  const auto at = static_cast<std::size_t>(encoder);
  if (silence_.size() <= at) silence_.resize(at + 1);
  return silence_[at];
}

void ItemTable::silent(int encoder) {
  pool_.silent(encoder);
  std::vector<AttemptId> open;
  for (const auto& [id, attempt] : attempts_) {
    if (id.encoder == encoder && !attempt.overdue) open.push_back(id);
  }
  log::warning("encoder {} has not been heard of for {:.1f} s; {} images go elsewhere too",
               pool_.name(encoder), seconds(settings_.progress_time), open.size());
  for (const AttemptId& id : open) attempt_overdue(id);
}

void ItemTable::accepted(const AttemptId& id, const Accepted& said) {
  Attempt* const attempt = current(id);
  if (attempt == nullptr) return;
  attempt->heard_at = clock_.now();
  attempt->stage = Stage::kAccepted;
  attempt->cached = said.cached;
  pool_.accepted(said.cached);
  const double predicted_ms = said.cached ? 0 : said.backlog_ms + said.predicted_ms;
  const auto predicted = static_cast<Nanos>(std::clamp(predicted_ms, 0.0, kMaxPredictedMs) *
                                            static_cast<double>(kMillisecond));
  watch(id, *attempt, kLongestEncode + kLongestTimes * predicted);
  arm_late(items_.at(attempt->key), predicted);
}

void ItemTable::offered(const AttemptId& id, std::uint64_t bytes) {
  Attempt* const attempt = current(id);
  if (attempt == nullptr) return;
  if (attempt->pages != nullptr || attempt->stage == Stage::kStarved ||
      bytes != items_.at(attempt->key).order.bytes()) {
    link_.cancel(id);
    return attempt_failed(id, Failure::kShape, Outcome::kFailure,
                          fmt::format("it offers {} bytes of rows, {} were asked for", bytes,
                                      items_.at(attempt->key).order.bytes()));
  }
  attempt->heard_at = clock_.now();
  attempt->offered = bytes;
  attempt->stage = Stage::kStarved;
  timers_.cancel(std::exchange(attempt->timer, 0));
  starved_.push_back(id);
  feed_starved();
}

void ItemTable::feed_starved() {
  while (!starved_.empty()) {
    const auto found = attempts_.find(starved_.front());
    if (found == attempts_.end() || found->second.stage != Stage::kStarved) {
      starved_.pop_front();
      continue;
    }
    Attempt& attempt = found->second;
    // One that alone needs more than there is comes when nothing else does.
    const auto wanted = static_cast<std::size_t>(attempt.offered);
    auto room = budget_.reserve(std::min(wanted, budget_.limit()));
    if (!room) break;
    attempt.pages = std::make_shared<RowPages>();
    attempt.pages->bytes.resize(wanted);
    attempt.pages->reserved = *std::move(room);
    attempt.stage = Stage::kReceiving;
    attempt.heard_at = clock_.now();
    watch(found->first, attempt,
          attempt.overdue ? settings_.abandon_time : settings_.progress_time);
    link_.receive(found->first, attempt.pages);
    starved_.pop_front();
  }
  if (starved_.empty() || starved_timer_ != 0) return;
  starved_timer_ = timers_.start(clock_.now() + kStarvedPoll, [this] {
    starved_timer_ = 0;
    feed_starved();
  });
}

void ItemTable::progressed(const AttemptId& id) {
  Attempt* const attempt = current(id);
  if (attempt != nullptr) attempt->heard_at = clock_.now();
}

void ItemTable::received(const AttemptId& id, const RowsEnd& end, const Digest& computed,
                         bool finite) {
  const auto loser = std::find_if(losers_.begin(), losers_.end(),
                                  [&](const Ready& of) { return of.attempt == id; });
  if (loser != losers_.end()) {
    const Ready of = *loser;
    losers_.erase(loser);
    if (computed == end.digest && of.digest && *of.digest != computed)
      report_mismatch(id, of.source);
    return;
  }
  Attempt* const attempt = current(id);
  if (attempt == nullptr) return;
  if (attempt->stage != Stage::kReceiving)
    return attempt_failed(id, Failure::kShape, Outcome::kFailure, "its rows end before they begin");
  if (computed != end.digest)
    return attempt_failed(id, Failure::kDigest, Outcome::kFailure,
                          "the rows that came are not those that it sent");
  if (!finite)
    return attempt_failed(id, Failure::kNotFinite, Outcome::kFailure,
                          "its rows have values that are not finite");
  Item& item = items_.at(attempt->key);
  pool_.delivered(id.encoder, item.order, clock_.now() - attempt->asked_at,
                  end.queued + end.encoded);
  const Source source = attempt->hedge    ? Source::kHedge
                        : attempt->cached ? Source::kCached
                                          : Source::kRemote;
  const Rows rows = std::move(attempt->pages);
  const Digest key = attempt->key;
  const Ticket ticket = item.ticket;
  // Where the rows would prove the encoder wrong, they are proved by an encode, which costs one.
  if (settings_.verify_share > 0 && rng_.uniform() < settings_.verify_share &&
      consumer_.local().possible)
    consumer_.verify(item.order, rows, id);
  ready(item, source, &id, computed);
  consumer_.deliver(key, ticket, rows);
}

void ItemTable::refused(const AttemptId& id, Refusal refusal, Nanos retry_after,
                        const std::string& text) {
  Attempt* const attempt = current(id);
  if (attempt == nullptr) return;
  Item& item = items_.at(attempt->key);
  const std::string why = fmt::format("{} ({})", text, name_of(refusal));
  switch (refusal) {
    case Refusal::kOverloaded:
    case Refusal::kDraining:
    case Refusal::kDeadline:
      item.busy.push_back(id.encoder);
      if (retry_after > 0 && item.retry == 0 && !settings_.fallback)
        wait_for_room(item, retry_after);
      return attempt_failed(id, Failure::kBusy, Outcome::kNeutral, why);
    case Refusal::kBadMedia:
      item.bad_media = true;
      item.trouble = {ErrorCode::kUndecodable, text, {}};
      return attempt_failed(id, Failure::kBadMedia, Outcome::kNeutral, why);
    case Refusal::kIncompatible:
    case Refusal::kTooLarge:
    case Refusal::kCorrupt:
    case Refusal::kInternal:
      return attempt_failed(id, Failure::kRefused, Outcome::kFailure, why);
  }
}

void ItemTable::lost(const AttemptId& id, const std::string& why) {
  if (attempts_.contains(id)) attempt_failed(id, Failure::kLost, Outcome::kFailure, why);
}

// --- deciding ---

bool ItemTable::start_next(Item& item, bool hedge) {
  std::vector<int> except = item.tried;
  for (const AttemptId& id : item.attempts) except.push_back(id.encoder);
  const auto remote = pool_.best(item.order, except);
  const LocalLoad local = consumer_.local();
  const bool here = settings_.fallback && local.possible && item.local == Local::kIdle;
  if (here && !hedge && remote && !item.bad_media) {
    // While nobody knows how long an encode takes here, it takes what it takes there.
    const Nanos cost = local.cost.known()
                           ? local.cost.duration(item.order.rows)
                           : std::max<Nanos>(0, remote->finish - pool_.backlog(remote->encoder));
    if (local.backlog + cost >= remote->finish) {
      ask(item, *remote, hedge);
      return true;
    }
  }
  if (here) {
    start_here(item, hedge);
  } else if (remote) {
    ask(item, *remote, hedge);
  }
  return here || remote.has_value();
}

// Somebody has to be at it, or the item ends.
void ItemTable::try_next(Item& item) {
  if (start_next(item, false)) return;
  if (!settings_.fallback && may_wait(item)) return wait_for_room(item, kLeastItemRetry);
  give_up(item, item.trouble);
}

void ItemTable::ask(Item& item, const EncoderPool::Choice& choice, bool hedge) {
  const std::uint64_t stream = pool_.dispatched(choice.encoder, item.order);
  const AttemptId id{choice.encoder, pool_.epoch(choice.encoder), stream};
  item.attempts.push_back(id);
  if (choice.away) ++stats_.away;
  Attempt& attempt = attempts_[id];
  attempt.key = item.order.key;
  attempt.asked_at = attempt.heard_at = clock_.now();
  attempt.hedge = hedge;
  watch(id, attempt, settings_.accept_time);
  arm_late(item, choice.finish);
  const Nanos left =
      item.deadline == 0 ? 0 : std::max<Nanos>(kMillisecond, item.deadline - clock_.now());
  link_.ask(id, item.order, left);
}

void ItemTable::start_here(Item& item, bool hedge) {
  item.local = Local::kRunning;
  item.local_hedge = hedge;
  consumer_.encode_here(item.order.key, item.ticket, !item.attempts.empty());
}

// --- time ---

void ItemTable::arm_late(Item& item, Nanos predicted) {
  timers_.cancel(std::exchange(item.late, 0));
  const Nanos now = clock_.now();
  const auto patience = static_cast<Nanos>(settings_.patience * static_cast<double>(predicted));
  Nanos at = now + std::max(patience, settings_.least_patience);
  if (item.deadline > 0) {
    const Nanos here = consumer_.local().cost.duration(item.order.rows) + kDeadlineMargin;
    // Too late for one beside it already: what runs is waited for.
    if (item.deadline - here > now) at = std::min(at, item.deadline - here);
  }
  item.late = timers_.start(at, [this, key = item.order.key] { item_late(key); });
}

void ItemTable::item_late(const Digest& key) {
  Item& item = items_.at(key);
  item.late = 0;
  if (item.attempts.empty()) return;
  // When everything is late a second encode of everything would make it later.
  const auto allowed =
      settings_.hedge_burst +
      static_cast<std::uint64_t>(settings_.hedge_share * static_cast<double>(stats_.wanted));
  if (stats_.hedges >= allowed) return arm_late(item, 0);
  if (start_next(item, true)) ++stats_.hedges;
}

void ItemTable::watch(const AttemptId& id, Attempt& attempt, Nanos limit) {
  timers_.cancel(attempt.timer);
  attempt.timer = timers_.start(attempt.heard_at + limit, [this, id, limit] {
    Attempt& of = attempts_.at(id);
    of.timer = 0;
    if (of.heard_at + limit > clock_.now()) return watch(id, of, limit);
    if (!of.overdue) return attempt_overdue(id);
    link_.cancel(id);
    attempt_failed(id, Failure::kLate, Outcome::kFailure, "given up");
  });
}

// It goes on, and may still be the first; somebody else begins beside it.
void ItemTable::attempt_overdue(const AttemptId& id) {
  Attempt& attempt = attempts_.at(id);
  attempt.overdue = true;
  attempt.heard_at = clock_.now();
  watch(id, attempt, settings_.abandon_time);
  ++stats_.failures[static_cast<std::size_t>(Failure::kLate)];
  pool_.silent(id.encoder);
  Item& item = items_.at(attempt.key);
  log::warning("image {:.12}: {} is late", to_hex(attempt.key), describe(id));
  if (is_on_its_way(item) || start_next(item, false)) return;
  if (!settings_.fallback) wait_for_room(item, kLeastItemRetry);
}

bool ItemTable::is_on_its_way(const Item& item) const {
  return item.local == Local::kRunning ||
         std::ranges::any_of(item.attempts,
                             [this](const AttemptId& id) { return !attempts_.at(id).overdue; });
}

// Without a tower: an encoder is there, or may be when it has recovered.
bool ItemTable::may_wait(const Item& item) const {
  if (clock_.now() - item.wanted_at >= settings_.refuse_time) return false;
  for (int i = 0; i < pool_.size(); ++i) {
    const auto state = pool_.state(i);
    if (state != EncoderPool::State::kUp && state != EncoderPool::State::kProbation) continue;
    if (!contains(item.tried, i) || contains(item.busy, i)) return true;
  }
  return false;
}

void ItemTable::wait_for_room(Item& item, Nanos retry_after) {
  if (item.retry != 0) return;
  const Nanos after = std::clamp(retry_after, kLeastItemRetry, kMaxItemRetry);
  item.retry = timers_.start(clock_.now() + after, [this, key = item.order.key, after] {
    Item& of = items_.at(key);
    of.retry = 0;
    std::erase_if(of.tried, [&](int encoder) { return contains(of.busy, encoder); });
    of.busy.clear();
    const bool late = clock_.now() - of.wanted_at >= settings_.refuse_time;
    if (is_on_its_way(of) || start_next(of, false)) return;
    if (late || (!runs(of) && !may_wait(of))) return give_up(of, of.trouble);
    wait_for_room(of, 2 * after);
  });
}

// --- ends ---

void ItemTable::end_attempt(const AttemptId& id, Outcome outcome) {
  const auto found = attempts_.find(id);
  CHECK(found != attempts_.end(), "attempt {} has ended twice", id.stream);
  timers_.cancel(found->second.timer);
  std::erase(items_.at(found->second.key).attempts, id);
  attempts_.erase(found);
  pool_.ended(id.encoder, id.stream, outcome);
}

void ItemTable::attempt_failed(const AttemptId& id, Failure failure, Outcome outcome,
                               const std::string& why) {
  ++stats_.failures[static_cast<std::size_t>(failure)];
  const Attempt& attempt = attempts_.at(id);
  const bool overdue = attempt.overdue;
  Item& item = items_.at(attempt.key);
  const std::string text = fmt::format("{}: {}", describe(id), why);
  if (failure != Failure::kBusy) log::warning("image {:.12}: {}", to_hex(attempt.key), text);
  if (!item.bad_media) item.trouble = {ErrorCode::kUnavailable, text, {}};
  item.tried.push_back(id.encoder);
  end_attempt(id, outcome);
  if (overdue && runs(item)) return;  // its successor runs
  if (runs(item)) {
    if (!is_on_its_way(item)) start_next(item, false);
    return;
  }
  // Encoders that are full may be asked for ever; a client is not kept waiting for ever.
  const bool enough = failure == Failure::kBusy && !settings_.fallback &&
                      clock_.now() - item.wanted_at >= settings_.refuse_time;
  if (enough) return give_up(item, item.trouble);
  try_next(item);
}

void ItemTable::ready(Item& item, Source source, const AttemptId* winner,
                      std::optional<Digest> digest) {
  ++stats_.items[static_cast<std::size_t>(source)];
  if (source == Source::kHedge) ++stats_.hedge_wins;
  const std::string from = winner == nullptr ? "an encode of this process" : describe(*winner);
  if (winner != nullptr) end_attempt(*winner, Outcome::kRows);
  for (const AttemptId& other : item.attempts) losers_.push_back({other, digest, from});
  while (losers_.size() > kMaxLosers) losers_.pop_front();
  erase(item.order.key);
}

void ItemTable::give_up(Item& item, const Error& error) {
  ++stats_.failed;
  const Digest key = item.order.key;
  const Ticket ticket = item.ticket;
  const Error said = error;  // the item's own
  erase(key);
  consumer_.fail(key, ticket, said);
}

// What still runs for the item is stopped.
void ItemTable::erase(const Digest& key) {
  const auto found = items_.find(key);
  Item& item = found->second;
  while (!item.attempts.empty()) {
    const AttemptId id = item.attempts.back();
    link_.cancel(id);
    end_attempt(id, Outcome::kNeutral);
  }
  timers_.cancel(item.late);
  timers_.cancel(item.retry);
  items_.erase(found);
}

ItemTable::Item* ItemTable::current(const Digest& key, Ticket ticket) {
  const auto found = items_.find(key);
  return found == items_.end() || found->second.ticket != ticket ? nullptr : &found->second;
}

ItemTable::Attempt* ItemTable::current(const AttemptId& id) {
  const auto found = attempts_.find(id);
  if (found != attempts_.end()) return &found->second;
  ++stats_.stale;
  return nullptr;
}

// Two sources of the same image's rows contradict each other. This process knows its own to be
// right only if it made them; of two encoders the later one is taken out, and both are named.
void ItemTable::report_mismatch(const AttemptId& of, const std::string& other) {
  ++stats_.mismatches;
  log::error("rows of {} differ from those of {}: the encoder is not asked any more", describe(of),
             other);
  if (pool_.epoch(of.encoder) == of.epoch) pool_.quarantine(of.encoder);
}

std::string ItemTable::describe(const AttemptId& id) const {
  return fmt::format("encoder {}", pool_.name(id.encoder));
}

}  // namespace saccade::cluster

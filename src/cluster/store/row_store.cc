#include "cluster/store/row_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace saccade::cluster {
namespace {

constexpr std::size_t kWindow = 4;  // chunks in one exchange
constexpr double kStep = 1.0 / 16;
constexpr std::uint64_t kProbe = 32;
constexpr double kSlowestByte = 20;  // ns: 50 MB/s
constexpr std::size_t kMaxDistrusted = 1024;
constexpr Nanos kSayAgain = 60 * kSecond;
constexpr std::size_t kRowReplyRoom = std::size_t{16} << 10;
constexpr Nanos kChunksLonger = 60 * kSecond;  // than their manifest

}  // namespace

std::string_view name_of(Lookup lookup) {
  constexpr std::string_view kNames[kLookups] = {"hit",  "miss",  "skipped",
                                                 "late", "error", "corrupt"};
  return kNames[static_cast<std::size_t>(lookup)];
}

std::string_view name_of(Publication publication) {
  constexpr std::string_view kNames[kPublications] = {"stored", "present", "skipped", "error",
                                                      "not_finite"};
  return kNames[static_cast<std::size_t>(publication)];
}

struct RowStore::Search {
  RowQuery query;
  std::string key;
  Found done;
  Nanos begun = 0;
  Nanos until = 0;
  TimerId timer = 0;
  ByteReservation room;
  RowManifest manifest;
  std::shared_ptr<RowPages> pages;
  std::size_t next = 0;  // chunk
  bool ended = false;
};

struct RowStore::Writing {
  std::string key;
  RowManifest manifest;
  std::span<const std::byte> rows;
  std::shared_ptr<const void> held;
  ByteReservation room;
  std::size_t next = 0;  // chunk
};

RowStore::RowStore(const Clock& clock, Timers& timers, Rng& rng, StoreLink& reads,
                   StoreLink& writes, RowStoreSettings settings)
    : clock_(clock),
      timers_(timers),
      rng_(rng),
      reads_(reads),
      writes_(writes),
      settings_(std::move(settings)),
      reading_(settings_.reading_bytes),
      writing_(settings_.writing_bytes),
      read_circuit_(clock),
      write_circuit_(clock) {}

RowStore::~RowStore() {
  for (const SearchPtr& search : searches_) timers_.cancel(search->timer);
}

Nanos RowStore::limit_of(std::size_t bytes) const {
  return settings_.least_limit + static_cast<Nanos>(kSlowestByte * static_cast<double>(bytes));
}

RowStoreStats RowStore::stats() const {
  RowStoreStats stats = stats_;
  stats.open = read_circuit_.open();
  stats.reading_bytes = reading_.used();
  stats.writing_bytes = writing_.used();
  return stats;
}

bool RowStore::worth(std::size_t bytes, Nanos cost) {
  if (cost == kPriceless) return true;
  const double price = round_trip_ + byte_time_ * static_cast<double>(bytes);
  return hit_rate_ * static_cast<double>(cost) > price || rng_.below(kProbe) == 0;
}

// --- finding ---

void RowStore::find(const RowQuery& query, Nanos cost, Found done) {
  const auto skip = [&] {
    ++stats_.lookups[static_cast<std::size_t>(Lookup::kSkipped)];
    done(std::nullopt);
  };
  if (query.bytes == 0 || query.bytes > settings_.max_bytes || !worth(query.bytes, cost))
    return skip();
  auto room = reading_.reserve(query.bytes);
  if (!room || !read_circuit_.may()) return skip();
  auto search = std::make_shared<Search>();
  search->query = query;
  search->key = row_key(settings_.of, query.name);
  search->done = std::move(done);
  search->begun = clock_.now();
  search->until = search->begun + limit_of(query.bytes);
  search->room = *std::move(room);
  searches_.insert(search);
  // Whatever the link does: the search ends in time.
  search->timer = timers_.start(search->until, [this, search] {
    search->timer = 0;
    end(search, Lookup::kLate, "late");
  });
  read_manifest_of(search);
}

void RowStore::read_manifest_of(const SearchPtr& search) {
  const auto heard = [this, search](const std::vector<StoreReply>& replies) {
    const double took = static_cast<double>(clock_.now() - search->begun);
    round_trip_ += kStep * (took - round_trip_);
    const StoreReply& reply = replies.front();
    if (reply.kind == StoreReply::Kind::kNothing) return end(search, Lookup::kMiss);
    if (reply.kind == StoreReply::Kind::kError) {
      const std::string reason = reason_of_reply(reply.text);
      note(reason, "read", reply.text);
      if (reason != "WRONGTYPE") return end(search, Lookup::kFailed, reason);
    }
    auto manifest = reply.kind == StoreReply::Kind::kText
                        ? read_manifest(reply.text, search->key, settings_.key)
                        : fail(ErrorCode::kCorrupt, "the manifest is no text");
    if (manifest &&
        (manifest->rows != search->query.rows || manifest->bytes != search->query.bytes))
      manifest = fail(ErrorCode::kCorrupt, "{} rows of {} bytes, {} of {} were asked for",
                      manifest->rows, manifest->bytes, search->query.rows, search->query.bytes);
    if (manifest && distrusted_.contains(manifest->maker))
      manifest = fail(ErrorCode::kCorrupt, "made by {}, whose rows were wrong", manifest->maker);
    if (!manifest) {
      log::warning("stored rows {}: {}", search->key, manifest.error().message);
      drop(search->key, chunks_of(search->query.bytes));
      return end(search, Lookup::kCorrupt);
    }
    search->manifest = *std::move(manifest);
    search->pages = std::make_shared<RowPages>();
    search->pages->bytes.resize(search->query.bytes);
    read_chunks(search);
  };
  read(search, {{"GET", manifest_key(search->key)}, {}}, 0, heard);
}

void RowStore::read_chunks(const SearchPtr& search) {
  const std::size_t last = std::min(search->next + kWindow, chunks_of(search->query.bytes));
  StoreCommand get{{"MGET"}, {}};
  for (std::size_t i = search->next; i < last; ++i) get.words.push_back(chunk_key(search->key, i));
  read(search, std::move(get), (last - search->next) * kStoreChunk,
       [this, search](const std::vector<StoreReply>& replies) {
         const StoreReply& reply = replies.front();
         if (reply.kind != StoreReply::Kind::kError) return take_chunks(search, reply.list);
         note(reason_of_reply(reply.text), "read", reply.text);
         end(search, Lookup::kFailed, reason_of_reply(reply.text));
       });
}

// A reply of up to so many bytes of rows, unless the search ends without one.
void RowStore::read(const SearchPtr& search, StoreCommand command, std::size_t row_bytes,
                    std::function<void(const std::vector<StoreReply>&)> heard) {
  reads_.run({.commands = {std::move(command)},
              .held = {},
              .limit = search->until - clock_.now(),
              .max_bytes = kRowReplyRoom + row_bytes},
             [this, search, heard = std::move(heard)](Result<std::vector<StoreReply>> replies) {
               if (search->ended) return;
               if (replies) return heard(*replies);
               const std::string reason = reason_of(replies.error());
               note(reason, "read", replies.error().message);
               const bool late = replies.error().code == ErrorCode::kTimeout;
               end(search, late ? Lookup::kLate : Lookup::kFailed, reason);
             });
}

void RowStore::take_chunks(const SearchPtr& search, const std::vector<StoreReply>& chunks) {
  const std::size_t count = chunks_of(search->query.bytes);
  const std::size_t wanted = std::min(kWindow, count - search->next);
  std::vector<std::byte>& into = search->pages->bytes;
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::size_t at = (search->next + i) * kStoreChunk;
    const std::size_t size = std::min(kStoreChunk, into.size() - at);
    // A server that is short of memory lets go of keys one by one.
    if (i < chunks.size() && chunks[i].kind == StoreReply::Kind::kNothing) {
      drop(search->key, count);
      return end(search, Lookup::kMiss);
    }
    if (chunks.size() != wanted || chunks[i].kind != StoreReply::Kind::kText ||
        chunks[i].text.size() != size) {
      log::warning("stored rows {}: chunk {} is not {} bytes", search->key, search->next + i, size);
      drop(search->key, count);
      return end(search, Lookup::kCorrupt);
    }
    std::memcpy(&into[at], chunks[i].text.data(), size);
  }
  search->next += wanted;
  if (search->next < count) return read_chunks(search);
  check(search);
}

void RowStore::check(const SearchPtr& search) {
  const std::vector<std::byte>& bytes = search->pages->bytes;
  const Digest digest = sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const bool equal = digest == search->manifest.digest;
  if (!equal || !all_finite(bytes, settings_.format)) {
    log::warning("stored rows {} (by {}): {}", search->key, search->manifest.maker,
                 equal ? "some values are not finite" : "they are not those that were written");
    drop(search->key, chunks_of(bytes.size()));
    return end(search, Lookup::kCorrupt);
  }
  const double took = static_cast<double>(clock_.now() - search->begun) - round_trip_;
  byte_time_ += kStep * (std::max(0.0, took) / static_cast<double>(bytes.size()) - byte_time_);
  end(search, Lookup::kHit);
}

void RowStore::end(const SearchPtr& search, Lookup how, const std::string& reason) {
  if (std::exchange(search->ended, true)) return;
  timers_.cancel(std::exchange(search->timer, 0));
  searches_.erase(search);
  ++stats_.lookups[static_cast<std::size_t>(how)];
  stats_.lookup_seconds += seconds(clock_.now() - search->begun);
  if (!reason.empty()) ++stats_.errors[reason];
  const bool works = how == Lookup::kHit || how == Lookup::kMiss || how == Lookup::kCorrupt;
  works ? read_circuit_.worked() : read_circuit_.failed();
  if (works) hit_rate_ += kStep * ((how == Lookup::kHit ? 1.0 : 0.0) - hit_rate_);
  const Found done = std::move(search->done);
  if (how != Lookup::kHit) {
    search->pages.reset();
    search->room.shrink_to(0);
    return done(std::nullopt);
  }
  search->pages->reserved = std::move(search->room);
  done(FoundRows{std::move(search->pages), search->manifest.digest, search->manifest.maker});
}

void RowStore::wrong(const Digest& name, const std::string& maker) {
  log::error("stored rows of maker {} are wrong: none of its rows are taken any more", maker);
  if (distrusted_.size() < kMaxDistrusted) distrusted_.insert(maker);
  drop(row_key(settings_.of, name), 0);
}

// What cannot be used is in the way of what could.
void RowStore::drop(const std::string& key, std::size_t chunks) {
  StoreCommand forget{{"DEL", manifest_key(key)}, {}};
  for (std::size_t i = 0; i < chunks; ++i) forget.words.push_back(chunk_key(key, i));
  writes_.run({.commands = {std::move(forget)},
               .held = {},
               .limit = settings_.write_limit,
               .max_bytes = kRowReplyRoom},
              [](const auto&) {});
}

// --- publishing ---

void RowStore::publish(const Digest& name, std::int64_t count, std::span<const std::byte> rows,
                       const Digest& digest, std::shared_ptr<const void> held) {
  const auto skip = [&](Publication how) { ++stats_.publications[static_cast<std::size_t>(how)]; };
  const std::string key = row_key(settings_.of, name);
  if (rows.empty() || rows.size() > settings_.max_bytes || writing_keys_.contains(key))
    return skip(Publication::kSkipped);
  if (!all_finite(rows, settings_.format)) return skip(Publication::kNotFinite);
  auto room = writing_.reserve(rows.size());
  if (!room || !write_circuit_.may()) return skip(Publication::kSkipped);
  auto writing = std::make_shared<Writing>();
  writing->key = key;
  writing->manifest = {count, rows.size(), digest, settings_.maker};
  writing->rows = rows;
  writing->held = std::move(held);
  writing->room = *std::move(room);
  writing_keys_.insert(key);
  write(writing, {{{"EXISTS", manifest_key(key)}, {}}},
        [this, writing](const std::vector<StoreReply>& replies) {
          if (replies.front().number > 0) return end(writing, Publication::kPresent);
          write_chunks(writing);
        });
}

void RowStore::write_chunks(const WritingPtr& writing) {
  const std::size_t count = chunks_of(writing->rows.size());
  if (writing->next == count) return write_manifest_of(writing);
  const std::size_t last = std::min(writing->next + kWindow, count);
  std::vector<StoreCommand> commands;
  const std::string ttl = std::to_string((settings_.ttl + kChunksLonger) / kMillisecond);
  for (std::size_t i = writing->next; i < last; ++i) {
    const std::size_t at = i * kStoreChunk;
    commands.push_back(
        {{"PSETEX", chunk_key(writing->key, i), ttl},
         writing->rows.subspan(at, std::min(kStoreChunk, writing->rows.size() - at))});
  }
  write(writing, std::move(commands), [this, writing, last](const auto&) {
    writing->next = last;
    write_chunks(writing);
  });
}

void RowStore::write_manifest_of(const WritingPtr& writing) {
  write(writing,
        {{{"PSETEX", manifest_key(writing->key), std::to_string(settings_.ttl / kMillisecond),
           write_manifest(writing->manifest, writing->key, settings_.key)},
          {}}},
        [this, writing](const auto&) { end(writing, Publication::kStored); });
}

// Goes on with `written` unless something went wrong: then the writing has ended.
void RowStore::write(const WritingPtr& writing, std::vector<StoreCommand> commands,
                     std::function<void(const std::vector<StoreReply>&)> written) {
  writes_.run({.commands = std::move(commands),
               .held = writing->held,
               .limit = settings_.write_limit,
               .max_bytes = kRowReplyRoom},
              [this, writing, written = std::move(written)](const auto& replies) {
                const auto failed = failure_of(replies);
                if (!failed) return written(*replies);
                note(failed->reason, "written", failed->why);
                end(writing, Publication::kFailed, failed->reason);
              });
}

void RowStore::end(const WritingPtr& writing, Publication how, const std::string& reason) {
  writing_keys_.erase(writing->key);
  ++stats_.publications[static_cast<std::size_t>(how)];
  if (!reason.empty()) ++stats_.errors[reason];
  how == Publication::kFailed ? write_circuit_.failed() : write_circuit_.worked();
}

// One line a minute for each thing that is wrong.
void RowStore::note(const std::string& reason, const char* what, const std::string& why) {
  const auto [last, first] = said_.try_emplace(reason, clock_.now());
  if (!first && clock_.now() - last->second < kSayAgain) return;
  last->second = clock_.now();
  log::warning("stored rows cannot be {}: {} ({:.200}); each process goes on with its own", what,
               reason, why);
}

}  // namespace saccade::cluster

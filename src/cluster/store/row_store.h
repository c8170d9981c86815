// The second-level cache of embedding rows, behind what each process keeps itself: rows by name in
// a store that all of a cluster reach. It may be gone, slow, full or wrong at any moment; what it
// costs a request then is bounded, and what it says is believed only as far as it can be checked.
//
//   find:     manifest -> chunks, in windows -> digest, a look at every number -> rows, or nothing
//   publish:  there already? -> chunks, in windows -> manifest, last
//
// A search has so long as its rows need at 50 MB/s, and 20 ms; a store that fails three times in
// five seconds is left alone for one, then two, up to thirty. Where rows are found less often than
// pays, one search in 32 goes on. On Clock and Timers alone.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/byte_budget.h"
#include "base/rng.h"
#include "cluster/messages.h"
#include "cluster/row_format.h"
#include "cluster/store/row_manifest.h"
#include "cluster/store/store_circuit.h"
#include "cluster/store/store_link.h"
#include "cluster/timers.h"

namespace saccade::cluster {

struct RowStoreSettings {
  RowClass of;  // whose rows, in which bits
  RowFormat format;
  std::string key;    // of the cluster; empty: none
  std::string maker;  // this process: a node id
  Nanos ttl = 3600 * kSecond;
  std::size_t max_bytes = std::size_t{64} << 20;  // of one image's rows
  std::size_t reading_bytes = std::size_t{256}
                              << 20;  // of rows on their way here, and not yet used
  std::size_t writing_bytes = std::size_t{128} << 20;  // of rows on their way there
  Nanos least_limit = 20 * kMillisecond;               // of a search
  Nanos write_limit = 2 * kSecond;                     // of each exchange of a publication
};

enum class Lookup : std::uint8_t {
  kHit,
  kMiss,
  kSkipped,  // not worth it, no room, or the store is being left alone
  kLate,
  kFailed,   // no connection, or an error
  kCorrupt,  // what was there is not what it says it is; it has been deleted
};
constexpr std::size_t kLookups = 6;
std::string_view name_of(Lookup lookup);

enum class Publication : std::uint8_t {
  kStored,
  kPresent,  // it was there already
  kSkipped,  // too large, no room, or the store is being left alone
  kFailed,
  kNotFinite,
};
constexpr std::size_t kPublications = 5;
std::string_view name_of(Publication publication);

struct RowStoreStats {
  std::array<std::uint64_t, kLookups> lookups{};
  std::array<std::uint64_t, kPublications> publications{};
  std::map<std::string, std::uint64_t> errors;  // by reason_of()
  double lookup_seconds = 0;                    // of all that were not skipped
  bool open = false;                            // searches are not made for now
  std::size_t reading_bytes = 0;
  std::size_t writing_bytes = 0;
};

struct FoundRows {
  Rows rows;
  Digest digest{};
  std::string maker;
};

struct RowQuery {
  Digest name{};  // embedding_key()
  std::int64_t rows = 0;
  std::size_t bytes = 0;
};

// One thread. The links outlive it.
class RowStore {
 public:
  // What making rows costs when nobody can: a search is worth anything.
  static constexpr Nanos kPriceless = std::numeric_limits<Nanos>::max();
  using Found = std::function<void(std::optional<FoundRows>)>;

  // `reads` and `writes`: connections of their own, so that a search never waits for a publication.
  RowStore(const Clock& clock, Timers& timers, Rng& rng, StoreLink& reads, StoreLink& writes,
           RowStoreSettings settings);
  ~RowStore();

  // `cost`: how long it would take to have them from elsewhere. `done` is called once, also from
  // within find().
  void find(const RowQuery& query, Nanos cost, Found done);
  // Of rows that somebody has found to be wrong: they go, and whoever made them is not believed any
  // more.
  void wrong(const Digest& name, const std::string& maker);
  // `held` keeps what `rows` points at.
  void publish(const Digest& name, std::int64_t count, std::span<const std::byte> rows,
               const Digest& digest, std::shared_ptr<const void> held);

  RowStoreStats stats() const;
  Nanos limit_of(std::size_t bytes) const;

 private:
  struct Search;
  struct Writing;
  using SearchPtr = std::shared_ptr<Search>;
  using WritingPtr = std::shared_ptr<Writing>;
  bool worth(std::size_t bytes, Nanos cost);
  void read(const SearchPtr& search, StoreCommand command, std::size_t row_bytes,
            std::function<void(const std::vector<StoreReply>&)> heard);
  void read_manifest_of(const SearchPtr& search);
  void read_chunks(const SearchPtr& search);
  void take_chunks(const SearchPtr& search, const std::vector<StoreReply>& chunks);
  void check(const SearchPtr& search);
  void end(const SearchPtr& search, Lookup how, const std::string& reason = {});
  void drop(const std::string& key, std::size_t chunks);
  void write_chunks(const WritingPtr& writing);
  void write_manifest_of(const WritingPtr& writing);
  void write(const WritingPtr& writing, std::vector<StoreCommand> commands,
             std::function<void(const std::vector<StoreReply>&)> written);
  void end(const WritingPtr& writing, Publication how, const std::string& reason = {});
  void note(const std::string& reason, const char* what, const std::string& why);

  const Clock& clock_;
  Timers& timers_;
  Rng& rng_;
  StoreLink& reads_;
  StoreLink& writes_;
  const RowStoreSettings settings_;
  const ByteBudget reading_;
  const ByteBudget writing_;
  StoreCircuit read_circuit_;
  StoreCircuit write_circuit_;
  std::set<SearchPtr> searches_;
  std::set<std::string> writing_keys_;
  std::set<std::string> distrusted_;  // makers
  double hit_rate_ = 1;
  double round_trip_ = 1e6;            // ns, smoothed
  double byte_time_ = 1;               // ns a byte, smoothed
  std::map<std::string, Nanos> said_;  // when a reason was last logged
  RowStoreStats stats_;
};

}  // namespace saccade::cluster

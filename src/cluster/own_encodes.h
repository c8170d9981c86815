// What a process wants of others and what of it it encodes itself: the orders that its engine's
// wishes become, the load that its own candidacy is judged by, and the news that its engine gets.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "cluster/item_table.h"
#include "engine/images/image_exchange.h"

namespace saccade::cluster {

// One thread.
class OwnEncodes {
 public:
  explicit OwnEncodes(const Clock& clock) : clock_(clock) {}

  // It is wanted from now on. `row_bytes` of a row, of the tower with this fingerprint.
  Order wanted(const WantedImage& image, std::string_view fingerprint, std::uint64_t row_bytes);
  // It is to be made here. `digest_wanted`: of its rows.
  ImageNews begin(const Digest& key, Ticket ticket, bool digest_wanted);
  bool making(const Digest& key) const { return here_.contains(key); }
  // It could not be made here, and is wanted still.
  void failed(const Digest& key) { here_.erase(key); }
  // It is wanted no more, made or not.
  void end(const Digest& key);
  // Likewise, with what the engine is told.
  ImageNews rows(const Digest& key, Ticket ticket, Rows rows);
  ImageNews failure(const Digest& key, Ticket ticket, const Error& error);

  // What an encode takes here, as measured so far.
  void measured(const EncodeCost& cost) { cost_ = cost; }
  // How it stands for one more. `possible`: it may be made here at all.
  LocalLoad load(bool possible) const;

 private:
  const Clock& clock_;
  EncodeCost cost_;
  std::unordered_map<Digest, std::int64_t, DigestHash> here_;  // rows that are being made here
  std::unordered_map<Digest, std::int64_t, DigestHash> rows_;  // of what is wanted
  Nanos here_since_ = 0;  // since when the first of them has been running
};

}  // namespace saccade::cluster

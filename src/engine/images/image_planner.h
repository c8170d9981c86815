// Which images have to be encoded, and who may read what is there. Decides over the embedding
// store's integers; encodes nothing.
//
//   store    rows of an image stay under its content's key and serve everybody, until evicted
//   overlay  rows are laid into the sequence's own KV pages, which their keys and values will need
//            later anyway; nothing is kept
//   off      rows live for one chunk: the next chunk that touches the image encodes it again
//
// Room in the store goes to running sequences first, and among equals by rank: who comes first
// takes leases away from who comes later, so that the first sequence can always go on.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/policies.h"
#include "engine/step/step_plan.h"
#include "memory/embedding_store.h"

namespace saccade {

struct ImageStats {
  std::uint64_t queries = 0;  // images of sequences that no prefix hit covered
  std::uint64_t hits = 0;     // of them, found in the store
};

class ImagePlanner {
 public:
  // row_bytes: of one embedding row.
  ImagePlanner(EncoderCache mode, std::int64_t capacity_bytes, std::int64_t page_bytes,
               std::int64_t row_bytes);

  EncoderCache mode() const { return mode_; }
  EmbeddingStore& store() { return store_; }
  const EmbeddingStore& store() const { return store_; }

  // Sets the keys that a new sequence's images have in this mode.
  void add(Sequence& sequence);
  // How far a chunk that wants tokens [begin, end) can go with the images that are ready.
  std::int64_t ready_end(const Sequence& sequence, std::int64_t begin, std::int64_t end) const;
  ImageState state(const SequenceImage& image) const;
  bool ready(const SequenceImage& image) const { return state(image) == ImageState::kReady; }
  // The first image that tokens from `begin` on need and that is not ready; null when all are.
  const SequenceImage* first_unready(const Sequence& sequence, std::int64_t begin) const;
  // store, off: asks for the images of a sequence that are not ready and end after its first
  // `computed` tokens, first things first, as far as there is room.
  void want(Sequence& sequence, std::int64_t computed, std::vector<EncodeRequest>& encodes);
  // overlay: asks for one image; the sequence holds pages for all of its tokens.
  void want_overlaid(Sequence& sequence, int image, std::vector<EncodeRequest>& encodes);
  // The store's rows of this key can be read.
  void set_ready(const Digest& key);
  // overlay: the sequence's own pages hold the rows of this key that it waits for.
  void set_overlaid(Sequence& sequence, const Digest& key);
  // Whether anybody still waits for this key.
  bool wanted(const Digest& key) const;
  // Tokens [begin, end) have been computed: rows that no one will read again are let go.
  void computed(Sequence& sequence, std::int64_t begin, std::int64_t end);
  // Tokens [0, end) came from the prefix cache.
  void skip(Sequence& sequence, std::int64_t end);
  // The sequence gives up all of its images: it ends, or has been preempted.
  void drop(Sequence& sequence);
  // Forgets what nobody is reading.
  void clear() { store_.clear(); }

  const ImageStats& stats() const { return stats_; }

 private:
  bool obtain(Sequence& sequence, int image, bool by_force, std::vector<EncodeRequest>& encodes);
  bool make_room(Sequence& sequence, int image, std::int64_t bytes);
  void let_go(SequenceImage& image);

  EncoderCache mode_;
  std::int64_t row_bytes_;
  EmbeddingStore store_;
  std::set<Sequence*, ByRank> holders_;                   // sequences that may hold leases
  std::unordered_map<Digest, int, DigestHash> overlays_;  // sequences that wait for a key
  ImageStats stats_;
};

}  // namespace saccade

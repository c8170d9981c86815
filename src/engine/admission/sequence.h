// One request inside the engine: the request itself, what never changes of it, and a part for each
// class that has something to write. Everything else about it is derived from them.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/admission/prompt_layout.h"
#include "engine/request.h"
#include "memory/kv_allocator.h"
#include "model/adapters/lora_adapter.h"

namespace saccade {

class Drafter;
class ImagePlanner;
class Scheduler;
class StepRunner;

enum class ImageState : std::uint8_t {
  kAbsent,    // nothing made, nothing asked for
  kEncoding,  // asked for: in the encoder's queue or in its run
  kReady,     // rows may be read
};

// An image of a sequence: which tokens take its rows, and where these are.
struct SequenceImage {
  int index = 0;           // of Request::images
  std::int64_t begin = 0;  // first token that takes a row of it
  std::int64_t end = 0;    // one past the last
  std::int64_t rows = 0;
  Digest key{};          // names the embedding; of this sequence alone where nothing is shared
  bool leased = false;   // store, off: in the embedding store
  bool counted = false;  // in the cache statistics
  // overlay: of its rows in the sequence's own pages. ImagePlanner::state() is for every mode.
  ImageState overlaid = ImageState::kAbsent;
};

enum class Phase : std::uint8_t { kWaiting, kPrefilling, kDecoding };

// What everybody may read and its owner alone writes.
template <typename Owner, typename Part>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Part part) : part_(std::move(part)) {}
  const Part& operator*() const { return part_; }
  const Part* operator->() const { return &part_; }

 private:
  friend Owner;
  Part& edit() { return part_; }

  Part part_{};
};

// How far it has come.
struct SequenceProgress {
  std::vector<TokenId> tokens;     // prompt, then what was generated, as far as it is known
  std::int64_t unknown = 0;        // tokens after these that launched steps are sampling
  std::int64_t reached = 0;        // most tokens ever computed: below it, computing is repetition
  std::int64_t cached_tokens = 0;  // of the prompt, at first admission
  std::int64_t in_flight = 0;      // rows of launched steps that have not been settled
  bool ended = false;              // has left; rows in flight are thrown away
};

// Its place among the others.
struct SequenceStanding {
  std::int64_t rank = 0;           // who goes first: lower; ties by id
  std::int64_t expected_hit = -1;  // what the prefix cache had when last asked; -1: not asked yet
  std::uint64_t refused_at = 0;    // KvAllocator::releases() when there was no room, plus 1
  std::int64_t overtaken = 0;      // by others with adapters, while there was no place for its own
  int preemptions = 0;
};

// Draft tokens, to follow its own. A step that knows the token before them may compute them too;
// those that sampling confirms are accepted, the others never were.
struct SequenceDraft {
  std::vector<TokenId> tokens;
  // What follows its last token is drafted once that is known: it is not planned ahead.
  bool awaited = false;
};

// Engine thread. Not moved once submitted: the allocator keeps its address. Each part has one class
// that writes it; the KV memory's is the allocator.
struct Sequence {
  // `model`, what makes the embeddings, is part of the images' keys: ModelShape::tower_fingerprint.
  // `short_length`: ModelShape's. `block_tokens`: of the KV cache. `max_model_len`: of the engine.
  Sequence(Request request, std::string_view model, std::int64_t short_length,
           std::int64_t block_tokens, std::int64_t max_model_len);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  const Request request;
  const PromptLayout layout;
  const std::int64_t short_length;
  // Tokens at which it ends whatever they are; none is computed from there on.
  const std::int64_t max_length;

  Owned<Scheduler, SequenceProgress> progress;
  Owned<Scheduler, SequenceStanding> standing;
  Owned<ImagePlanner, std::vector<SequenceImage>> images;  // by begin
  Owned<Drafter, SequenceDraft> draft;
  Owned<StepRunner, std::int64_t> scored;  // of the prompt, from whose rows log-probabilities came
  KvSequence kv;

  const std::vector<TokenId>& tokens() const { return progress->tokens; }
  bool ended() const { return progress->ended; }
  std::int64_t prompt_tokens() const {
    return static_cast<std::int64_t>(request.prompt->ids.size());
  }
  std::int64_t known() const { return static_cast<std::int64_t>(tokens().size()); }
  std::int64_t length() const { return known() + progress->unknown; }
  std::int64_t generated() const { return known() - prompt_tokens(); }
  std::int64_t computed() const { return kv.computed(); }
  std::int64_t pending() const { return length() - computed(); }  // tokens to compute
  // Tokens of the prompt whose rows give log-probabilities, of the next token each: all but the
  // last where they are wanted.
  std::int64_t to_score() const {
    return request.sampling.prompt_logprobs ? prompt_tokens() - 1 : 0;
  }
  // Most tokens that may come from the prefix cache: the last one's row is computed always, and so
  // are those that have yet to be scored.
  std::int64_t max_cached() const { return *scored < to_score() ? *scored : length() - 1; }
  // Whether its keys are those of a long sequence.
  bool is_long() const { return short_length > 0 && length() > short_length; }
  Phase phase() const {
    if (!kv.admitted()) return Phase::kWaiting;
    return pending() > 1 || computed() < prompt_tokens() ? Phase::kPrefilling : Phase::kDecoding;
  }
  PrefixContent content() const {
    PrefixContent content{tokens(),
                          layout.images,
                          layout.encoder_images,
                          request.cache_salt,
                          request.prompt->bidirectional_prefix,
                          is_long()};
    if (const LoraAdapter* adapter = request.adapter.get())
      content.adapter = {adapter->identity(), adapter->name(), adapter->number()};
    return content;
  }
  KvShape shape() const {
    return {length(), layout.encoder_tokens, layout.images, request.prompt->bidirectional_prefix};
  }
  bool before(const Sequence& other) const {
    const std::int64_t rank = standing->rank;
    const std::int64_t its = other.standing->rank;
    return rank != its ? rank < its : request.id < other.request.id;
  }
};

struct ByRank {
  bool operator()(const Sequence* a, const Sequence* b) const { return a->before(*b); }
};

}  // namespace saccade

// A second, smaller model that drafts how texts go on: greedily, the next tokens of several
// sequences at once, one step of its own for each further token. Rejected tokens cost time and
// nothing else.
//
// It reads texts alone: tokens of images are tokens like others to it, at the positions that text
// has, and no adapter is applied. Its keys and values lie in a pool of its own, in pages of one
// size, which a sequence has from its first reading on until it is let go of. What was read of
// draft tokens that did not come is written over.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/admission/kv_pool.h"
#include "engine/admission/step_time_model.h"
#include "engine/drafting/speculation.h"
#include "engine/step/sampling_lane.h"
#include "model/blocks/batch_lists.h"

namespace saccade {

// What a draft model holds of one sequence. Made empty; its pages go back with
// DraftModel::release().
class DraftReader {
 public:
  // Of `tokens`, those whose keys and values are not there.
  std::int64_t unread(std::span<const TokenId> tokens) const;

 private:
  friend class DraftModel;
  std::vector<std::int32_t> pages_;
  std::int64_t read_ = 0;       // tokens
  std::vector<TokenId> ahead_;  // draft tokens that were read behind them
};

// What the engine's settings come to for it.
struct DraftPlan {
  std::int64_t max_tokens = 0;     // drafted for a sequence at once
  std::int64_t max_drafted = 0;    // sequences
  std::int64_t max_sequences = 0;  // that are read at once
  std::int64_t length = 0;         // longest sequence of the model, tokens
  std::int64_t vocab = 0;          // of the model: other tokens end a draft
  std::int64_t block_tokens = 16;  // a page
};

// Engine thread.
class DraftModel {
 public:
  // Rows of one step of its own, so that reading a long text lets others wait for no longer than
  // that.
  static constexpr std::int64_t kMaxRows = 256;
  // Of them, those whose proposal is compared with the token that came.
  static constexpr std::int64_t kMaxCompared = 16;

  // kUnsupported: a network whose state cannot be taken back, or that attends to images across.
  static Result<void> check_shape(const ModelShape& shape);

  // kUnsupported: as check_shape(). kTooLarge: a pool that holds no page. The network has been
  // loaded on the device; both outlive this, as does the clock.
  static Result<std::unique_ptr<DraftModel>> create(const DraftPlan& plan,
                                                    const DraftSettings& settings, Network& network,
                                                    Device& device, const Clock& clock);

  struct Ask {
    DraftReader* reader = nullptr;
    std::span<const TokenId> tokens;  // all that are known
    std::int64_t count = 0;           // to draft, once all have been read; 0: only read
    std::int64_t compare_from = 0;    // tokens from there on are compared with proposals
    // Results.
    std::vector<TokenId> draft = {};  // up to `count`
    std::vector<bool> hits = {};      // of tokens that were compared, in their order
    bool read = false;                // all of `tokens` are
  };
  // Those that have the least to read come first; who finds no rows left has to ask again, and who
  // finds no pages gives back those that it has. Waits for the device. tokens.size() + count: at
  // most length().
  void propose(std::span<Ask> asks);
  void release(DraftReader& reader);

  std::int64_t length() const { return length_; }  // longest sequence that gets drafts, tokens
  // What a step of its own takes that drafts for so many sequences, and what reading so many
  // tokens takes; 0 while nothing is known.
  double step_seconds(std::int64_t sequences) const;
  double reading_seconds(std::int64_t tokens) const;

  // All that it takes of the device beside its weights.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t pool_bytes() const { return pool_bytes_; }
  std::int64_t tokens_held() const {  // that there is room for in pages which sequences have
    return (pages_ - std::ssize(free_pages_)) * block_tokens_;
  }
  double usage() const;  // of the pool, 0 to 1
  std::uint64_t tokens_read() const { return tokens_read_; }
  double busy_seconds() const { return busy_seconds_; }

 private:
  DraftModel(const DraftPlan& plan, Network& network, Device& device, const Clock& clock);
  Result<void> allocate(const DraftSettings& settings, const DraftPlan& plan);

  // A step of its own that is under way.
  struct Step {
    SamplingLane::Ticket ticket;
    StepLoad load;
    Nanos done = 0;
  };
  // An ask that takes part.
  struct Part {
    Ask* ask = nullptr;
    std::int64_t begin = 0;  // tokens that are read: [begin, begin + rows)
    std::int64_t rows = 0;
    std::int64_t compare_begin = 0;  // tokens
    std::int64_t compare_end = 0;
    std::int32_t slot = -1;  // of SamplingLane::last_tokens; -1: nothing is drafted
    bool cut = false;        // the draft goes on no further
  };

  bool make_room(Ask& ask);
  void plan_reading(std::span<Ask> asks);
  void read_tokens();
  void read_drafts(std::int64_t before);
  void begin_step();
  void add_span(const DraftReader& reader, std::int64_t begin, std::int64_t count);
  void add_logit_row(std::int64_t row, std::int32_t slot);
  void launch();
  void settle(Nanos begun);
  Stream& stream() { return device_.lane(Lane::kStep); }

  Network& network_;
  Device& device_;
  const Clock& clock_;
  std::int64_t max_drafted_;
  std::int64_t vocab_;
  std::int64_t block_tokens_;
  std::int64_t length_;
  std::int64_t bytes_ = 0;
  std::int64_t pool_bytes_ = 0;
  std::int64_t pages_ = 0;
  std::vector<std::int32_t> free_pages_;
  std::unique_ptr<KvPool> pool_;
  std::optional<SamplingLane> sampling_;
  Buffer logits_;
  StepTimeModel step_time_;
  std::uint64_t tokens_read_ = 0;
  double busy_seconds_ = 0;

  // Of one propose().
  std::vector<Part> parts_;
  std::vector<Step> steps_;
  // Of one step.
  BatchLists lists_;
  std::vector<SequenceSpan> spans_;
  std::vector<SamplingRow> rows_;
};

}  // namespace saccade

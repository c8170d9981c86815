// Flattens a step plan into what the model takes: rows side by side, one block table a group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/admission/kv_pool.h"
#include "engine/images/embedding_arena.h"
#include "engine/images/image_planner.h"
#include "engine/step/lora_slots.h"
#include "engine/step/step_plan.h"
#include "model/blocks/batch_lists.h"

namespace saccade {

// Engine thread. The batch's lists are on the device until the stream's retire(); its spans refer
// to the builder's own memory and to the sequences' tables: they are good until the next build or
// the next plan.
class BatchBuilder {
 public:
  // overlaid: embedding rows lie in the KV pages of their tokens.
  static Result<BatchBuilder> create(Device& device, const ModelShape& shape, int tables,
                                     std::int64_t max_rows, std::int64_t max_logit_rows,
                                     bool overlaid);

  // Where a step's rows have what they read. last_tokens: of sequences' slots, for tokens that
  // launched steps are sampling. `slots`: null where no request has an adapter.
  struct Inputs {
    View last_tokens;
    KvPool& pool;
    const ImagePlanner& images;
    const EmbeddingArena* arena = nullptr;
    LoraSlots* slots = nullptr;
  };
  // Takes overlaid embedding rows out of the pool too: before the forward, whose keys and values
  // overwrite them. `padded`: padding rows are added up to so many rows; their logits are not read,
  // and the pool has pages for them.
  Batch build(Stream& stream, const StepPlan& plan, const Inputs& from, std::int64_t padded = 0);

  // Where the batch's logits are, and then those of more of its rows.
  View logits(std::int64_t rows) const { return logits_.view(DType::kF32, rows, vocab_); }
  std::int64_t max_logit_rows() const { return max_logit_rows_; }

  // That the last batch takes, whatever for.
  std::int64_t embedding_rows() const {
    return static_cast<std::int64_t>(lists_.embedding_rows.size() + lists_.image_rows.size());
  }

 private:
  BatchBuilder(const ModelShape& shape, int tables, std::int64_t max_rows, Buffer embeddings,
               Buffer logits, std::int64_t max_logit_rows);
  void add_rows(const PlannedRows& rows, const KvPool& pool);
  struct RowRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  // What one of StepPlan::rows has of the lists.
  struct TakenRows {
    RowRange batch;
    RowRange seeing;  // of Batch::seeing_rows
    RowRange images;  // of Batch::image_rows
  };
  void list_loras(const StepPlan& plan, LoraSlots* slots);
  LoraRows rows_of(const StepPlan& plan, const LoraAdapter& adapter, const PackedLora& packed,
                   RowRange TakenRows::* of);
  void pad(std::int64_t rows, const KvPool& pool);
  void gather(const PlannedRows& rows, std::int64_t first_row, const KvPool& pool,
              const ImagePlanner& images, const EmbeddingArena* arena);
  void gather_across(const PlannedRows& rows, const ImagePlanner& images,
                     const EmbeddingArena& arena);
  void place_embeddings(Stream& stream, const KvPool& pool, const EmbeddingArena* arena,
                        Batch& batch) const;

  std::int64_t width_;  // of an embedding row
  std::int64_t vocab_;
  DType dtype_;
  bool keys_by_length_;  // ModelShape::short_length is not 0
  std::int64_t max_rows_;
  std::int64_t max_logit_rows_;
  Buffer embeddings_;             // [max rows, width] when overlaid
  Buffer logits_;                 // [max logit rows, vocab]
  std::vector<TakenRows> taken_;  // by StepPlan::rows
  std::vector<LoraRows> loras_;
  std::vector<LoraRows> seeing_loras_;
  std::vector<LoraRows> image_loras_;
  BatchLists lists_;  // embedding_sources: rows of the arena, or units of the pool
  std::vector<std::vector<SequenceSpan>> spans_;  // [tables]
  // [tables] of a model that attends across, else empty: as groups they come after spans_.
  std::vector<CrossSpans> cross_spans_;
  std::vector<std::span<const SequenceSpan>> span_spans_;
  std::vector<std::span<const SequenceSpan>> image_spans_;
};

}  // namespace saccade

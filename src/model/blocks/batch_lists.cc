#include "model/blocks/batch_lists.h"

namespace saccade {

void BatchLists::clear() {
  for (auto& axis : positions) axis.clear();
  for (auto* list : {&ids, &long_rows, &embedding_sources, &embedding_rows, &seeing_rows,
                     &image_rows, &logit_rows, &lora_rows})
    list->clear();
}

void BatchLists::upload(Stream& stream, Batch& batch) {
  side_by_side_.clear();
  const auto add = [this](const std::vector<std::int32_t>& list) {
    side_by_side_.insert(side_by_side_.end(), list.begin(), list.end());
  };
  for (const auto& axis : positions) add(axis);
  const auto position_count = static_cast<std::int64_t>(side_by_side_.size());
  for (const auto* list : {&ids, &long_rows, &embedding_sources, &embedding_rows, &seeing_rows,
                           &image_rows, &logit_rows, &lora_rows})
    add(*list);

  const DeviceInts all = stream.upload(side_by_side_);
  std::int64_t begin = position_count;
  const auto next = [&](const std::vector<std::int32_t>& list) {
    const auto count = static_cast<std::int64_t>(list.size());
    begin += count;
    return all.slice(begin - count, count);
  };
  batch.positions = all.slice(0, position_count);
  batch.ids = next(ids);
  batch.long_rows = next(long_rows);
  batch.embedding_sources = next(embedding_sources);
  batch.embedding_rows = next(embedding_rows);
  batch.seeing_rows = next(seeing_rows);
  batch.image_rows = next(image_rows);
  batch.logit_rows = next(logit_rows);
  batch.lora_rows = next(lora_rows);
}

}  // namespace saccade

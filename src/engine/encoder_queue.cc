#include "engine/encoder_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace saccade {

std::int64_t patch_rows(const PreparedImage& image) {
  if (image.patch_cols == 0) return 0;
  return static_cast<std::int64_t>(image.patches.size()) / image.patch_cols;
}

Result<std::unique_ptr<EncoderQueue>> EncoderQueue::create(Model& model, Backend& backend,
                                                           const EncoderLimits& limits,
                                                           const Clock& clock, Publish publish,
                                                           Wanted wanted) {
  const ModelShape& shape = model.shape();
  const auto row_bytes = static_cast<std::size_t>(shape.hidden) * size_of(shape.kv_dtype);
  TRY(Buffer scratch,
      backend.allocate(static_cast<std::size_t>(std::max<std::int64_t>(1, limits.max_rows)) *
                       row_bytes));
  return std::unique_ptr<EncoderQueue>(new EncoderQueue(
      model, backend, limits, clock, std::move(publish), std::move(wanted), std::move(scratch)));
}

EncoderQueue::EncoderQueue(Model& model, Backend& backend, const EncoderLimits& limits,
                           const Clock& clock, Publish publish, Wanted wanted, Buffer scratch)
    : model_(model),
      backend_(backend),
      limits_(limits),
      clock_(clock),
      publish_(std::move(publish)),
      wanted_(std::move(wanted)),
      scratch_(std::move(scratch)),
      scratch_rows_(limits.max_rows) {}

void EncoderQueue::push(const Digest& key, std::shared_ptr<const PreparedImage> image) {
  if (!keys_.insert(key).second) return;
  queue_.push_back({key, std::move(image), clock_.now()});
}

bool EncoderQueue::begin_batch() {
  std::int64_t patches = 0;
  std::int64_t rows = 0;
  while (!queue_.empty()) {
    Job& next = queue_.front();
    if (!wanted_(next.key)) {
      keys_.erase(next.key);
      queue_.pop_front();
      continue;
    }
    const std::int64_t next_patches = patch_rows(*next.image);
    const std::int64_t next_rows = next.image->layout.tokens;
    CHECK(next_patches <= limits_.max_patches && next_rows <= scratch_rows_,
          "an image of {} patches and {} rows was accepted, limits {} and {}", next_patches,
          next_rows, limits_.max_patches, scratch_rows_);
    if (!batch_.empty() &&
        (patches + next_patches > limits_.batch_patches ||
         patches + next_patches > limits_.max_patches || rows + next_rows > scratch_rows_)) {
      break;
    }
    patches += next_patches;
    rows += next_rows;
    batch_.push_back(std::move(next));
    queue_.pop_front();
  }
  if (batch_.empty()) return false;

  const ModelShape& shape = model_.shape();
  const View scratch = scratch_.view(shape.kv_dtype, scratch_rows_, shape.hidden);
  event_ = {{}, batch_.front().queued, clock_.now(), 0};
  std::int64_t first = 0;
  for (const Job& job : batch_) {
    const std::int64_t count = job.image->layout.tokens;
    batch_images_.push_back(job.image.get());
    batch_rows_.push_back(scratch.row_range(first, first + count));
    event_.keys.push_back(job.key);
    first += count;
  }
  if (observer_) observer_(event_);
  run_ = model_.begin_encode(backend_, batch_images_, batch_rows_);
  return true;
}

bool EncoderQueue::advance() {
  const std::size_t waiting = queue_.size();
  if (!run_ && !begin_batch()) return queue_.size() < waiting;  // letting go is work, too
  if (run_->advance()) finish_batch();
  return true;
}

void EncoderQueue::finish_batch() {
  run_.reset();
  event_.end = clock_.now();
  ++stats_.runs;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    ++stats_.images;
    stats_.rows += static_cast<std::uint64_t>(batch_rows_[i].rows());
    keys_.erase(batch_[i].key);
    publish_(batch_[i].key, batch_rows_[i]);
  }
  if (observer_) observer_(event_);
  batch_.clear();
  batch_images_.clear();
  batch_rows_.clear();
}

}  // namespace saccade
